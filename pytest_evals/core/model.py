"""Models: a name and a method that answers requests. Everything else is optional."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from pytest_evals.core.request import Prompt, Request, Response
from pytest_evals.core.run_plan import SpendPlan
from pytest_evals.errors import EvalsError

if TYPE_CHECKING:
    from builtins import property as optional
else:
    # A plain attribute of a class or an object can replace it, unlike a property.
    from functools import cached_property as optional

OnResponse = Callable[[Request, Response], None]
"""Called with a request and the response that was received to it."""
NO_FINGERPRINT: Mapping[str, Any] = MappingProxyType({})
"""The fingerprint of a model that does not define one."""


class ModelLike(Protocol):
    """Objects that users may provide as a model
    (:func:`~pytest_evals.core.response_contract.as_model` adapts them)."""

    @property
    def name(self) -> str:
        """See :class:`Model`."""

    def answer(self, requests: Sequence[Request], /) -> Iterable[tuple[int, Response]]:
        """See :class:`Model`."""


class ByteFiles(Protocol):
    """Files in the results folder that only save time: each may be missing."""

    def read(self, name: str, /) -> bytes | None:
        """The content of a file; ``None`` if it cannot be read."""

    def write(self, name: str, data: bytes, /) -> None:
        """Write a file if possible."""


class Model(ABC):
    """Answers requests. Subclasses define ``name`` and ``answer``; all other members
    are optional, and their defaults do nothing."""

    name: str
    """Shown in reports; part of the key of stored responses."""

    @abstractmethod
    def answer(self, requests: Sequence[Request], /) -> Iterable[tuple[int, Response]]:
        """Answer all requests: pairs of a position in ``requests`` and its response, in
        any order.

        Prefer a generator: documents are scored as soon as their responses arrive.
        Return ``Response(error=…)`` for a request that failed; raise an exception if
        the model itself is broken.
        """

    @optional
    def works_ahead(self) -> bool:
        """Whether the model keeps working between two calls of ``answer``, in a thread
        or on a server. The next documents are then rendered in the meantime, and their
        requests are sent as soon as the last batch is complete."""
        return False

    @optional
    def replicas(self) -> int:
        """How many copies of the model answer at the same time: batches are as many
        times larger. Read before each batch."""
        return 1

    on_response: OnResponse | None = None
    """Set by the response store before it calls ``answer``. A model that receives
    responses in another thread calls it there with each request and its response,
    before ``answer`` yields them: they are then stored while earlier documents are
    scored."""

    @optional
    def is_deterministic(self) -> bool:
        """Whether equal requests to decode greedily always have equal responses.
        Repeats of such a request are then sent once. Applications and served models
        are not deterministic, even at temperature 0."""
        return False

    def end(self, requests: Sequence[Request], /) -> None:  # noqa: B027 - optional
        """Called with the requests of a document when it is complete, so that a model
        can close what it keeps open between them, such as sessions."""

    def expect(self, requests: Sequence[Request], /) -> None:  # noqa: B027 - optional
        """Called with the requests of the next batch while the model works on this one,
        for example to tokenize them; only if it ``works_ahead``. ``answer`` may get
        fewer of them."""

    def keep_encoded(self, files: ByteFiles, /) -> None:  # noqa: B027 - optional
        """Called once a spec's model is open, with files in which it may keep encoded
        requests for the next model with the same tokenizer."""

    @optional
    def fingerprint(self) -> Mapping[str, Any] | None:
        """JSON values that are equal for models with equal responses; they are the
        cache key of stored responses. ``None`` if responses should not be stored. By
        default they are not stored either, and the report mentions it."""
        return NO_FINGERPRINT

    @optional
    def info(self) -> Mapping[str, Any]:
        """JSON values for results files, read when the run ends. The counts below
        ``usage`` are added up over workers."""
        return {}

    @optional
    def notes(self) -> Sequence[str]:
        """Warnings about the model's numbers, shown with the results."""
        return ()

    def stop_sending(self) -> None:  # noqa: B027 - optional
        """Send no further requests; those in flight are still answered. Called when the
        run ends early; returns at once."""

    def wait_for_sent(self, limit_s: float, /) -> int:
        """Wait for the requests in flight, for at most ``limit_s`` seconds; return how
        many are left. Called after ``stop_sending``."""
        return 0

    def render(self, prompt: Prompt, /) -> Prompt:
        """The string that the model's chat template renders a chat to, for samples
        files; by default the chat itself.

        Raises:
            DocumentError: There is no chat template, or it raises an error for the
                chat.
        """
        return prompt

    def close(self) -> None:  # noqa: B027 - optional
        """Release memory and connections. Called at the end of the run for models that
        a spec, a hook or a task opened."""

    def __str__(self) -> str:
        return f"{type(self).__name__} {self.name!r}"

    def _gave(self, given: str) -> str:
        return f"{self}: answer() gave {given}"


def _member(name: str) -> Any:
    """A member of the given object; the default of :class:`Model` if it has none. Its
    value may change while the model runs."""

    def get(model: AdaptedModel) -> Any:
        found = getattr(model._given, name, None)
        return getattr(super(AdaptedModel, model), name) if found is None else found

    return property(get)


class AdaptedModel(Model):
    """An object with ``name`` and ``answer`` as a :class:`Model`; missing members have
    their defaults."""

    works_ahead = _member("works_ahead")
    replicas = _member("replicas")
    is_deterministic = _member("is_deterministic")
    info = _member("info")
    notes = _member("notes")
    end = _member("end")
    expect = _member("expect")
    stop_sending = _member("stop_sending")
    wait_for_sent = _member("wait_for_sent")
    render = _member("render")
    close = _member("close")

    def __init__(self, given: Any) -> None:
        """Use :func:`~pytest_evals.core.response_contract.as_model`, which validates
        the object."""
        self._given, self.name = given, given.name

    def answer(self, requests: Sequence[Request], /) -> Iterable[tuple[int, Response]]:
        """Call the object's method."""
        answers: Iterable[tuple[int, Response]] = self._given.answer(requests)
        return answers

    @property
    def on_response(self) -> OnResponse | None:
        """The object's value, or the default."""
        return getattr(self._given, "on_response", None)

    @on_response.setter
    def on_response(self, given: OnResponse | None) -> None:
        """Set it if the object has such a member."""
        if hasattr(self._given, "on_response"):
            self._given.on_response = given

    @property
    def fingerprint(self) -> Mapping[str, Any] | None:
        """The object's value; ``None`` differs from the default."""
        found: Mapping[str, Any] | None
        found = getattr(self._given, "fingerprint", NO_FINGERPRINT)
        return found

    def __str__(self) -> str:
        return f"{type(self._given).__name__} {self.name!r}"


class ModelOpener(ABC):
    """A function that opens a model, with a check whether it can. Equal openers open
    one model."""

    name: str = ""
    fingerprint: Mapping[str, Any] | None = None
    """Name and fingerprint of the model, if they are known before it is open."""

    @abstractmethod
    def __call__(self) -> Model:
        """Open the model."""

    def why_unready(self) -> EvalsError | None:
        """Why the model cannot be opened on this machine; ``None`` if no reason is
        known."""
        return None

    def spend_plan(self, requests: Sequence[Request]) -> SpendPlan | None:
        """Requests, tokens and cost of requests that would be sent; ``None`` if the
        model is not served."""
        return None


class TokenStrings(NamedTuple):
    """The strings of a request's tokens, special tokens included.

    Tokens that only form a character together are one string."""

    context: tuple[str, ...]  # tokens that are not scored
    continuation: tuple[str, ...]
    """Tokens that are scored; empty for a generation request."""
    n_context: int
    n_continuation: int


class RequestTokenizer(Protocol):
    """A model's tokenizer, with the model's rules for special tokens."""

    def token_strings(self, request: Request) -> TokenStrings:
        """Return the tokens of a request before truncation. Raises ``DocumentError`` if
        the request cannot be encoded."""

    def render(self, prompt: Prompt) -> str:
        """Return the prompt as rendered for the model. Raises ``DocumentError`` if
        there is no chat template, or it raises an error for the chat."""
