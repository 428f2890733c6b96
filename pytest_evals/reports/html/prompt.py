"""A prompt in its parts: shots and question, or the messages of a chat."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from pytest_evals.reports.html.sections import mapping, section

__all__ = ["Shots", "last_part", "parts_of", "shots_of"]


class Shots(NamedTuple):
    """How the prompts of a task are put together.

    Args:
        n: Shots of each.
        delimiter: What stands behind each shot.
    """

    n: int
    delimiter: str


def shots_of(results: Mapping[str, Any], task: str) -> Shots:
    """What a results file says of a task's shots."""
    n = section(results, "n-shot").get(task)
    config = mapping(section(results, "configs").get(task))
    delimiter = config.get("fewshot_delimiter")
    return Shots(
        n if isinstance(n, int) else 0,
        delimiter if isinstance(delimiter, str) else "\n\n",
    )


def parts_of(prompt: Any, shots: Shots) -> list[dict[str, str]]:
    """The parts with their titles; texts add up to the prompt.

    A text is cut only where its delimiters are as many as its shots, so that none of
    them can be part of a question.
    """
    if isinstance(prompt, list):
        return [_message(one) for one in prompt]
    text = str(prompt)
    delimiter = shots.delimiter
    if not shots.n or not delimiter or text.count(delimiter) != shots.n:
        return [{"title": "", "text": text}]
    *before, question = text.split(delimiter)
    told = [
        {"title": f"shot {n}", "text": shot + delimiter}
        for n, shot in enumerate(before, 1)
    ]
    return [*told, {"title": "question", "text": question}]


def _message(one: Any) -> dict[str, str]:
    if not isinstance(one, dict):
        return {"title": "", "text": str(one)}
    return {"title": str(one.get("role", "")), "text": str(one.get("content", ""))}


def last_part(parts: Sequence[Mapping[str, str]]) -> str:
    """The text of the last part, where the question is."""
    return parts[-1]["text"] if parts else ""
