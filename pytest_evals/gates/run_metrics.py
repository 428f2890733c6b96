"""Counts and times of a run as metrics of gates: ``truncated <= 2%``.

They exist only for gates that name them: the values of each document are kept when it
is scored, and the metric is computed when its gate is judged. A task's own metric of
the same name takes precedence.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from pytest_evals.core.gate import Gate, Outcome, Verdict
from pytest_evals.core.metric import SHARE, Estimate, Metric, MetricResult, Span
from pytest_evals.core.record import Record, Score, Status
from pytest_evals.core.request import Generate, Response
from pytest_evals.core.result import AnyResult, GroupResult, TaskResult
from pytest_evals.core.task import Task
from pytest_evals.gates.reducers import estimated_mean
from pytest_evals.stats.averages import mean

_MOST_NAMED = 20  # number of documents listed in a verdict

Fact = tuple[float, ...] | None
"""The values of a document, ``None`` if they are unknown; empty if it has none."""
_NO_FINISH = "{} have an answer that does not report why it ended (finish)"
_NO_TOKENS = "{} have an answer that does not report its number of tokens"
_NO_LATENCY = (
    "{} have no latency: models in this process answer in batches, and responses that "
    "earlier versions stored have none (--evals-cache=refresh sends them again)"
)
_NO_COST = (
    "{} have no cost: the model has no prices (price_in, price_out), or they were "
    "stored without (--evals-cache=refresh sends them again)"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunMetric:
    """A run metric."""

    metric: Metric  # aggregates the values of documents
    fact: Callable[[Record], Fact] = lambda _: None
    """Returns the values of a document whose requests were all answered."""
    unknown: str = ""  # error message if a document's values are unknown
    of_text: bool = False  # whether it only exists for generations
    status: Status | None = None  # status that is counted, instead of a fact

    @property
    def takes_all(self) -> bool:
        """Whether a document counts with each of its values."""
        return self.fact is _latencies

    def of(self, record: Record) -> Fact:
        """The values of a scored document, as they were kept."""
        if self.status is not None:
            return (float(record.status is self.status),)
        return record.facts.get(self.metric.name)

    def fault(self, gate: Gate) -> str:
        """Why a gate cannot use it; empty if it can."""
        name = gate.metric
        for key in ("baseline", "reducer", "filter"):
            if getattr(gate, key):
                return (
                    f"{key} cannot be used with {name}, which is a metric of this run"
                )
        targets = ("run", "population") if self.metric.is_mean else ("run",)
        only = " or ".join(f"over: {one}" for one in targets)
        return "" if gate.over in targets else f"{name} can only be judged {only}"


def _texts(record: Record) -> list[Response]:
    """Generations of the tested model."""
    return [answer for asked, answer in record.own_pairs if isinstance(asked, Generate)]


def _cut_prompt(record: Record) -> Fact:
    return (float(any(one.n_truncated for one in record.own_responses)),)


def _ended(record: Record, finish: str) -> Fact:
    """Whether a generation ended for a reason; unknown without a reported one."""
    texts = _texts(record)
    if any(one.finish == finish for one in texts):
        return (1.0,)
    if any(not one.finish for one in texts):
        return None
    return (0.0,) if texts else ()


def _cut_short(record: Record) -> Fact:
    if record.cut_short:
        return (1.0,)
    texts = _texts(record)
    # Without a token count, it may also have ended at the request's own limit.
    kept = [
        one for one in texts if one.finish and (one.finish != "length" or one.n_tokens)
    ]
    if len(kept) < len(texts):
        return None
    return (0.0,) if texts else ()


def _truncated(record: Record) -> Fact:
    if _cut_prompt(record) == (1.0,):
        return (1.0,)
    return _cut_short(record) or ((0.0,) if not _texts(record) else None)


def _tokens(record: Record) -> Fact:
    texts = _texts(record)
    if any(one.text and not one.n_tokens for one in texts):
        return None
    return (mean([float(one.n_tokens) for one in texts]),) if texts else ()


def _latencies(record: Record) -> Fact:
    latencies = tuple(one.latency_s for one in record.own_responses)
    return None if any(one <= 0 for one in latencies) else latencies


def _cost(record: Record) -> Fact:
    costs = [one.cost for one in record.own_responses if one.cost is not None]
    return (math.fsum(costs),) if len(costs) == len(record.own_responses) else None


def _total(values: Sequence[float]) -> Estimate:
    return Estimate(math.fsum(values))


def _percentile(share: int, values: Sequence[tuple[float, ...]]) -> Estimate:
    """The smallest value that at least ``share`` in 100 values do not exceed."""
    every = sorted(one for some in values for one in some)
    rank = -(-share * len(every) // 100)
    return Estimate(every[max(rank, 1) - 1])


def _share_of(name: str) -> Metric:
    return Metric(
        name=name,
        aggregate=estimated_mean,
        higher_is_better=False,
        is_mean=True,
        span=SHARE,
        closed=True,
    )


def _amount(name: str, aggregate: Callable[[Sequence[Any]], Estimate]) -> Metric:
    return Metric(
        name=name,
        aggregate=aggregate,
        is_mean=aggregate is estimated_mean,
        higher_is_better=None if aggregate is estimated_mean else False,
        span=Span(0.0, math.inf),
        limits=(0.0, math.inf),
        closed=True,
    )


def _all() -> Iterator[RunMetric]:
    for name, fact, of_text in (
        ("truncated", _truncated, False),
        ("cut_prompts", _cut_prompt, False),
        ("cut_short", _cut_short, True),
        ("length_limited", partial(_ended, finish="length"), True),
        ("refused", partial(_ended, finish="refused"), True),
    ):
        metric = _share_of(name)
        yield RunMetric(metric=metric, fact=fact, unknown=_NO_FINISH, of_text=of_text)
    for status in (Status.ERRORED, Status.UNSCORED):
        yield RunMetric(metric=_share_of(status.value), status=status)
    metric = _amount("tokens_per_answer", estimated_mean)
    yield RunMetric(metric=metric, fact=_tokens, unknown=_NO_TOKENS, of_text=True)
    for share in (50, 95, 99):
        metric = _amount(f"latency_p{share}", partial(_percentile, share))
        yield RunMetric(metric=metric, fact=_latencies, unknown=_NO_LATENCY)
    yield RunMetric(metric=_amount("cost", _total), fact=_cost, unknown=_NO_COST)


RUN_METRICS: Mapping[str, RunMetric] = {one.metric.name: one for one in _all()}


def run_metrics_of(task: Task) -> dict[str, Metric]:
    """The run metrics of a task."""
    generates = task.output_type == "generate_until"
    return {
        name: one.metric
        for name, one in RUN_METRICS.items()
        if generates or not one.of_text
    }


def facts_of(record: Record, names: Iterable[str]) -> dict[str, Fact]:
    """The values for these metrics of a scored document; empty without a response."""
    responses = record.own_responses
    if not responses and not record.error:
        return dict.fromkeys(names, ())
    named = {name: RUN_METRICS[name] for name in names}
    if responses and not any(one.error for one in responses):
        counted = named.items()
        return {name: one.fact(record) for name, one in counted if one.status is None}
    is_refused = any(one.finish == "refused" for one in responses)
    return {"refused": (1.0,)} if is_refused and "refused" in named else {}


def with_run_metric(gate: Gate, result: AnyResult) -> TaskResult | None:
    """The result with the run metric of a gate as its only metric; a group's documents
    count as those of one task. ``None`` if the metric is not a run metric."""
    one = RUN_METRICS.get(gate.metric)
    tasks = result.members if isinstance(result, GroupResult) else (result,)
    if one is None or not tasks or any(m.name == gate.metric for m in result.metrics):
        return None
    counted, n_absent, unknown = _counted(one, tasks)
    metric, error = one.metric, one.fault(gate) or unknown
    values = [score.value for record in counted for score in record.scores]
    estimate = metric.aggregate(values) if values and not error else None
    n_missing = sum(task.n_missing for task in tasks)
    if not counted and not error and not n_missing:
        error = f"no document has {'a generated' if one.of_text else 'an'} answer"
    answered = (one for task in tasks for one in task.records if not one.error)
    measured = MetricResult(
        name=metric.name,
        filter="none",
        estimate=estimate if isinstance(estimate, Estimate) else None,
        higher_is_better=metric.higher_is_better,
        n_scored=max(1, len([*answered])) if error else len(values),
        n_errored=len(counted) - len(values),
        n_missing=n_missing,
        n_absent=n_absent,
        total=int(sum(values)) if values and metric.span == SHARE else None,
        error=error,
        how=metric,
    )
    return replace(
        tasks[0],
        records=tuple(counted),
        metrics=(measured,),
        n_selected=sum(task.n_selected for task in tasks),
        n_total=sum(task.n_total for task in tasks),
        n_missing=n_missing,
    )


def _counted(
    one: RunMetric, tasks: Sequence[TaskResult]
) -> tuple[list[Record], int, str]:
    """The documents with their values; how many have none; and an error message if the
    metric has no value."""
    name = one.metric.name
    counted: list[Record] = []
    n_unknown = n_absent = 0
    records = [(t.task.name, r) for t in tasks for r in t.records if not r.excluded]
    for task, record in records:
        if one.status is None and name not in record.facts and not record.error:
            return [], 0, f"{name} was not kept when its documents were scored"
        values, bare = one.of(record), _bare(record, len(counted), task)
        if values is None:
            n_unknown += name in record.facts
            counted.append(bare)
        elif values:
            score = Score(metric=name, value=values if one.takes_all else values[0])
            counted.append(replace(bare, error="", scores=(score,)))
        else:
            n_absent += not record.error
    unknown = one.unknown.format(f"{n_unknown} of {len(records)} documents")
    return counted, n_absent, unknown if n_unknown else ""


def with_documents(verdict: Verdict, result: TaskResult) -> Verdict:
    """The verdict of a gate on a run metric, with the first documents that a failed
    gate counts."""
    named: tuple[str, ...] = ()
    how = verdict.metric.how if verdict.metric else None
    if verdict.outcome is Outcome.FAILED and how is not None and how.span == SHARE:
        counted = [r for r in result.records if any(s.value == 1 for s in r.scores)]
        is_group = len({record.task for record in result.records}) > 1
        named = tuple(
            f"{record.task}[{record.doc.id}]" if is_group else record.doc.id
            for record in counted[:_MOST_NAMED]
        )
    return replace(verdict, n_short=None, documents=named)


def _bare(record: Record, index: int, name: str) -> Record:
    """A document without a value; clusters do not extend beyond a task."""
    labels = record.labels.items()
    return Record(
        task=record.task,
        index=index,
        doc=record.doc,
        labels={key: f"{name}/{label}" for key, label in labels},
        error="no answer",
    )
