"""Isolates user code: every failure becomes an error of one document, the time is
limited, and neither session nor process can be ended."""

from __future__ import annotations

import opcode
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from pathlib import Path
from types import CodeType, TracebackType
from typing import NoReturn, cast

from pytest_evals.data.calls import FieldError, error_text
from pytest_evals.dialects.latticeflow.snippets.event_loop import no_running_loop
from pytest_evals.dialects.latticeflow.snippets.time_limit import (
    OvertimeError,
    time_limit,
)
from pytest_evals.errors import Place

_GUARDED = ContextVar("_GUARDED", default=0)
"""Process id while code is guarded, else 0; a child process may exit."""
_exit = os._exit


@contextmanager
def guarded(what: str, place: Place, seconds: float) -> Iterator[None]:
    """Run user code in a block.

    Args:
        what: Name of the code in messages.
        place: Start of the code. An error inside a library is reported at the line of
            this file that called the library.
        seconds: Time limit.

    Raises:
        DocumentError: In place of any exception, or because of the time limit.
        KeyboardInterrupt: Ctrl-C was pressed.
    """
    try:
        with no_running_loop(), _no_exit(), time_limit(seconds):
            yield
    except FieldError:
        raise
    except OvertimeError as error:
        timeout = TimeoutError(f"not finished after {seconds:g} s")
        timeout.__traceback__ = error.__traceback__
        raise FieldError(
            f"{what}: {error_text(timeout, _code_in(place))}", place
        ) from None
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt) and not _is_raised(error, place):
            raise
        message = error_text(error, _code_in(place))
        raise FieldError(f"{what}: {message}", place) from error


def _is_raised(error: BaseException, place: Place) -> bool:
    """Return whether a statement of this file raised the error; Ctrl-C can occur
    anywhere."""
    last: TracebackType | None = error.__traceback__
    while last is not None and last.tb_next is not None:
        last = last.tb_next
    if last is None or last.tb_frame.f_code.co_filename != str(place.path):
        return False
    instruction = last.tb_frame.f_code.co_code[last.tb_lasti]
    return opcode.opname[instruction] == "RAISE_VARARGS"


def _code_in(place: Place) -> Callable[[], object]:
    """Return a function whose code belongs to a file."""
    return cast("Callable[[], object]", eval(_code_of(place.path), {}))


@lru_cache(maxsize=64)
def _code_of(path: Path) -> CodeType:
    return compile("lambda: None", str(path), "eval")


@contextmanager
def _no_exit() -> Iterator[None]:
    """Make ``os._exit`` raise ``SystemExit`` inside the block, like ``sys.exit``.
    Otherwise it would end the process without a message, possibly with status 0."""
    if os._exit is not _guarded_exit:
        os._exit = _guarded_exit
    token = _GUARDED.set(os.getpid())
    try:
        yield
    finally:
        _GUARDED.reset(token)


def _guarded_exit(status: int) -> NoReturn:
    if _GUARDED.get() == os.getpid():
        raise SystemExit(status)
    _exit(status)
