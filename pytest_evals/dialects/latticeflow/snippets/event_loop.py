"""Runs user code where an event loop is already running, as in a notebook.

asyncio allows one running loop per thread. While user code runs, its thread's loop is
hidden, so that the code can start its own loop in the same thread, where the time limit
applies.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager


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
