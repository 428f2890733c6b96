"""``os._exit`` while somebody else's code runs: it would end the process without a
word, and maybe with 0, as if all were well."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import NoReturn

__all__ = ["no_end"]

_GUARDED = ContextVar("_GUARDED", default=0)
"""Id of the process whose code is guarded, 0 outside: a child may end as it likes."""
_exit = os._exit


@contextmanager
def no_end() -> Iterator[None]:
    """A block in which ``os._exit`` raises ``SystemExit``, as ``sys.exit`` does."""
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
