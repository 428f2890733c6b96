"""Judge gates on the rows of two runs, as in a session of pytest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from pytest_evals.core.gate import Gate, Outcome, Policy, Verdict
from pytest_evals.core.reference import Reference
from pytest_evals.core.result import GroupResult, RunResult, TaskResult
from pytest_evals.gates.decide import corrected
from pytest_evals.gates.judge import judge
from pytest_evals.judge_command.columns import ColumnRun
from pytest_evals.judge_command.gates import GivenGates, assigned, tasks_of_groups
from pytest_evals.judge_command.results import Range, group_result, task_result
from pytest_evals.store.document_pairs import Side, refer
from pytest_evals.store.history import EarlierRun


@dataclass(frozen=True, slots=True)
class Judged:
    """Judged results.

    Args:
        result: The results, with the verdicts of all gates.
        results: Task or group → the results that its gates judge.
    """

    result: RunResult
    results: Mapping[str, TaskResult | GroupResult]


def judged(
    run: EarlierRun,
    given: GivenGates,
    *,
    baseline: EarlierRun | None = None,
    policy: Policy = "warn",
    span: Range = (0.0, 1.0),
) -> Judged:
    """Judge all gates together, since failures are corrected for their number.

    Args:
        run: The results.
        given: The gates.
        baseline: Older results.
        policy: Meaning of an inconclusive verdict.
        span: Range of a document's value for metrics of unknown range.

    Raises:
        OptionError: A gate's task or metric is not in the results, or a value is
            outside of its range.
    """
    groups = tasks_of_groups(run)
    gates = assigned(given.gates, run, groups)
    results: dict[str, TaskResult | GroupResult] = {}
    tasks: dict[str, TaskResult] = {}
    for name in run.tasks:
        above = {name, *(one for one, below in groups.items() if name in below)}
        own = [gate for gate in gates if gate.task in above]
        read = run.result if isinstance(run, ColumnRun) else partial(task_result, run)
        results[name] = tasks[name] = read(name, own, span)
    for name, below in groups.items():
        results[name] = group_result(run, name, {one: tasks[one] for one in below})
    find = _References(run, baseline)
    verdicts = [
        judge(_reduced(gate, results[gate.task]), results[gate.task], policy, find)
        for gate in gates
    ]
    verdicts = [*corrected(verdicts), *map(_left_out, given.left_out)]
    model = run.results.get("model_name")
    result = RunResult(
        model=str(model or run.path),
        tasks=tuple(tasks.values()),
        groups=tuple(one for one in results.values() if isinstance(one, GroupResult)),
        verdicts=tuple(verdicts),
    )
    return Judged(result, results)


def _reduced(gate: Gate, result: TaskResult | GroupResult) -> Gate:
    """The gate; of several answers to a document the mean counts, unless it has
    a reducer."""
    if gate.reducer or gate.over == "run" or isinstance(result, GroupResult):
        return gate
    has_repeats = any(
        score.repeats and score.metric == gate.metric
        for record in result.records
        for score in record.scores
    )
    return replace(gate, reducer="mean") if has_repeats else gate


def _left_out(gate: Gate) -> Verdict:
    reason = "when needs the model and the machine of a run"
    return Verdict(gate=gate, outcome=Outcome.SKIPPED, reason=reason, left_out=True)


_FIX = "pass other results with --baseline"


class _References:
    """Finds a task in the older results, paired with the new ones."""

    def __init__(self, run: EarlierRun, baseline: EarlierRun | None) -> None:
        self._run, self._baseline = run, baseline
        self._known: dict[tuple[str, str], Reference] = {}

    def __call__(self, name: str, task: str) -> Reference:
        assert self._baseline is not None  # gates that need one are refused without
        if (name, task) not in self._known:
            self._known[name, task] = self._pair(name, task, self._baseline)
        return self._known[name, task]

    def _pair(self, name: str, task: str, baseline: EarlierRun) -> Reference:
        before = side_of(baseline, [one for one in baseline.tasks if one == task])
        others: Mapping[str, Sequence[object]] = dict.fromkeys(baseline.tasks, ())
        rows = {**others, **before.rows}
        before = Side(results=baseline.results, rows=rows)  # type: ignore[arg-type]
        return refer(name, task, before, side_of(self._run, [task]), fix=_FIX)


def side_of(run: EarlierRun, tasks: Sequence[str]) -> Side:
    """One of two runs to pair; its documents are numbered as in its results."""
    rows = {}
    for task in tasks:
        found = list(run.all_rows(task))
        positions = {
            doc_id: at for at, doc_id in enumerate(sorted({r["doc_id"] for r in found}))
        }
        rows[task] = [{**row, "doc_id": positions[row["doc_id"]]} for row in found]
    return Side(results=run.results, rows=rows)
