"""Sharding under pytest-xdist: a rule that every process computes alike from the ids of
the collected items and the rows of their tasks.

Each task is cut into one contiguous block a worker, so that documents which share shots
and passages stay together, and a worker can plan its own batches as soon as it has
collected. Blocks are cut by what documents cost, not by their number: a worker that got
all the long ones would let the others wait.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import NamedTuple

from pytest_evals.core.task import SizedRows
from pytest_evals.run.suite import Suite, TaskRun

FIXED = 200
"""What a document costs besides its own text, in bytes: what it shares with others is
read once, but it is rendered, answered and scored."""


class Shards(NamedTuple):
    """Positions of items: a list for each worker; the gates, which none of them runs;
    and the tests of the results, which one of them runs in the end. ``n_documents``
    leaves out other tests in the lists of the workers."""

    shards: list[list[int]]
    gates: list[int]
    late: list[int]
    n_documents: int


def shard_items(
    ids: Sequence[str], known: Suite, n: int, waves: Mapping[str, int] | None = None
) -> Shards:
    """Assign all items to ``n`` workers.

    Args:
        ids: Node ids of all items, in the order they run.
        known: The tasks and groups of the session.
        n: Number of workers, at least 1.
        waves: Node id of a task, up to the bracket, to the documents that are answered
            before the next wave is sent: each wave is assigned to all workers.

    Returns:
        Each position once. The costs of two shards differ by about one document. What
        follows the last document and gate is a test of the results: workers
        collect in that order.
    """
    gates = {f"{run.nodeid}::{gate.id}" for run in known.all() for gate in run.gates}
    tasks = {f"{run.nodeid}[": run for run in known.tasks.values()}
    groups: dict[tuple[str, int], list[int]] = {}
    counts: dict[str, int] = {}
    judged: list[int] = []
    late: list[int] = []
    is_behind = False
    for position, nodeid in enumerate(ids):
        start = nodeid.partition("[")[0] + "["
        is_behind |= nodeid in gates or start in tasks
        if nodeid in gates:
            judged.append(position)
        elif start in tasks:
            counts[start] = count = counts.get(start, -1) + 1
            wave = count // waves[start] if waves and start in waves else 0
            groups.setdefault((start, wave), []).append(position)
        elif is_behind:
            late.append(position)
        else:
            groups.setdefault(("", 0), []).append(position)
    costs = [FIXED] * len(ids)
    known_costs = {start: _costs(tasks[start]) for start in counts}
    for (start, _), positions in groups.items():
        cost_of = known_costs.get(start, {})
        for position in positions:
            costs[position] = cost_of.get(ids[position], FIXED)
    n_documents = sum(counts.values()) + len(counts)
    return Shards(_cut(groups, costs, n), judged, late, n_documents)


def _costs(run: TaskRun) -> dict[str, int]:
    """Node id → cost of each document of a task."""
    rows = run.task.rows
    sizes = rows.sizes() if isinstance(rows, SizedRows) else [0] * len(run.ids)
    return {
        f"{run.nodeid}[{id_}]": FIXED + size
        for id_, size in zip(run.ids, sizes, strict=True)
    }


def _cut(
    groups: Mapping[tuple[str, int], Sequence[int]], costs: Sequence[int], n: int
) -> list[list[int]]:
    dealt: list[list[int]] = [[] for _ in range(n)]
    loads = [0] * n
    for group in groups.values():
        ends = list(accumulate(_shares(loads, sum(costs[i] for i in group))))
        worker, done = 0, 0
        for position in group:
            # The middle of a document decides its worker.
            while worker < n - 1 and done + costs[position] / 2 >= ends[worker]:
                worker += 1
            dealt[worker].append(position)
            loads[worker] += costs[position]
            done += costs[position]
    return dealt


def _shares(loads: Sequence[int], cost: int) -> list[float]:
    """Return each worker's share of a task's cost, so that all workers reach the same
    total, except those that are above it already."""
    left = float(cost)
    level, rest = 0.0, sorted(loads)
    for n_below, load in enumerate(rest):
        above = (load - level) * n_below
        if above >= left:
            break
        left -= above
        level = load
    else:
        n_below = len(rest)
    level += left / max(1, n_below)
    return [max(0.0, level - load) for load in loads]
