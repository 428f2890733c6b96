"""Run a suite with a profiler that counts calls between modules of the package.

    python tests/tools/crossings.py OUT.json pytest [arguments of pytest]
    python tests/tools/crossings.py OUT.json evaluate TASK_FILE MODEL

Writes JSON: ``calls``, the calls of the whole run; ``gate``, those of the first gate
that pytest judges; ``modules``, all modules loaded at the end. Calls are lists
``[caller, callee, function, number]``. The caller is the nearest frame of the package,
also for calls through pytest, pluggy or jinja2. Constructors of data classes count.
"""

from __future__ import annotations

import json
import sys
import threading
from collections import Counter
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import pytest

OURS = "pytest_evals."
Call = tuple[str, str, str]


class Crossings:
    """Calls between modules: a profiler and a pytest plugin."""

    def __init__(self) -> None:
        self.calls: Counter[Call] = Counter()
        self.gate: Counter[Call] = Counter()
        self._starts: dict[CodeType, int] = {}
        self._in_gate = False

    def profile(self, frame: FrameType, event: str, _: Any) -> None:
        """Count the call of a function, but not the resumption of a generator."""
        if event != "call" or not _is_ours(frame):
            return
        callee, caller = frame.f_globals["__name__"], _caller(frame)
        start = self._starts.setdefault(frame.f_code, frame.f_lasti)
        if frame.f_lasti != start or caller == callee:
            return
        call = (caller, callee, frame.f_code.co_qualname)
        self.calls[call] += 1
        if self._in_gate:
            self.gate[call] += 1

    # Not the protocol: with another plugin there, documents take pytest's loop.
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """Mark the calls that belong to the first gate."""
        self._in_gate = "Gate" in type(item).__name__ and not self.gate

    def pytest_runtest_logfinish(self) -> None:
        """Mark their end."""
        self._in_gate = False


def _is_ours(frame: FrameType) -> bool:
    name = frame.f_globals.get("__name__", "")
    return name.startswith(OURS) and frame.f_code.co_name != "<module>"


def _caller(frame: FrameType) -> str:
    """The nearest module of the package above a frame, or an empty string."""
    above = frame.f_back
    while above is not None and not _is_ours(above):
        above = above.f_back
    return above.f_globals["__name__"] if above is not None else ""


def _run(crossings: Crossings, how: str, arguments: list[str]) -> int:
    import pytest_evals

    threading.setprofile(crossings.profile)
    sys.setprofile(crossings.profile)
    try:
        if how == "pytest":
            return int(pytest.main(arguments, plugins=[crossings]))
        pytest_evals.evaluate(arguments[0], model=arguments[1])
        return 0
    finally:
        sys.setprofile(None)


def _listed(calls: Counter[Call]) -> list[list[Any]]:
    return [[*call, number] for call, number in sorted(calls.items())]


if __name__ == "__main__":
    crossings = Crossings()
    status = _run(crossings, sys.argv[2], sys.argv[3:])
    report = {
        "calls": _listed(crossings.calls),
        "gate": _listed(crossings.gate),
        "modules": sorted(sys.modules),
    }
    Path(sys.argv[1]).write_text(json.dumps(report))
    sys.exit(status)
