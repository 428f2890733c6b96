"""Gates written in Python: metrics of this session's tasks and groups, and assertions
about them.

A number is given only when it is one: over all documents that were selected, each with
a score. Whatever is not there yet skips the test, and what can never be there fails it.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from inspect import currentframe
from pathlib import Path
from typing import Any

import pytest

from pytest_evals.core.gate import Bound, Gate, Interval, Outcome, Scope, Verdict
from pytest_evals.core.metric import MetricResult
from pytest_evals.core.result import GroupResult, TaskResult
from pytest_evals.errors import EvalsError, Place, nearest, suggestion, unknown_name
from pytest_evals.gates.check import left_out, span_fault
from pytest_evals.gates.documents import with_labels
from pytest_evals.gates.judge import judge
from pytest_evals.gates.read.entry import read_gate
from pytest_evals.plugin.result_tests import read_records
from pytest_evals.plugin.session import SESSION, EvalSession
from pytest_evals.reports.details.gate import gate_lines, headline


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricNumber:
    """One metric over all documents of a task or a group.

    Args:
        stderr: Its standard error, ``None`` if missing.
        n: Documents that it is made of.
        higher_is_better: Direction, ``None`` if unknown.
    """

    value: float
    stderr: float | None
    n: int
    higher_is_better: bool | None
    _metric: MetricResult
    _result: TaskResult | GroupResult

    @property
    def lower(self) -> float:
        """One-sided lower bound over other documents, with confidence 0.95."""
        return self.interval().low

    @property
    def upper(self) -> float:
        """One-sided upper bound over other documents, with confidence 0.95."""
        return self.interval().high

    def interval(
        self,
        over: Scope = "population",
        confidence: float = 0.95,
        noise: float | None = None,
    ) -> Interval:
        """Both one-sided bounds, as a gate has them.

        Args:
            over: Which noise counts.
            confidence: Of each bound.
            noise: Share of answers that turn between two runs, for ``benchmark``.

        Raises:
            EvalsError: It has none.
        """
        gate = Gate(
            id="interval",
            task=_name(self._result),
            metric=self._metric.name,
            filter=self._metric.filter,
            bounds=(Bound(">=", Decimal(0)),),
            over=over,
            confidence=confidence,
            flip_rate=noise,
            measured=False,
            source=Place(Path("interval")),
        )
        verdict = judge(gate, self._result)
        if verdict.interval is None:
            why = verdict.reason if verdict.outcome is Outcome.INVALID else ""
            raise EvalsError(
                f"{self._metric.key} of {gate.task} has no interval over {over}"
                + (f": {why}" if why else "; a run's own number has none")
            )
        return verdict.interval


class Numbers(Mapping[str, MetricNumber]):
    """The numbers of a task or a group, by the keys of ``results.json``:
    ``exact_match,strict-match``; the filter may be left out where there is one."""

    def __init__(self, result: TaskResult | GroupResult) -> None:
        self._result = result
        self._metrics = {metric.key: metric for metric in result.metrics}

    def __getitem__(self, key: str) -> MetricNumber:
        """The number of a metric.

        Raises:
            EvalsError: There is no such metric, it has no value, or documents have no
                score.
        """
        __tracebackhide__ = True
        metric = self._find(key)
        where = f"{metric.key} of {_name(self._result)}"
        if metric.estimate is None or not metric.n_scored:
            why = metric.error or "no document has a score"
            raise EvalsError(f"{where} has no value: {why}")
        lost = metric.n_errored + metric.n_unscored + metric.n_absent
        if lost:
            raise EvalsError(
                f"{where}: {lost} of {lost + metric.n_scored} documents have no score, "
                "and an error is not an answer\n"
                "  fix: use assert_gate, which counts documents without a score"
            )
        return MetricNumber(
            value=metric.estimate.value,
            stderr=metric.estimate.stderr,
            n=metric.n_scored,
            higher_is_better=metric.higher_is_better,
            _metric=metric,
            _result=self._result,
        )

    def __iter__(self) -> Iterator[str]:
        """Keys, in the order of the task."""
        return iter(self._metrics)

    def __len__(self) -> int:
        """How many numbers there are."""
        return len(self._metrics)

    def __contains__(self, key: object) -> bool:
        """Whether there is such a number; it may have no value."""
        return key in self._metrics

    def _find(self, key: str) -> MetricResult:
        __tracebackhide__ = True
        if key in self._metrics:
            return self._metrics[key]
        named = [one for one in self._metrics.values() if one.name == key]
        if len(named) == 1:
            return named[0]
        if named:
            known = ", ".join(repr(one.key) for one in named)
            raise EvalsError(f"{key!r} exists under {len(named)} filters: {known}")
        names = [*self._metrics, *(one.name for one in self._metrics.values())]
        near = nearest(key, names)
        hint = suggestion(key, [near] if near else self._metrics)
        raise EvalsError(f"{_name(self._result)} has no metric {key!r}{hint}")


class EvalResults:
    """What the session has found, by task or group: the fixture ``eval_results``."""

    def __init__(self, config: pytest.Config, model: str = "") -> None:
        """Use the results of a model; that of the only one by default."""
        self._model = model
        self._first = config.stash.get(SESSION, None)
        self._session = self._of(model)
        self._is_complete = False
        """On a worker, whether it knows the documents of all others."""

    def __call__(self, name: str, *, model: str = "") -> Numbers:
        """The numbers of a task or a group. A test that asks for one whose documents
        were not all run is skipped.

        Args:
            model: The name of another of several models.

        Raises:
            EvalsError: No task or group, or no model, has that name.
        """
        __tracebackhide__ = True
        if model and model != self._model:
            return self.of(model)(name)
        result = self.result(name)
        if result.n_missing:
            n = result.n_selected
            pytest.skip(f"{name}: {n - result.n_missing} of {n} documents were run")
        return Numbers(result)

    def of(self, model: str) -> EvalResults:
        """The results of another of several models.

        Raises:
            EvalsError: No model has that name.
        """
        session = self._of(model)
        if session is None:
            pytest.skip("no eval file was collected, so there is nothing to judge")
        return EvalResults(session.config, model)

    def _of(self, model: str) -> EvalSession | None:
        if self._first is None or not model:
            return self._first
        by_name = {one.model: one for one in self._first.all}
        if model not in by_name:
            raise EvalsError(unknown_name("model", model, [*filter(None, by_name)]))
        return by_name[model]

    def result(self, name: str) -> TaskResult | GroupResult:
        """All that is known of a task or a group, however many documents were run.

        Raises:
            EvalsError: No metric has that name.
        """
        __tracebackhide__ = True
        session = self._session
        if session is None:
            pytest.skip("no eval file was collected, so there is nothing to judge")
        if session.assignment is not None and not self._is_complete:
            self._is_complete = read_records(session)
            if not self._is_complete:
                pytest.skip("not all documents were run")
        name = session.suite.name_of(name)
        if name in session.suite.groups:
            return session.run.records.group_result(name)
        if name in session.suite.tasks:
            return session.run.records.result(name)
        names = [*session.suite.tasks, *session.suite.groups]
        raise EvalsError(unknown_name("task or group", name, names))

    def judge(self, gate: Gate) -> tuple[Verdict, TaskResult | GroupResult]:
        """A gate's verdict, and what it rests on; nothing of it is reported."""
        result = self.result(gate.task)
        if gate.when and self._session is not None:
            run = self._session.run
            names = {**run.inference.machine(run.config.spec)}
            skipped = left_out(gate, names | run.suite.variant_of(gate.task))
            if skipped is not None:
                return skipped, result
        if gate.cluster:
            result = with_labels(result, gate.cluster)
        session = self._session
        assert session is not None
        policy, find = session.options.inconclusive, session.run.baselines.find
        gate = session.gates.with_session_settings(gate)
        return judge(gate, result, policy, find), result


def assert_gate(claim: str, results: EvalResults, **keys: Any) -> Verdict:
    """Hold a claim against the results, by the rules of gates in files.

    ``assert_gate("gsm8k/acc >= 0.8", eval_results)`` is a bare bound;
    ``assert_gate("gsm8k/acc", eval_results, min=0.8, over="population")`` has the keys
    of a gate's mapping. A test whose documents were not all run is skipped; an open
    verdict is what ``--evals-inconclusive`` says.

    Args:
        claim: ``TASK/METRIC[,FILTER]``, with a bound if there are no keys.
        results: The fixture ``eval_results``.

    Raises:
        AssertionError: The claim does not hold, or there is nothing sound to judge.
        EvalsError: It is not a valid gate, its metric is missing, or can never fail or
            never hold.
    """
    __tracebackhide__ = True
    gate = _gate(claim, keys)
    verdict, result = results.judge(gate)
    if verdict.outcome in (Outcome.SKIPPED, Outcome.PENDING):
        pytest.skip(f"{gate.task}: {verdict.reason}")
    how = verdict.metric.how if verdict.metric else None
    if how is not None and (fault := span_fault(gate, how.span, how.scale)):
        raise EvalsError(f"{gate.source}: {fault}")
    heading, *more = [f"{gate.task}: {gate.text}", *gate_lines(verdict, result)]
    if verdict.is_red:
        raise AssertionError("\n".join([heading, *more]))
    if verdict.outcome is Outcome.INCONCLUSIVE and verdict.policy == "warn":
        open_ = f"{heading}: inconclusive: {headline(verdict)}"
        warnings.warn(pytest.PytestWarning(open_), stacklevel=2)
    return verdict


def _gate(claim: str, keys: Mapping[str, Any]) -> Gate:
    entry = {"metric": claim, **keys} if keys else claim
    return read_gate(entry, task="", source=_caller())


def _caller() -> Place:
    """Where :func:`assert_gate` was called."""
    frame = currentframe()
    for _ in range(3):
        frame = frame.f_back if frame is not None else None
    if frame is None:
        return Place(Path("assert_gate"))
    return Place(Path(frame.f_code.co_filename), frame.f_lineno)


def _name(result: TaskResult | GroupResult) -> str:
    return result.group.name if isinstance(result, GroupResult) else result.task.name
