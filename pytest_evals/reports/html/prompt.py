"""Parts of a prompt: description, few-shot examples and question, or chat messages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from pytest_evals.reports.html.sections import mapping, section


class FewshotExamples(NamedTuple):
    """The few-shot format of a task's prompts.

    Args:
        n: Number of few-shot examples.
        delimiter: Delimiter after each example.
        description: Template of the text before the examples.
        is_chat: Whether prompts are chats rendered with a chat template.
    """

    n: int
    delimiter: str
    description: str = ""
    is_chat: bool = False


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
    of them can be part of a question.
    """
    if isinstance(prompt, list):
        return [_message(one) for one in prompt]
    text = str(prompt)
    described = _described(text, shots)
    head, rest = text[:described], text[described:]
    delimiter = shots.delimiter
    told = [{"title": "description", "text": head}] if head else []
    if shots.n and (not delimiter or rest.count(delimiter) != shots.n):
        return [{"title": "", "text": text}]
    before: list[str] = []
    if shots.n:
        *before, rest = rest.split(delimiter)
    told += [
        {"title": f"shot {n}", "text": shot + delimiter}
        for n, shot in enumerate(before, 1)
    ]
    return [*told, {"title": "question" if told else "", "text": rest}]


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
    if not isinstance(one, dict):
        return {"title": "", "text": str(one)}
    return {"title": str(one.get("role", "")), "text": str(one.get("content", ""))}


def is_apart(parts: Sequence[Mapping[str, str]], shots: FewshotExamples) -> bool:
    """Return whether the last part is only the question."""
    return len(parts) > shots.n and not shots.is_chat
