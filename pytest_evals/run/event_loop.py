"""Run work in a separate thread if an event loop is running, as in notebooks: the work
may start its own event loops."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from threading import get_ident
from typing import TypeVar

from pytest_evals.core.threads import raise_in

T = TypeVar("T")


def in_own_thread(work: Callable[[], T]) -> T:
    """Return the result of ``work``, from this thread or another one.

    Raises:
        BaseException: Any exception of ``work``. Ctrl-C is passed on to the thread,
            which is joined.
    """
    if not _in_event_loop():
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


def _in_event_loop() -> bool:
    """Whether an event loop is running in this thread.

    A separate function, so that ``work`` does not run inside the ``except`` block,
    which would chain each of its errors to "no running event loop".
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
