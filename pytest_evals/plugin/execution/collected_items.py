"""The collected items: each once, and those of one model together."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pytest

from pytest_evals.plugin.documents import DocItem
from pytest_evals.plugin.gates import GateItem
from pytest_evals.plugin.session import EvalSession
from pytest_evals.run.suite import Suite


def sort_by_model(items: list[pytest.Item], models: Sequence[EvalSession]) -> None:
    """Sort the documents by model, so that one is loaded at a time; other items keep
    their places. The first documents of served models come first, so that the requests
    of all of them are in flight."""
    ranks = {one: n for n, one in enumerate(models)}
    places = [n for n, item in enumerate(items) if isinstance(item, DocItem)]
    documents: list[Any] = [items[n] for n in places]
    documents.sort(key=lambda item: ranks[item.parent.evals])
    served = {one for one in models if one.is_served}
    if len(served) > 1:
        firsts = {d.parent.evals: d for d in reversed(documents) if type(d) is DocItem}
        begin = {id(firsts[one]) for one in served if one in firsts}
        documents.sort(key=lambda item: id(item) not in begin)
    for place, document in zip(places, documents, strict=True):
        items[place] = document


def rename(items: Iterable[pytest.Item], suites: Sequence[Suite]) -> None:
    """Give documents and gates the names of their tasks, which files that were
    collected later may have changed."""
    if not any(known.ambiguous for known in suites):
        return
    for item in items:
        if isinstance(item, DocItem):
            item.job.task = item.parent.evals.suite.current(item.job.task)
        elif isinstance(item, GateItem):
            gates = (one for one in item.run.gates if one.id == item.gate.id)
            item.gate = next(gates, item.gate)


def deduplicate(items: list[pytest.Item], suites: Sequence[Suite]) -> None:
    """Keep each document and gate once, under the last definition of its name, and add
    the names of groups to the keywords of ``-k``."""
    if not any(known.groups for known in suites):
        return
    seen: set[str] = set()
    kept = []
    for item in items:
        if _is_current(item) and item.nodeid not in seen:
            kept.append(item)
            if isinstance(item, DocItem | GateItem):
                seen.add(item.nodeid)
    items[:] = kept
    around = _groups_of(suites[0])
    for item in kept:
        if isinstance(item, DocItem) and item.job.task.name in around:
            item.parent.group_names = around
        elif isinstance(item, GateItem) and item.gate.task in around:
            item.extra_keyword_matches |= around[item.gate.task]


def _groups_of(known: Suite) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for run in known.groups.values():
        for task in run.group.tasks():
            found.setdefault(task.name, set()).add(run.group.name)
    return found


def _is_current(item: pytest.Item) -> bool:
    if isinstance(item, DocItem):
        run = item.parent.evals.suite.tasks.get(item.job.task.name)
        return run is not None and run.task is item.job.task
    return not isinstance(item, GateItem) or item.evals.suite.holds(item.run)
