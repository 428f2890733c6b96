"""Exceptions that one thread raises in another."""

from __future__ import annotations

import ctypes


def raise_in(thread: int, kind: type[BaseException] | None) -> None:
    """Raise an exception in a thread, as soon as it runs Python code again; ``None``
    cancels an exception that was not raised yet. ``thread``: its
    ``threading.get_ident()``."""
    exception = None if kind is None else ctypes.py_object(kind)
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), exception)
