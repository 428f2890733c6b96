"""The scheduler of pytest-xdist for eval files: each worker gets its whole shard at
once, and gates are judged on the controller over what all workers sent.

Duck-typed after ``xdist.scheduler.protocol.Scheduling`` (xdist 3.8). A session without
eval documents is left to xdist's own scheduler.

A worker that dies takes the batch that it was at with it, and the documents of which it
had not told yet. So nobody is blamed at first: its shard runs again; if that makes no
progress, again one document at a time; and then the first document that is left is the
guilty one.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_evals.errors import TaskFileError
from pytest_evals.plugin.checks.reference_models import run_reference_models
from pytest_evals.plugin.checks.session import check_session
from pytest_evals.plugin.controller.gate_reports import report_gate
from pytest_evals.plugin.execution.start import begin, start
from pytest_evals.plugin.python_evals import has_evals, load_module
from pytest_evals.plugin.reporting.prompt_checks import look
from pytest_evals.plugin.result_tests import HOST, hand_over
from pytest_evals.plugin.session import EvalSession
from pytest_evals.plugin.settings.options import OPTIONS
from pytest_evals.plugin.settings.refusals import with_place
from pytest_evals.plugin.suite.eval_files import is_eval_file
from pytest_evals.plugin.suite.library import names_of
from pytest_evals.plugin.workers.sharding import deal
from pytest_evals.run.plan import looked

if TYPE_CHECKING:
    from xdist.workermanage import WorkerController


class EvalScheduling:
    """Decides, when all workers have collected: xdist's scheduler, or shards."""

    def __init__(self, config: pytest.Config, default: Any, folder: Path) -> None:
        """Know xdist's own scheduler, and nothing yet of what will be collected.

        Args:
            config: pytest's configuration.
            default: xdist's own scheduler.
            folder: Where workers find what they are told by files.
        """
        self.config = config
        self._folder = folder
        self._default = default
        self._session: EvalSession | None = None
        self._ids: Sequence[str] = ()
        self._collected: dict[WorkerController, list[str]] = {}
        self._left: dict[int, dict[int, None]] = {}
        """Slot → positions that are not done, in order."""
        self._unheard: dict[int, dict[int, None]] = {}
        """Slot → positions that are done, of which its worker has not told yet."""
        self._heard: dict[int, set[int]] = {}
        """Slot → positions of which it has told, and that are not done yet."""
        self._gates: list[int] = []
        self._late: list[int] = []
        """Positions of tests of the results, until they may run."""
        self._judged = False
        self._nodes: dict[WorkerController, bool] = {}
        """Worker → whether it has collected and may be sent its items."""
        self._crashes: dict[int, int] = {}
        """Slot → crashes since its last progress."""

    @property
    def nodes(self) -> list[WorkerController]:
        """All workers that are alive."""
        if self._session is None:
            return list(self._default.nodes)
        return list(self._nodes)

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
        """Whether something is left to run."""
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
        """All workers have collected, or one that replaces another has."""
        if self._session is None and not self._take_over():
            self._default.schedule()
            return
        for node, ready in list(self._nodes.items()):
            if ready:
                self._nodes[node] = False
                self._send(node)
        self._judge_if_done()

    def _send(self, node: WorkerController) -> None:
        """All that is left of its shard. The worker that will run the tests of the
        results gets the first of them too, and waits there: it starts no item before it
        knows what comes then."""
        waiting = self._late[:1] if slot_of(node) == HOST else []
        node.send_runtest_some(self.left_of(slot_of(node)) + waiting)
        if not waiting:
            node.shutdown()

    def _take_over(self) -> bool:
        """Deal shards, if there are eval documents and all workers agree."""
        nodes, (first, *others) = list(self._collected), self._collected.values()
        if any(collection != first for collection in others):
            return False  # xdist says what differs
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
        check_session(session, self._ids)
        begin(self.config)
        self._session = session
        stopping = session.stopping
        if stopping is not None:
            stopping.start(self._ids, self._folder)
        waves = stopping.waves() if stopping is not None else {}
        dealt = deal(self._ids, session.suite, len(nodes), waves)
        self._gates, self._late = dealt.gates, dealt.late
        self._left = {
            slot: dict.fromkeys(shard) for slot, shard in enumerate(dealt.shards)
        }
        self._unheard = {slot: {} for slot in self._left}
        self._heard = {slot: set() for slot in self._left}
        self._nodes = dict.fromkeys(nodes, True)
        documents = len(self._ids) - len(self._gates) - len(self._late)
        session.run.inference.expect(documents)
        self._look(session)
        run_reference_models(session, self._ids, lambda _: self.config.hook)
        return True

    def _look(self, session: EvalSession) -> None:
        """Report what is odd about the documents before workers send any."""
        places = session.suite.positions(self._ids)
        rendered = (
            (task, record) for task, index in places for record in looked(task, index)
        )
        look(session, rendered)

    def _read_tasks(self) -> EvalSession | None:
        """The tasks of all collected files, as the workers have read them."""
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
                        session.load(path, hook, name)
                except TaskFileError as error:
                    # Workers have reported it with the file of a group's task.
                    raise pytest.UsageError(str(error)) from None
        if session is not None and not [*session.suite.all()]:
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
        if item_index in self._heard[slot]:
            self._heard[slot].discard(item_index)
            self._crashes.pop(slot, None)
        else:
            self._unheard[slot][item_index] = None
        self._judge_if_done()

    def mark_test_reported(self, node: WorkerController, item_index: int) -> None:
        """A worker has told of an item; of many documents it tells after they are
        done."""
        if self._session is None:
            return
        slot = slot_of(node)
        if item_index in self._unheard[slot]:
            del self._unheard[slot][item_index]
            self._crashes.pop(slot, None)
        else:
            self._heard[slot].add(item_index)

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
        """Let the tests of the results run."""
        assert self._session is not None
        hand_over(self._session, self._folder)
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
        """Only xdist's work stealing asks for this."""
        self._default.remove_pending_tests_from_node(node, indices)

    def remove_node(self, node: WorkerController) -> str | None:
        """A worker has ended.

        Returns:
            The node id of the item that is to blame, ``None`` if it is not clear yet.
        """
        if self._session is None:
            return self._default.remove_node(node)  # type: ignore[no-any-return]
        self._nodes.pop(node)
        slot = slot_of(node)
        unheard, self._unheard[slot] = self._unheard[slot], {}
        self._heard[slot].clear()
        if not hasattr(node, "workeroutput"):  # it crashed
            self._left[slot] = {**unheard, **self._left[slot]}
        left = self._left[slot]
        if not left:
            return None
        crashes = self._crashes[slot] = self._crashes.get(slot, 0) + 1
        if crashes < _BLAMED_AT:
            return None
        self._crashes.pop(slot)
        guilty = next(iter(left))
        left.pop(guilty)
        self._session.run.records.lose(
            self._ids[guilty], "its worker crashed each time it ran"
        )
        self._judge_if_done()
        return self._ids[guilty]

    def left_of(self, slot: int) -> list[int]:
        """Positions that a slot has not done yet."""
        return list(self._left.get(slot, ()))

    def window_of(self, slot: int) -> int | None:
        """Documents that a replacing worker shall plan together; ``None`` as usual."""
        return 1 if self._crashes.get(slot, 0) >= _BLAMED_AT - 1 else None

    def report_lost(self, session: pytest.Session) -> None:
        """Report what no worker could run as errors, and judge the gates."""
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
            self._session.run.records.lose(self._ids[position], _LOST)
            self.config.hook.pytest_runtest_logreport(report=report)
        self._left = {}
        self._judge_if_done()
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


_LOST = (
    "lost: the worker that should have run it crashed, and no other was started in its "
    "place"
)
_BLAMED_AT = 3
"""Crashes without progress after which the first document left is to blame."""


def refuse_empty_selection(config: pytest.Config) -> None:
    """A selection that nothing answers to is a mistake.

    Raises:
        pytest.UsageError: ``--evals-tasks`` was given.
    """
    wanted = config.stash[OPTIONS].tasks
    if wanted:
        names = ", ".join(map(repr, wanted))
        text = f"--evals-tasks: no task, group or tag called {names}"
        raise with_place(config, pytest.UsageError(text))


def slot_of(node: WorkerController) -> int:
    """The slot that the controller gave a worker."""
    return int(node.workerinput["evals"]["slot"])
