"""Judge gates on the rows of two runs, as in a session of pytest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial

from pytest_evals.core.gate import Gate, Outcome, Policy, Verdict
from pytest_evals.core.reference import no_reference
from pytest_evals.core.result import GroupResult, RunResult, TaskResult
from pytest_evals.gates.decide import corrected
from pytest_evals.gates.judge import judge
from pytest_evals.judge_command.columns import ColumnRun
from pytest_evals.judge_command.gates import GivenGates, assigned, tasks_of_groups
from pytest_evals.judge_command.results import Range, group_result, task_result
from pytest_evals.judge_command.run_pairs import RunPairs
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
    pairs: RunPairs | None = None,
    policy: Policy = "warn",
    span: Range = (0.0, 1.0),
) -> Judged:
    """Judge all gates together, since failures are corrected for their number.

    Args:
        run: The results.
        given: The gates.
        pairs: The results and older ones, if there are some.
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
        gates_above = [gate for gate in gates if gate.task in above]
        read = partial(task_result, run)
        if isinstance(run, ColumnRun):
            read = partial(run.result, shown=pairs.shown if pairs else ())
        results[name] = tasks[name] = read(name, gates_above, span)
    for name, below in groups.items():
        results[name] = group_result(run, name, {one: tasks[one] for one in below})
    find = pairs.reference if pairs is not None else no_reference
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
