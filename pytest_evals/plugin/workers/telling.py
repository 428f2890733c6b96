"""What a worker of pytest-xdist tells the controller of its collection, beyond ids.

Ids do not say which groups there are, since a group without gates has none; nor in
which order tasks were found, which is that of results. A worker says it with the first
document that it sends, so that it reaches a controller on another machine as well.
"""

from __future__ import annotations

from typing import NamedTuple

from pytest_evals.plugin.suite.runs import Runs

__all__ = ["Told", "told"]


class Told(NamedTuple):
    """Ids of files with groups, and names of tasks in the order of results."""

    files: list[str]
    tasks: list[str]


def told(known: Runs) -> Told:
    """What this worker has collected."""
    groups = (run for run in known.groups.values() if not run.changed)
    files = dict.fromkeys(run.nodeid.partition("::")[0] for run in groups)
    return Told(list(files), list(known.tasks))
