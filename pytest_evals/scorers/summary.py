"""From the scored documents of a task to its metrics and counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

from pytest_evals.core.metric import Estimate, Metric, MetricResult
from pytest_evals.core.record import Record, Score, Status
from pytest_evals.core.result import TaskResult
from pytest_evals.core.task import Task
from pytest_evals.errors import EvalsError
from pytest_evals.scorers.metrics import MetricSpec, metric


def summarise(task: Task, records: Sequence[Record], n_selected: int) -> TaskResult:
    """All that can be said of a task: its metrics and its counts.

    Args:
        task: The recipe.
        records: Scored records, in any order.
        n_selected: Documents that should have been run.
    """
    ordered = tuple(sorted(records, key=lambda record: record.index))
    counted = [record for record in ordered if not record.excluded]
    statuses = [record.status for record in counted]
    verdicts = [record.correct for record in counted if not record.error]
    n_missing = max(0, n_selected - len(ordered))
    responses = [response for record in ordered for response in record.said]
    return TaskResult(
        task=task,
        records=ordered,
        metrics=_measured(_metrics(task, ordered), counted, n_missing),
        n_selected=n_selected,
        n_total=task.rows.total(),
        n_correct=verdicts.count(True),
        n_wrong=verdicts.count(False),
        n_errored=statuses.count(Status.ERRORED),
        n_unscored=statuses.count(Status.UNSCORED),
        n_missing=n_missing,
        n_excluded=len(ordered) - len(counted),
        n_prompt_tokens=sum(r.n_prompt_tokens for r in responses),
        n_tokens=sum(r.n_tokens for r in responses),
        n_truncated=sum(any(r.n_truncated for r in record.said) for record in ordered),
        n_cut_short=sum(record.cut_short for record in ordered),
    )


def _metrics(task: Task, records: Sequence[Record]) -> list[Metric]:
    """The task's metrics without those that its scorer never gave and need not give (a
    function that names its values itself, say), and those that it gave beyond them."""
    scores: dict[tuple[str, str], Score] = {}
    for record in records:
        for score in record.scores:
            scores.setdefault((score.metric, score.filter), score)
    if not scores:
        return list(task.metrics)
    kept = [m for m in task.metrics if m.lacking or (m.name, m.filter) in scores]
    listed = {(m.name, m.filter) for m in kept}
    beyond = [
        _beyond(task, score) for key, score in scores.items() if key not in listed
    ]
    return kept + [metric for metric in beyond if metric is not None]


def _beyond(task: Task, score: Score) -> Metric | None:
    """How the scores of a name that the task does not list add up: as those of the
    metric whose function gives them, if there is one."""
    for listed in task.metrics:
        if (listed.name, listed.filter) == (score.lender, score.filter):
            return replace(listed, name=score.metric)
    metric_for = task.metric_for or partial(_mean_of, task.output_type)
    return metric_for(score.metric, score.filter)


def _mean_of(output_type: str, name: str, filter_: str) -> Metric:
    return metric(MetricSpec(name=name), filter_, output_type, declared=True)


def _measured(
    metrics: Sequence[Metric], records: Sequence[Record], n_missing: int
) -> tuple[MetricResult, ...]:
    """The numbers of all metrics. Those whose names are known only now have the name of
    their metric in front where they would not be the only ones of theirs."""
    measured = [(how, _measure(how, records, n_missing)) for how in metrics]
    taken = Counter((one.name, one.filter) for _, ones in measured for one in ones)
    found: list[MetricResult] = []
    for how, results in measured:
        named = any(one.how is None for one in results)
        if named and any(taken[one.name, one.filter] > 1 for one in results):
            results = [replace(r, name=f"{how.name}_{r.name}") for r in results]
        found += results
    return tuple(found)


def _measure(
    metric: Metric, records: Sequence[Record], n_missing: int
) -> list[MetricResult]:
    values, n_unscored = [], 0
    for record in records:
        for one in record.scores:
            if one.metric != metric.name or one.filter != metric.filter:
                continue
            if one.unscored:
                n_unscored += 1
            else:
                values.append(one.value)
    found: Estimate | Mapping[str, Estimate] | None = None
    error = "" if values or n_unscored else metric.lacking
    if values:
        try:
            found = (metric.several or metric.aggregate)(values)
        except (Exception, SystemExit) as problem:  # noqa: BLE001 - user's code
            kind = "" if isinstance(problem, EvalsError) else type(problem).__name__
            error = f"{kind}: {problem}" if kind else str(problem)
    exact = all(type(v) in (bool, int, float) and v in (0, 1) for v in values)
    several = isinstance(found, Mapping)
    if isinstance(found, Estimate) and found.is_mean:
        metric = replace(metric, is_mean=True)
    estimates = found if isinstance(found, Mapping) else {metric.name: found}
    return [
        MetricResult(
            name=name,
            filter=metric.filter,
            estimate=estimate,
            higher_is_better=metric.higher_is_better,
            n_scored=len(values),
            n_errored=sum(1 for record in records if record.error),
            n_unscored=n_unscored,
            n_missing=n_missing,
            total=int(sum(values)) if values and exact and metric.is_mean else None,
            error=error,
            how=None if several else metric,
        )
        for name, estimate in estimates.items()
    ]
