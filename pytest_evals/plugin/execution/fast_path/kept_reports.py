"""Reports of documents, as pytest's terminal keeps them until the end of the session.

A report needs four times as much memory as the values in which the reports of documents
without failure and output differ. All others are shared.
"""

from __future__ import annotations

from typing import Any

import pytest

_OWN = ("_id", "nodeid", "duration", "start", "stop", "item_index")
"""Fields that differ, except for the name in location and keywords. pytest 9.2 has the
first, earlier versions the second."""
_SHARED = (
    *("outcome", "when", "evals_is_document", "evals_word", "evals_record"),
    *("node", "worker_id", "testrun_uid"),
)
_EMPTY = ("longrepr", "sections", "user_properties")
_KEPT = frozenset((*_OWN, *_SHARED, *_EMPTY, "location", "keywords"))
_Known = dict[tuple[Any, ...], tuple[Any, ...]]


class KeptReport(pytest.TestReport):
    """The report of a document; its fields are those of the complete report."""

    __slots__ = ("_name", "_shared", "_values")

    def __init__(self, report: pytest.TestReport, known: _Known) -> None:
        """Keep a report without failure, output and properties.

        Args:
            known: Values that several reports share.
        """
        fields = vars(report)
        path, line, self._name = report.location
        names = (*(one for one in _OWN if one in fields),)
        self._values = (*map(fields.__getitem__, names),)
        keywords = (*(one for one in report.keywords if one != self._name),)
        others = (*((one, fields[one]) for one in _SHARED if one in fields),)
        shared = (path, line, names, keywords, others)
        self._shared = known.setdefault(shared, shared)

    def __getattr__(self, name: str) -> Any:
        """Return a field of the report.

        Raises:
            AttributeError: It has no such field.
        """
        path, line, names, keywords, others = self._shared
        if name in names:
            return self._values[names.index(name)]
        if name == "location":
            return (path, line, self._name)
        if name == "keywords":
            return dict.fromkeys((self._name, *keywords), 1)
        if name in _EMPTY:
            return None if name == "longrepr" else []
        for other, value in others:
            if name == other:
                return value
        raise AttributeError(name)


def kept(report: pytest.TestReport, known: _Known) -> pytest.TestReport:
    """Return a small equivalent of a report, or the report itself if it contains other
    values.

    Args:
        known: Values that several reports share; the mapping changes.
    """
    fields = vars(report)
    is_plain = type(report) is pytest.TestReport and fields.keys() <= _KEPT
    if not is_plain or any(map(fields.get, _EMPTY)):
        return report
    return KeptReport(report, known)
