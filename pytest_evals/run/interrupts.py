"""Ctrl-C while Python runs a callback whose exceptions it ignores."""

from __future__ import annotations

import _thread
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_AGAIN_S = 0.01
"""Seconds until an interrupt that Python has ignored is repeated."""


@contextmanager
def repeating_interrupts() -> Iterator[None]:
    """Interrupt again in the block: Python ignores the exception of a signal that
    arrives in a callback, such as that of a weak reference, or in ``__del__``."""
    previous = sys.unraisablehook

    def hook(error: sys.UnraisableHookArgs) -> None:
        if issubclass(error.exc_type, KeyboardInterrupt):
            threading.Timer(_AGAIN_S, interrupt_main).start()
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
