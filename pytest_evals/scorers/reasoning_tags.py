"""Removal of reasoning from answers before scoring."""

from __future__ import annotations

from collections.abc import Iterable


def remove_reasoning_tags(text: str, tag_pairs: Iterable[tuple[str, str]]) -> str:
    """Remove the tags and the text between them.

    Unmatched tags and surrounding whitespace are kept, as in lighteval 0.13.0
    (``utils/utils.py``).
    """
    for opening, closing in tag_pairs:
        while (start := text.find(opening)) >= 0:
            end = text.find(closing, start + len(opening))
            if end < 0:
                break
            text = text[:start] + text[end + len(closing) :]
    return text
