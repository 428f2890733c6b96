"""How long somebody else's code may run.

In the main thread a timer of the operating system interrupts it, even while it sleeps.
In any other thread, and where there is no such timer, the interpreter does, as soon as
the code is back from whatever is not Python.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from pytest_evals.core.threads import raise_in

_AGAIN_S = 0.2
"""Seconds until code is interrupted once more that has caught the first one."""


class OvertimeError(BaseException):
    """The time is over. No ``Exception``, which the code might catch."""


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """A block that may take so many seconds; without limit for 0.

    Raises:
        OvertimeError: Inside the block, wherever the code is when the time is over.
    """
    if seconds <= 0:
        yield
    elif threading.current_thread() is threading.main_thread() and _HAS_TIMER:
        with _by_timer(seconds):
            yield
    else:
        with _by_watch(seconds):
            yield


_HAS_TIMER = hasattr(signal, "setitimer")


@contextmanager
def _by_timer(seconds: float) -> Iterator[None]:
    """A timer that somebody else has set, pytest-timeout say, goes on behind the block;
    if it ends earlier than ours, it is the only one."""
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
            raise_in(thread, None)  # one that has not arrived yet
