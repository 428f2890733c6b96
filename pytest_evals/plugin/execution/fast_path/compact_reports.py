"""Reports of documents as bytes, which pytest-xdist does not encode value by value.

Controller and workers are processes of one session, with the same Python. Only the
report of a document that passed is packed; any other is encoded by pytest.
"""

from __future__ import annotations

import marshal
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

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
