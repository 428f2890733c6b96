"""Documents in pytest's JUnit file and in the reports of other plugins.

A JUnit file contains the gates and the failed documents, because dashboards are not
made for ten thousand test cases; ``--evals-junit=docs`` adds all documents. A document
that could not be scored is an error there, as in the terminal.
"""

from __future__ import annotations

from typing import Any

import pytest

from pytest_evals.plugin.settings.options import OPTIONS

NAME = "evals-junit"


def outcomes_with_teardown(config: pytest.Config) -> frozenset[str]:
    """Outcomes of documents that a report writes only at their teardown."""
    has_junit = bool(config.getoption("xmlpath", None))
    if writes_rows(config) or (has_junit and config.stash[OPTIONS].junit == "docs"):
        return frozenset({"passed", "failed", "skipped"})
    return frozenset({"failed"} if has_junit else ())


def writes_rows(config: pytest.Config) -> bool:
    """Whether pytest-html or pytest-json-report writes a report."""
    names = ("htmlpath", "json_report")
    return any(config.getoption(name, None) for name in names)


class JUnitReport:
    """Replaces pytest's JUnit plugin, and passes on selected reports."""

    def __init__(self, log: Any, *, every: bool) -> None:
        """Implement all hooks that the log implements, by the log itself but for
        one. ``every``: whether documents that did not fail are included."""
        self.log = log
        self._every = every
        self._failed: set[str] = set()
        for name in dir(log):
            if name.startswith("pytest_"):
                setattr(self, name, getattr(log, name))
        self.pytest_runtest_logreport = self._take

    @classmethod
    def begin(cls, config: pytest.Config) -> None:
        """Replace the plugin, if it is registered."""
        from _pytest.junitxml import xml_key

        log, manager = config.stash.get(xml_key, None), config.pluginmanager
        if log is not None:
            manager.unregister(log)
            every = config.stash[OPTIONS].junit == "docs"
            manager.register(cls(log, every=every), NAME)

    @staticmethod
    def end(config: pytest.Config) -> None:
        """Restore the plugin."""
        outlets = config.pluginmanager.get_plugin(NAME)
        if isinstance(outlets, JUnitReport):
            config.pluginmanager.unregister(outlets)
            config.pluginmanager.register(outlets.log)

    def _take(self, report: pytest.TestReport) -> None:
        if getattr(report, "evals_is_document", False) and not self._every:
            if report.failed:
                self._failed.add(report.nodeid)
            elif report.nodeid not in self._failed:
                return
        if report.failed and getattr(report, "evals_word", "") in ("error", "unscored"):
            self._write_error(report)
        else:
            self.log.pytest_runtest_logreport(report)

    def _write_error(self, report: pytest.TestReport) -> None:
        """Write an error; for an exception in a test's call pytest writes a failure."""
        case = self.log.node_reporter(report)
        n_before = len(case.nodes)
        self.log.pytest_runtest_logreport(report)
        for node in case.nodes[n_before:]:
            if node.tag == "failure":
                node.tag = "error"
                self.log.stats["failure"] -= 1
                self.log.stats["error"] += 1
