"""Summary of a task: metrics and counts from its scored documents."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from pytest_evals.core.metric import Estimate, Metric, MetricResult
from pytest_evals.core.record import Record, Score, Status
from pytest_evals.core.result import TaskResult
from pytest_evals.core.task import Task
from pytest_evals.errors import EvalsError
from pytest_evals.scorers.metrics import MetricSpec, metric


def summarise(
    task: Task, records: Sequence[Record], n_selected: int, n_total: int | None = None
) -> TaskResult:
    """Compute the metrics and counts of a task from its scored records, in any order.
    ``n_selected``: documents that were selected to run; ``n_total``: documents before
    that; ``None`` asks the rows."""
    ordered = tuple(sorted(records, key=lambda record: record.index))
    counted = [record for record in ordered if not record.excluded]
    counts = [record.counts() for record in ordered]
    pairs = zip(ordered, counts, strict=True)
    statuses = [one.status for record, one in pairs if not record.excluded]
    verdicts = [one.correct for one in counts if one.status is not Status.ERRORED]
    n_missing = max(0, n_selected - len(ordered))
    return TaskResult(
        task=task,
        records=ordered,
        metrics=_metric_results(_metrics(task, ordered), counted, n_missing),
        n_selected=n_selected,
        n_total=task.rows.total() if n_total is None else n_total,
        n_correct=verdicts.count(True),
        n_wrong=verdicts.count(False),
        n_errored=statuses.count(Status.ERRORED),
        n_unscored=statuses.count(Status.UNSCORED),
        n_missing=n_missing,
        n_excluded=len(ordered) - len(counted),
        n_prompt_tokens=sum(one.n_prompt_tokens for one in counts),
        n_tokens=sum(one.n_tokens for one in counts),
        n_truncated=sum(one.n_truncated > 0 for one in counts),
        n_cut_short=sum(one.is_cut_short for one in counts),
    )


def _metrics(task: Task, records: Sequence[Record]) -> list[Metric]:
    """The task's metrics that have scores or are required, and metrics that its scorer
    returned in addition."""
    scores: dict[tuple[str, str], Score] = {}
    for record in records:
        for score in record.scores:
            scores.setdefault((score.metric, score.filter), score)
    if not scores:
        return list(task.metrics)
    kept = [m for m in task.metrics if m.lacking or (m.name, m.filter) in scores]
    listed = {(m.name, m.filter) for m in kept}
    rest = [score for key, score in scores.items() if key not in listed]
    unlisted = [_unlisted_metric(task, score) for score in rest]
    return kept + [metric for metric in unlisted if metric is not None]


def _unlisted_metric(task: Task, score: Score) -> Metric | None:
    """Aggregation of a metric that the task does not list: that of the metric whose
    function returned it, if known."""
    for listed in task.metrics:
        if (listed.name, listed.filter) == (score.lender, score.filter):
            return replace(listed, name=score.metric)
    if task.metric_for is not None:
        return task.metric_for(score.metric, score.filter)
    spec = MetricSpec(name=score.metric)
    return metric(spec, score.filter, task.output_type, declared=True)


def _metric_results(
    metrics: Sequence[Metric], records: Sequence[Record], n_missing: int
) -> tuple[MetricResult, ...]:
    """Results of all metrics. If names that are known only after scoring are ambiguous,
    the metric's name becomes their prefix."""
    by_metric = [(one, _measure(one, records, n_missing)) for one in metrics]
    n_by_name = Counter((one.name, one.filter) for _, ones in by_metric for one in ones)
    all_results: list[MetricResult] = []
    for parent, results in by_metric:
        named = any(one.how is None for one in results)
        if named and any(n_by_name[one.name, one.filter] > 1 for one in results):
            results = [replace(r, name=f"{parent.name}_{r.name}") for r in results]
        all_results += results
    return tuple(all_results)


def _measure(
    metric: Metric, records: Sequence[Record], n_missing: int
) -> list[MetricResult]:
    values, n_unscored, n_absent = [], 0, 0
    for record in records:
        is_absent = not record.error
        for one in record.scores:
            if one.metric != metric.name or one.filter != metric.filter:
                continue
            is_absent = False
            if one.unscored:
                n_unscored += 1
            else:
                values.append(one.value)
        n_absent += is_absent
    n_errored = sum(1 for record in records if record.error)
    lacking = (n_errored, n_unscored, n_missing, n_absent)
    return measured(metric, values, lacking)


def measured(
    metric: Metric,
    values: Sequence[Any],
    lacking: tuple[int, int, int, int] = (0, 0, 0, 0),
) -> list[MetricResult]:
    """The result of a metric, or those that a user's function returns. ``lacking``:
    errored, unscored, missing and absent documents."""
    n_errored, n_unscored, n_missing, n_absent = lacking
    result: Estimate | Mapping[str, Estimate] | None = None
    error = "" if values or n_unscored else metric.lacking
    if values:
        try:
            result = (metric.several or metric.aggregate)(values)
        except (Exception, SystemExit) as problem:  # noqa: BLE001 - user's code
            kind = "" if isinstance(problem, EvalsError) else type(problem).__name__
            error = f"{kind}: {problem}" if kind else str(problem)
    exact = all(type(v) in (bool, int, float) and v in (0, 1) for v in values)
    several = isinstance(result, Mapping)
    if isinstance(result, Estimate) and result.is_mean:
        metric = replace(metric, is_mean=True)
    if values and metric.known_limits is None and all(type(v) is bool for v in values):
        metric = replace(metric, limits=(0.0, 1.0))
    estimates = result if isinstance(result, Mapping) else {metric.name: result}
    return [
        MetricResult(
            name=name,
            filter=metric.filter,
            estimate=estimate,
            higher_is_better=metric.higher_is_better,
            n_scored=len(values),
            n_errored=n_errored,
            n_unscored=n_unscored,
            n_missing=n_missing,
            n_absent=n_absent,
            total=int(sum(values)) if values and exact and metric.is_mean else None,
            error=error,
            how=None if several else metric,
        )
        for name, estimate in estimates.items()
    ]
