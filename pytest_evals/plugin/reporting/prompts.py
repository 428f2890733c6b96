"""Prompts in the terminal: all documents are rendered before any is sent, so that
warnings come first; ``--evals-write-out`` shows the first ones; ``-v`` and ``-vv`` show
documents that passed, with prompt, answer and target."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import TYPE_CHECKING

import pytest
from _pytest.warnings import catch_warnings_for_item
from pytest import TerminalReporter

from pytest_evals.core.model import RequestTokenizer
from pytest_evals.core.record import Record
from pytest_evals.core.task import Task
from pytest_evals.errors import EvalsError, OptionError
from pytest_evals.models.registry import open_tokenizer, parse_spec
from pytest_evals.plugin.documents import DocItem
from pytest_evals.plugin.gates import GateItem
from pytest_evals.plugin.own_documents import LazyDocument
from pytest_evals.plugin.reporting.terminal_summary import warning_lines
from pytest_evals.plugin.result_tests import is_late
from pytest_evals.plugin.session import SESSION
from pytest_evals.reports.details.prompts import prompt_lines
from pytest_evals.reports.escape import one_line
from pytest_evals.run.batches import ask, unsendable

if TYPE_CHECKING:
    from pytest_evals.core.record import Record
    from pytest_evals.plugin.documents import DocItem
    from pytest_evals.plugin.session import EvalSession
    from pytest_evals.plugin.settings.option_table import Options


def will_ask(session: pytest.Session, options: Options) -> bool:
    """Return whether documents of a collected session will be sent."""
    config = session.config
    stops = session.testsfailed and not config.option.continue_on_collection_errors
    shown_only = options.cache_info or options.plan or config.option.collectonly
    return not (stops or shown_only)


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


def documents_of(
    items: Sequence[pytest.Item],
) -> Iterator[tuple[Task, Mapping[int, str]]]:
    """Return the selected documents of each task, by position."""
    tasks: dict[str, tuple[Task, dict[int, str]]] = {}
    for item in items:
        if isinstance(item, DocItem):
            task, index = item.job.task, item.job.index
            _, documents = tasks.setdefault(task.name, (task, {}))
            documents[index] = item.name.partition("[")[2][:-1]
    yield from tasks.values()


def write_out_lines(
    config: pytest.Config, selected: Iterable[tuple[Task, Mapping[int, str]]]
) -> list[str]:
    """Return the lines of all tasks; none without the option. ``selected``: tasks
    with their documents, ids by position."""
    if SESSION not in config.stash or not config.stash[SESSION].options.write_out:
        return []
    session = config.stash[SESSION]
    spec = session.run.config.full_spec
    tokenizer, lines = _tokenizer(spec) if spec else (None, [])
    for task, documents in selected:
        for index, id_ in islice(documents.items(), session.options.write_out):
            lines += prompt_lines(ask(task, index), f"{task.name}[{id_}]", tokenizer)
    return lines


def _tokenizer(spec: str) -> tuple[RequestTokenizer | None, list[str]]:
    """Return the model's tokenizer, or a line with the reason why it is unavailable.
    Models of hooks have none."""
    try:
        parsed = parse_spec(spec)
    except OptionError:
        return None, []
    try:
        return open_tokenizer(parsed), []
    except EvalsError as error:
        return None, [f"evals: prompts without tokens: {one_line(error)}"]


_WRONG = ("wrong", "regressed")


class Details:
    """Shows prompt, answer and target of documents that passed, as a pytest plugin: of
    those that the command line names, with ``-v``; of all that are wrong, with
    ``-vv``."""

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
        shows = details._named_documents or details._wants_wrong
        if shows and config.get_verbosity() > 0:
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
