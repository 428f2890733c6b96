"""Exceptions of failed documents and gates, and how pytest prints them."""

from __future__ import annotations

import sys
import sysconfig
from os import environ
from pathlib import Path
from typing import TYPE_CHECKING

from _pytest._code.code import (
    ExceptionInfo,
    ReprFileLocation,
    TerminalRepr,
    Traceback,
    TracebackEntry,
)
from _pytest._io import TerminalWriter

from pytest_evals.core.gate import Gate, Verdict
from pytest_evals.core.record import Record
from pytest_evals.core.result import GroupResult, TaskResult
from pytest_evals.errors import EvalsError, Place

if TYPE_CHECKING:
    import pytest

_ANSWER = 200  # characters of an answer in a property


class DocumentFailed(Exception):
    """A document that could not be scored, or a wrong answer that fails."""

    def __init__(self, record: Record) -> None:
        super().__init__(record.error)
        self.record = record


class GateFailed(Exception):
    """A gate that failed or is invalid."""

    def __init__(
        self, verdict: Verdict, result: TaskResult | GroupResult, model: str
    ) -> None:
        """``model``: its name in node ids, if several are tested."""
        super().__init__(verdict.reason)
        self.verdict = verdict
        self.result = result
        self.model = model


class ShortMessage(TerminalRepr):
    """Lines instead of a traceback; the first is also pytest's summary line."""

    def __init__(self, lines: list[str], path: str, line: int) -> None:
        """``path`` and ``line`` are the place to fix; the lines may contain data."""
        from pytest_evals.reports.escape import one_line

        lines = [one_line(one) for one in lines]
        self.lines = lines
        self.reprcrash = ReprFileLocation(path, line, lines[0] if lines else "")

    def toterminal(self, tw: TerminalWriter) -> None:
        """Write the lines, at most as wide as a terminal; worse is coloured."""
        for line in self.lines:
            markup = next((m for start, m in _MARKUP if line.startswith(start)), {})
            for part in fitted(line, tw):
                tw.line(part, **markup)

    def __str__(self) -> str:
        """The lines as text."""
        return "\n".join(self.lines)


_RED, _YELLOW = {"red": True}, {"yellow": True}
_MARKUP = (
    ("E   ", _RED),
    ("!   ", _RED),
    ("  worse than in ", _RED),
    ("?   ", _YELLOW),
)
"""Starts of coloured lines; the text is complete without colour."""


def fitted(line: str, tw: TerminalWriter, taken: int = 0) -> list[str]:
    """Return a line in lines that fit a terminal, with a hanging indent. Files and logs
    keep whole lines, which can be searched, unless ``COLUMNS`` sets a width. ``taken``:
    number of columns that are in use in front of the line."""
    from pytest_evals.reports.escape import wrapped

    is_screen = getattr(getattr(tw, "_file", None), "isatty", bool)()
    fits = is_screen or "COLUMNS" in environ
    return wrapped(line, tw.fullwidth, taken) if fits else [line]


_PREFIX = len("ERROR: ")


def fit_usage_error(error: pytest.UsageError) -> None:
    """Wrap the lines of a usage error that this package raised, which pytest writes to
    stderr."""
    traceback = error.__traceback__
    while traceback is not None and traceback.tb_next is not None:
        traceback = traceback.tb_next
    module = traceback.tb_frame.f_globals.get("__name__", "") if traceback else ""
    if not module.startswith("pytest_evals."):
        return
    writer, taken, lines = TerminalWriter(sys.stderr), _PREFIX, []
    for line in "\n".join(map(str, error.args)).splitlines():
        lines += fitted(line, writer, taken)
        taken = 0
    error.args = ("\n".join(lines),)


def message_of(
    error: BaseException, item: pytest.Item, place: Place
) -> ShortMessage | None:
    """Return the message of one of our errors; ``None`` for any other. ``place``: where
    the item's task or gate is defined."""
    if isinstance(error, GateFailed):
        return gate_message(error.verdict, error.result, item.config, error.model)
    if isinstance(error, DocumentFailed):
        from pytest_evals.reports.details.examples import document_lines

        lines = document_lines(error.record)
    elif isinstance(error, EvalsError):
        lines = str(error).splitlines()
    else:
        return None
    return ShortMessage(_in_style(lines, item.config), str(place.path), place.line)


def users_traceback(excinfo: ExceptionInfo[BaseException]) -> Traceback:
    """Return the traceback from the user's code on, such as a model or a fixture; all
    of it if no file of the user is in it."""
    entries = excinfo.traceback
    is_users = [_is_users(entry) for entry in entries]
    return Traceback(entries[is_users.index(True) :]) if True in is_users else entries


_PACKAGE = Path(__file__).parent.parent
_LIBRARY = Path(sysconfig.get_path("stdlib"))


def _is_users(entry: TracebackEntry) -> bool:
    """Whether the code is neither installed nor ours."""
    path = Path(entry.path)
    is_installed = {"site-packages", "dist-packages"} & {*path.parts}
    return not is_installed and not {_PACKAGE, _LIBRARY} & {*path.parents}


def gate_message(
    verdict: Verdict,
    result: TaskResult | GroupResult,
    config: pytest.Config,
    model: str,
) -> ShortMessage:
    """Return verdict, numbers, place and examples; with ``-q`` no examples.
    ``model``: its name in node ids, if several are tested."""
    from pytest_evals.reports.details.gate import EXAMPLES, gate_lines

    verbosity, place = config.get_verbosity(), verdict.gate.source
    n_examples = EXAMPLES if verbosity >= 0 else 0
    lines = gate_lines(
        verdict, result, n_examples, shows_method=verbosity > 0, model=model
    )
    return ShortMessage(_in_style(lines, config), str(place.path), place.line)


def write_text(terminal: pytest.TerminalReporter, text: str, **markup: bool) -> None:
    """Write lines that may contain data."""
    from pytest_evals.reports.escape import safe_lines

    for line in safe_lines(text):
        for part in fitted(line, terminal._tw):
            terminal.write_line(part, **markup)


def _in_style(lines: list[str], config: pytest.Config) -> list[str]:
    """Return only the first line with ``--tb=line``, to which pytest adds the place."""
    return lines[:1] if config.getoption("tbstyle", "auto") == "line" else lines


_HEADING = 76  # columns of a heading, which pytest puts between two rules


def heading_of(gate: Gate) -> str:
    """Return the heading of a gate's failure: its subject and condition."""
    from pytest_evals.reports.escape import middle, one_line

    return middle(one_line(f"{gate.task}: {gate.text}"), _HEADING, _HEADING * 2 // 3)


def document_properties(record: Record, word: str) -> list[tuple[str, object]]:
    """Return the properties of a document for JUnit and other reports. ``word``: its
    result: ``correct``, ``wrong``, …"""
    from pytest_evals.reports.escape import cut, one_line

    found: list[tuple[str, object]] = [("verdict", word)]
    for score in record.scores:
        if isinstance(score.value, int | float | str):
            found.append(("metric", one_line(f"{score.metric},{score.filter}")))
            value = score.value
            value = one_line(value) if isinstance(value, str) else value
            found.append(("score", value))
            if score.answer:
                found.append(("answer", cut(score.answer, _ANSWER)))
            break
    return found
