"""Gates in pytest: their items, words, properties and reports, letters in the progress,
and those that were collected and not judged."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import pytest

from pytest_evals.core.gate import Gate, Outcome, Verdict
from pytest_evals.core.node_names import gate_name
from pytest_evals.core.result import GroupResult, RunResult, TaskResult, broken_metrics
from pytest_evals.errors import Place
from pytest_evals.plugin.documents import EvalItem, Status
from pytest_evals.plugin.messages import GateFailed, gate_message, heading_of
from pytest_evals.plugin.session import EvalSession
from pytest_evals.plugin.workers.serialization import GateMark
from pytest_evals.run.profile import RELEASE
from pytest_evals.run.suite import GroupRun, TaskRun


def gate_items(parent: pytest.Collector, run: TaskRun | GroupRun) -> Iterator[GateItem]:
    """One item a gate of a task or a group."""
    for gate in run.gates:
        name, nodeid = gate_name(gate.id, run.label), run.gate_id(gate)
        yield GateItem.from_parent(parent, name=name, nodeid=nodeid, gate=gate, run=run)


class GateItem(EvalItem):
    """One gate; runs after all documents."""

    def __init__(self, *, gate: Gate, run: TaskRun | GroupRun, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.evals: EvalSession = kwargs["parent"].evals
        self.gate, self.word = gate, ""
        self.run = run

    def reportinfo(self) -> tuple[Path, int | None, str]:
        """Its file and line, and the heading of a failure: task or group, and the
        gate's condition as written."""
        path, line = self.place.path, self.place.line
        return path, line - 1 if line else None, heading_of(self.gate)

    @property
    def place(self) -> Place:
        """Where the gate is written."""
        return self.gate.source

    def runtest(self) -> None:
        """Judge the gate.

        Raises:
            GateFailed: Its condition is false, it is invalid, or it is inconclusive
                with ``--evals-inconclusive=fail``.
        """
        verdict, result = self.evals.run.gate_judge.judge(self.gate)
        self.word = gate_word(verdict)
        if verdict.outcome in (Outcome.SKIPPED, Outcome.PENDING):
            pytest.skip(verdict.reason)
        self.user_properties += gate_properties(verdict)
        if verdict.is_red:
            raise GateFailed(verdict, result, self.evals.model)


_NOT_PASSED = (Outcome.FAILED, Outcome.INVALID, Outcome.INCONCLUSIVE)


def gate_word(verdict: Verdict) -> str:
    """Return a gate's result for reports; an inconclusive one passes with
    ``--evals-inconclusive=pass``."""
    if verdict.gate.advisory and verdict.outcome in _NOT_PASSED:
        return "advisory"
    if verdict.outcome is Outcome.INCONCLUSIVE and verdict.policy == "pass":
        return Outcome.PASSED.value
    return verdict.outcome.value


def gate_properties(verdict: Verdict) -> list[tuple[str, object]]:
    """Return the properties of a gate for JUnit and other reports."""
    from pytest_evals.reports.escape import one_line

    found: list[tuple[str, object]] = [
        ("verdict", verdict.outcome.value),
        ("reason", one_line(verdict.reason)),
    ]
    for name in ("conclusion", "method"):
        if text := getattr(verdict, name):
            found.append((name, one_line(text)))
    if verdict.metric is not None:
        found.append(("metric", one_line(verdict.metric.key)))
    estimate = verdict.metric.estimate if verdict.metric else None
    if estimate is not None:
        found.append(("value", estimate.value))
    if verdict.interval is not None:
        found += [("low", verdict.interval.low), ("high", verdict.interval.high)]
    if verdict.change is not None:
        names = ("baseline", "before", "difference", "bar", "n", "gained", "lost")
        words = {"bar": "threshold"}
        change = verdict.change
        facts = ((words.get(name, name), getattr(change, name)) for name in names)
        found += [(name, value) for name, value in facts if value is not None]
    if verdict.p_fails is not None:
        found.append(("p_value", verdict.p_fails))
        found.append(("p_adjusted", verdict.p_adjusted))
    return found + [("note", one_line(note)) for note in verdict.notes]


class GateLetters:
    """Prints a file once, as a pytest plugin: gates run after the documents of all
    files, so a file has a second line only if one of its gates failed or is
    inconclusive."""

    def __init__(self, session: EvalSession, terminal: pytest.TerminalReporter) -> None:
        self._shared = session.shared
        self._terminal = terminal
        self._file = ""
        self._seen: set[tuple[str, str | None]] = set()
        """Reports whose letters were decided: the short summary needs them again."""
        self._held: list[tuple[str, dict[str, bool]]] = []
        """Letters of the file's gates that were not printed."""

    @staticmethod
    def is_needed(terminal: pytest.TerminalReporter | None) -> bool:
        """Whether letters are printed after the names of files."""
        if terminal is None or terminal.config.get_verbosity() != 0:
            return False
        return bool(terminal.showfspath)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> None:
        """Let pytest begin a line for the file of any test but a gate."""
        self._terminal.showfspath = not self._is_gate(item.nodeid)

    @pytest.hookimpl(wrapper=True)
    def pytest_report_teststatus(
        self, report: pytest.TestReport
    ) -> Generator[None, Status, Status]:
        """Keep the letter of a gate until one of its file's gates needs a line."""
        category, letter, word = yield
        seen = report.nodeid, report.when
        if not letter or not self._is_gate(report.nodeid) or seen in self._seen:
            return category, letter, word
        self._seen.add(seen)
        file = report.nodeid.partition("::")[0]
        if file != self._file:
            self._file = file
            self._held.clear()
        terminal = self._terminal
        if terminal.currentfspath == terminal.config.rootpath / file:
            return category, letter, word
        if not report.failed and category != "inconclusive":
            self._held.append((letter, _markup(word, report)))
            return category, "", word
        terminal.write_fspath_result(report.nodeid, "")
        for held, markup in self._held:
            terminal._tw.write(held, **markup)
        return category, letter, word

    def _is_gate(self, nodeid: str) -> bool:
        return nodeid in self._shared.collected_gates


def _markup(word: str | tuple[str, dict[str, bool]], report: object) -> dict[str, bool]:
    if isinstance(word, tuple):
        return word[1]
    return {"green" if getattr(report, "passed", False) else "yellow": True}


def _is_skipped_by_mark(report: pytest.TestReport) -> bool:
    """Whether a mark that says why skips a test, not a fixture or a hook."""
    is_marked = not {"skip", "skipif"}.isdisjoint(report.keywords)
    reason = report.longrepr[-1] if isinstance(report.longrepr, tuple) else ""
    return report.when == "setup" and is_marked and reason != _NO_REASON


_NO_REASON = "Skipped: unconditional skip"
"""What pytest writes for ``@pytest.mark.skip`` without a reason."""


def _gates_of(session: EvalSession) -> Iterator[tuple[str, Gate]]:
    """Yield the gates of a model with their node ids."""
    for run in session.suite.all():
        for gate in run.gates:
            yield run.gate_id(gate), gate


class GateCoverage:
    """Counts the gates of a session: one with gates that were not judged, or with a
    metric that could not be computed, must not look like one whose gates passed."""

    def __init__(self, session: EvalSession) -> None:
        self._session = session
        self._excused: set[str] = set()
        """Node ids of gates that a mark skips, with a reason."""
        self._marks: dict[str, Literal["xfail", "xpass"]] = {}
        """Node id → ``xfail`` or ``xpass``."""

    def add(self, report: pytest.TestReport) -> None:
        """Remember marks of a gate."""
        if hasattr(report, "wasxfail"):
            self._excused.add(report.nodeid)
            self._marks[report.nodeid] = "xpass" if report.passed else "xfail"
        elif report.skipped and _is_skipped_by_mark(report):
            self._excused.add(report.nodeid)

    def mark_verdicts(self) -> None:
        """Add ``xfail`` to verdicts, for the table and for baselines."""
        reported = self._session.run.gate_judge.reported
        for nodeid, gate in _gates_of(self._session):
            key = gate.task, gate.id
            if nodeid in self._marks and key in reported:
                reported[key] = replace(reported[key], mark=self._marks[nodeid])

    def check(self, session: pytest.Session, result: RunResult) -> None:
        """Fail the session if its gates say less than its exit code. Those of a part of
        a run are judged later."""
        if self._session.options.shard:
            return
        gates = [*_gates_of(self._session)]
        collected = self._session.shared.collected_gates
        if collected:
            gates = [(nodeid, gate) for nodeid, gate in gates if nodeid in collected]
        left = [gate for nodeid, gate in gates if not self._is_judged(nodeid, gate)]
        is_release = self._session.options.profile == RELEASE
        outcome = self._session.outcome
        if left:
            n, n_all = len(left), len(gates)
            are = "gate was" if n == n_all == 1 else "gates were"
            outcome.line = f"{n} of {n_all} {are} not judged"
            is_empty = n == n_all and not self._is_selected()
            if is_empty:
                outcome.line = f"no gate was judged, of {n}"
            elif is_release:
                outcome.line += f"; --evals-profile={RELEASE} needs all of them"
            if is_empty or is_release:
                outcome.fail(session, outcome.line)
        for metric in broken_metrics(result.tasks):
            outcome.fail(session, metric)

    def _is_judged(self, nodeid: str, gate: Gate) -> bool:
        """Whether a gate has a verdict, or a reason not to have one."""
        judge = self._session.run.gate_judge
        verdict = judge.reported.get((gate.task, gate.id))
        if nodeid in self._excused:
            return True
        if verdict is None:
            return False
        # A gate on a baseline that this run becomes is skipped, with all documents.
        is_complete = not judge.result_of(gate).n_missing
        return verdict.outcome is not Outcome.SKIPPED or verdict.left_out or is_complete

    def _is_selected(self) -> bool:
        """Whether the user has selected documents or gates."""
        config, options = self._session.config, self._session.options
        names = ("keyword", "markexpr", "deselect", "lf", "stepwise", "splits")
        return bool(
            any(config.getoption(name, None) for name in names)
            or any("::" in str(arg) for arg in config.args)
            or options.only
            or options.limit
            or options.sample
        )


_Phase = Literal["setup", "call", "teardown"]


def report_gate(session: EvalSession, nodeid: str) -> None:
    """Judge the gate of a node id, and report it in pytest's three phases."""
    session, gate = next(
        (one, gate)
        for one in session.all
        for known, gate in _gates_of(one)
        if known == nodeid
    )
    given = session.gate_marks.get(nodeid)
    mark = GateMark(*given) if given is not None else None
    hook, place = session.config.hook, gate.source
    line = place.line - 1 if place.line else None
    location = (str(place.path), line, heading_of(gate))
    properties: list[tuple[str, Any]] = []
    if mark is not None and not mark.runs:
        phases: dict[_Phase, dict[str, Any]]
        phases = {"setup": _not_judged(gate, mark), "teardown": {}}
    else:
        verdict, result = session.run.gate_judge.judge(gate)
        properties = gate_properties(verdict)
        fields = _with_mark(_judged(session, verdict, result), mark)
        phases = {"setup": {}, "call": fields, "teardown": {}}
    hook.pytest_runtest_logstart(nodeid=nodeid, location=location)
    for when, more in phases.items():
        report = pytest.TestReport(
            nodeid=nodeid,
            location=location,
            keywords=_keywords(gate),
            outcome="passed",
            longrepr=None,
            when=when,
            user_properties=properties,
        )
        vars(report).update(more)
        hook.pytest_runtest_logreport(report=report)
    hook.pytest_runtest_logfinish(nodeid=nodeid, location=location)


def _judged(
    session: EvalSession, verdict: Verdict, result: TaskResult | GroupResult
) -> dict[str, Any]:
    """Return the fields of the call report for a verdict."""
    fields: dict[str, Any] = {"evals_word": gate_word(verdict)}
    if verdict.outcome in (Outcome.SKIPPED, Outcome.PENDING):
        longrepr = _skipped(verdict.gate, verdict.reason)
        fields |= {"outcome": "skipped", "longrepr": longrepr}
    elif verdict.is_red:
        message = gate_message(verdict, result, session.config, session.model)
        fields |= {"outcome": "failed", "longrepr": message}
    return fields


def _with_mark(fields: dict[str, Any], mark: GateMark | None) -> dict[str, Any]:
    """Return the fields for a gate with an ``xfail`` mark, as ``_pytest.skipping``
    does."""
    outcome = fields.get("outcome", "passed")
    if mark is None or outcome == "skipped":
        return fields
    if outcome == "failed":
        as_expected = {"outcome": "skipped", "wasxfail": mark.reason}
        return fields | as_expected if mark.covers else fields
    if mark.strict:
        why = f"[XPASS(strict)] {mark.reason}"
        return fields | {"outcome": "failed", "longrepr": why}
    return fields | {"wasxfail": mark.reason}


def _not_judged(gate: Gate, mark: GateMark) -> dict[str, Any]:
    """Return the fields of the setup report for a gate that is not judged."""
    if mark.fails:
        return {"outcome": "failed", "longrepr": mark.reason}
    if mark.skips:
        longrepr, keywords = _skipped(gate, mark.reason), {**_keywords(gate), "skip": 1}
        return {"outcome": "skipped", "longrepr": longrepr, "keywords": keywords}
    return {"outcome": "skipped", "wasxfail": f"[NOTRUN] {mark.reason}"}


def _keywords(gate: Gate) -> dict[str, Literal[1]]:
    return {gate.id: 1, "evals": 1}


def _skipped(gate: Gate, reason: str) -> tuple[str, int, str]:
    return str(gate.source.path), gate.source.line, f"Skipped: {reason}"
