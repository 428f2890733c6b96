"""A worker's report of its collection, beyond the ids of items.

Ids do not say which groups there are, since a group without gates has none; nor in
which order tasks were found, which is that of results; nor what markers gates have. A
worker says it with the first document that it sends, so that it reaches a controller on
another machine as well.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from pytest_evals.run.suite import Suite


class Excuse(NamedTuple):
    """A ``skip``, or an ``xfail``, whose conditions hold; or a condition that cannot be
    understood.

    Args:
        reason: Why.
        skips: Whether it is a skip.
        runs: Whether the gate is judged.
        strict: Whether it must not be green.
        covers: Whether it may be red.
        fails: Whether it is an error by its condition, and ``reason`` says which.
    """

    reason: str
    skips: bool = False
    runs: bool = False
    strict: bool = False
    covers: bool = True
    fails: bool = False


class CollectionReport(NamedTuple):
    """Ids of files with groups, names of tasks in the order of results, and the fields
    of gates' excuses by node id; and the model and machine that conditions of gates
    are compared with."""

    files: list[str]
    tasks: list[str]
    excuses: dict[str, tuple[Any, ...]]
    machine: dict[str, tuple[str, ...]] = {}  # noqa: RUF012 - never changed


def report_collection(known: Suite, excuses: Mapping[str, Excuse]) -> CollectionReport:
    """What this worker has collected."""
    groups = (run for run in known.groups.values() if not run.changed)
    files = dict.fromkeys(run.nodeid.partition("::")[0] for run in groups)
    said = {nodeid: tuple(excuse) for nodeid, excuse in excuses.items()}
    return CollectionReport(list(files), list(known.tasks), said)
