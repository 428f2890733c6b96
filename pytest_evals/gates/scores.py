"""``judge_gate()``: a gate on scores from any source, by the same rules as in a run."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from numbers import Integral
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from pytest_evals.core.doc import Doc
from pytest_evals.core.gate import Gate, Verdict
from pytest_evals.core.metric import Estimate, Metric, MetricResult
from pytest_evals.core.record import Record, Score
from pytest_evals.core.reference import Answers, Reference
from pytest_evals.core.result import TaskResult
from pytest_evals.errors import OptionError, Place
from pytest_evals.gates.decide import corrected
from pytest_evals.gates.judge import judge as judge_result
from pytest_evals.gates.read.entry import read_expression, read_gate
from pytest_evals.gates.read.text import ConditionError, read_condition
from pytest_evals.stats.averages import mean, mean_stderr

Scores = Sequence[bool | float | None] | Sequence[Sequence[bool | float]]
_TASK, _METRIC, _FIELD = "scores", "score", "cluster"
_MARGINS = ("max_drop", "max_rise", "recovery")


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
    more: tuple[Scores | None, Sequence[Hashable] | None, int | None, Any],
) -> Verdict:
    baseline, clusters, repeats, ends = more
    declared = given.get("range") if isinstance(given, Mapping) else None
    limits = _limits(ends if declared is None else declared)
    rows = _rows(scores, "scores", repeats, limits)
    labels = None if clusters is None else [*clusters]
    if labels is not None and len(labels) != len(rows):
        raise OptionError(
            f"clusters has {len(labels)} labels, and scores {len(rows)} documents"
        )
    entry = _entry(given, has_baseline=baseline is not None)
    gate = _gate(entry, name, clustered=labels is not None, repeated=bool(repeats))
    old = None
    if baseline is not None:
        old = _rows(baseline, "baseline", repeats, limits)
        if len(old) != len(rows):
            raise OptionError(
                f"baseline has {len(old)} documents, and scores {len(rows)}"
            )
    result = _result(rows, labels, gate, limits)
    reference = _reference(gate, old)
    return judge_result(gate, result, "warn", lambda *_: reference)


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


def _rows(
    scores: Any, name: str, repeats: int | None, limits: tuple[float, float]
) -> list[tuple[float, ...] | None]:
    """The scores of each document, ``None`` for a missing one."""
    if isinstance(scores, (str, bytes, Mapping)) or not hasattr(scores, "__iter__"):
        raise OptionError(f"{name} must be a sequence of numbers, not {scores!r}")
    entries = [*scores]
    if not entries:
        raise OptionError(f"{name} is empty")
    if repeats is None:
        rows: list[Any] = [None if one is None else (one,) for one in entries]
    elif isinstance(repeats, bool) or not isinstance(repeats, Integral) or repeats < 2:
        raise OptionError(f"repeats must be a whole number from 2 on, not {repeats!r}")
    else:
        rows = _repeated(entries, name, int(repeats))
    for i, row in enumerate(rows):
        for value in row or ():
            _check(value, f"{name}[{i}]", limits)
    return [None if row is None else tuple(map(float, row)) for row in rows]


def _repeated(scores: list[Any], name: str, repeats: int) -> list[Any]:
    """Rows of ``repeats`` scores; a row with a missing score is missing."""
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


def _check(value: Any, name: str, limits: tuple[float, float]) -> None:
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if isinstance(value, str) or not math.isfinite(number):
        raise OptionError(f"{name} must be a finite number or None, not {value!r}")
    if not limits[0] <= number <= limits[1]:
        raise OptionError(
            f"{name} is {value!r}, outside of range={limits!r}\n"
            "  fix: pass range=(lowest, highest), or range=None if scores are unbounded"
        )


def _entry(gate: Any, *, has_baseline: bool) -> dict[str, Any]:
    """The gate as a mapping without a task."""
    if isinstance(gate, str):
        try:
            bound = read_condition(gate).bound
        except ConditionError as fault:
            raise OptionError(f"gate: {fault.what}\n  fix: {fault.fix}") from None
        if bound.op in (">", "<"):  # not expressible as a mapping
            return {"text": gate}
        return {"min" if bound.op == ">=" else "max": str(bound.value)}
    if not isinstance(gate, Mapping):
        raise OptionError(
            f"gate must be text such as 'acc >= 0.9' or a mapping, not {gate!r}"
        )
    if "when" in gate:
        what = "when needs the model and machine of a run, so judge() cannot use it"
        raise OptionError(f"{what}\n  fix: remove when from the gate")
    entry = {key: value for key, value in gate.items() if key not in _OWNERS}
    if has_baseline and any(key in entry for key in _MARGINS):
        entry.setdefault("baseline", "baseline")
    if "baseline" in entry and not has_baseline:
        raise OptionError(
            "the gate names a baseline, and no scores of it are given\n"
            "  fix: pass baseline=[…]"
        )
    return entry


_OWNERS = ("task", "group", "metric", "id")


def _gate(entry: dict[str, Any], name: str, *, clustered: bool, repeated: bool) -> Gate:
    text = entry.pop("text", None)
    source = Place(Path(name))
    if text is not None:
        gate = read_expression(text)
        if clustered:
            gate = replace(gate, over="population", cluster=_FIELD)
        changed = replace(gate, task=_TASK, metric=_METRIC, filter="", id=name)
    else:
        if clustered:
            entry["cluster"] = _FIELD
        if repeated:
            entry.setdefault("reducer", "mean")
        read = read_gate({"metric": _METRIC, **entry}, task=_TASK, source=source)
        changed = replace(read, id=name)
    return changed


def _result(
    rows: Sequence[tuple[float, ...] | None],
    labels: Sequence[Hashable] | None,
    gate: Gate,
    limits: tuple[float, float],
) -> TaskResult:
    """A task's result with these scores."""
    numbers: dict[Hashable, int] = {}
    clusters = [str(numbers.setdefault(one, len(numbers))) for one in labels or ()]
    records = tuple(
        Record(
            task=_TASK,
            index=i,
            doc=Doc("", [], 0, id=str(i)),
            scores=() if row is None else (_score(row),),
            error="missing" if row is None else "",
            labels={gate.cluster: clusters[i]} if clusters else {},
        )
        for i, row in enumerate(rows)
    )
    values = [mean(row) for row in rows if row is not None]
    is_count = {*values} <= {0, 1}
    how = Metric(
        name=_METRIC,
        aggregate=lambda given: Estimate(mean(given), mean_stderr(given)),
        is_mean=True,
        limits=limits,
    )
    metric_result = MetricResult(
        name=_METRIC,
        filter="none",
        estimate=Estimate(mean(values), mean_stderr(values), "analytic")
        if values
        else None,
        n_scored=len(values),
        n_errored=len(rows) - len(values),
        total=int(sum(values)) if is_count else None,
        how=how,
    )
    task: Any = SimpleNamespace(name=_TASK, metrics=(how,), config={})
    n = len(rows)
    return TaskResult(
        task=task, records=records, metrics=(metric_result,), n_selected=n, n_total=n
    )


def _score(row: tuple[float, ...]) -> Score:
    repeats = row if len(row) > 1 else ()
    texts = tuple(map(repr, repeats))
    return Score(metric=_METRIC, value=mean(row), repeats=repeats, repeat_answers=texts)


def _reference(gate: Gate, old: Sequence[tuple[float, ...] | None] | None) -> Reference:
    known = {i: row for i, row in enumerate(old or ()) if row is not None}
    key = f"{_METRIC},none"
    return Reference(
        baseline=gate.baseline,
        values={key: {i: mean(row) for i, row in known.items()}},
        repeats={
            key: {
                i: Answers(row, tuple(map(repr, row)))
                for i, row in known.items()
                if len(row) > 1
            }
        },
    )
