"""Requests to models and their responses.

A request contains everything that can change its response and nothing else: equal
requests are sent once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, NamedTuple

from pytest_evals.core.returned import RETURNED
from pytest_evals.errors import DocumentError

IMAGES = "images"
"""The option of a :class:`Generate` with images after the text of the last message:
``data:`` URLs, or objects with a ``digest`` and a size ``n_bytes`` whose strings are
such URLs."""
LEADING_IMAGES = "leading_images"
"""As :data:`IMAGES`, but before the text of the user's last message."""
PLACED_IMAGES = "placed_images"
"""The option of a :class:`Generate` with images within the text of messages: tuples of
the position of the message, the number of characters in front of the image in its text,
the SHA-256 of the image, its ``detail``, its name for reports, and its source: a path
or a ``data:`` URL. A request's key contains neither name nor source."""
IMAGE_OPTIONS = frozenset({IMAGES, LEADING_IMAGES, PLACED_IMAGES})
FITTING = "fitting"
"""The option of a :class:`Generate` whose ``max_tokens`` is a default: if less room is
left in the context window, the model generates as many tokens as fit."""
GRAMMAR = "grammar"
"""The option of a :class:`Generate` with a constraint on the response, as JSON: a
mapping of ``type``, ``json`` or ``regex``, and ``value``, the schema or the expression.
A model without support returns an error."""
RESPONSE_FORMAT = "response_format"
"""The option of a :class:`Generate` with OpenAI's parameter of that name, as JSON."""
TOOLS = "tools"
"""The option of a :class:`Generate` with OpenAI's parameter of that name, as JSON. The
response then has the calls."""
TRACES = "traces"
"""The option of a :class:`Generate` whose calls and usage are read from the spans that
the application makes meanwhile."""
RATING = "rating"
"""Name of the schema in a ``response_format`` for judges. Their prompts describe the
same form, so that a server that rejects the option is sent the request without it."""
TOP_LOGPROBS = "top_logprobs"
"""The option of a :class:`Generate` with the number of top tokens whose
log-probabilities are returned for each generated token."""
TopLogprobs = tuple[tuple[str, tuple[tuple[str, float], ...]], ...]
"""For each generated token the selected one, and the top tokens with their
log-probabilities (:mod:`pytest_evals.core.top_logprobs`)."""
Role = Literal["system", "user", "assistant"]
TOOLS_ROLE: Any = "tools"
"""Role of the message that :func:`with_tools` adds; its content is JSON."""
UNSENT: Literal["unsent"] = "unsent"
Finish = Literal["", "stop", "length", "refused", "unsent"]
"""Why a generation ended: unknown, a stop string or end-of-text token, the token limit,
a refusal by the model or a content filter, or a request that was not sent because of a
spend cap. The last two come with an error. If the model wrote a text to refuse, it is
the response's text, so that a task can score it as the answer."""


class Message(NamedTuple):
    """One message of a chat."""

    role: Role
    content: str


Options = tuple[tuple[str, Any], ...]
"""Options of a request as sorted names with values."""
Prompt = str | tuple[Message, ...]
"""A string, or a chat that the model renders with its chat template. If the last
message of a chat is the assistant's, the model continues it instead of starting a new
one."""
Render = Callable[[Prompt], Prompt]
"""Renders a chat with a model's chat template; raises ``DocumentError`` if the template
raises an error."""


@dataclass(frozen=True, slots=True)
class Loglikelihood:
    """The log-probability of ``continuation`` after ``context``, and whether greedy
    decoding generates it.

    The scored tokens are those of ``context + continuation`` beyond the tokens of
    ``context``; white space at the end of the context counts as the start of the
    continuation (lm-eval 0.4.13, ``TemplateLM._encode_pair``).
    """

    kind: ClassVar[str] = "loglikelihood"
    context: Prompt
    continuation: str


@dataclass(frozen=True, slots=True)
class ImageLoglikelihood(Loglikelihood):
    """A :class:`Loglikelihood` whose context has images."""

    options: Options = ()  # the images, as those of a Generate


@dataclass(frozen=True, slots=True)
class Rolling:
    """The log-probability of a whole text, in windows of the model's length."""

    kind: ClassVar[str] = "loglikelihood_rolling"
    text: str


@dataclass(frozen=True, slots=True)
class Generate:
    """A generation after ``prompt``."""

    kind: ClassVar[str] = "generate_until"
    prompt: Prompt  # string or chat
    stop: tuple[str, ...] = ()
    """Stop strings: the generation ends before the first of these."""
    max_tokens: int = 256  # maximum number of new tokens
    temperature: float = 0.0  # 0 is greedy decoding
    options: Options = ()
    """Further sampling options as sorted ``(name, value)`` pairs, such as ``("top_p",
    0.95)``; and images, as ``(IMAGES, (image, …))``."""
    repeat: int = 0
    """0, 1, 2, … if one prompt is sent several times. A deterministic model gets the
    repeats of a greedy request once, as 0 (:func:`as_sent`)."""
    conversation: str = ""
    """Identity of the conversation that the request belongs to, so that conversations
    that begin alike share no answers; empty for others. A deterministic model gets it
    without."""


Request = Loglikelihood | Rolling | Generate


def shows_images(request: Request) -> bool:
    """Whether a request has images."""
    return any(images for _, images in images_of(request))


def with_images(request: Request, images: Options) -> Request:
    """The request with the options of its images; a :class:`Rolling` has none."""
    if not images or isinstance(request, Rolling):
        return request
    if isinstance(request, Generate):
        options = tuple(sorted((*request.options, *images)))
        return replace(request, options=options)
    if not any(shown for _, shown in images):
        return request
    return ImageLoglikelihood(request.context, request.continuation, images)


def images_of(request: Request) -> Options:
    """The options of a request with its images; empty without any."""
    if isinstance(request, Generate | ImageLoglikelihood):
        return tuple(one for one in request.options if one[0] in IMAGE_OPTIONS)
    return ()


def with_tools(request: Generate) -> Prompt:
    """The prompt of a request as chat templates get it: its tools are a last message
    whose role is ``tools``; then text is a message of the user."""
    tools = dict(request.options).get(TOOLS)
    if not tools:
        return request.prompt
    prompt = request.prompt
    chat = (Message("user", prompt),) if isinstance(prompt, str) else prompt
    return (*chat, Message(TOOLS_ROLE, tools))


def as_sent(request: Request, is_deterministic: bool) -> Request:
    """The request as a model receives it: a deterministic model gets all repeats of a
    greedy request as one, and those of conversations that begin alike."""
    if not (is_deterministic and isinstance(request, Generate)):
        return request
    repeat = request.repeat if request.temperature > 0 else 0
    if (request.repeat, request.conversation) == (repeat, ""):
        return request
    return replace(request, repeat=repeat, conversation="")


def weight_of(requests: Sequence[Request]) -> int:
    """Sum of :func:`size_of`, plus the bytes of the images that the requests hold."""
    held = (
        image
        for request in requests
        for name, images in images_of(request)
        if name != PLACED_IMAGES
        for image in images
    )
    return sum(map(size_of, requests)) + sum(
        len(one) if isinstance(one, str) else int(one.n_bytes) for one in held
    )


def size_of(request: Request | Prompt) -> int:
    """Number of characters of a request's context, prompt or text."""
    if isinstance(request, Loglikelihood):
        request = request.context
    elif isinstance(request, Generate):
        request = request.prompt
    if isinstance(request, Rolling):
        return len(request.text)
    if isinstance(request, str):
        return len(request)
    return sum(len(message.content) for message in request)


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """The response to one request, or an error."""

    text: str = ""  # the generated text, cut before its stop string
    logprob: float | None = None  # log-probability in nats
    greedy: bool | None = None  # whether greedy decoding generates the continuation
    n_prompt_tokens: int = 0  # tokens of the context or the prompt
    n_tokens: int = 0  # tokens that were scored or generated
    n_truncated: int = 0
    """Tokens that were truncated from the context, because it exceeds the context
    window."""
    finish: Finish = ""  # why a generation ended
    elapsed_s: float = 0.0  # seconds of inference, its share of the batch
    latency_s: float = 0.0
    """Seconds from sending the request until the response was complete; 0 if unknown,
    as for models that answer in batches."""
    cost: float | None = None  # price of the response, None if unknown
    error: str = ""
    """Why there is no response; then only ``finish`` may be set as well, unless it is a
    refusal."""
    top_logprobs: TopLogprobs = ()
    """For each generated token, if the request has that option and the model returns
    them."""
    steps: tuple[Mapping[str, Any], ...] = ()
    """Steps of an agent before its answer: mappings of JSON values."""
    data: Any = None  # structured output: any JSON value
    calls: tuple[Mapping[str, Any], ...] = ()
    """Tool calls in order, see :func:`~pytest_evals.core.returned.calls_of`."""
    contexts: tuple[Mapping[str, Any], ...] = ()
    """Retrieved texts, best first: mappings with ``text``, and if known ``id`` and
    ``score``."""
    messages: tuple[Mapping[str, Any], ...] = ()
    """The transcript: mappings with ``role`` and ``content``."""
    usage: Mapping[str, Any] | None = None  # counts by name, such as requests
    metadata: Mapping[str, Any] | None = None  # further JSON values by name

    @property
    def returned(self) -> dict[str, Any]:
        """The fields that an application has set, in addition to the answer."""
        return {
            name: value
            for name in RETURNED
            if (value := getattr(self, name)) is not None and value != ()
        }

    @property
    def is_refusal(self) -> bool:
        """Whether the model replied with a refusal. It is an error unless the task
        scores it; the store keeps it without the error."""
        return self.finish == "refused" and bool(self.text)

    def raise_for_error(self) -> Response:
        """Return this response, or raise its error.

        Raises:
            DocumentError: The response is an error.
        """
        if self.error:
            raise DocumentError(self.error)
        return self


def are_copies(responses: Sequence[Response]) -> bool:
    """Whether several responses are one: equal requests are sent once and share their
    response."""
    return len(responses) > 1 and all(one is responses[0] for one in responses)


EMBEDDING = "embedding"
"""The option of a :class:`~pytest_evals.core.request.Generate` whose response is the
embedding of its prompt, a text: ``data`` is a list of numbers. A model without support
returns an error, or a response without such a list."""


def embedding_request(text: str) -> Generate:
    """The request for the embedding of a text."""
    return Generate(text, max_tokens=0, options=((EMBEDDING, True),))


def is_embedding(request: Request) -> bool:
    """Whether a request is for an embedding."""
    return isinstance(request, Generate) and (EMBEDDING, True) in request.options


def embedding_of(response: Response) -> Sequence[float]:
    """The embedding in a response. Raises ``DocumentError`` if it has no embedding."""
    found = response.raise_for_error().data
    is_list = isinstance(found, list) and found
    if not is_list or not all(type(one) in (float, int) for one in found):
        raise DocumentError("the model returned no embedding")
    numbers: Sequence[float] = found
    return numbers
