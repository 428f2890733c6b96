"""Sharding of several models: a worker takes whole models, as many as the others; the
documents of the models that remain are divided among all workers. If models stop early,
all workers share the waves of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pytest_evals.plugin.workers.sharding import (
    FIXED,
    Costs,
    Group,
    Shards,
    cut_evenly,
    document_clusters,
    document_costs,
    in_clusters,
    shard_items,
)
from pytest_evals.run.suite import Suite


def shard_models(
    ids: Sequence[str],
    suites: Sequence[Suite],
    n: int,
    waves: Sequence[Mapping[str, int]] = (),
    recorded: Costs | None = None,
) -> Shards:
    """Assign all items to ``n`` workers. ``suites``, ``waves``: those of each model;
    for the others, see :func:`shard_items`, which assigns those of one model.

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
        for known, own, units in zip(suites, waves, models, strict=True):
            positions = sorted(place for unit in units for place in unit)
            own_ids = [ids[position] for position in positions]
            found = shard_items(own_ids, known, n, own, recorded)
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
        by_id = document_costs(run, (recorded or {}).get(run.task.name))
        names = {places[one]: one for one in by_id if one in places}
        for place, nodeid in names.items():
            costs[place] = by_id[nodeid]
        found += in_clusters(sorted(names), names, document_clusters(run, known))
    return found
