"""``evaluate()`` in a notebook: progress on one line, and a run next to the notebook's
event loop."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from threading import get_ident
from typing import TextIO, TypeVar

from pytest_evals.core.threads import raise_in

_EVERY_S = 0.5
T = TypeVar("T")


def progress(n_documents: int, stream: TextIO | None = None) -> Callable[[], None]:
    """Return a function to call after each response; it writes nothing outside of
    notebooks.

    Args:
        n_documents: Number of documents of the run.
        stream: Where to write; by default standard error, in a notebook only.
    """
    if stream is None and not _in_notebook():
        return _nothing
    out = sys.stderr if stream is None else stream
    state = {"n": 0, "next": time.monotonic() + _EVERY_S}

    def tick() -> None:
        state["n"] += 1
        if time.monotonic() >= state["next"]:
            state["next"] = time.monotonic() + _EVERY_S
            out.write(f"\r{state['n']:.0f} responses, {n_documents} documents")
            out.flush()

    return tick


def _nothing() -> None:
    pass


def _in_notebook() -> bool:
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return type(shell).__name__ == "ZMQInteractiveShell"


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
