"""Errors that this package raises.

::

    EvalsError
    ├── OptionError              an option or a model spec is invalid (exit code 4)
    ├── TaskFileError            a file cannot be used; a collection error
    │   └── UnreachableError     a dataset could not be looked up
    ├── DocumentError            one document cannot be prompted or scored
    │   └── GoldIndexError       its reference index is beyond its choices
    ├── ModelError               a model cannot be opened, or failed during inference
    ├── MissingExtraError        a library of an extra is not installed
    └── StoreError               a results folder or file cannot be read or written

The message of an error describes the problem, where it is, and how to fix it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from pytest_evals.masking.registry import hidden


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
    """One problem in a file."""

    what: str
    where: Place
    fix: str = ""

    def __str__(self) -> str:
        """Return the location and the problem, and the fix on a second line."""
        text = f"{self.where}: {self.what}"
        return f"{text}\n  fix: {self.fix}" if self.fix else text


class EvalsError(Exception):
    """Base class of all errors of this package. Known secrets are masked in its
    message."""

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


class UnreachableError(TaskFileError):
    """A dataset could not be looked up (no network or no access); it may exist."""


class DocumentError(EvalsError):
    """A document cannot be prompted or scored."""


class GoldIndexError(DocumentError, IndexError):
    """The reference index is beyond the choices of its document."""


class ModelError(EvalsError):
    """A model cannot be opened, or failed during inference."""


class MissingExtraError(EvalsError):
    """A library of an optional extra is not installed."""

    def __init__(self, what: str, library: str, extra: str) -> None:
        """Build the message from the feature, the library and the extra."""
        super().__init__(
            f"{what} needs {library}: pip install 'pytest-model-evals[{extra}]'"
        )


class StoreError(EvalsError):
    """A results folder or file cannot be read or written."""


def did_you_mean(word: str, words: Sequence[str]) -> str:
    """Return ``"; did you mean 'regex'?"`` if a known word is similar, else an empty
    string."""
    near = nearest(word, words)
    return f"; did you mean {near!r}?" if near else ""


def nearest(word: str, words: Sequence[str]) -> str:
    """Return the most similar known word, else an empty string."""
    from difflib import get_close_matches

    return next(iter(get_close_matches(word, words, n=1)), "")
