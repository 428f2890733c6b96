"""Exceptions that one thread raises in another, time limits of code, and
interrupts that are repeated."""

from __future__ import annotations

import _thread
import ctypes
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_AGAIN_S = 0.2  # seconds until code is interrupted again that has caught the exception


def raise_in(thread: int, kind: type[BaseException] | None) -> None:
    """Raise an exception in a thread, as soon as it runs Python code again; ``None``
    cancels an exception that was not raised yet. ``thread``: its
    ``threading.get_ident()``."""
    exception = None if kind is None else ctypes.py_object(kind)
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), exception)


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
    lock = threading.Lock()  # without it, the exception could come after the block

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


_REPEAT_S = 0.01  # seconds until an interrupt that Python has ignored is repeated


@contextmanager
def repeating_interrupts() -> Iterator[None]:
    """Interrupt again in the block: Python ignores the exception of a signal that
    arrives in a callback, such as that of a weak reference, or in ``__del__``."""
    previous = sys.unraisablehook

    def hook(error: sys.UnraisableHookArgs) -> None:
        if issubclass(error.exc_type, KeyboardInterrupt):
            threading.Timer(_REPEAT_S, interrupt_main).start()
        else:
            previous(error)

    sys.unraisablehook = hook
    try:
        yield
    finally:
        if sys.unraisablehook is hook:
            sys.unraisablehook = previous


def interrupt_main() -> None:
    """Raise ``KeyboardInterrupt`` in the main thread, even while it waits."""
    if hasattr(signal, "pthread_kill"):
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
    else:
        _thread.interrupt_main()
