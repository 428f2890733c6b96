"""Reports of documents on their way from a worker: one bytes object each, since xdist
takes every other value apart and puts it together by itself.

Both ends are processes of one session. Whatever is not as plain as the report of a
document that went well travels pytest's own way.
"""

from __future__ import annotations

import marshal
from typing import Any

import pytest

__all__ = ["LightReports"]

_KIND = "EvalsReport"
_NAMED = ("location", "outcome", "when", "duration", "start", "stop")
_ADDED = ("evals_is_document", "evals_word", "evals_record")
_EMPTY = ("longrepr", "sections", "user_properties")
_KNOWN = frozenset((*_NAMED, *_ADDED, *_EMPTY, "nodeid", "id", "_id", "keywords"))
_BY_XDIST = ("item_index", "worker_id", "testrun_uid")
"""What a worker adds to each report."""


class LightReports:
    """The two hooks, as a pytest plugin of workers and their controller."""

    @pytest.hookimpl(tryfirst=True)
    def pytest_report_to_serializable(self, report: object) -> dict[str, Any] | None:
        """Pack the report of a document."""
        if type(report) is not pytest.TestReport or not hasattr(report, "evals_record"):
            return None
        fields = vars(report)
        if not fields.keys() <= _KNOWN or any(map(fields.get, _EMPTY)):
            return None
        values = [fields[name] for name in (*_NAMED, *_ADDED)]
        packed = marshal.dumps((report.nodeid, dict(report.keywords), values))
        return {"$report_type": _KIND, "packed": packed}

    @pytest.hookimpl(tryfirst=True)
    def pytest_report_from_serializable(
        self, data: dict[str, Any]
    ) -> pytest.TestReport | None:
        """Unpack it."""
        if data.get("$report_type") != _KIND:
            return None
        nodeid, keywords, values = marshal.loads(data["packed"])
        fields = dict(zip((*_NAMED, *_ADDED), values, strict=True))
        fields.update((name, data[name]) for name in _BY_XDIST if name in data)
        return pytest.TestReport(
            nodeid=nodeid, keywords=keywords, longrepr=None, **fields
        )
