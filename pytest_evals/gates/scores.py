"""``judge_gate()``: a gate on scores from any source, by the same rules as in a run."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from numbers import Integral
from pathlib import Path
from typing import Any, NamedTuple

from pytest_evals.core.gate import Gate, Verdict
from pytest_evals.core.metric import Metric, MetricResult
from pytest_evals.core.record import Score
from pytest_evals.core.reference import Answers, Reference
from pytest_evals.errors import OptionError, Place
from pytest_evals.gates.decide import corrected
from pytest_evals.gates.judge import judge_observations
from pytest_evals.gates.observations import Observations, prepared
from pytest_evals.gates.read.entry import read_expression, read_gate
from pytest_evals.gates.read.keys import MARGIN_KEYS
from pytest_evals.gates.read.text import ConditionError, read_condition
from pytest_evals.gates.reducers import estimated_mean
from pytest_evals.gates.terms import InvalidGateError
from pytest_evals.stats.averages import Labels, mean

Scores = Sequence[bool | float | None] | Sequence[Sequence[bool | float]]
_TASK, _METRIC, _FIELD = "scores", "score", "cluster"


def judge_gate(
    gate: str | Mapping[str, Any],
    scores: Scores,
    *,
    baseline: Scores | None = None,
    clusters: Sequence[Hashable] | None = None,
    repeats: int | None = None,
    range: tuple[float, float] | None = (0, 1),  # noqa: A002
) -> Verdict:
    """Judge a gate on scores from any source.

    Args:
        gate: An entry of ``gates:``, as text (``acc >= 0.9``) or as a mapping. The name
            of its metric is ignored.
        scores: One entry for each document: a bool, a number, or ``None`` for a missing
            score. With ``repeats=K``, K scores for each document: as a sequence each,
            or flat. Only 0 and 1, or only bools, are a proportion.
        baseline: Scores of the same documents in the baseline, in the same order.
        clusters: The cluster label of each document. The gate may omit ``cluster``; its
            inference target is then the population.
        repeats: Number of answers to each document, at least 2. Without a ``reducer``
            in the gate, the mean of a document's answers is its score.
        range: Smallest and largest possible score, unless the gate has ``range``;
            ``None`` if they are unbounded or unknown: then the limits are approximate.

    Returns:
        ``outcome`` is ``passed``, ``failed``, ``inconclusive`` or ``invalid``;
        ``value`` is the number, for baseline gates the change; ``low`` and ``high`` are
        one-sided confidence limits at the gate's ``confidence``; ``p_value`` is the
        one-sided p-value of the outcome, ``None`` if the number was compared;
        ``reason`` is the explanation.

    Raises:
        OptionError: An argument is not valid; the message names it.
        TaskFileError: The gate is not valid.
    """
    verdict = _judged(gate, scores, "gate", (baseline, clusters, repeats, range))
    return corrected([verdict])[0]


def judge_gates(
    gates: Mapping[str, tuple[str | Mapping[str, Any], Scores]],
    *,
    baseline: Mapping[str, Scores] | None = None,
    clusters: Mapping[str, Sequence[Hashable]] | Sequence[Hashable] | None = None,
    repeats: int | None = None,
    range: tuple[float, float] | None = (0, 1),  # noqa: A002
) -> dict[str, Verdict]:
    """Judge several gates together, with a correction of failures for their number.

    Args:
        gates: Name of a gate → gate and scores, as for :func:`judge_gate`. All gates
            are one family, unless they set ``family``.
        baseline: Name of a gate → scores of its documents in the baseline.
        clusters: Labels of the documents: for all gates, or by name of a gate.
        repeats: Number of answers to each document.
        range: Smallest and largest possible score; ``None`` if they are unbounded.

    Returns:
        Name of a gate → its verdict.

    Raises:
        OptionError: An argument is not valid.
        TaskFileError: A gate is not valid.
    """
    judged = []
    for name, pair in gates.items():
        if not isinstance(pair, Sequence) or isinstance(pair, str) or len(pair) != 2:
            raise OptionError(
                f"gates[{name!r}] must be a pair of a gate and its scores"
            )
        labels = clusters.get(name) if isinstance(clusters, Mapping) else clusters
        old = (baseline or {}).get(name)
        judged.append(_judged(pair[0], pair[1], name, (old, labels, repeats, range)))
    return dict(zip(gates, corrected(judged), strict=True))


def _judged(
    given: str | Mapping[str, Any],
    scores: Scores,
    name: str,
    more: tuple[Scores | None, Labels, int | None, Any],
) -> Verdict:
    baseline, clusters, repeats, ends = more
    declared = given.get("range") if isinstance(given, Mapping) else None
    limits = _limits(ends if declared is None else declared)
    columns = _columns(scores, "scores", repeats, limits)
    labels = None if clusters is None else [*clusters]
    if labels is not None and len(labels) != columns.n:
        raise OptionError(
            f"clusters has {len(labels)} labels, and scores {columns.n} documents"
        )
    entry = _entry(given, has_baseline=baseline is not None)
    gate = _gate(entry, name, clustered=labels is not None, repeated=bool(repeats))
    old = None
    if baseline is not None:
        old = _columns(baseline, "baseline", repeats, limits)
        if old.n != columns.n:
            raise OptionError(f"baseline has {old.n} documents, and scores {columns.n}")
    metric = _metric(columns, limits)
    try:
        if not columns.values:
            n = columns.n
            raise InvalidGateError(f"no document has a score ({n} errored)")
        seen = _observations(columns, labels, metric, _reference(gate, old))
        return judge_observations(gate, prepared(gate, seen))
    except InvalidGateError as error:
        return error.verdict(gate, metric)


def _limits(ends: Any) -> tuple[float, float]:
    if ends is None:
        return (-math.inf, math.inf)
    try:
        low, high = map(float, ends)
    except (TypeError, ValueError):
        raise OptionError(
            f"range must be the smallest and the largest score or None, not {ends!r}"
        ) from None
    if not low < high:
        raise OptionError(f"range must ascend, and {ends!r} does not")
    return low, high


class _Columns(NamedTuple):
    """The scores of documents."""

    n: int  # number of documents
    positions: Sequence[int]  # documents with a score
    values: list[float]  # their scores; with repeats, the means of these
    rows: Sequence[tuple[float, ...]] = ()
    """With repeats, all scores of each of these documents."""


def _columns(
    scores: Any, name: str, repeats: int | None, limits: tuple[float, float]
) -> _Columns:
    if isinstance(scores, (str, bytes, Mapping)) or not hasattr(scores, "__iter__"):
        raise OptionError(f"{name} must be a sequence of numbers, not {scores!r}")
    entries = [*scores]
    if not entries:
        raise OptionError(f"{name} is empty")
    if repeats is not None:
        entries = _repeated(entries, name, repeats)
    kept = [i for i, one in enumerate(entries) if one is not None]
    if repeats is None:
        values = _numbers([entries[i] for i in kept], kept, name, limits)
        return _Columns(len(entries), kept, values)
    rows = [tuple(_numbers(entries[i], [i] * repeats, name, limits)) for i in kept]
    return _Columns(len(entries), kept, [mean(row) for row in rows], rows)


def _numbers(
    values: list[Any], positions: Sequence[int], name: str, limits: tuple[float, float]
) -> list[float]:
    numbers = []
    for position, value in zip(positions, values, strict=True):
        try:
            number = math.nan if isinstance(value, str) else float(value)
        except (TypeError, ValueError, OverflowError):
            number = math.nan
        if not limits[0] <= number <= limits[1] or math.isinf(number):
            message = f"is {value!r}, outside of range={limits!r}\n  fix: pass "
            message += "range=(lowest, highest), or range=None if scores are unbounded"
            if not math.isfinite(number):
                message = f"must be a finite number or None, not {value!r}"
            raise OptionError(f"{name}[{position}] {message}")
        numbers.append(number)
    return numbers


def _repeated(scores: list[Any], name: str, repeats: int) -> list[Any]:
    """Rows of ``repeats`` scores; a row with a missing score is missing."""
    if isinstance(repeats, bool) or not isinstance(repeats, Integral) or repeats < 2:
        raise OptionError(f"repeats must be a whole number from 2 on, not {repeats!r}")
    are_rows = {hasattr(one, "__iter__") for one in scores if one is not None}
    if len(are_rows) > 1:
        raise OptionError(f"{name} must be numbers or rows of {repeats}, not both")
    if are_rows == {False}:
        if len(scores) % repeats:
            raise OptionError(
                f"{name} has {len(scores)} scores, which repeats={repeats} does not "
                "divide"
            )
        scores = [*zip(*[iter(scores)] * repeats, strict=True)]
    rows = []
    for i, row in enumerate(scores):
        values = None if row is None else [*row]
        if values is not None and len(values) != repeats:
            raise OptionError(
                f"{name}[{i}] has {len(values)} scores, and repeats is {repeats}"
            )
        rows.append(None if values is None or None in values else values)
    return rows


def _entry(gate: Any, *, has_baseline: bool) -> dict[str, Any]:
    """The gate as a mapping without a task."""
    if isinstance(gate, str):
        try:
            _, bound = read_condition(gate)
        except ConditionError as fault:
            raise OptionError(f"gate: {fault.message}\n  fix: {fault.fix}") from None
        if bound.op in (">", "<"):  # not expressible as a mapping
            return {"text": gate}
        return {"min" if bound.op == ">=" else "max": str(bound.value)}
    if not isinstance(gate, Mapping):
        raise OptionError(
            f"gate must be text such as 'acc >= 0.9' or a mapping, not {gate!r}"
        )
    for key in ("when", "model"):
        if key in gate:
            message = (
                f"{key} needs the model and machine of a run, so judge() cannot use "
            )
            raise OptionError(f"{message}it\n  fix: remove {key} from the gate")
    entry = {key: value for key, value in gate.items() if key not in _OWNERS}
    if has_baseline and any(key in entry for key in MARGIN_KEYS):
        entry.setdefault("baseline", "baseline")
    if "baseline" in entry and not has_baseline:
        raise OptionError(
            "the gate names a baseline, and no scores of it are given\n"
            "  fix: pass baseline=[…]"
        )
    return entry


_OWNERS = ("task", "group", "metric", "id")


def _gate(entry: dict[str, Any], name: str, *, clustered: bool, repeated: bool) -> Gate:
    source = Place(Path(name))
    if "text" in entry:
        gate = read_expression(entry["text"], source)
        if clustered:
            gate = replace(gate, over="population", cluster=_FIELD)
        return replace(gate, task=_TASK, metric=_METRIC, filter="", id=name)
    more = {"cluster": _FIELD} if clustered else {}
    if repeated:
        entry.setdefault("reducer", "mean")
    read = read_gate({"metric": _METRIC, **entry, **more}, task=_TASK, source=source)
    return replace(read, id=name)


def _metric(columns: _Columns, limits: tuple[float, float]) -> MetricResult:
    values = columns.values
    is_count = all(one in (0, 1) for one in values)
    how = Metric(name=_METRIC, aggregate=estimated_mean, is_mean=True, limits=limits)
    return MetricResult(
        name=_METRIC,
        filter="none",
        estimate=estimated_mean(values) if values else None,
        n_scored=len(values),
        n_errored=columns.n - len(values),
        total=int(sum(values)) if is_count else None,
        how=how,
    )


def _observations(
    columns: _Columns, labels: Labels, metric: MetricResult, reference: Reference
) -> Observations:
    numbers: dict[Hashable, int] = {}
    n, known = columns.n, {*columns.positions} if metric.n_errored else ()
    return Observations(
        task=_TASK,
        metric=metric,
        size=len(columns.values),
        positions=columns.positions,
        values=columns.values,
        scores=[
            Score(
                metric=_METRIC,
                value=value,
                repeats=row,
                repeat_answers=tuple(map(repr, row)),
            )
            for value, row in zip(columns.values, columns.rows, strict=False)
        ],
        lost=[i for i in range(n) if i not in known] if known else (),
        labels=[str(numbers.setdefault(one, len(numbers))) for one in labels or ()],
        reference=reference,
    )


def _reference(gate: Gate, old: _Columns | None) -> Reference:
    if old is None:
        return Reference(baseline=gate.baseline)
    key = f"{_METRIC},none"
    rows = zip(old.positions, old.rows, strict=False)
    return Reference(
        baseline=gate.baseline,
        values={key: dict(zip(old.positions, old.values, strict=True))},
        repeats={key: {i: Answers(row, tuple(map(repr, row))) for i, row in rows}},
    )
