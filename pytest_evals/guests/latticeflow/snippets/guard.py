"""Isolates user code: every failure becomes an error of one document, the time is
limited, and neither session nor process can be ended."""

from __future__ import annotations

import asyncio
import opcode
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from types import FrameType, TracebackType
from typing import NoReturn, cast

from pytest_evals.core.threads import raise_in
from pytest_evals.data.calls import FieldError, error_text
from pytest_evals.errors import Place

_GUARDED = ContextVar("_GUARDED", default=0)
"""Process id while code is guarded, else 0; a child process may exit."""
_exit = os._exit
_AGAIN_S = 0.2
"""Seconds until code is interrupted again that has caught the exception."""


@contextmanager
def guarded(what: str, place: Place, seconds: float) -> Iterator[None]:
    """Run user code, which starts at a place, in a block. Any exception, and the time
    limit, becomes a ``DocumentError`` with the line of this file that is to blame.
    Ctrl-C is not converted."""
    try:
        with no_running_loop(), _no_exit(), time_limit(seconds):
            yield
    except FieldError:
        raise
    except OvertimeError as error:
        late = TimeoutError(f"not finished after {seconds:g} s")
        text = error_text(late.with_traceback(error.__traceback__), _code_in(place))
        raise FieldError(f"{what}: {text}", place) from None
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt) and not _is_raised(error, place):
            raise
        text = error_text(error, _code_in(place))
        raise FieldError(f"{what}: {text}", place) from error


def _is_raised(error: BaseException, place: Place) -> bool:
    """Return whether a statement of this file raised the error, not Ctrl-C."""
    last: TracebackType | None = error.__traceback__
    while last is not None and last.tb_next is not None:
        last = last.tb_next
    if last is None or last.tb_frame.f_code.co_filename != str(place.path):
        return False
    instruction = last.tb_frame.f_code.co_code[last.tb_lasti]
    return opcode.opname[instruction] == "RAISE_VARARGS"


@lru_cache(maxsize=64)
def _code_in(place: Place) -> Callable[[], object]:
    """Return a function whose code belongs to a file."""
    code = compile("lambda: None", str(place.path), "eval")
    return cast("Callable[[], object]", eval(code, {}))


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


# In the main thread a system timer interrupts the code, even during a sleep. In other
# threads, and on systems without such a timer, a watcher thread raises the exception as
# soon as the code executes Python bytecode again.
class OvertimeError(BaseException):
    """The time limit was exceeded; not an ``Exception``, which the code might catch."""


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Raise :class:`OvertimeError` inside the block after that time; 0 for no limit."""
    if seconds <= 0:
        yield
        return
    in_main = threading.current_thread() is threading.main_thread()
    limit = _by_timer if in_main and hasattr(signal, "setitimer") else _by_watch
    with limit(seconds):
        yield


@contextmanager
def _by_timer(seconds: float) -> Iterator[None]:
    """Use the system timer. A timer that is already set, for example by pytest-timeout,
    is restored after the block; if it expires earlier, it is the only one."""
    left, _ = signal.getitimer(signal.ITIMER_REAL)
    if 0 < left <= seconds:
        yield
        return
    start = time.monotonic()
    before = signal.signal(signal.SIGALRM, _interrupt)
    _, interval = signal.setitimer(signal.ITIMER_REAL, seconds, _AGAIN_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        if left:
            rest = max(left - (time.monotonic() - start), 1e-3)
            signal.setitimer(signal.ITIMER_REAL, rest, interval)


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise OvertimeError


@contextmanager
def _by_watch(seconds: float) -> Iterator[None]:
    thread = threading.get_ident()
    over = threading.Event()
    lock = threading.Lock()

    def watch() -> None:
        wait = seconds
        while not over.wait(wait):
            with lock:
                if not over.is_set():
                    raise_in(thread, OvertimeError)
            wait = _AGAIN_S

    watcher = threading.Thread(target=watch, name="evals-time-limit", daemon=True)
    watcher.start()
    try:
        yield
    finally:
        with lock:
            over.set()
            raise_in(thread, None)  # cancel an exception that is still pending


# asyncio allows one running loop per thread. While user code runs, its thread's loop is
# hidden, so that the code can start its own loop in the same thread, where the time
# limit applies.
@contextmanager
def no_running_loop() -> Iterator[None]:
    """Hide the running event loop inside the block; the outer loop is suspended."""
    loop = asyncio._get_running_loop()
    if loop is None:
        yield
        return
    task = asyncio.current_task(loop)
    if task is not None:
        asyncio.tasks._leave_task(loop, task)
    asyncio._set_running_loop(None)
    try:
        yield
    finally:
        asyncio._set_running_loop(loop)
        if task is not None:
            asyncio.tasks._enter_task(loop, task)
