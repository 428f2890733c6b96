"""A worker's reports of documents, many in one event of pytest-xdist.

An event costs the controller as much as what it does with the report in it. So reports
wait for each other while documents follow quickly, and no longer than a slow document
takes. A worker that dies takes those that wait with it, and they run again; one that
replaces it holds nothing back, so that it is plain at which document it was.
"""

from __future__ import annotations

import time
from typing import Any

import pytest

from pytest_evals.plugin.execution.direct_hooks import Call, log_report_without
from pytest_evals.plugin.settings.process import Orders
from pytest_evals.plugin.workers.compact_reports import packed, together

MOST = 64
"""Reports in one event, at most."""
HOLD_S = 0.02
"""Seconds since the last event after which the next document finds nothing waiting."""


class Outbox:
    """What a worker has to say of documents in the middle of a file.

    Duck-typed after ``xdist.remote.WorkerInteractor`` (xdist 3.8), which sends all
    other reports.
    """

    def __init__(self, config: pytest.Config, orders: Orders) -> None:
        """Nothing waits.

        Args:
            config: pytest's configuration.
            orders: What the controller has told this worker.
        """
        self._config = config
        self._sender: Any = _sender_of(config) if orders.todo is None else None
        self._tell: Call | None = None
        self._waiting: list[tuple[int, bytes]] = []
        self._sent = 0.0

    def send(self, report: pytest.TestReport) -> None:
        """Tell everybody in this process of a report, and the controller soon."""
        data = packed(report) if self._sender is not None else None
        if data is not None and not self._waiting:
            self._tell = log_report_without(self._config, self._sender)
        if data is None or self._tell is None:
            self.empty()
            self._config.hook.pytest_runtest_logreport(report=report)
            return
        self._tell(report)
        self._waiting.append((self._sender.item_index, data))
        if len(self._waiting) >= MOST:
            self.empty()

    def empty_if_slow(self) -> None:
        """Before a document that may take its time."""
        if self._waiting and time.monotonic() - self._sent > HOLD_S:
            self.empty()

    def empty(self) -> None:
        """Send what waits; before anything else is sent, and at the end."""
        if not self._waiting:
            return
        waiting, self._waiting = self._waiting, []
        self._sent = time.monotonic()
        sender, data = self._sender, together(waiting)
        data["worker_id"] = sender.workerid
        data["testrun_uid"] = sender.testrunuid
        sender.sendevent("testreport", data=data)


def _sender_of(config: pytest.Config) -> Any:
    """The plugin by which xdist sends a worker's reports."""
    for plugin in config.pluginmanager.get_plugins():
        if type(plugin).__name__ == "WorkerInteractor":
            return plugin
    return None
