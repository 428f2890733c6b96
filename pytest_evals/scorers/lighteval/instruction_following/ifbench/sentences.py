"""IFEval's sentence splitter, which IFBench uses (lighteval 0.13.0,
``tasks/tasks/ifeval``): full stops of abbreviations, numbers, acronyms and URLs do not
end sentences."""

from __future__ import annotations

import re

_POINT, _END = "\x00", "\x01"
"""Placeholders for a full stop within a sentence, and for the end of a sentence."""

_STARTERS = (
    r"(Mr|Mrs|Ms|Dr|Prof|Capt|Cpt|Lt|He\s|She\s|It\s|They\s|Their\s|Our\s|We\s|But\s"
    r"|However\s|That\s|This\s|Wherever)"
)
_LETTER = "([A-Za-z])"
_CORPORATE = "(Inc|Ltd|Jr|Sr|Co)"

_BEFORE = (
    (r"(Mr|St|Mrs|Ms|Dr)\.", rf"\1{_POINT}"),
    (r"\.(com|net|org|io|gov|edu|me)", rf"{_POINT}\1"),
    (r"([0-9])\.([0-9])", rf"\1{_POINT}\2"),
)
_AFTER = (
    (r"Ph\.D\.", f"Ph{_POINT}D{_POINT}"),
    (rf"\s{_LETTER}\. ", rf" \1{_POINT} "),
    (rf"([A-Z]\.[A-Z]\.(?:[A-Z]\.)?) {_STARTERS}", rf"\1{_END} \2"),
    (rf"{_LETTER}\.{_LETTER}\.{_LETTER}\.", rf"\1{_POINT}\2{_POINT}\3{_POINT}"),
    (rf"{_LETTER}\.{_LETTER}\.", rf"\1{_POINT}\2{_POINT}"),
    (rf" {_CORPORATE}\. {_STARTERS}", rf" \1{_END} \2"),
    (rf" {_CORPORATE}\.", rf" \1{_POINT}"),
    (rf" {_LETTER}\.", rf" \1{_POINT}"),
    # The final punctuation mark follows the quotation mark.
    (r"\.”", "”."),
    (r'\."', '".'),
    (r'!"', '"!'),
    (r'\?"', '"?'),
    (r"([.!?])", rf"\1{_END}"),
)
"""Pairs of pattern and replacement, applied in order."""


def sentences(text: str) -> list[str]:
    """Split a text into stripped sentences; empty ones are kept, except the last."""
    text = f" {text}  ".replace("\n", " ")
    for pattern, replacement in _BEFORE:
        text = re.sub(pattern, replacement, text)
    text = re.sub(r"\.{2,}", lambda dots: _POINT * len(dots[0]) + _END, text)
    for pattern, replacement in _AFTER:
        text = re.sub(pattern, replacement, text)
    parts = [part.strip() for part in text.replace(_POINT, ".").split(_END)]
    return parts[:-1] if not parts[-1] else parts
