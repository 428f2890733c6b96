"""A block of somebody else's code, in which whatever goes wrong is one fault of one
document: it may take so long, and can end neither the session nor the process."""

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

from pytest_evals.data.calls import FieldError, fault_of
from pytest_evals.dialects.latticeflow.snippets.event_loop import no_running_loop
from pytest_evals.dialects.latticeflow.snippets.time_limit import (
    OvertimeError,
    time_limit,
)
from pytest_evals.errors import Place

_GUARDED = ContextVar("_GUARDED", default=0)
"""Id of the process whose code is guarded, 0 outside: a child may end as it likes."""
_exit = os._exit


@contextmanager
def guarded(what: str, place: Place, seconds: float) -> Iterator[None]:
    """A block of somebody else's code.

    Args:
        what: What it is called in messages.
        place: Where it begins. A fault inside a library is put where this file called
            the library.
        seconds: That it may take.

    Raises:
        DocumentError: Instead of any exception, or because the time is over.
        KeyboardInterrupt: Somebody has pressed Ctrl-C.
    """
    try:
        with no_running_loop(), _no_exit(), time_limit(seconds):
            yield
    except FieldError:
        raise
    except OvertimeError as error:
        late = TimeoutError(f"still at work after {seconds:g} s")
        late.__traceback__ = error.__traceback__
        raise FieldError(f"{what}: {fault_of(late, _code_in(place))}", place) from None
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt) and not _is_raised(error, place):
            raise
        told = fault_of(error, _code_in(place))
        raise FieldError(f"{what}: {told}", place) from error


def _is_raised(error: BaseException, place: Place) -> bool:
    """Whether a statement of this file raises it; Ctrl-C comes in between any two."""
    last: TracebackType | None = error.__traceback__
    while last is not None and last.tb_next is not None:
        last = last.tb_next
    if last is None or last.tb_frame.f_code.co_filename != str(place.path):
        return False
    done = last.tb_frame.f_code.co_code[last.tb_lasti]
    return opcode.opname[done] == "RAISE_VARARGS"


def _code_in(place: Place) -> Callable[[], object]:
    """Some function of a file."""
    return cast("Callable[[], object]", eval(_code_of(place.path), {}))


@lru_cache(maxsize=64)
def _code_of(path: Path) -> CodeType:
    return compile("lambda: None", str(path), "eval")


@contextmanager
def _no_exit() -> Iterator[None]:
    """A block in which ``os._exit`` raises ``SystemExit``, as ``sys.exit`` does. It
    would end the process without a message, and maybe with 0."""
    if os._exit is not _checked:
        os._exit = _checked
    token = _GUARDED.set(os.getpid())
    try:
        yield
    finally:
        _GUARDED.reset(token)


def _checked(status: int) -> NoReturn:
    if _GUARDED.get() == os.getpid():
        raise SystemExit(status)
    _exit(status)
