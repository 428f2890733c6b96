"""Task and group results from the rows of a run, as if it had just been scored."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, NamedTuple, NoReturn

from pytest_evals.core.doc import Doc
from pytest_evals.core.gate import Gate
from pytest_evals.core.metric import Metric, MetricResult
from pytest_evals.core.record import Record, Score
from pytest_evals.core.reference import ComparedValues, logprobs_in
from pytest_evals.core.request import Generate, Response
from pytest_evals.core.result import GroupResult, TaskResult
from pytest_evals.core.task import Aggregate, Group, Task
from pytest_evals.core.top_logprobs import compact
from pytest_evals.errors import EvalsError, OptionError, Place
from pytest_evals.gates.documents import labels_in, required_by
from pytest_evals.gates.run_metrics import facts_of
from pytest_evals.scorers.groups import summarise_group
from pytest_evals.scorers.metrics import METRICS, MetricSpec, metric
from pytest_evals.scorers.summary import summarise
from pytest_evals.store.document_pairs import answers_of
from pytest_evals.store.history import EarlierRun

Range = tuple[float, float]
_SAME = 1e-6
"""Relative difference up to which a number is that of the results file."""
_OTHER_NUMBER = (
    "and the documents give {:.6g}: how this metric is aggregated is unknown here"
)
_NO_AVERAGE = "which no average of its tasks gives"


class StoredDocuments(NamedTuple):
    """The documents of a task, as the rows of a dataset."""

    names: Sequence[str]
    n_total: int

    def ids(self) -> Sequence[str]:
        """Ids of the documents."""
        return self.names

    def indices(self) -> Sequence[int]:
        """Their positions."""
        return range(len(self.names))

    def total(self) -> int:
        """Number of documents of the whole dataset."""
        return self.n_total


def task_result(
    run: EarlierRun, name: str, gates: Iterable[Gate], span: Range
) -> TaskResult:
    """The result of a task.

    Args:
        gates: The gates on the task or its groups, which determine what is kept of each
            document.
        span: Range of a document's value for metrics of unknown range.

    Raises:
        OptionError: A value of a gate's metric is outside of its range.
    """
    rows = list(run.all_rows(name))
    every = [*gates]
    required = required_by(every)
    by_document: dict[int, list[Mapping[str, Any]]] = {}
    for row in rows:
        by_document.setdefault(row["doc_id"], []).append(row)
    records = [
        record_of(name, index, by_document[doc_id], required.fields, required.counts)
        for index, doc_id in enumerate(sorted(by_document))
    ]
    metrics = metrics_of(run, name, _values(records), every, span)
    task = stored_task(run, name, [one.doc.id for one in records], metrics)
    result = summarise(task, records, len(records))
    stored = _of(run, "results", name)
    found = tuple(_checked(one, stored, _OTHER_NUMBER) for one in result.metrics)
    return replace(result, metrics=found)


def stored_task(
    run: EarlierRun, name: str, ids: Sequence[str], metrics: Sequence[Metric]
) -> Task:
    """The task of documents that have been scored. ``ids``: those of the documents."""
    return Task(
        name=name,
        source=Place(run.path),
        rows=StoredDocuments(ids, _n_total(run, name, len(ids))),
        ask=_not_asked,
        score=_not_asked,
        metrics=tuple(metrics),
        alias=str(_of(run, "results", name).get("alias") or ""),
        n_shots=_shots(run, name),
        config=_of(run, "configs", name),
    )


def _not_asked(_: object) -> NoReturn:
    raise AssertionError("documents of result files are not asked again")


def _of(run: EarlierRun, section: str, name: str) -> Mapping[str, Any]:
    found = run.results.get(section)
    found = found.get(name) if isinstance(found, Mapping) else None
    return found if isinstance(found, Mapping) else {}


def _shots(run: EarlierRun, name: str) -> int:
    shots = run.results.get("n-shot")
    found = shots.get(name) if isinstance(shots, Mapping) else None
    return found if isinstance(found, int) else 0


def _n_total(run: EarlierRun, name: str, n: int) -> int:
    total = _of(run, "n-samples", name).get("original")
    return max(total, n) if isinstance(total, int) else n


def record_of(
    task: str,
    index: int,
    rows: Sequence[Mapping[str, Any]],
    fields: Iterable[str] = (),
    counts: Sequence[str] = (),
) -> Record:
    """A document from its rows, one for each filter."""
    first = rows[0]
    row = first.get("doc")
    doc = Doc(
        _prompt(first),
        [],
        0,
        id=str(first["id"]),
        task_name=task,
        row=row if isinstance(row, Mapping) else {},
        target=first.get("target"),
    )
    error = next((r["error"] for r in rows if r.get("status") == "errored"), "")
    record = Record(
        task=task,
        index=index,
        doc=doc,
        scores=() if error else tuple(_scores(rows)),
        error=str(error),
        excluded=str(first.get("excluded") or ""),
        labels=labels_in(doc, [*fields]),
        compared=None if error else _compared(rows),
        responses=_responses(first),
        requests=_requests(first),
    )
    return replace(record, facts=facts_of(record, counts)) if counts else record


def _prompt(row: Mapping[str, Any]) -> str:
    """The prompt, of a chat its last message."""
    arguments = row.get("arguments")
    first = arguments.get("gen_args_0") if isinstance(arguments, Mapping) else None
    prompt = first.get("arg_0") if isinstance(first, Mapping) else ""
    if isinstance(prompt, list) and prompt and isinstance(prompt[-1], Mapping):
        return str(prompt[-1].get("content", ""))
    return prompt if isinstance(prompt, str) else str(prompt)


def _scores(rows: Sequence[Mapping[str, Any]]) -> Iterator[Score]:
    for row in rows:
        filter_, repeats = str(row.get("filter")), row.get("repeats") or {}
        explanations = row.get("explanations") or {}
        for name in row.get("metrics") or ():
            value = row.get(f"{name},{filter_}", row.get(name))
            several = repeats.get(name) or {"values": (), "answers": ()}
            yield Score(
                metric=name,
                filter=filter_,
                value=value,
                correct=row.get("correct") if value in (0, 1) else None,
                answer=str(row.get("answer", "")),
                explanation=str(explanations.get(name) or explanations.get("") or ""),
                unscored="no value" if value is None else "",
                repeats=tuple(several["values"]),
                repeat_answers=tuple(several["answers"]),
            )


def _compared(rows: Sequence[Mapping[str, Any]]) -> ComparedValues:
    answers = answers_of(rows)
    tops = compact(rows[0].get("top_logprobs"))
    return ComparedValues(answers, logprobs_in(rows[0]), tops)


def _responses(row: Mapping[str, Any]) -> tuple[Response, ...]:
    """Counts and cost of a document's answers, where the file has them."""
    tokens, finish = row.get("tokens"), row.get("finish")
    if not isinstance(tokens, Mapping) and row.get("cost") is None:
        return ()
    tokens = tokens if isinstance(tokens, Mapping) else {}
    reasons = finish if isinstance(finish, list) else []
    return (
        Response(
            n_prompt_tokens=tokens.get("prompt") or 0,
            n_tokens=tokens.get("answer") or 0,
            n_truncated=tokens.get("truncated") or 0,
            finish="length" if "length" in reasons else next(iter(reasons), ""),
            latency_s=row.get("latency_s") or 0.0,
            cost=row.get("cost"),
        ),
    )


def _requests(row: Mapping[str, Any]) -> tuple[Generate, ...]:
    """The generation of a document, for metrics that count generations only."""
    if not _responses(row) or "gold" in row:
        return ()
    return (Generate(prompt="", max_tokens=0),)


def _values(records: Sequence[Record]) -> dict[tuple[str, str], list[Any]]:
    """Metric and filter → the values of all documents."""
    values: dict[tuple[str, str], list[Any]] = {}
    for record in records:
        for score in record.scores:
            found = values.setdefault((score.metric, score.filter), [])
            if score.value is not None and not record.excluded:
                found.append(score.value)
    return values


def metrics_of(
    run: EarlierRun,
    task: str,
    values: Mapping[tuple[str, str], Sequence[Any]],
    gates: Sequence[Gate],
    span: Range,
) -> tuple[Metric, ...]:
    """How each metric of a task aggregates.

    Args:
        values: Metric and filter → the values of all documents.
        gates: The gates on the task.
        span: Range of a document's value for metrics of unknown range.

    Raises:
        OptionError: A value of a gate's metric is outside of its range.
    """
    closed = {gate.metric for gate in gates if gate.range is None}
    found_by_key = []
    for (name, filter_), found in values.items():
        way = _way(run, task, name, filter_, found)
        if way.is_mean and all(map(_is_number, found)):
            ends = way.known_limits or span
            if name in closed:
                _check_range(task, name, found, ends)
            way = _within(way, found, ends)
        found_by_key.append(way)
    return tuple(found_by_key)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float)


def _within(way: Metric, values: Sequence[float], span: Range) -> Metric:
    """The metric with that range, unless values contradict it: then no gate uses it,
    or the gate has a range."""
    is_finite = all(map(math.isfinite, span))
    holds = all(span[0] <= value <= span[1] for value in values)
    return replace(way, limits=span) if holds and is_finite else way


def _way(
    run: EarlierRun, task: str, name: str, filter_: str, values: Sequence[Any]
) -> Metric:
    """How a metric aggregates: of the ways known for its name, the one that gives the
    number of the results file, if there is one."""
    stored = _of(run, "results", task).get(f"{name},{filter_}")
    known = [*_ways(name, filter_, is_numeric=all(map(_is_number, values)))]
    way = next((one for one in known if _gives(one, values, stored)), known[0])
    directions = _of(run, "higher_is_better", task)
    better = directions.get(name, way.higher_is_better)
    return replace(way, higher_is_better=better)


def _ways(name: str, filter_: str, *, is_numeric: bool) -> Iterator[Metric]:
    known = METRICS.get(name)
    spec = MetricSpec(name=name)
    if known is not None and (not is_numeric or known.numbers_in):
        kind = known.output_types[0] if known.output_types else ""
        with suppress(EvalsError):  # a library is not installed
            found = metric(spec, filter_, kind, declared=True, iterations=0)
            is_quick = found.is_mean  # others resample for their standard error
            yield metric(spec, filter_, kind, declared=True) if is_quick else found
    mean = MetricSpec(name=name, aggregation="mean")
    yield metric(mean, filter_, "generate_until", declared=True)


def _gives(way: Metric, values: Sequence[Any], stored: object) -> bool:
    if not isinstance(stored, int | float) or not values:
        return True
    try:
        found = way.aggregate(values)
    except Exception:  # noqa: BLE001 - these values are not the metric's
        return False
    return not isinstance(found, Mapping) and math.isclose(
        found.value, stored, rel_tol=_SAME, abs_tol=_SAME
    )


def _check_range(task: str, name: str, values: Sequence[Any], span: Range) -> None:
    low, high = span
    for value in values:
        if not low <= value <= high:
            raise OptionError(
                f"{task}: {name} is {value!r} in a document, outside of the range "
                f"{low:g} to {high:g}\n  fix: --range LOW,HIGH, --range none if scores "
                "are unbounded, or range: [LOW, HIGH] in the gate"
            )


def _checked(
    found: MetricResult, stored: Mapping[str, Any], fault: str
) -> MetricResult:
    """The metric, if its number is that of the results file; else with an error.
    ``stored``: the numbers of that file; ``fault``: completes the error, with the
    other number as ``{:.6g}``."""
    value = stored.get(found.key)
    if found.estimate is None or not isinstance(value, int | float):
        return found
    if math.isclose(found.estimate.value, value, rel_tol=_SAME, abs_tol=_SAME):
        return found
    fault = fault.format(found.estimate.value)
    error = f"the results file has {value:.6g}, {fault}"
    return replace(found, estimate=None, error=error)


def group_result(
    run: EarlierRun, name: str, tasks: Mapping[str, TaskResult]
) -> GroupResult:
    """The result of a group. Its average is not in results files: of both ways the one
    that gives their number is used. ``tasks``: the results of its tasks."""
    stored = _of(run, "results", name)
    keys = [key for key in stored if "," in key and "_stderr," not in key]

    def of(aggregates: Sequence[Aggregate]) -> GroupResult:
        group = Group(
            name=name,
            source=Place(run.path),
            children=tuple(one.task for one in tasks.values()),
            aggregates=tuple(aggregates),
        )
        return summarise_group(group, tasks)

    chosen = []
    for key in keys:
        metric_name, _, filter_ = key.partition(",")
        both = [
            Aggregate(metric=metric_name, filters=(filter_,), weighted=weighted)
            for weighted in (True, False)
        ]
        fits = (one for one in both if _is_stored(of([one]).metrics, stored))
        chosen.append(next(fits, both[0]))
    result = of(chosen)
    metrics = tuple(_checked(one, stored, _NO_AVERAGE) for one in result.metrics)
    return replace(result, metrics=metrics)


def _is_stored(metrics: Sequence[MetricResult], stored: Mapping[str, Any]) -> bool:
    return bool(metrics) and not _checked(metrics[0], stored, _NO_AVERAGE).error
