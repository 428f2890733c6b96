"""Sharding over the workers of pytest-xdist and over jobs (``--evals-shard``): a rule
that every process computes alike from the ids of the collected items and the rows of
their tasks.

Each task is cut into one contiguous block a worker, so that documents which share shots
and passages stay together, and a worker can plan its own batches as soon as it has
collected. Documents of one cluster of a gate are never separated. Blocks are cut by
what documents cost, not by their number: a worker that got all the long ones would let
the others wait.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import accumulate
from typing import NamedTuple

from pytest_evals.core.node_names import document_start
from pytest_evals.core.task import SizedRows
from pytest_evals.errors import DocumentError
from pytest_evals.gates.documents import labels_in
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


Costs = Mapping[str, Mapping[str, int]]
"""Name of a task → the cost of each of its documents in an earlier run, by id."""
Group = list[list[int]]
"""Positions of documents that are cut into contiguous blocks, by cluster."""


def shard_items(
    ids: Sequence[str],
    known: Suite,
    n: int,
    waves: Mapping[str, int] | None = None,
    recorded: Costs | None = None,
) -> Shards:
    """Assign all items to ``n`` workers.

    Args:
        ids: Node ids of all items, in the order they run.
        known: The tasks and groups of the session.
        n: Number of workers, at least 1.
        waves: Start of a task's node ids, see :func:`shard_start`, to the documents
            that are answered before the next wave is sent: each wave is assigned to all
            workers.
        recorded: Costs of an earlier run; documents of other tasks cost the size of
            their rows.

    Returns:
        Each position once. The costs of two shards differ by about one document, or
        one cluster. What follows the last document and gate is a test of the results:
        workers collect in that order.
    """
    gates = {run.gate_id(gate) for run in known.all() for gate in run.gates}
    tasks = {shard_start(run): run for run in known.tasks.values()}
    start_of = _starts(known)
    groups: dict[tuple[str, int], list[int]] = {}
    counts: dict[str, int] = {}
    judged: list[int] = []
    late: list[int] = []
    is_behind = False
    for position, nodeid in enumerate(ids):
        start = start_of(nodeid)
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
    known_costs = {start: document_costs(tasks[start], recorded) for start in counts}
    clusters = {start: document_clusters(tasks[start], known) for start in counts}
    units: list[Group] = []
    for (start, _), positions in groups.items():
        cost_of = known_costs.get(start, {})
        for position in positions:
            costs[position] = cost_of.get(ids[position], FIXED)
        units.append(in_clusters(positions, ids, clusters.get(start, {})))
    n_documents = sum(counts.values()) + len(counts)
    return Shards(cut_evenly(units, costs, n), judged, late, n_documents)


def shard_start(run: TaskRun) -> str:
    """What the node ids of a task's documents begin with."""
    return document_start(run.nodeid, run.label)


def _starts(known: Suite) -> Callable[[str], str]:
    """Return a function that returns the :func:`shard_start` of a document."""
    if not any(run.label for run in known.tasks.values()):
        return lambda nodeid: nodeid.partition("[")[0] + "["
    # The id of a document may begin with the name of another variant.
    starts = {
        nodeid: shard_start(run)
        for run in known.tasks.values()
        for nodeid in run.document_ids()
    }
    return lambda nodeid: starts.get(nodeid, "")


def document_costs(run: TaskRun, recorded: Costs | None) -> dict[str, int]:
    """Node id → cost of each document of a task. A document without a recorded cost
    costs the mean of the others."""
    rows, known = run.task.rows, (recorded or {}).get(run.task.name)
    if known:
        mean = sum(known.values()) // len(known)
        sizes: Sequence[int] = [known.get(id_, mean) for id_ in run.ids]
    else:
        sizes = rows.sizes() if isinstance(rows, SizedRows) else [0] * len(run.ids)
    ids = run.document_ids()
    return {id_: FIXED + size for id_, size in zip(ids, sizes, strict=True)}


def document_clusters(run: TaskRun, known: Suite) -> dict[str, tuple[str, ...]]:
    """Node id → the clusters of each document of a task whose gates name some."""
    if not any(gate.cluster for one in known.all() for gate in one.gates):
        return {}
    fields = sorted(known.required(run.task.name).fields)
    found = {}
    ids = run.document_ids()
    for id_, index in zip(ids, run.indices, strict=True) if fields else ():
        try:
            labels = labels_in(run.task.ask(index).doc, fields)
        except DocumentError:  # reported when it runs
            continue
        found[id_] = tuple(f"{k}={v}" for k, v in labels.items())
    return found


def in_clusters(
    positions: Sequence[int],
    ids: Sequence[str] | Mapping[int, str],
    clusters: Mapping[str, Sequence[str]],
) -> Group:
    """Return the positions with those of one cluster as one unit, in the place of its
    first document; a document that belongs to several clusters joins them."""
    units: dict[int, list[int]] = {}
    unit_of: dict[str, int] = {}
    for position in positions:
        members = clusters.get(ids[position], ())
        joined = sorted({unit_of[name] for name in members if name in unit_of})
        first = joined[0] if joined else position
        unit = units.setdefault(first, [])
        for other in joined[1:]:
            unit += units.pop(other)
            unit_of |= {k: first for k, at in unit_of.items() if at == other}
        unit.append(position)
        unit_of |= dict.fromkeys(members, first)
    return [sorted(unit) for unit in units.values()]


def cut_evenly(
    groups: Iterable[Group], costs: Sequence[int], n: int
) -> list[list[int]]:
    """Cut each group into one block for each of ``n`` workers, so that their total
    costs are equal."""
    dealt: list[list[int]] = [[] for _ in range(n)]
    loads = [0] * n
    for group in groups:
        sums = [sum(costs[i] for i in unit) for unit in group]
        ends = list(accumulate(_shares(loads, sum(sums))))
        worker, done = 0, 0
        for unit, cost in zip(group, sums, strict=True):
            # The middle of a unit decides its worker.
            while worker < n - 1 and done + cost / 2 >= ends[worker]:
                worker += 1
            dealt[worker] += unit
            loads[worker] += cost
            done += cost
    return [*map(sorted, dealt)]


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


def shard_models(
    ids: Sequence[str],
    suites: Sequence[Suite],
    n: int,
    waves: Sequence[Mapping[str, int]] = (),
    recorded: Costs | None = None,
) -> Shards:
    """Assign all items to ``n`` workers. ``suites``, ``waves``: those of each model;
    for the others, see :func:`shard_items`, which assigns those of one model.

    A worker takes whole models, as many as the others; the documents of the models that
    remain are divided among all workers. If models stop early, all workers share the
    waves of each.

    Returns:
        Each position once; the documents of whole models come first.
    """
    if len(suites) == 1:
        return shard_items(ids, suites[0], n, waves[0] if waves else None, recorded)
    places = {nodeid: place for place, nodeid in enumerate(ids)}
    gates = {
        places[nodeid]
        for known in suites
        for run in known.all()
        for nodeid in map(run.gate_id, run.gates)
        if nodeid in places
    }
    costs = [FIXED] * len(ids)
    models = [_documents(known, places, costs, recorded) for known in suites]
    documents = {place for one in models for unit in one for place in unit}
    others = [p for p in range(len(ids)) if p not in documents and p not in gates]
    first = min((*documents, *gates), default=0)
    before = [[place] for place in others if place < first]
    shards = cut_evenly([before], costs, n)
    if any(waves):
        for known, wave, units in zip(suites, waves, models, strict=True):
            positions = sorted(place for unit in units for place in unit)
            own_ids = [ids[position] for position in positions]
            found = shard_items(own_ids, known, n, wave, recorded)
            for shard, more in zip(shards, found.shards, strict=True):
                shard += [positions[i] for i in more]
        models = []
    models = [one for one in models if one]
    n_whole = len(models) - len(models) % n
    for number, units in enumerate(models[:n_whole]):
        shards[number % n] += [place for unit in units for place in unit]
    line = [unit for units in models[n_whole:] for unit in units]
    for shard, more in zip(shards, cut_evenly([line], costs, n), strict=True):
        shard += more
    late = [place for place in others if place >= first]
    return Shards(shards, sorted(gates), late, len(documents))


def _documents(
    known: Suite, places: Mapping[str, int], costs: list[int], recorded: Costs | None
) -> Group:
    """Positions of the documents of a model, by cluster; sets their costs."""
    found: Group = []
    for run in known.tasks.values():
        by_id = document_costs(run, recorded)
        names = {places[one]: one for one in by_id if one in places}
        for place, nodeid in names.items():
            costs[place] = by_id[nodeid]
        found += in_clusters(sorted(names), names, document_clusters(run, known))
    return found
