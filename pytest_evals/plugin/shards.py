"""Who runs what under pytest-xdist: a rule that every process computes alike from the
ids of the collected items.

Each task is cut into one contiguous block a worker, so that documents which share shots
and passages stay together, and a worker can plan its own batches as soon as it has
collected.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from pytest_evals.plugin.runs import Runs

__all__ = ["Dealt", "deal"]


class Dealt(NamedTuple):
    """Positions of items: a list for each worker, and the gates, which none of them
    runs."""

    shards: list[list[int]]
    gates: list[int]


def deal(ids: Sequence[str], known: Runs, n: int) -> Dealt:
    """Deal all items to ``n`` workers.

    Args:
        ids: Node ids of all items, in the order they run.
        known: The tasks and groups of the session.
        n: Number of workers, at least 1.

    Returns:
        Each position once. The sizes of shards differ by at most one.
    """
    gates = {f"{run.nodeid}::{gate.id}" for run in known.all() for gate in run.gates}
    tasks = {f"{run.nodeid}[" for run in known.tasks.values()}
    groups: dict[str, list[int]] = {}
    judged: list[int] = []
    for position, nodeid in enumerate(ids):
        if nodeid in gates:
            judged.append(position)
            continue
        start = nodeid.partition("[")[0] + "["
        groups.setdefault(start if start in tasks else "", []).append(position)
    return Dealt(_cut(groups, n), judged)


def _cut(groups: Mapping[str, Sequence[int]], n: int) -> list[list[int]]:
    dealt: list[list[int]] = [[] for _ in range(n)]
    for group in groups.values():
        # The longer blocks go to those who have least so far.
        rank = {
            w: r for r, w in enumerate(sorted(range(n), key=lambda w: len(dealt[w])))
        }
        start = 0
        for worker in range(n):
            size = len(group) // n + (rank[worker] < len(group) % n)
            dealt[worker].extend(group[start : start + size])
            start += size
    return dealt
