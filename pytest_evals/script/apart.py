"""Work in a thread of its own where an event loop runs, as in every notebook: whatever
is run there may have loops of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from threading import get_ident
from typing import TypeVar

from pytest_evals.core.threads import raise_in

__all__ = ["apart"]

T = TypeVar("T")


def apart(work: Callable[[], T]) -> T:
    """What ``work`` returns, here or in a thread.

    Raises:
        BaseException: Whatever it raises. Ctrl-C reaches it, and its end is waited for.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return work()
    with ThreadPoolExecutor(1, "evals-run") as pool:
        thread = pool.submit(get_ident).result()
        future = pool.submit(copy_context().run, work)
        try:
            return future.result()
        except BaseException as error:
            if not future.done():
                raise_in(thread, type(error))
            raise
