"""Somebody else's code where an event loop runs already, as in a notebook.

asyncio takes one loop a thread. For as long as the code runs, its thread seems to have
none; so that it may start one, in this very thread, where its time limit holds.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def no_running_loop() -> Iterator[None]:
    """A block in which no event loop seems to run; the outer one stands still."""
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
