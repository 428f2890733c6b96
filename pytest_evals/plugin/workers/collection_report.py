"""A worker's report of its collection, beyond the ids of items.

Ids contain neither the groups (a group without gates has no id), nor the order of
tasks, which is that of results, nor the markers of gates. A worker sends the report
with its first document, so that it also reaches a controller on another machine.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from pytest_evals.run.suite import Suite


class GateMark(NamedTuple):
    """A ``skip`` or ``xfail`` mark whose condition is true, or a mark with an invalid
    condition.

    Args:
        reason: Why.
        skips: Whether it is a skip.
        runs: Whether the gate is judged.
        strict: Whether a passing gate fails.
        covers: Whether a failing gate is expected.
        fails: Whether the condition is invalid; ``reason`` is the error.
    """

    reason: str
    skips: bool = False
    runs: bool = False
    strict: bool = False
    covers: bool = True
    fails: bool = False


class CollectionReport(NamedTuple):
    """Ids of files with groups, names of tasks in the order of results, and the fields
    of the marks of gates by node id; the node ids of all gates; the model and machine
    that conditions of gates are compared with; and the names that several folders
    define, not all of which the controller may have read."""

    files: list[str]
    tasks: list[str]
    gate_marks: dict[str, tuple[Any, ...]]
    gates: list[str]
    machine: dict[str, tuple[str, ...]] = {}  # noqa: RUF012 - never changed
    ambiguous: list[str] = []  # noqa: RUF012 - never changed


def report_collection(
    known: Suite, gate_marks: Mapping[str, GateMark], gates: Iterable[str]
) -> CollectionReport:
    """Return the report of this worker. ``gates``: node ids of all gates."""
    groups = (run for run in known.groups.values() if not run.changed)
    files = dict.fromkeys(run.nodeid.partition("::")[0] for run in groups)
    marks = {nodeid: tuple(mark) for nodeid, mark in gate_marks.items()}
    return CollectionReport(
        list(files),
        list(known.tasks),
        marks,
        sorted(gates),
        ambiguous=sorted(known.ambiguous),
    )
