"""Helpers of IFBench's checks: stripping punctuation, and libraries."""

from __future__ import annotations

import re
import string
import unicodedata
from functools import cache
from importlib import import_module
from typing import Any

from pytest_evals.errors import DocumentError, MissingExtraError

EDGES = string.punctuation + " "
"""Characters stripped from the ends of words and lines."""
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


def trimmed(text: str) -> str:
    """Strip ASCII punctuation and spaces."""
    return text.strip(EDGES)


def ascii_only(text: str) -> str:
    """Remove accents and other non-ASCII characters."""
    parts = unicodedata.normalize("NFKD", text)
    return parts.encode("ascii", "ignore").decode("ascii")


@cache
def library(name: str) -> Any:
    """Import a library."""
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        raise MissingExtraError("this instruction", name, "metrics") from error


def nltk_data(what: str, error: LookupError) -> DocumentError:
    """Return the error for missing NLTK data."""
    made = DocumentError(
        f"this instruction needs NLTK's {what}\n  fix: python -m nltk.downloader {what}"
    )
    made.__cause__ = error
    return made


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
