"""Parts of a prompt: description, few-shot examples and question, or chat messages."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from pytest_evals.reports.html.sections import mapping, section


class FewshotExamples(NamedTuple):
    """The few-shot format of a task's prompts."""

    n: int  # number of few-shot examples
    delimiter: str  # delimiter after each example
    description: str = ""  # template of the text before the examples
    is_chat: bool = False  # whether prompts are chats rendered with a chat template


def fewshot_examples(results: Mapping[str, Any], task: str) -> FewshotExamples:
    """Return the few-shot format of a task from its results file."""
    n = section(results, "n-shot").get(task)
    config = mapping(section(results, "configs").get(task))
    delimiter, description = (
        config.get(name) for name in ("fewshot_delimiter", "description")
    )
    return FewshotExamples(
        n=n if isinstance(n, int) else 0,
        delimiter=delimiter if isinstance(delimiter, str) else "\n\n",
        description=description if isinstance(description, str) else "",
        is_chat=bool(results.get("chat_template")),
    )


def parts_of(prompt: Any, shots: FewshotExamples) -> list[dict[str, str]]:
    """Return the parts with their titles; their texts add up to the prompt.

    A prompt is split only if it contains as many delimiters as examples, so that none
    of them can be part of a question. A chat rendered to text is never split: its
    template decides where a message ends.
    """
    messages = _messages(prompt)
    if messages:
        return [_message(one) for one in messages]
    text = str(prompt)
    if shots.is_chat:
        return [{"title": "", "text": text}]
    described = _described(text, shots)
    head, rest = text[:described], text[described:]
    delimiter = shots.delimiter
    parts = [{"title": "description", "text": head}] if head else []
    if shots.n and (not delimiter or rest.count(delimiter) != shots.n):
        return [{"title": "", "text": text}]
    examples: list[str] = []
    if shots.n:
        *examples, rest = rest.split(delimiter)
    parts += [
        {"title": f"example {n}", "text": one + delimiter}
        for n, one in enumerate(examples, 1)
    ]
    return [*parts, {"title": "question" if parts else "", "text": rest}]


def _messages(prompt: Any) -> list[Any]:
    """Return the messages of a chat: a list, or its JSON, as lm-eval's API models
    write it."""
    if isinstance(prompt, list) and len(prompt) == 1 and isinstance(prompt[0], str):
        return _messages(prompt[0]) or prompt
    if isinstance(prompt, list):
        return prompt
    if not isinstance(prompt, str) or not prompt.lstrip().startswith("[{"):
        return []
    try:
        found = json.loads(prompt)
    except (ValueError, RecursionError):
        return []
    is_chat = all(isinstance(one, dict) and "role" in one for one in found)
    return found if is_chat else []


def question_of(parts: Sequence[Mapping[str, str]]) -> str:
    """Return the question of a prompt: its last part, or the last message of the user,
    which the beginning of the answer may follow."""
    last = [one for one in parts if one["title"] == "user"] or parts
    return last[-1]["text"].strip() if last else ""


def _described(text: str, shots: FewshotExamples) -> int:
    """Return the length of the description at the start of a prompt; 0 if unknown."""
    description, delimiter = shots.description, shots.delimiter
    if not description or shots.is_chat:
        return 0
    if text.startswith(description):
        return len(description) if len(description) < len(text) else 0
    n_inside = description.count(delimiter) if delimiter else 0
    if not n_inside or not description.endswith(delimiter):
        return 0
    # A template, whose text is not known: only its delimiters are.
    if text.count(delimiter) != n_inside + shots.n:
        return 0
    *_, rest = text.split(delimiter, n_inside)
    return len(text) - len(rest)


def _message(one: Any) -> dict[str, str]:
    """Return a message with everything in it: text, images by their names, calls."""
    if not isinstance(one, dict):
        return {"title": "", "text": str(one)}
    content = one.get("content")
    several = content if isinstance(content, list) else [content]
    texts = [_content(part) for part in several if part is not None]
    others = {k: v for k, v in one.items() if k not in ("role", "content") and v}
    if others:
        texts.append(json.dumps(others, ensure_ascii=False, indent=2))
    return {"title": str(one.get("role", "")), "text": "\n".join(texts)}


def _content(part: Any) -> str:
    if isinstance(part, dict):
        if isinstance(part.get("text"), str):
            return str(part["text"])
        return f"[{part.get('type') or 'attachment'}]"
    return str(part)


def is_apart(parts: Sequence[Mapping[str, str]], shots: FewshotExamples) -> bool:
    """Return whether the question is a separate part, without few-shot examples."""
    n_messages = sum(one["title"] == "user" for one in parts)
    if n_messages:
        return n_messages > shots.n
    return len(parts) > shots.n and not shots.is_chat
