"""lm-eval's requests (``Instance``, 0.4.13) → ours.

A task class of lm-eval makes its own requests out of the prompt that it is given. A
chat is rendered by the model and not here, so a class gets it as a text that remembers
its messages; it may hand that on, and not change it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from pytest_evals.core.request import (
    LEADING_IMAGES,
    Generate,
    Loglikelihood,
    Message,
    Prompt,
    Request,
    Role,
    Rolling,
)
from pytest_evals.errors import DocumentError
from pytest_evals.prompts.generation import read_sampling
from pytest_evals.prompts.images import image_urls


class ChatText(str):
    """A chat where lm-eval has a rendered prompt: a text with messages."""

    messages: tuple[Message, ...] = ()


def chat_text(
    messages: Iterable[Mapping[str, str]], add_generation_prompt: bool = True
) -> ChatText:
    """What stands for lm-eval's ``chat_template``.

    Args:
        messages: The messages.
        add_generation_prompt: Not looked at: the model opens an answer unless the last
            message is one.
    """
    listed = tuple(
        Message(cast("Role", each["role"]), each["content"]) for each in messages
    )
    text = ChatText("\n".join(message.content for message in listed))
    text.messages = listed
    return text


def requests_of(instances: Sequence[Any], context: Any) -> tuple[Request, ...]:
    """The requests of one document, each as often as it is repeated.

    Args:
        instances: What ``construct_requests`` made, in the order of the answers.
        context: The prompt that it was given, or one a choice.

    Raises:
        DocumentError: An instance asks something that no model of ours answers.
    """
    given = context if isinstance(context, list) else [context]
    chats = [each for each in given if isinstance(each, ChatText)]
    asked: Counter[Request] = Counter()
    requests: list[Request] = []
    for instance in instances:
        once = _request(instance, chats)
        for _ in range(repeats_of(instance)):
            request = once
            if isinstance(once, Generate) and once.temperature > 0:
                request = replace(once, repeat=asked[once])
            asked[once] += 1
            requests.append(request)
    return tuple(requests)


def repeats_of(instance: Any) -> int:
    """How often an instance is asked."""
    return instance.repeats or 1


def _request(instance: Any, chats: Sequence[ChatText]) -> Request:
    kind, arguments = instance.request_type, tuple(instance.args)
    if kind == Loglikelihood.kind and len(arguments) == 2:
        context, continuation = arguments
        return Loglikelihood(_prompt(context, chats), _text(continuation))
    if kind == Generate.kind and len(arguments) in (2, 3):
        made = _generate(_prompt(arguments[0], chats), arguments[1])
        return made if len(arguments) == 2 else _with_images(made, arguments[2])
    if kind == Rolling.kind and len(arguments) == 1:
        return Rolling(_text(arguments[0]))
    kinds = (Loglikelihood.kind, Rolling.kind, Generate.kind)
    if kind not in kinds:
        raise DocumentError(
            f"construct_requests made a request of type {kind!r}, which is none of "
            f"{', '.join(kinds)}"
        )
    raise DocumentError(
        f"construct_requests made a {kind} request with {len(arguments)} arguments; "
        "only generated answers can be asked about images, and none about sound"
    )


def _with_images(request: Generate, media: Any) -> Generate:
    """The request with what lm-eval calls its auxiliary arguments."""
    given = dict(media) if isinstance(media, Mapping) else {"": media}
    urls = image_urls(given.pop("visual", None), Path.cwd())
    if given:
        raise DocumentError(
            f"construct_requests: models are asked with texts and images only, not "
            f"with {', '.join(map(repr, given))}"
        )
    shown = (LEADING_IMAGES, urls)
    return replace(request, options=tuple(sorted((*request.options, shown))))


def _generate(prompt: Prompt, arguments: Any) -> Generate:
    """What a model of lm-eval makes of the arguments (``normalize_gen_kwargs``);
    without ``until`` only the end of text stops."""
    if not isinstance(arguments, Mapping):
        what = f"a mapping of generation arguments, not {arguments!r:.80}"
        raise DocumentError(f"construct_requests: a generate_until request has {what}")
    sampling = read_sampling({"until": [], **arguments}, {}, "").sampling
    return sampling.requests(prompt, 1)[0]


def _prompt(given: Any, chats: Sequence[ChatText]) -> Prompt:
    if isinstance(given, ChatText):
        return given.messages
    text = _text(given)
    if any(chat.strip() and chat.strip() in text for chat in chats):
        raise DocumentError(
            "construct_requests changes the prompt, which is a chat that only the "
            "model renders; run this task without a chat template"
        )
    return text


def _text(given: Any) -> str:
    if not isinstance(given, str):
        raise DocumentError(
            f"construct_requests: a text is wanted in a request, not {given!r:.80}"
        )
    return str(given)
