"""Skip and xfail marks of gates for a controller of pytest-xdist: workers have the
items and report their marks."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from _pytest.skipping import evaluate_skip_marks, evaluate_xfail_marks

from pytest_evals.plugin.messages import GateFailed
from pytest_evals.plugin.nodes import GateItem
from pytest_evals.plugin.workers.collection_report import GateMark


def gate_marks_of(items: Iterable[pytest.Item]) -> dict[str, GateMark]:
    """Return the mark of each gate that has one, by node id."""
    gates = (item for item in items if isinstance(item, GateItem))
    found = ((gate.nodeid, _mark_of(gate)) for gate in gates)
    return {nodeid: mark for nodeid, mark in found if mark is not None}


def _mark_of(gate: GateItem) -> GateMark | None:
    """Evaluate the marks as ``_pytest.skipping``: an invalid condition is an error."""
    try:
        skip = evaluate_skip_marks(gate)
        if skip is not None:
            return GateMark(skip.reason, skips=True)
        ignored = gate.config.getoption("runxfail", False)
        xfail = None if ignored else evaluate_xfail_marks(gate)
    except pytest.fail.Exception as error:
        return GateMark(str(error), runs=False, fails=True)
    if xfail is None:
        return None
    return GateMark(
        xfail.reason,
        runs=xfail.run,
        strict=xfail.strict,
        covers=_covers(xfail.raises),
    )


def _covers(raises: object) -> bool:
    """Whether ``xfail`` covers a failed gate; its message is not known here, so
    ``raises`` with a pattern does not match."""
    if raises is None:
        return True
    if isinstance(raises, type | tuple):
        return issubclass(GateFailed, raises)
    matches = getattr(raises, "matches", None)  # pytest.RaisesExc, pytest.RaisesGroup
    failed = GateFailed.__new__(GateFailed)  # without a verdict, as none is known
    return matches is not None and bool(matches(failed))
