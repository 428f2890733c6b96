"""Calls Python functions of task files; errors are reported with the user's file and
line."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pytest_evals.data.hub import is_unreachable
from pytest_evals.errors import (
    DocumentError,
    EvalsError,
    Place,
    Problem,
    TaskFileError,
    abbreviated,
)

_PACKAGE = str(Path(__file__).parents[1])


class FieldError(DocumentError):
    """An error in a field of the task file, for one document. ``column``: the column
    whose value is missing, if that is the error."""

    column = ""

    def __init__(
        self, message: str, where: Place, fix: str = "", *, unreachable: bool = False
    ) -> None:
        self.problem = Problem(message, where, fix, unreachable)
        super().__init__(str(self.problem))


class ColumnError(FieldError):
    """A missing column, which affects every document of the dataset."""


def call(
    function: Callable[..., Any], arguments: tuple[Any, ...], key: str, place: Place
) -> Any:
    """Call a function and return its result. ``key``: the key of the task file that
    names it. Raises FieldError if the function failed, or tried to exit."""
    try:
        return function(*arguments)
    except (Exception, SystemExit) as error:
        message = f"{key}: {error_text(error, function)}"
        raise FieldError(message, place, unreachable=is_unreachable(error)) from error


def error_text(error: BaseException, function: object = None) -> str:
    """Return an exception as text, with the innermost line of the function's own file,
    or of any file: ``KeyError: 'question' (utils.py:12)``."""
    text = f"{type(error).__name__}: {_message(error)}".rstrip(": ")
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if not frame.filename.startswith((_PACKAGE, "<"))
    ]
    code = getattr(function, "__code__", None)
    inside = [frame for frame in frames if code and frame.filename == code.co_filename]
    frame = next(reversed(inside or frames), None)
    if frame is None:
        return text
    return f"{text} ({Place(Path(frame.filename), frame.lineno or 0)})"


_MAX_MESSAGE = 4000
"""Maximum number of characters; longer messages usually contain data."""


def _message(error: BaseException) -> str:
    try:
        message = str(error)
    except Exception as failure:  # noqa: BLE001 - a method of somebody else's class
        return f"(its message cannot be created: {type(failure).__name__})"
    return abbreviated(message, _MAX_MESSAGE)


@contextmanager
def collecting(
    problems: list[Problem], place: Place, owner: str = ""
) -> Iterator[None]:
    """Add the error of the block to problems. ``place``: where an error without a place
    is reported; ``owner``: the start of its text."""
    try:
        yield
    except TaskFileError as error:
        problems.extend(error.problems)
    except FieldError as error:
        problems.append(error.problem)
    except EvalsError as error:
        problems.append(Problem(f"{owner}{error}", place))
