"""Errors that this package raises.

::

    EvalsError
    ├── OptionError              an option or a model spec is invalid (exit code 4)
    ├── TaskFileError            a file cannot be used; a collection error
    ├── DocumentError            one document cannot be prompted or scored
    │   └── GoldIndexError       its reference index is beyond its choices
    ├── ModelError               a model cannot be opened, or failed during inference
    ├── SpendCapError            a document was not sent because of a spend cap
    ├── MissingExtraError        a library of an extra is not installed
    └── StoreError               a results folder or file cannot be read or written

The message of an error describes the problem, where it is, and how to fix it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from pytest_evals.masking.registry import hidden

_MOST = 20
"""Known words that a message lists."""
_LEAST_IN_ANY_CASE = 0.8
"""Least similarity of words that differ in case as well."""

_QUANTITY = re.compile(r"\$?\s*(\d*\.?\d+)\s*([a-z%$]*)", re.IGNORECASE)
_UNITS = {"ms": 1e-3, "min": 60, "h": 3600, "%": 1e-2, "k": 1e3} | dict.fromkeys(
    ("", "$", "s", "sec", "seconds", "tokens", "times", "usd", "words", "x"), 1
)
"""Units of values, and their factors: times are in seconds."""


@dataclass(frozen=True, slots=True)
class Place:
    """A location in a file: its path and a line (0 if only the file is known)."""

    path: Path
    line: int = 0

    def __str__(self) -> str:
        """Return ``evals/arc.yaml:12``, relative to the working directory if the file
        is below it."""
        shown = self.path
        if shown.is_absolute():
            try:
                shown = shown.relative_to(Path.cwd())
            except (ValueError, OSError):
                shown = self.path
        return f"{shown}:{self.line}" if self.line else str(shown)


@dataclass(frozen=True, slots=True)
class Problem:
    """One problem in a file. ``unreachable``: there was no network or no access."""

    message: str
    where: Place
    fix: str = ""
    unreachable: bool = False

    def __str__(self) -> str:
        """Return the location and the problem, and the fix on a second line."""
        text = f"{self.where}: {self.message}"
        return f"{text}\n  fix: {self.fix}" if self.fix else text


class EvalsError(Exception):
    """Base class of all errors of this package. Messages have secrets masked."""

    def __init__(self, *args: object) -> None:
        """Mask known secrets in the arguments."""
        shown = (hidden(one) if isinstance(one, str) else one for one in args)
        super().__init__(*shown)


class OptionError(EvalsError):
    """An option, an ini value or a model spec is invalid."""


class TaskFileError(EvalsError):
    """A file cannot be used; ``problems`` lists all its problems."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(
            sorted(problems, key=lambda p: (str(p.where.path), p.where.line))
        )
        super().__init__("\n".join(str(problem) for problem in self.problems))

    @property
    def is_unreachable(self) -> bool:
        """Whether the file may be correct: there was no network or no access."""
        return bool(self.problems) and all(p.unreachable for p in self.problems)


class DocumentError(EvalsError):
    """A document cannot be prompted or scored."""


class GoldIndexError(DocumentError, IndexError):
    """The reference index is beyond the choices of its document."""


class ModelError(EvalsError):
    """A model cannot be opened, or failed during inference."""


class SpendCapError(EvalsError):
    """A request was not sent because a spend cap is reached."""


class MissingExtraError(EvalsError):
    """A library of an optional extra is not installed."""

    def __init__(self, feature: str, library: str, extra: str) -> None:
        """Build the message from the feature, the library and the extra."""
        super().__init__(
            f"{feature} needs {library}: pip install 'pytest-model-evals[{extra}]'"
        )


class StoreError(EvalsError):
    """A results folder or file cannot be read or written."""


def unknown_name(noun: str, word: object, words: Iterable[object]) -> str:
    """Return ``"unknown filter 'regx'; did you mean 'regex'?"``, or ``"unknown filter
    'x'; known: …"`` if no known word is similar."""
    return f"unknown {noun} {word!r}{suggestion(word, words)}"


def suggestion(word: object, words: Iterable[object]) -> str:
    """Return ``"; did you mean 'regex'?"`` if a known word is similar or begins alike,
    else ``"; known: …"``."""
    known = [str(one) for one in words]
    alike = [one for one in known if _begin_alike(str(word), one)]
    if near := nearest(str(word), known) or min(alike, key=len, default=""):
        return f"; did you mean {near!r}?"
    more = f" and {len(known) - _MOST} more" if len(known) > _MOST else ""
    return f"; known: {', '.join(known[:_MOST]) or 'none'}{more}"


def _begin_alike(word: str, other: str) -> bool:
    """Return whether one of two words begins with the other, as accuracy with acc."""
    short, long = sorted((word.lower(), other.lower()), key=len)
    return len(short) > 2 and long.startswith(short)


def did_you_mean(word: str, words: Iterable[str]) -> str:
    """Return ``"; did you mean 'regex'?"`` for a similar known word, or ""."""
    near = nearest(word, words)
    return f"; did you mean {near!r}?" if near else ""


def plural(n: int, noun: str) -> str:
    """Return ``"1 document"`` or ``"1,200 documents"``."""
    return f"{n:,} {noun}{'s' * (n != 1)}"


def abbreviated(text: str, most: int = 60) -> str:
    """Return the text, or its start and an ellipsis if it is longer than ``most``."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def number_fix(key: object, text: str) -> str:
    """Return ``"timeout: 0.5"`` for ``"500ms"``: a number instead of a text."""
    found = _QUANTITY.fullmatch(text.strip())
    factor = _UNITS.get(found[2].lower()) if found else None
    if found is None or factor is None:
        return f"write a number for {key}, without quotes and units"
    return f"{key}: {float(found[1]) * factor:.12g}"


def similar_file(path: Path) -> str:
    """Return ``"; did you mean 'rows.jsonl'?"`` if a file or folder next to a missing
    one has a similar name, else an empty string."""
    try:
        names = sorted(one.name for one in path.parent.iterdir())
    except OSError:
        return ""
    near = nearest(path.name, names)
    other = Path(near)
    # Names are similar if both parts are, unlike a.yaml and b.yaml, a.json and a.yaml.
    parts = ((path.stem, other.stem), (path.suffix, other.suffix))
    alike = all(one == two or nearest(one, [two], 0.5) for one, two in parts)
    return f"; did you mean {near!r}?" if near and alike else ""


def nearest(word: str, words: Iterable[str], cutoff: float = 0.6) -> str:
    """Return the most similar known word, in any case, else an empty string.
    ``cutoff``: least similarity, from 0 to 1."""
    from difflib import get_close_matches

    known = [*words]
    near = get_close_matches(word, known, n=1, cutoff=cutoff)
    if near:
        return near[0]
    lower = {one.lower(): one for one in known}
    near = get_close_matches(word.lower(), lower, n=1, cutoff=_LEAST_IN_ANY_CASE)
    return lower[near[0]] if near else ""
