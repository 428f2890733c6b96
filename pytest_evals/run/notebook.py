"""Progress of ``evaluate()`` in a notebook: one line that counts responses."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import TextIO

_EVERY_S = 0.5


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
