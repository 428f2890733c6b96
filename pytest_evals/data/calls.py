"""Calls into Python that a task file names: whatever goes wrong there is reported with
the user's own file and line."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pytest_evals.errors import DocumentError, Place, Problem

_OURS = str(Path(__file__).parents[1])


class FieldError(DocumentError):
    """A value of a document that its task file does not get right."""

    def __init__(self, what: str, where: Place, fix: str = "") -> None:
        """Say what is wrong and which line of the task file asked for it."""
        self.problem = Problem(what, where, fix)
        super().__init__(str(self.problem))


class ColumnError(FieldError):
    """A column that the dataset lacks, whichever document is looked at."""


def call(
    function: Callable[..., Any], arguments: tuple[Any, ...], key: str, place: Place
) -> Any:
    """The function's answer.

    Args:
        function: A function that the task file names.
        arguments: What it is called with.
        key: The key of the task file that names it.
        place: Where the key stands.

    Raises:
        FieldError: The function raised something, or wanted to end the process.
    """
    try:
        return function(*arguments)
    except (Exception, SystemExit) as error:
        raise FieldError(f"{key}: {fault_of(error, function)}", place) from error


def fault_of(error: BaseException, function: object = None) -> str:
    """``KeyError: 'question' (utils.py:12)``: an exception, and the innermost line of
    the function's own file that led to it, or of any file if that is not known."""
    text = f"{type(error).__name__}: {_words_of(error)}".rstrip(": ")
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if not frame.filename.startswith((_OURS, "<"))
    ]
    code = getattr(function, "__code__", None)
    own = [frame for frame in frames if code and frame.filename == code.co_filename]
    frame = next(reversed(own or frames), None)
    if frame is None:
        return text
    return f"{text} ({Place(Path(frame.filename), frame.lineno or 0)})"


_MOST_WORDS = 4000
"""Characters; what is longer is data that somebody has put into an exception."""


def _words_of(error: BaseException) -> str:
    """What an exception says, if it can."""
    try:
        words = str(error)
    except Exception as fault:  # noqa: BLE001 - a method of somebody else's class
        return f"(its text cannot be made: {type(fault).__name__})"
    return words if len(words) <= _MOST_WORDS else f"{words[: _MOST_WORDS - 1]}…"
