"""Add the documents of gates that are selected without them: a gate needs all of its
documents."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Generator, Iterable, Iterator, Sequence
from typing import cast

import pytest

from pytest_evals.plugin.documents import DocItem
from pytest_evals.plugin.gates import GateItem
from pytest_evals.plugin.nodes import TaskFile, file_node
from pytest_evals.plugin.result_tests import is_late
from pytest_evals.plugin.session import EvalSession, session_of


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
        for own in [_own(items, session)]
        for document in _lacking(session, _tasks_of(session, _gates(own)), own, own)
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
    _select_again(config, found)
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


def _select_again(config: pytest.Config, items: Sequence[pytest.Item]) -> None:
    """Remove items that run after all from the terminal's count of deselected items."""
    terminal = config.pluginmanager.getplugin("terminalreporter")
    counted = getattr(terminal, "stats", {}).get("deselected")
    if counted:
        running = set(map(id, items))
        counted[:] = [item for item in counted if id(item) not in running]


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
