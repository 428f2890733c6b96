"""A worker's reports of documents, sent to the controller of pytest-xdist in batches.

An event costs the controller as much as processing the report in it. So reports wait
while documents follow each other quickly, but no longer than one slow document takes.
If a worker crashes, its waiting reports are lost and these documents run again. A
worker that replaces a crashed one sends each report at once, so that the document at
which it crashes is known.
"""

from __future__ import annotations

import marshal
import time
from collections.abc import Generator, Mapping, Sequence
from typing import Any

import pytest

from pytest_evals.plugin.execution.fast_path.hook_calls import Part, logreport_without
from pytest_evals.plugin.settings.process import WorkerAssignment

MOST = 64  # reports in one event, at most
HOLD_S = 0.02
"""Seconds after the last event at which waiting reports are sent before the next
document runs."""


class ReportBatches:
    """Sends the reports of documents on the fast path; a pytest plugin.

    Duck-typed after ``xdist.remote.WorkerInteractor`` (xdist 3.8), which sends all
    other reports.
    """

    def __init__(self, config: pytest.Config, assignment: WorkerAssignment) -> None:
        """Find the plugin by which xdist sends a worker's reports."""
        self._config = config
        plugins = config.pluginmanager.get_plugins() if assignment.todo is None else ()
        found = (one for one in plugins if type(one).__name__ == "WorkerInteractor")
        self._sender: Any = next(found, None)
        self._logreport: Sequence[Part] | None = None
        self._waiting: list[tuple[int, bytes]] = []
        self._sent = 0.0

    def add(self, report: pytest.TestReport) -> None:
        """Log a report in this process, and send it with the next batch."""
        data = packed_report(report) if self._sender is not None else None
        if data is not None and not self._waiting:
            self._logreport = logreport_without(self._config, self._sender)
        if data is None or self._logreport is None:
            self.send()
            self._config.hook.pytest_runtest_logreport(report=report)
            return
        for call, part in self._logreport:
            call(*(report,)[part])
        self._waiting.append((self._sender.item_index, data))
        if len(self._waiting) >= MOST:
            self.send()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtestloop(self) -> Generator[None, Any, Any]:
        """Send the waiting reports even if the loop ends early."""
        try:
            return (yield)
        finally:
            self.send()

    def send_if_slow(self) -> None:
        """Send the waiting reports before a document that may take long."""
        if self._waiting and time.monotonic() - self._sent > HOLD_S:
            self.send()

    def send(self) -> None:
        """Send the waiting reports; called before anything else is sent."""
        if not self._waiting:
            return
        waiting, self._waiting = self._waiting, []
        self._sent = time.monotonic()
        sender, data = self._sender, batch_event(waiting)
        data["worker_id"] = sender.workerid
        data["testrun_uid"] = sender.testrunuid
        sender.sendevent("testreport", data=data)


_ONE, _MANY = "EvalsReport", "EvalsReports"
_NAMED = ("location", "outcome", "when", "duration", "start", "stop")
_ADDED = ("evals_is_document", "evals_word", "evals_record")
_EMPTY = ("longrepr", "sections", "user_properties")
_KNOWN = frozenset((*_NAMED, *_ADDED, *_EMPTY, "nodeid", "id", "_id", "keywords"))
_OF_WORKER = ("worker_id", "testrun_uid")
"""What a worker adds to each report, besides ``item_index``."""


class CompactReports:
    """Packs and unpacks reports, as a pytest plugin of workers and their controller."""

    @pytest.hookimpl(tryfirst=True)
    def pytest_report_to_serializable(self, report: object) -> dict[str, Any] | None:
        """Pack the report of a document."""
        data = packed_report(report)
        return None if data is None else {"$report_type": _ONE, "packed": data}

    @pytest.hookimpl(tryfirst=True)
    def pytest_report_from_serializable(
        self, data: dict[str, Any]
    ) -> pytest.TestReport | None:
        """Unpack a report; of a batch the last one, which carries the earlier ones in
        ``evals_earlier``."""
        if data.get("$report_type") == _ONE:
            return _unpacked(data["packed"], data.get("item_index"), data)
        if data.get("$report_type") != _MANY:
            return None
        *earlier, last = [
            _unpacked(one, item_index, data)
            for item_index, one in marshal.loads(data["packed"])
        ]
        vars(last)["evals_earlier"] = earlier
        return last


def packed_report(report: object) -> bytes | None:
    """Return the report of a document that passed as bytes; ``None`` for any other."""
    if type(report) is not pytest.TestReport or not hasattr(report, "evals_record"):
        return None
    fields = vars(report)
    if not fields.keys() <= _KNOWN or any(map(fields.get, _EMPTY)):
        return None
    values = [fields[name] for name in (*_NAMED, *_ADDED)]
    return marshal.dumps((report.nodeid, dict(report.keywords), values))


def batch_event(reports: Sequence[tuple[int, bytes]]) -> dict[str, Any]:
    """Return the data of an xdist event with many reports. ``reports``: position of
    each item, and its :func:`packed_report`; at least one."""
    return {"$report_type": _MANY, "packed": marshal.dumps(list(reports))}


def _unpacked(
    data: bytes, item_index: int | None, event: Mapping[str, Any]
) -> pytest.TestReport:
    nodeid, keywords, values = marshal.loads(data)
    fields = dict(zip((*_NAMED, *_ADDED), values, strict=True))
    fields.update((name, event[name]) for name in _OF_WORKER if name in event)
    if item_index is not None:
        fields["item_index"] = item_index
    return pytest.TestReport(nodeid=nodeid, keywords=keywords, longrepr=None, **fields)
