"""Every error that is raised on purpose.

EvalsError
├── OptionError         an option or a model spec with a bad value; pytest ends with
exit code 4 ├── TaskFileError       a file that cannot be used, with all its problems at
once; a collection error │   └── UnreachableError    a dataset that could not be looked
for: no network, no access ├── DocumentError       one document that cannot be asked or
scored; all others go on ├── ModelError          a model that cannot be opened, or that
broke while it answered ├── MissingExtraError   a library that comes with an extra which
is not installed └── StoreError          a results folder or file that cannot be read or
written

The text of an error says what is wrong, where, and how to fix it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from pytest_evals.masking.known import hidden


@dataclass(frozen=True, slots=True)
class Place:
    """Where something was written: a file and a line (0 when only the file is
    known)."""

    path: Path
    line: int = 0

    def __str__(self) -> str:
        """The place as ``evals/arc.yaml:12``, relative to the working directory if it
        lies below it."""
        shown = self.path
        if shown.is_absolute():
            try:
                shown = shown.relative_to(Path.cwd())
            except (ValueError, OSError):
                shown = self.path
        return f"{shown}:{self.line}" if self.line else str(shown)


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong in a file."""

    what: str
    where: Place
    fix: str = ""

    def __str__(self) -> str:
        """Two lines: place and fault, then the way to mend it."""
        text = f"{self.where}: {self.what}"
        return f"{text}\n  fix: {self.fix}" if self.fix else text


class EvalsError(Exception):
    """The root of all errors of this package. Known secrets are masked in its text."""

    def __init__(self, *args: object) -> None:
        """Keep the text, which comes first."""
        shown = (hidden(one) if isinstance(one, str) else one for one in args)
        super().__init__(*shown)


class OptionError(EvalsError):
    """An option, an ini value or a model spec that means nothing."""


class TaskFileError(EvalsError):
    """A file that cannot be used; ``problems`` holds everything found in it."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        """Keep the problems in the order of their lines."""
        self.problems = tuple(
            sorted(problems, key=lambda p: (str(p.where.path), p.where.line))
        )
        super().__init__("\n".join(str(problem) for problem in self.problems))


class UnreachableError(TaskFileError):
    """A dataset that could not be looked for; whether it exists is not known."""


class DocumentError(EvalsError):
    """One document that cannot be asked or scored."""


class GoldIndexError(DocumentError, IndexError):
    """A gold index beyond the choices of its document."""


class ModelError(EvalsError):
    """A model that cannot be opened, or that broke while it answered."""


class MissingExtraError(EvalsError):
    """A library of an extra is not installed."""

    def __init__(self, what: str, library: str, extra: str) -> None:
        """Say what needs which library, and how to get it."""
        super().__init__(
            f"{what} needs {library}: pip install 'pytest-model-evals[{extra}]'"
        )


class StoreError(EvalsError):
    """A results folder or file that cannot be read or written."""


def did_you_mean(word: str, known: Sequence[str]) -> str:
    """``"; did you mean 'regex'?"`` when a known word is near, else an empty string."""
    near = nearest(word, known)
    return f"; did you mean {near!r}?" if near else ""


def nearest(word: str, known: Sequence[str]) -> str:
    """The known word that is near, else an empty string."""
    from difflib import get_close_matches

    return next(iter(get_close_matches(word, known, n=1)), "")
