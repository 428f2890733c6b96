"""The scheduler of pytest-xdist for eval files: each worker gets its whole shard at
once, and gates are judged on the controller over what all workers sent.

Duck-typed after ``xdist.scheduler.protocol.Scheduling`` (xdist 3.8). A session without
eval documents is left to xdist's own scheduler.

A worker that crashes loses its current batch and the documents that it has not
reported. So no document is blamed at first: the shard runs again; if that makes no
progress, it runs one document at a time; then the first remaining document is reported
as the error.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_evals.errors import TaskFileError
from pytest_evals.plugin.checks.session import check_session, run_reference_models
from pytest_evals.plugin.execution.start import NAME, start
from pytest_evals.plugin.gates import report_gate
from pytest_evals.plugin.python_evals import has_evals, load_module
from pytest_evals.plugin.reporting.prompts import look
from pytest_evals.plugin.result_tests import HOST, write_records
from pytest_evals.plugin.session import EvalSession
from pytest_evals.plugin.settings.option_checks import with_place
from pytest_evals.plugin.settings.options import OPTIONS
from pytest_evals.plugin.suite.eval_files import is_eval_file
from pytest_evals.plugin.suite.task_index import names_of
from pytest_evals.run.batches import looked
from pytest_evals.store.history import read_run

if TYPE_CHECKING:
    from xdist.workermanage import WorkerController


class EvalScheduling:
    """Assigns shards if there are eval documents; otherwise uses xdist's scheduler."""

    def __init__(
        self, config: pytest.Config, default: Any, folder: Path, costs: str
    ) -> None:
        """Wrap a scheduler. ``costs``: the run whose costs cut the shards, if any."""
        self.config, self._folder, self._costs = config, folder, costs
        self._default = default
        self._session: EvalSession | None = None
        self._ids: Sequence[str] = ()
        self._collected: dict[WorkerController, list[str]] = {}
        self._left: dict[int, dict[int, None]] = {}
        """Slot → positions that are not done, in order."""
        self._unreported: dict[int, dict[int, None]] = {}
        """Slot → positions that are done and not reported yet."""
        self._reported: dict[int, set[int]] = {}
        """Slot → positions that are reported and not done yet."""
        self._gates: list[int] = []
        self._late: list[int] = []
        """Positions of tests of the results, until they may run."""
        self._judged = False
        self._nodes: dict[WorkerController, bool] = {}
        """Worker → whether it has collected and may be sent its items."""
        self._crashes: dict[int, int] = {}  # slot → crashes since its last progress

    @property
    def nodes(self) -> list[WorkerController]:
        """All workers that are alive."""
        return list(self._default.nodes if self._session is None else self._nodes)

    @property
    def collection_is_completed(self) -> bool:
        """Whether all workers have collected."""
        return self._session is not None or self._default.collection_is_completed

    @property
    def tests_finished(self) -> bool:
        """Whether all documents and gates are done."""
        if self._session is None:
            return bool(self._default.tests_finished)
        return self._judged and not self.has_pending

    @property
    def has_pending(self) -> bool:
        """Whether items remain."""
        if self._session is None:
            return bool(self._default.has_pending)
        return any(self._left.values())

    def add_node(self, node: WorkerController) -> None:
        """A worker has started."""
        if self._session is None:
            self._default.add_node(node)
        else:
            self._nodes[node] = False

    def add_node_collection(
        self, node: WorkerController, collection: Sequence[str]
    ) -> None:
        """A worker has collected."""
        if self._session is None:
            self._default.add_node_collection(node, collection)
            self._collected[node] = list(collection)
            return
        if list(collection) != list(self._ids):
            raise RuntimeError(
                f"the worker {node.gateway.id} that replaces a crashed one collected "
                f"other tests: {len(collection)} instead of {len(self._ids)}"
            )
        self._nodes[node] = True

    def schedule(self) -> None:
        """All workers, or a replacement, have collected."""
        if self._session is None and not self._take_over():
            self._default.schedule()
            return
        for node, ready in list(self._nodes.items()):
            if ready:
                self._nodes[node] = False
                self._send(node)
        self._judge_if_done()

    def _send(self, node: WorkerController) -> None:
        """Send a worker its remaining items. The worker that will run the tests of the
        results also gets the first of them and waits there, because xdist's workers
        start an item only when they have the next one."""
        waiting = self._late[:1] if slot_of(node) == HOST else []
        node.send_runtest_some(self.left_of(slot_of(node)) + waiting)
        if not waiting:
            node.shutdown()

    def _take_over(self) -> bool:
        """Assign shards if there are eval documents and all workers collected the same
        items."""
        nodes, (first, *others) = list(self._collected), self._collected.values()
        if any(collection != first for collection in others):
            return False  # xdist reports the differences
        self._ids = first
        session = self._read_tasks()
        if session is None:
            refuse_empty_selection(self.config)
            return False
        if self.config.getoption("dist") == "each":
            raise pytest.UsageError(
                "--dist=each runs every document on every worker\n"
                "  fix: leave it out, or use --dist=load"
            )
        session.select(self._ids)
        for one in session.all:
            check_session(one, self._ids)
        # The loop, which does it elsewhere, is that of pytest-xdist.
        self.config.pluginmanager.getplugin(NAME).begin()
        self._session = session
        for one in session.all:
            if one.stoppable is not None:
                one.stoppable.start(self._ids, self._folder)
        if self._costs:
            session.costs_run = read_run(Path(self._costs))
        shards = session.shards(self._ids, len(nodes))
        self._gates, self._late = shards.gates, shards.late
        self._left = {
            slot: dict.fromkeys(shard) for slot, shard in enumerate(shards.shards)
        }
        self._unreported = {slot: {} for slot in self._left}
        self._reported = {slot: set() for slot in self._left}
        self._nodes = dict.fromkeys(nodes, True)
        for one in session.all:
            places = [*one.suite.positions(self._ids)]
            one.run.inference.expect(len(places) if one.model else shards.n_documents)
            # Warnings about prompts come before workers send requests.
            look(one, ((task, r) for task, at in places for r in looked(task, at)))
            run_reference_models(one, self._ids, lambda _: self.config.hook)
        return True

    def _read_tasks(self) -> EvalSession | None:
        """Read the tasks of all collected files, as the workers did."""
        root, hook = self.config.rootpath, self.config.hook
        session = None
        names = dict.fromkeys(nodeid.partition("::")[0] for nodeid in self._ids)
        for name in names:
            path = Path(os.path.normpath(root / name))
            is_module = path.suffix == ".py" and has_evals(path)
            if is_eval_file(path, hook, self.config) or is_module:
                session = start(self.config)
                try:
                    if is_module:
                        load_module(path, self.config)
                    else:
                        for one in session.all:
                            one.load(path, hook, name)
                except TaskFileError as error:
                    # Workers have reported it with the file of a group's task.
                    raise pytest.UsageError(str(error)) from None
        if session is not None and not any([*one.suite.all()] for one in session.all):
            return None
        if session is not None and session.selection.lost:
            # A group without gates has no ids here; its worker has matched it.
            for name in names_of(self.config):
                session.selection.takes([name])
        return session

    def mark_test_complete(
        self, node: WorkerController, item_index: int, duration: float = 0
    ) -> None:
        """An item is done."""
        if self._session is None:
            self._default.mark_test_complete(node, item_index, duration)
            return
        slot = slot_of(node)
        self._left[slot].pop(item_index, None)
        if item_index in self._reported[slot]:
            self._reported[slot].discard(item_index)
            self._crashes.pop(slot, None)
        else:
            self._unreported[slot][item_index] = None
        self._judge_if_done()

    def mark_test_reported(self, node: WorkerController, item_index: int) -> None:
        """A worker has reported an item; batches of reports arrive after the items are
        done."""
        if self._session is None:
            return
        slot = slot_of(node)
        if item_index in self._unreported[slot]:
            del self._unreported[slot][item_index]
            self._crashes.pop(slot, None)
        else:
            self._reported[slot].add(item_index)

    def _judge_if_done(self) -> None:
        assert self._session is not None
        if self._judged or self.has_pending:
            return
        for position in self._gates:
            report_gate(self._session, self._ids[position])
        self._judged = True
        if self._late:
            self._release()

    def _release(self) -> None:
        """Send the tests that depend on results."""
        assert self._session is not None
        write_records(self._session, self._folder)
        late, self._late = self._late, []
        self._left[HOST] = dict.fromkeys(late)
        for node, ready in self._nodes.items():
            if slot_of(node) == HOST and not ready:
                node.send_runtest_some(late[1:])
                node.shutdown()

    def mark_test_pending(self, item: str) -> None:
        """Run an item again (for plugins that ask for it)."""
        self._default.mark_test_pending(item)

    def remove_pending_tests_from_node(
        self, node: WorkerController, indices: Sequence[int]
    ) -> None:
        """Called by xdist's work stealing only."""
        self._default.remove_pending_tests_from_node(node, indices)

    def remove_node(self, node: WorkerController) -> str | None:
        """A worker has ended. Return the node id of the item that crashes its worker;
        ``None`` while unknown."""
        if self._session is None:
            return self._default.remove_node(node)  # type: ignore[no-any-return]
        self._nodes.pop(node)
        slot = slot_of(node)
        unreported, self._unreported[slot] = self._unreported[slot], {}
        self._reported[slot].clear()
        if not hasattr(node, "workeroutput"):  # it crashed
            self._left[slot] = {**unreported, **self._left[slot]}
        left = self._left[slot]
        if not left:
            return None
        crashes = self._crashes[slot] = self._crashes.get(slot, 0) + 1
        if crashes < _BLAMED_AT:
            return None
        self._crashes.pop(slot)
        culprit = next(iter(left))
        left.pop(culprit)
        self._session.lose(self._ids[culprit], "its worker crashed each time it ran")
        self._judge_if_done()
        return self._ids[culprit]

    def left_of(self, slot: int) -> list[int]:
        """Return the remaining positions of a slot."""
        return list(self._left.get(slot, ()))

    def window_of(self, slot: int) -> int | None:
        """Return the window of a replacement's plan; ``None`` for the usual size."""
        return 1 if self._crashes.get(slot, 0) >= _BLAMED_AT - 1 else None

    def report_lost(self, session: pytest.Session) -> None:
        """Report items that no worker could run as errors, and judge the gates."""
        lost = [position for left in self._left.values() for position in left]
        if self._session is None or (self._judged and not lost):
            return
        lost += self._late
        self._late = []
        for position in lost:
            report = pytest.TestReport(
                nodeid=self._ids[position],
                location=(self._ids[position], None, self._ids[position]),
                keywords={},
                outcome="failed",
                longrepr=_LOST,
                when="setup",
            )
            self._session.lose(self._ids[position], _LOST)
            self.config.hook.pytest_runtest_logreport(report=report)
        self._left = {}
        self._judge_if_done()
        self._session.outcome.fail(session, _LOST, overrides=True)


_LOST = (
    "lost: the worker that should have run it crashed, and no other was started in its "
    "place"
)
_BLAMED_AT = 3
"""Crashes without progress after which the first document left is to blame."""


def refuse_empty_selection(config: pytest.Config) -> None:
    """Refuse ``--evals-tasks`` without any match."""
    patterns = config.stash[OPTIONS].tasks
    if patterns:
        names = ", ".join(map(repr, patterns))
        text = f"--evals-tasks: unknown task, group or tag {names}"
        raise with_place(config, pytest.UsageError(text))


def slot_of(node: WorkerController) -> int:
    """Return the slot of a worker."""
    return int(node.workerinput["evals"]["slot"])
