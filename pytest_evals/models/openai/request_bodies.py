"""Generation requests as bodies, and replies as responses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pytest_evals.core.finite import is_finite
from pytest_evals.core.request import (
    IMAGE_OPTIONS,
    TOOLS,
    TOP_LOGPROBS,
    Finish,
    Generate,
    Message,
    Response,
    TopLogprobs,
)
from pytest_evals.core.returned import calls_of
from pytest_evals.core.top_logprobs import read_top_logprobs, top_entry
from pytest_evals.errors import DocumentError
from pytest_evals.models.chat_messages import chat_messages
from pytest_evals.models.http.errors import (
    BROKEN_OFF,
    NO_ANSWER,
    REFUSED,
    RequestFailedError,
    shortened,
)
from pytest_evals.models.http.usage import (
    embedding_in,
    has_reasoning,
    object_at,
    tokens_of,
)
from pytest_evals.models.openai.client import Path, Reply
from pytest_evals.models.openai.sampling_params import body_of
from pytest_evals.models.openai.settings import OpenAISettings

if TYPE_CHECKING:
    from pytest_evals.models.openai.tokenizer import FittedPrompt

_FINISH: Mapping[str, Finish] = {
    **dict.fromkeys(("stop", "eos", "end_turn", "stop_sequence"), "stop"),
    **dict.fromkeys(("length", "max_tokens", "model_length"), "length"),
}
"""Finish reasons of OpenAI and other servers."""
_BROKEN_OFF = frozenset(
    {
        *("error", "abort", "aborted", "cancelled", "insufficient_system_resource"),
        "network_error",
    }
)
"""Reasons of incomplete completions (OpenRouter; vLLM, SGLang; DeepSeek; Zhipu)."""
_FILTERED = frozenset(
    {
        *("content_filter", "content_filtered", "sensitive", "refusal", "safety"),
        *("recitation", "blocklist", "prohibited_content", "spii"),
    }
)
"""Finish reasons of filtered completions (OpenAI, AWS, Zhipu, Anthropic, Google)."""
_CALLS = ("tool_calls", "tool_use", "function_call")
"""Finish reasons of tool calls (OpenAI, Anthropic)."""
_NO_TEXT = ("reasoning", "thinking", "refusal")
"""Types of the parts of a message that are not its answer."""
_NO_THINKING = 'extra_body={"chat_template_kwargs":{"enable_thinking":false}}'


def request_body(
    request: Generate, settings: OpenAISettings, fit: FittedPrompt | None = None
) -> tuple[Path, dict[str, Any]]:
    """The API for a request, and its body. ``fit``: how much of it fits into the
    server's window, if not all. A prompt that was cut, also one of a chat, consists of
    token ids, which completions take."""
    if fit is not None:
        request = replace(request, max_tokens=fit.max_tokens)
        if fit.ids:
            body = body_of(request, settings, chat=False)
            return "completions", {"prompt": fit.ids, **body}
    is_text = isinstance(request.prompt, str) and not _needs_chat(request)
    path: Path = settings.api or ("completions" if is_text else "chat")
    return path, _body(request, settings, path)


def _body(request: Generate, settings: OpenAISettings, path: Path) -> dict[str, Any]:
    prompt = request.prompt
    if path == "completions":
        if not isinstance(prompt, str):
            raise RequestFailedError(
                "the prompt is a chat, and api=completions takes texts only"
            )
        if name := _needs_chat(request):
            raise RequestFailedError(f"{name} are sent in a chat only: give api=chat")
        return {"prompt": prompt, **body_of(request, settings, chat=False)}
    chat = (Message("user", prompt),) if isinstance(prompt, str) else prompt
    try:
        messages = chat_messages(chat, dict(request.options))
    except DocumentError as error:
        raise RequestFailedError(str(error)) from None
    body = {"messages": messages, **body_of(request, settings, chat=True)}
    if chat and chat[-1].role == "assistant":
        if settings.is_openai:
            raise RequestFailedError(
                "the prompt ends with the beginning of an answer (gen_prefix), with "
                "which OpenAI's models cannot continue"
            )
        body["add_generation_prompt"] = False
        body["continue_final_message"] = True
    return body


def _needs_chat(request: Generate) -> str:
    """What only chats take; empty if there is nothing."""
    names = {name for name, _ in request.options}
    return TOOLS if TOOLS in names else "images" if names & IMAGE_OPTIONS else ""


def read_reply(
    reply: Reply, request: Generate, settings: OpenAISettings, path: Path
) -> Response:
    """The response in a reply."""
    choice = choice_of(reply)
    ended = str(choice.get("finish_reason")).lower()
    text = _text(choice, path)
    if ended in _BROKEN_OFF or choice.get("error"):
        why = choice.get("error") or f"finish_reason {ended!r}"
        message = f"the server broke the answer off: {shortened(str(why))}"
        raise RequestFailedError(message, BROKEN_OFF, retryable=True)
    calls = _calls(choice, ended) if TOOLS in dict(request.options) else ()
    is_silent = not (text or "").strip() and not calls
    n_in, n_out = tokens_of(reply)
    if is_silent and (refusal := _refusal(choice)):
        return Response(
            text=refusal, n_prompt_tokens=n_in, n_tokens=n_out, finish="refused"
        )
    # Some name what was filtered behind a colon.
    if ended.partition(":")[0] in _FILTERED:
        raise RequestFailedError(
            "the server's content filter stopped the answer", REFUSED
        )
    if is_silent:
        _check_silence(choice, ended, text, request)
    text = text or ""
    if settings.think_end_token:
        text = text.split(settings.think_end_token)[-1].lstrip()
    cut = text
    for stop in request.stop:
        cut = cut.split(stop)[0] if stop else cut
    return Response(
        text=cut,
        n_prompt_tokens=n_in,
        n_tokens=n_out,
        finish="stop" if cut != text else _FINISH.get(ended, "stop" if calls else ""),
        calls=calls,
        top_logprobs=_top_logprobs(choice, dict(request.options).get(TOP_LOGPROBS, 0)),
    )


def read_embedding(reply: Reply) -> Response:
    """The embedding in a reply."""
    found = embedding_in(reply)
    if not isinstance(found, list) or not found or not all(map(is_finite, found)):
        raise RequestFailedError("the reply has no embedding", "api")
    return Response(data=[*map(float, found)], n_prompt_tokens=tokens_of(reply)[0])


def _calls(choice: Mapping[str, Any], ended: str) -> tuple[Mapping[str, Any], ...]:
    """The tool calls of a message. Their presence counts, not the finish reason: some
    servers report ``stop`` with calls, others ``tool_calls`` without any. A call that
    the token limit cuts off is marked as truncated."""
    found = object_at(choice, "message")
    given = found.get("tool_calls") or found.get("function_call") or ()
    given = [given] if isinstance(given, dict) else given
    try:
        calls = [dict(one) for one in calls_of(given)]
    except (TypeError, ValueError):
        message = f"a tool call has no name: {shortened(str(given))}"
        raise RequestFailedError(message, retryable=True) from None
    if calls and _FINISH.get(ended) == "length":
        calls[-1]["truncated"] = True
    return tuple(calls)


def _top_logprobs(choice: Mapping[str, Any], n: int) -> TopLogprobs:
    """Top log-probabilities of a completion; empty if the server does not return them.

    Two formats exist: ``content`` with one object per token (chats; llama.cpp also for
    completions), and the lists of OpenAI's completions.
    """
    found: Any = choice.get("logprobs")
    if not n or not isinstance(found, dict):
        return ()
    try:
        if "content" in found:
            rows = []
            for one in found["content"] or ():
                top = [(t["token"], t["logprob"]) for t in one["top_logprobs"]]
                rows.append((one["token"], top))
        else:
            pairs = zip(found["tokens"], found["top_logprobs"], strict=True)
            rows = [(token, [*top.items()]) for token, top in pairs]
        return tuple(top_entry(*row, n) for row in read_top_logprobs(rows))
    except (AttributeError, KeyError, TypeError, ValueError):
        return ()  # the answer itself is complete


def choice_of(reply: Reply) -> Mapping[str, Any]:
    """The first choice of a reply, by index if choices have one."""
    choices = reply.get("choices")
    sound = isinstance(choices, list) and all(isinstance(c, dict) for c in choices)
    if not sound or not choices:
        raise RequestFailedError(
            f"the reply has no choices: {shortened(str(reply))}", retryable=True
        )
    numbered = (choice for choice in choices if choice.get("index") == 0)
    found: Mapping[str, Any] = next(numbered, choices[0])
    return found


def _text(choice: Mapping[str, Any], path: Path) -> str | None:
    """The completion; ``None`` if it is null."""
    if path == "completions":
        text = choice.get("text")
    else:
        message = choice.get("message")
        if not isinstance(message, dict):
            shown = shortened(str(choice))
            raise RequestFailedError(
                f"the reply has no message: {shown}", retryable=True
            )
        text = _content(message)
    if text is not None and not isinstance(text, str):
        raise RequestFailedError(
            f"the answer is not text: {shortened(str(text))}", retryable=True
        )
    return text


def _content(message: Mapping[str, Any]) -> Any:
    """The text of a message; that of all parts if it is a list (Mistral), without the
    reasoning and refusals. Unchanged if it has other parts."""
    content = message.get("content")
    parts = content if isinstance(content, list) else ()
    if not parts or not all(isinstance(part, dict) for part in parts):
        return content
    kept = [part for part in parts if part.get("type") not in _NO_TEXT]
    texts = [part.get("text") for part in kept if part.get("type") == "text"]
    if len(texts) < len(kept) or not all(isinstance(text, str) for text in texts):
        return content
    return "".join(texts) if texts else None


def _check_silence(
    choice: Mapping[str, Any], ended: str, text: str | None, request: Generate
) -> None:
    """Check that a completion without visible text is an answer."""
    message = object_at(choice, "message")
    calls = message.get("tool_calls") or message.get("function_call")
    if (calls and not text) or ended in _CALLS:
        shown = f": {shortened(str(calls))}" if calls else ""
        problem = f"the answer has no text, only tool calls{shown}"
        raise RequestFailedError(problem, NO_ANSWER)
    kind = "null" if text is None else "empty"
    reasons = has_reasoning(choice) or has_reasoning(message)
    is_unread = text is None or (text == "" and bool(message))
    if _FINISH.get(ended) == "length" and (is_unread or reasons):
        raise RequestFailedError(
            f"the answer is {kind}: the model used up its tokens before it began to "
            "answer; raise max_gen_toks",
            NO_ANSWER,
        )
    reason = f"(finish_reason {choice.get('finish_reason')!r})"
    if reasons:
        stop = "remove the task's stop strings, which also end reasoning; " * (
            bool(request.stop)
        )
        raise RequestFailedError(
            f"the answer is {kind}, and the reply has only reasoning {reason}\n"
            f"  fix: {stop}if the answer is in the reasoning, start the server without "
            "a reasoning parser and set think_end_token=; or turn reasoning off, with "
            f"vLLM and SGLang by {_NO_THINKING}",
            NO_ANSWER,
        )
    if text is None:
        raise RequestFailedError(
            f"the answer is null {reason}", NO_ANSWER, retryable=True
        )


def _refusal(choice: Mapping[str, Any]) -> str:
    """The model's refusal, which is a field or a part of its message."""
    message = object_at(choice, "message")
    parts = message.get("content")
    listed = [message, *(parts if isinstance(parts, list) else ())]
    texts = [one.get("refusal") for one in listed if isinstance(one, dict)]
    return "".join(one for one in texts if isinstance(one, str)).strip()
