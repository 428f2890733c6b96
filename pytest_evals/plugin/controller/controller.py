"""The controller's hooks: slots and devices of workers, crashes, and the scheduler.

Registered whenever tests are distributed, even without eval files.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import time
from collections.abc import Generator, Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_evals.models.http.spend_cap import LEDGER, Ledger, RunCaps
from pytest_evals.models.spec import is_command
from pytest_evals.plugin.execution.fast_path.report_batches import CompactReports
from pytest_evals.plugin.execution.interrupts import INTERRUPTED
from pytest_evals.plugin.execution.model_readiness import REFUSED
from pytest_evals.plugin.reporting.github import FAULTS, Faults
from pytest_evals.plugin.session import SESSION, costs_run
from pytest_evals.plugin.settings.options import OPTIONS
from pytest_evals.plugin.settings.process import visible_devices

if TYPE_CHECKING:
    from xdist.workermanage import WorkerController

    from pytest_evals.plugin.controller.scheduler import EvalScheduling

_REPORTS_S = 2.0  # seconds that workers may take to end after that


class Controller:
    """One object on the controller, as a pytest plugin.

    A slot has a device and a shard. A worker that replaces a crashed one takes its slot
    under a new id.
    """

    def __init__(self, config: pytest.Config) -> None:
        if config.stash[OPTIONS].fast_path:
            config.pluginmanager.register(CompactReports(), "evals-compact-reports")
        self._config = config
        self._scheduler: EvalScheduling | None = None
        self._n = 0
        self._free: list[int] = []
        self._slots: dict[Any, int] = {}
        self._session: pytest.Session | None = None
        self._interrupted = False

    @cached_property
    def _stop(self) -> Path:
        """The stop file, in a folder among pytest's temporary ones: those of killed
        sessions are removed by later ones."""
        factory = getattr(self._config, "_tmp_path_factory", None)
        folder = factory.mktemp("evals") if factory else tempfile.mkdtemp("-evals")
        return Path(folder) / "stop"

    def pytest_sessionstart(self, session: pytest.Session) -> None:
        """Keep the session, whose ``shouldstop`` workers must follow."""
        self._session = session

    def pytest_xdist_setupnodes(self, specs: Sequence[Any]) -> None:
        """Set the device and the number of threads of each slot, before its worker
        imports anything."""
        options = self._config.stash[OPTIONS]
        caps = RunCaps(options.max_requests, options.max_cost)
        Ledger.begin_run(str(self._stop.with_name(LEDGER)), caps)
        self._n = len(specs)
        self._free = list(range(len(specs)))
        devices = visible_devices()
        address = self._servers()
        threads = str(max(1, (os.cpu_count() or 1) // len(specs)))
        for slot, spec in enumerate(specs):
            if devices.names:
                name = devices.names[slot % len(devices.names)]
                spec.env[devices.variable] = name
            if "OMP_NUM_THREADS" not in os.environ:
                spec.env["OMP_NUM_THREADS"] = threads
            spec.env.update(address)

    def _servers(self) -> dict[str, str]:
        """Variables by which workers share servers, if the session may start any."""
        options = self._config.stash[OPTIONS]
        specs = [*(one.spec for one in options.models), options.judge]
        if not (options.allow_server_commands or any(map(is_command, specs))):
            return {}
        from pytest_evals.models.serve.model import end_all, share

        self._config.add_cleanup(end_all)
        return share()

    def pytest_configure_node(self, node: WorkerController) -> None:
        """Send a worker its slot; a replacement also gets the remaining items."""
        slot = self._slots[node] = self._free.pop(0)
        scheduler = self._scheduler
        node.workerinput["evals"] = {
            "slot": slot,
            "n": self._n,
            "stop": str(self._stop),
            "todo": scheduler.left_of(slot) if scheduler else None,
            "window": scheduler.window_of(slot) if scheduler else None,
            "selects": self._selects,
            "costs": self._costs,
        }

    @cached_property
    def _selects(self) -> list[str]:
        """The run of each model that ``--evals-only`` selects from: the same for all
        workers, even for one that starts when this run is the newest."""
        options = self._config.stash[OPTIONS]
        if not options.only:
            return []
        from pytest_evals.plugin.modes.only import run_to_select_from

        specs = [one.spec for one in options.models] or [options.model]
        runs = [run_to_select_from(options, spec) for spec in specs]
        return [str(run.path) if run else "" for run in runs]

    @cached_property
    def _costs(self) -> str:
        """The run whose costs cut the shards, the same for all workers."""
        run = costs_run(self._config.stash[OPTIONS])
        return str(run.path) if run else ""

    @pytest.hookimpl(tryfirst=True)
    def pytest_testnodedown(self, node: WorkerController, error: object) -> None:
        """Free its slot for a replacement, and keep its report of models, warnings and
        repeated runs."""
        slot = self._slots.pop(node, None)
        if slot is not None:
            self._free.insert(0, slot)
        output = getattr(node, "workeroutput", {})
        if REFUSED in output:
            self._refuse(output[REFUSED])
        if FAULTS in output:
            Faults.begin(self._config, output[FAULTS])
        sent = output.get("evals")
        if sent and SESSION in self._config.stash:
            report, session = json.loads(sent), self._config.stash[SESSION]
            of_models = zip(session.all, report["models"], report["cuts"], strict=True)
            for one, models, cut in of_models:
                one.run.inference.add_worker(models)
                one.cut = cut
            session.warnings.of_workers[slot or 0] = report["warnings"]
            session.shared.repeats.add(report["repeats"])

    def _refuse(self, why: str) -> None:
        """End the session, since a worker cannot open a model. Records of other workers
        are kept."""
        self._interrupted = True  # what is not run is not lost to a crash
        self._stop.touch()
        if SESSION in self._config.stash:
            session = self._config.stash[SESSION]
            has_answers = any(one.run.inference.n_answered for one in session.all)
            for one in session.all:
                if has_answers:
                    one.run.partial = "a worker could not open its model"
                else:
                    one.models.refused = why
        raise pytest.UsageError(why)

    @pytest.hookimpl(wrapper=True)
    def pytest_xdist_make_scheduler(
        self, config: pytest.Config
    ) -> Generator[None, Any, Any]:
        """Put our scheduler in front of that of xdist."""
        default = yield
        from pytest_evals.plugin.controller.scheduler import EvalScheduling

        folder = self._stop.parent
        self._scheduler = EvalScheduling(config, default, folder, self._costs)
        return self._scheduler

    @pytest.hookimpl(wrapper=True)
    def pytest_runtestloop(self) -> Generator[None, Any, Any]:
        """Stop the workers of an interrupted session; its missing documents are not
        lost to a crash."""
        try:
            return (yield)
        except (KeyboardInterrupt, pytest.exit.Exception):
            self._interrupted = True
            self._stop.touch()
            if SESSION in self._config.stash:
                session = self._config.stash[SESSION]
                for one in session.all:
                    one.run.partial = "interrupted"
                self._wait_for_workers(session.run.inference.limit_s)
            raise

    def _wait_for_workers(self, limit_s: float) -> None:
        """Let workers store the responses to their requests in flight: pytest-xdist
        ends them after some seconds. Ctrl-C ends the wait."""
        text = f"{limit_s:g}"
        self._stop.with_name(INTERRUPTED).write_text(text, encoding="ascii")
        end = time.monotonic() + limit_s + _REPORTS_S
        with suppress(KeyboardInterrupt):
            for node in self._slots:
                # EOFError: the worker has ended already.
                with suppress(TimeoutError, OSError, EOFError):
                    node.channel.waitclose(max(0.0, end - time.monotonic()))

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Count the item as reported. Workers have their whole shard, so ``-x`` stops
        them through a file."""
        node, item_index = vars(report).get("node"), vars(report).get("item_index")
        if self._scheduler is not None and node and item_index is not None:
            self._scheduler.mark_test_reported(node, item_index)
        session = self._session
        if session is not None and (session.shouldfail or session.shouldstop):
            self._stop.touch()

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Report documents that no worker could run as errors."""
        stopped = session.shouldfail or session.shouldstop or self._interrupted
        if self._scheduler is not None and not stopped:
            self._scheduler.report_lost(session)

    @pytest.hookimpl(trylast=True)
    def pytest_unconfigure(self) -> None:
        """Remove the folder of the stop file."""
        if "_stop" in vars(self):
            shutil.rmtree(self._stop.parent, ignore_errors=True)
