"""Reasoning in answers, between the tags of common models."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

_WORDS = r"(?:\w+:)?(?:think(?:ing)?|thoughts?|reason(?:ing)?|reflection|scratchpad)"
_OPENING = re.compile(
    rf"<{_WORDS}>|\[THINK\]|<\|(?:begin_of_thought|START_THINKING|inner_prefix)\|>"
    r"|◁think▷|<\|channel\|>(?:analysis|commentary)|<\|channel>thought",
    re.IGNORECASE,
)
"""DeepSeek, Qwen, Seed, EXAONE, …; Mistral; OpenThinker, Cohere, Apertus; Kimi;
gpt-oss; Gemma."""
_CLOSING = re.compile(
    rf"</{_WORDS}>|\[/THINK\]|<\|(?:end_of_thought|END_THINKING|inner_suffix)\|>"
    r"|◁/think▷|<\|channel\|>final(?:<\|message\|>)?|<channel\|>",
    re.IGNORECASE,
)
REFUSALS = ("error", "answer")
"""What a refusal of the model can be for a task; the first is the default."""


def reasoning_tags(text: str) -> tuple[str, str]:
    """The first tag that starts reasoning and the last one that ends it; empty if
    missing."""
    opening, closing = _OPENING.search(text), [*_CLOSING.finditer(text)]
    return (opening.group() if opening else "", closing[-1].group() if closing else "")


def begins_with_reasoning(text: str) -> bool:
    """Whether a text begins with a tag that starts reasoning."""
    return bool(_OPENING.match(text.lstrip()))


def ends_in_reasoning(prompt: str) -> bool:
    """Whether a prompt ends with a tag that starts reasoning, as with some chat
    templates: the answer then begins inside the reasoning."""
    opening = [*_OPENING.finditer(prompt)]
    return bool(opening) and not prompt[opening[-1].end() :].strip()


def without_reasoning(text: str, quoted: Sequence[tuple[int, int]] = ()) -> str:
    """The text after the last tag that ends reasoning, and before reasoning that has
    no end. Tags between the positions of ``quoted`` are text."""

    def tags(pattern: re.Pattern[str], start: int = 0) -> list[re.Match[str]]:
        return [
            one
            for one in pattern.finditer(text, start)
            if not any(low <= one.start() < high for low, high in quoted)
        ]

    closing = tags(_CLOSING)
    start = closing[-1].end() if closing else 0
    opening = tags(_OPENING, start)
    return text[start : opening[0].start() if opening else None]


def is_unfinished(text: str) -> bool:
    """Whether reasoning begins and does not end."""
    closing = [*_CLOSING.finditer(text)]
    return bool(_OPENING.search(text, closing[-1].end() if closing else 0))


def after_tags(text: str, pairs: Iterable[tuple[str, str]]) -> str:
    """The text after the last closing tag, without whitespace in front of it;
    unchanged without such a tag."""
    for _, closing in pairs:
        if closing in text:
            text = text.rpartition(closing)[2].lstrip()
    return text
