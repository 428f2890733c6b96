"""``evaluate()`` in a notebook: progress on one line, and a run next to the notebook's
event loop."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from importlib import import_module
from threading import get_ident
from typing import Any, TypeVar

from pytest_evals.core.threads import raise_in

_EVERY_S = 0.5
T = TypeVar("T")
Show = Callable[[str], None]


def progress(
    n_answered: Callable[[], int], n_documents: int, show: Show | None = None
) -> Callable[[], None] | None:
    """Return a function to call after responses; ``None`` outside of notebooks."""
    replace_text = show or _notebook_line()
    if replace_text is None:
        return None
    due = time.monotonic() + _EVERY_S

    def tick() -> None:
        nonlocal due
        n = n_answered()
        if time.monotonic() >= due or n == n_documents:
            due = time.monotonic() + _EVERY_S
            replace_text(f"{n} responses, {n_documents} documents")

    return tick


def _notebook_line() -> Show | None:
    """Shows a line in the output of the cell; ``None`` outside of notebooks.

    Text on standard error has a red background there, and exported notebooks list each
    state of a line that is written again.
    """
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    if type(shell).__name__ != "ZMQInteractiveShell":
        return None
    display = import_module("IPython.display").display
    handles: list[Any] = []

    def show(text: str) -> None:
        data = {"text/plain": text}
        if handles:
            handles[0].update(data, raw=True)
        else:
            handles.append(display(data, raw=True, display_id=True))

    return show


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
