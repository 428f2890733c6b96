"""Prompt, answer and target of documents that passed: of those that the command line
names, with ``-v``; and of all that are wrong, with ``-vv``."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from pytest import TerminalReporter

from pytest_evals.reports.escape import one_line

if TYPE_CHECKING:
    from pytest_evals.core.record import Record
    from pytest_evals.plugin.documents import DocItem

_WRONG = ("wrong", "regressed")


class Details:
    """The hooks of such a session, as a pytest plugin."""

    def __init__(self, config: pytest.Config) -> None:
        """Find out which documents are named, as ``file.yaml::task[id]``."""
        here = config.invocation_params.dir
        given = [argument.partition("::") for argument in config.args]
        self._named_documents = {
            (os.path.normpath(here / file), name)
            for file, _, name in given
            if name.endswith("]")
        }
        self._wants_wrong = config.get_verbosity() > 1
        self._documents: list[tuple[str, list[str]]] = []

    @classmethod
    def registered(cls, config: pytest.Config) -> Details | None:
        """Register one and return it if documents are shown; else return ``None``."""
        details = cls(config)
        if config.get_verbosity() > 0 and (
            details._named_documents or details._wants_wrong
        ):
            config.pluginmanager.register(details, "evals-details")
            return details
        return None

    def lines(self, item: DocItem, record: Record) -> list[str]:
        """What is shown of a document; nothing of most."""
        is_wrong = item.word in _WRONG
        name = item.nodeid.partition("::")[2]
        is_named = (str(item.path), name) in self._named_documents
        if not is_named and not (self._wants_wrong and is_wrong):
            return []
        from pytest_evals.reports.details.examples import document_lines

        first, *lines = document_lines(record)
        return lines if not is_wrong else [first, *lines]

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep the lines, which a worker has sent along. A document that failed is
        among the failures already."""
        lines = getattr(report, "evals_shown", None)
        if lines and report.when == "call" and report.passed:
            self._documents.append((report.head_line or report.nodeid, lines))

    @pytest.hookimpl(tryfirst=True)
    def pytest_terminal_summary(self, terminalreporter: TerminalReporter) -> None:
        """The documents, before the table."""
        if not self._documents or terminalreporter.no_summary:
            return
        terminalreporter.write_sep("=", "documents")
        for name, lines in self._documents:
            terminalreporter.write_sep("_", one_line(name))
            for line in lines:
                terminalreporter.write_line(line)
