"""What a worker of pytest-xdist tells the controller of its collection, beyond ids.

Ids do not say which groups there are, since a group without gates has none. A worker
writes them down before it sends its ids, beside the file by which it is stopped.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

from pytest_evals.plugin.runs import Runs
from pytest_evals.plugin.selection import Selection
from pytest_evals.plugin.workers import Orders

__all__ = ["Told", "tell", "told"]

_NAME = "collected-{slot}.json"


class Told(NamedTuple):
    """Ids of files with groups, and patterns of ``--evals-tasks`` that match."""

    files: list[str]
    patterns: list[str]


def tell(orders: Orders, known: Runs, selection: Selection) -> None:
    """Write down what this worker has collected."""
    groups = (run for run in known.groups.values() if not run.changed)
    files = list(dict.fromkeys(run.nodeid.partition("::")[0] for run in groups))
    place = Path(orders.stop).with_name(_NAME.format(slot=orders.slot))
    told = Told(files, sorted(selection.matched))
    if place.parent.is_dir():  # a worker on another machine has no such folder
        place.write_text(json.dumps(told), encoding="utf-8")


def told(folder: Path) -> Told:
    """What the workers have written; they all collect the same."""
    for place in sorted(folder.glob(_NAME.format(slot="*"))):
        files, patterns = json.loads(place.read_text(encoding="utf-8"))
        return Told(files, patterns)
    return Told([], [])
