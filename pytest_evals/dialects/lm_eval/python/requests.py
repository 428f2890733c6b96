"""Convert lm-eval's requests (``Instance``, 0.4.13) to ours.

A task class builds its requests from the prompt that it receives. Because the model
renders chats, a class receives a chat as a string that also holds its messages; it may
pass it on but not modify it.
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
    with_images,
)
from pytest_evals.errors import DocumentError
from pytest_evals.prompts.chat import ChatText
from pytest_evals.prompts.generation import read_sampling
from pytest_evals.prompts.images import row_images


def chat_text(
    messages: Iterable[Mapping[str, str]], add_generation_prompt: bool = True
) -> ChatText:
    """Replacement for lm-eval's ``chat_template``. ``add_generation_prompt`` is
    ignored: the model starts an answer unless the last message is one."""
    listed = tuple(
        Message(cast("Role", each["role"]), each["content"]) for each in messages
    )
    return ChatText.of("\n".join(message.content for message in listed), listed)


def requests_of(instances: Sequence[Any], context: Any) -> tuple[Request, ...]:
    """The requests of one document, repeated as often as each instance demands.
    ``context``: the prompt passed to it, or one for each choice. Raises DocumentError
    if an instance has an unsupported type or argument."""
    contexts = context if isinstance(context, list) else [context]
    chats = [each for each in contexts if isinstance(each, ChatText)]
    n_seen: Counter[Request] = Counter()
    requests: list[Request] = []
    for instance in instances:
        once = _request(instance, chats)
        for _ in range(repeats_of(instance)):
            request = once
            if isinstance(once, Generate):
                request = replace(once, repeat=n_seen[once])
            n_seen[once] += 1
            requests.append(request)
    return tuple(requests)


def repeats_of(instance: Any) -> int:
    """Number of times an instance is sent."""
    return instance.repeats or 1


def _request(instance: Any, chats: Sequence[ChatText]) -> Request:
    kind, arguments = instance.request_type, tuple(instance.args)
    if kind == Loglikelihood.kind and len(arguments) in (2, 3):
        pair = Loglikelihood(_prompt(arguments[0], chats), _text(arguments[1]))
        return pair if len(arguments) == 2 else _with_images(pair, arguments[2])
    if kind == Generate.kind and len(arguments) in (2, 3):
        request = _generate(_prompt(arguments[0], chats), arguments[1])
        return request if len(arguments) == 2 else _with_images(request, arguments[2])
    if kind == Rolling.kind and len(arguments) == 1:
        return Rolling(_text(arguments[0]))
    kinds = (Loglikelihood.kind, Rolling.kind, Generate.kind)
    if kind not in kinds:
        raise DocumentError(
            f"construct_requests returned a request of type {kind!r}; supported types "
            f"are {', '.join(kinds)}"
        )
    raise DocumentError(
        f"construct_requests returned a {kind} request with {len(arguments)} "
        "arguments; a third one may have images, and audio is not supported"
    )


def _with_images(request: Request, media: Any) -> Request:
    given = dict(media) if isinstance(media, Mapping) else {"": media}
    images = row_images(given.pop("visual", None), Path.cwd())
    if given:
        raise DocumentError(
            "construct_requests: only text and images are supported, not "
            f"{', '.join(map(repr, given))}"
        )
    return with_images(request, ((LEADING_IMAGES, images),))


def _generate(prompt: Prompt, arguments: Any) -> Generate:
    """Convert generation arguments as lm-eval's models do (``normalize_gen_kwargs``);
    without ``until``, only the end-of-text token stops the generation."""
    if not isinstance(arguments, Mapping):
        message = f"a mapping of generation arguments, not {arguments!r:.80}"
        raise DocumentError(
            f"construct_requests: a generate_until request must have {message}"
        )
    sampling = read_sampling({"until": [], **arguments}, {}, "").sampling
    return sampling.requests(prompt, 1)[0]


def _prompt(given: Any, chats: Sequence[ChatText]) -> Prompt:
    if isinstance(given, ChatText):
        return given.messages
    text = _text(given)
    if any(chat.strip() and chat.strip() in text for chat in chats):
        raise DocumentError(
            "construct_requests changes the prompt, but a chat is rendered by the "
            "model; run this task without a chat template"
        )
    return text


def _text(given: Any) -> str:
    if not isinstance(given, str):
        raise DocumentError(
            f"construct_requests: a request must contain a string, not {given!r:.80}"
        )
    return str(given)
