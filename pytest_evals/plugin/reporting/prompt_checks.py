"""Render all documents before any is sent, so that warnings come first."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest
from _pytest.warnings import catch_warnings_for_item

from pytest_evals.core.record import Record
from pytest_evals.core.task import Task
from pytest_evals.plugin.documents import DocItem
from pytest_evals.plugin.gates import GateItem
from pytest_evals.plugin.own_documents import LazyDocument
from pytest_evals.plugin.reporting.terminal_summary import warning_lines
from pytest_evals.plugin.result_tests import is_late
from pytest_evals.run.batches import unsendable

if TYPE_CHECKING:
    from pytest_evals.plugin.session import EvalSession
    from pytest_evals.plugin.settings.option_table import Options


def will_ask(session: pytest.Session, options: Options) -> bool:
    """Return whether documents of a collected session will be sent."""
    config = session.config
    stops = session.testsfailed and not config.getoption(
        "continue_on_collection_errors"
    )
    shown_only = options.cache_info or options.plan
    return not (stops or shown_only or config.getoption("collectonly"))


def has_news(session: EvalSession, items: Iterable[pytest.Item]) -> bool:
    """Return whether a run has results to report. A session without documents and gates
    has results only if a file of an earlier run would be overwritten."""
    options = session.options
    asked = options.json or options.html or options.markdown or options.save_baseline
    asked = asked or options.shard
    kinds = (DocItem, GateItem, LazyDocument)
    ours = any(isinstance(item, kinds) or is_late(item) for item in items)
    return bool(session.suite.tasks) and (ours or bool(asked))


def look(session: EvalSession, rendered: Iterable[tuple[Task, Record]]) -> None:
    """Report warnings about the documents of a session. ``rendered`` renders each
    document when it is iterated over."""
    with _as_in_a_test(session.config):
        session.warnings.unsendable = unsendable(rendered)
    terminal = session.config.pluginmanager.getplugin("terminalreporter")
    if terminal is not None:
        for line in warning_lines(session):
            terminal.write_line(line)


@contextmanager
def _as_in_a_test(config: pytest.Config) -> Iterator[None]:
    """Treat Python warnings of task files' code as in a test. A file that one leaves
    open does not fail the next document."""
    if not config.pluginmanager.hasplugin("warnings"):
        yield
        return
    with catch_warnings_for_item(config, config.hook, "runtest", None):
        warnings.simplefilter("ignore", ResourceWarning)
        yield
