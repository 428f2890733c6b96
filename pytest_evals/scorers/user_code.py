"""Calls into user code: exceptions become errors of this package.

The error contains the exception and the line of the user's file.
"""

from __future__ import annotations

import traceback
from pathlib import Path
from types import TracebackType

from pytest_evals.errors import DocumentError, EvalsError, Place

_OURS = str(Path(__file__).parent.parent)


class UserCode:
    """A ``with`` block around a call into user code.

    >>> with UserCode("metric 'rouge'"):
    ...     value = 1

    Raises:
        DocumentError: Or ``error``, for every exception in the block. Errors of this
            package keep their text, without exception and line.
    """

    __slots__ = ("_error", "_label")

    def __init__(self, label: str, error: type[EvalsError] = DocumentError) -> None:
        """``label`` begins the message and identifies the code."""
        self._label = label
        self._error = error

    def __enter__(self) -> None:
        """Enter the block."""

    def __exit__(
        self,
        kind: type[BaseException] | None,
        fault: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if isinstance(fault, Exception | SystemExit):
            raise self._error(user_fault(self._label, fault)) from fault


def user_fault(label: str, fault: BaseException) -> str:
    """The message for an exception in user code, see :class:`UserCode`."""
    text = str(fault)
    if isinstance(fault, EvalsError):
        return f"{label}: {text}"
    description = f"{type(fault).__name__}: {text}" if text else type(fault).__name__
    place = user_place(fault.__traceback__)
    return f"{label}: {description}{f' ({place})' if place else ''}"


def user_place(trace: TracebackType | None) -> Place | None:
    """The deepest line in the user's files, such as ``utils.py:12``. The user's files
    are in the folder of the first file outside this package and pluggy, or below it; so
    an error inside NumPy gets the line that called NumPy. Code without a file, such as
    ``<stdin>``, counts as one file."""
    frames = [
        (frame.f_code.co_filename, line)
        for frame, line in traceback.walk_tb(trace)
        if not frame.f_code.co_filename.startswith(_OURS)
        and frame.f_globals.get("__name__", "").partition(".")[0] != "pluggy"
    ]
    if not frames:
        return None
    first = frames[0][0]
    folder = first if first.startswith("<") else str(Path(first).parent)
    file, line = [(f, n) for f, n in frames if f.startswith(folder)][-1]
    return Place(Path(file), line)
