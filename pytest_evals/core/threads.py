"""Exceptions that one thread raises in another."""

from __future__ import annotations

import ctypes


def raise_in(thread: int, kind: type[BaseException] | None) -> None:
    """Raise an exception in a thread, as soon as it is back from whatever is not
    Python; ``None`` takes back one that has not arrived.

    Args:
        thread: Its ``threading.get_ident()``.
        kind: What is raised, without arguments.
    """
    given = None if kind is None else ctypes.py_object(kind)
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), given)
