"""The collected items: each once, those of one model together, and the documents of
gates that are selected without them: a gate needs all of its documents."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Generator, Iterable, Iterator, Sequence
from typing import Any, cast

import pytest

from pytest_evals.plugin.documents import DocItem
from pytest_evals.plugin.gates import GateItem
from pytest_evals.plugin.nodes import TaskFile, file_node
from pytest_evals.plugin.result_tests import is_late
from pytest_evals.plugin.session import EvalSession, session_of
from pytest_evals.run.suite import Suite


def documents_of_named_gates(
    config: pytest.Config, items: Sequence[pytest.Item]
) -> list[DocItem]:
    """Return documents that were not collected although one of their gates was selected
    by its id. Other selections apply afterwards."""
    if _leaves_out(config):
        return []
    return [
        document
        for session in session_of(config).all
        for named in [_own(items, session)]
        for document in _lacking(
            session, _tasks_of(session, _gates(named)), named, named
        )
    ]


def _own(items: Sequence[pytest.Item], session: EvalSession) -> list[pytest.Item]:
    """Return the items without the documents and gates of other models."""
    if len(session.all) == 1:
        return [*items]
    return [
        item
        for item in items
        if not isinstance(item, DocItem | GateItem) or session.owns(item)
    ]


def _gates(items: Sequence[pytest.Item]) -> list[GateItem]:
    return [item for item in items if isinstance(item, GateItem)]


def documents_of_gates(
    config: pytest.Config, before: Sequence[pytest.Item], after: Sequence[pytest.Item]
) -> list[DocItem]:
    """Return documents that were deselected although one of their gates runs: those
    that ``--lf`` or ``--sw`` deselected, or all documents of a gate that is selected
    without any. A test of the results may use any document that ``--lf`` deselected."""
    found = [
        document
        for session in session_of(config).all
        for document in _of_gates(session, _own(before, session), _own(after, session))
    ]
    # The terminal's count of deselected items leaves out those that run after all.
    terminal = config.pluginmanager.getplugin("terminalreporter")
    counted = getattr(terminal, "stats", {}).get("deselected")
    if counted:
        running = set(map(id, found))
        counted[:] = [item for item in counted if id(item) not in running]
    return found


def _of_gates(
    session: EvalSession, before: Sequence[pytest.Item], after: Sequence[pytest.Item]
) -> list[DocItem]:
    """Return the documents of one model."""
    config, gates = session.config, _gates(after)
    option = config.option
    if _leaves_out(config) and not (option.keyword or option.markexpr):
        tasks = _tasks_of(session, gates)
        if any(map(is_late, after)):
            tasks.update(session.suite.tasks)
    elif session.options.only:
        return []
    else:
        running = {i.job.task.name for i in after if isinstance(i, DocItem)}
        alone = [
            gate
            for gate in gates
            if not session.suite.tasks_of(gate.gate.task) & running
        ]
        tasks = _tasks_of(session, alone)
    prefixes = tuple(config.getoption("deselect", None) or ())
    lacking = _lacking(session, tasks, before, after)
    return [item for item in lacking if not item.nodeid.startswith(prefixes)]


def _leaves_out(config: pytest.Config) -> bool:
    """Whether ``--lf`` or ``--sw`` deselects items."""
    lf, sw = config.getoption("lf", False), config.getoption("stepwise", False)
    return bool(lf or sw)


def _tasks_of(session: EvalSession, gates: Iterable[GateItem]) -> set[str]:
    return {name for item in gates for name in session.suite.tasks_of(item.gate.task)}


def _lacking(
    session: EvalSession,
    tasks: Collection[str],
    before: Sequence[pytest.Item],
    after: Sequence[pytest.Item],
) -> Iterator[DocItem]:
    """Return the documents of some tasks that are not selected; those that were not
    collected are created below their file."""
    counts = Counter(i.job.task.name for i in after if isinstance(i, DocItem))
    runs = [run for name, run in session.suite.tasks.items() if name in tasks]
    runs = [run for run in runs if counts[run.task.name] < len(run.ids)]
    if not runs:
        return
    kept = {item.nodeid for item in after if isinstance(item, DocItem)}
    collected = {item.nodeid: item for item in before if isinstance(item, DocItem)}
    for run in runs:
        lacking = [one for one in run.document_ids() if one not in kept]
        if all(one in collected for one in lacking):
            yield from (collected[one] for one in lacking)
            continue
        node = session.evals.get(run.nodeid) or file_node(run.path, after[0], session)
        for item in cast("TaskFile", node).documents(run):
            if item.nodeid in kept:
                continue
            if item.nodeid not in collected:
                item.ihook.pytest_itemcollected(item=item)
            yield collected.get(item.nodeid, item)


class LastFailed:
    """Keeps documents that a gate needs, as a pytest plugin of ``--lf``."""

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_make_collect_report(
        self, collector: pytest.Collector
    ) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
        """Collect all documents of a file with a failure; ``--lf`` omits those that did
        not fail before it is known whether a gate needs them."""
        report = yield
        if isinstance(collector, TaskFile) and report.passed:
            report.result[:] = collector.collected
        return report


def keep_failed(config: pytest.Config, skipped: Iterable[str]) -> None:
    """Keep skipped gates in pytest's list of failures if they were in it before: a skip
    is not a success."""
    plugin = config.pluginmanager.getplugin("lfplugin")
    cache = getattr(config, "cache", None)
    if plugin is None or cache is None:
        return
    before = cache.get("cache/lastfailed", {})
    for nodeid in skipped:
        if before.get(nodeid):
            plugin.lastfailed[nodeid] = True


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
