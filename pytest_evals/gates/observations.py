"""The documents of a gate as columns: positions, values and clusters of those with a
value of its metric, and the documents without one. The estimates read nothing else.

Several answers to a document are reduced to one value: gates count documents, not
answers, because answers to one document are correlated. The names of reducers are those
of Inspect and lm-eval: ``mean``, ``max``, ``majority``, ``pass@k`` (at least one of k
answers is correct) and ``pass^k`` (all k are).
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import product
from typing import Any, NamedTuple

from pytest_evals.core.gate import Gate
from pytest_evals.core.metric import Estimate, Metric, MetricResult
from pytest_evals.core.record import Score
from pytest_evals.core.reference import Reference
from pytest_evals.core.result import TaskResult
from pytest_evals.gates.terms import InvalidGateError
from pytest_evals.stats.averages import mean, mean_stderr


@dataclass(frozen=True, slots=True, kw_only=True)
class Observations:
    """The documents of a task, as a gate on one metric counts them."""

    task: str
    metric: MetricResult  # over these documents
    size: int
    """Largest number of documents of any metric, which weights the tasks of a group."""
    positions: Sequence[int]  # documents with a value
    values: Sequence[Any]
    scores: Sequence[Score] = ()  # none if they contain only the values
    lost: Sequence[int] = ()  # documents that were run and have no value
    absent: Sequence[int] = ()  # scored documents without this metric
    excluded: Sequence[int] = ()  # documents that count in no metric
    labels: Mapping[int, str] | Sequence[str] = field(default_factory=dict)
    """Cluster of each document, by position; missing ones are absent."""
    reference: Reference | None = None  # the task in the baseline
    result: TaskResult | None = None
    """The task's result; ``None`` if the values are from elsewhere."""

    @property
    def limits(self) -> tuple[float, float] | None:
        """Smallest and largest possible value of a document, if known."""
        return self.metric.how.known_limits if self.metric.how is not None else None

    @property
    def ids(self) -> Mapping[int, str]:
        """Position of a document → its id."""
        if self.result is None:
            every = (*self.positions, *self.lost)
            return {position: str(position) for position in every}
        if self.result.columns:  # of too many documents for records
            return dict(enumerate(self.result.task.rows.ids()))
        return {record.index: record.doc.id for record in self.result.records}

    def clusters(self, name: str, positions: Sequence[int]) -> list[str] | None:
        """The cluster of each of these documents. ``name``: field of the rows; empty
        for independent documents, which gives ``None``.

        Raises:
            InvalidGateError: A document has no such field, or all documents have the
                same value.
        """
        if not name:
            return None
        try:
            labels = [self.labels[position] for position in positions]
        except KeyError as missing:
            id_ = self.ids[missing.args[0]]
            raise InvalidGateError(
                f"document {id_!r} has no field {name!r} to cluster by"
            ) from None
        if len({*labels}) < 2:
            raise InvalidGateError(
                f"all documents have the same {name!r}: a single cluster has no "
                "variance between clusters"
            )
        return labels

    def check_range(
        self, gate: Gate, values: Mapping[int, Any], where: str = ""
    ) -> None:
        """Check values of documents against the range that a gate declares.

        Raises:
            InvalidGateError: One is outside of it.
        """
        if gate.range is None:
            return
        low, high = gate.range
        for at, value in values.items():
            if isinstance(value, (int, float)) and not low <= value <= high:
                raise InvalidGateError(
                    f"document {self.ids.get(at, at)!r} has {gate.metric} {value:g}"
                    f"{where}, outside of the gate's range [{low:g}, {high:g}]"
                )

    def ways(self) -> Iterator[frozenset[int]]:
        """Yield which of the documents without a value get the highest one, in all ways
        that differ for a gate: documents of one cluster and one value in the baseline
        are alike."""
        old = self.reference.values.get(self.metric.key, {}) if self.reference else {}
        alike: dict[object, list[int]] = {}
        for i in range(self.metric.n_lost):
            at = self.lost[i] if self.lost else -1
            alike.setdefault((old.get(at), self._label(at)), []).append(i)
        for counts in product(*(range(len(same) + 1) for same in alike.values())):
            pairs = zip(alike.values(), counts, strict=True)
            yield frozenset(i for same, n in pairs for i in same[:n])

    def _label(self, at: int) -> str | None:
        if isinstance(self.labels, Mapping):
            return self.labels.get(at)
        return self.labels[at] if self.labels else None

    def completed(
        self, high: Collection[int], ends: tuple[float, float] | None
    ) -> Observations:
        """The task with a value for each document.

        Args:
            high: Which of the documents without one get the highest value, counted from
                0; the others get the lowest.
            ends: These values, ``None`` if they are unknown.

        Raises:
            InvalidGateError: They are.
        """
        metric, n_lost = self.metric, self.metric.n_lost
        if not n_lost:
            return self
        labelled = metric.how is not None and metric.how.labels is not None
        if ends is None or not all(map(math.isfinite, ends)) or labelled:
            raise InvalidGateError(f"the range of {metric.key} is unknown")
        assert metric.estimate is not None
        values = [ends[i in high] for i in range(n_lost)]
        n = metric.n_scored + n_lost
        total = metric.total if ends == (0, 1) else None
        number = (metric.estimate.value * metric.n_scored + math.fsum(values)) / n
        whole = replace(
            metric,
            estimate=replace(metric.estimate, value=number),
            n_scored=n,
            n_errored=0,
            n_unscored=0,
            total=None if total is None else total + len(high),
        )
        changed = replace(self, metric=whole, size=max(self.size, n))
        if not self.values:  # the metric is not computed from values of documents
            return changed
        added: list[Score] = []
        if self.scores:
            n_repeats = len(self.scores[0].repeats)
            added = [Score(value=one, repeats=(one,) * n_repeats) for one in values]
        # In the order of the documents: resampling depends on it.
        every = [*self.positions, *self.lost]
        order = sorted(range(len(every)), key=every.__getitem__)
        columns = [*self.values, *values], [*self.scores, *added]
        return replace(
            changed,
            positions=[every[i] for i in order],
            values=[columns[0][i] for i in order],
            scores=[columns[1][i] for i in order] if added else (),
            lost=(),
        )


class Member(NamedTuple):
    """A task of a group. ``weight``: all weights add up to 1."""

    seen: Observations
    weight: Fraction


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupObservations:
    """The documents of a group."""

    metric: MetricResult  # the group's metric
    members: tuple[Member, ...] = ()
    """Its tasks, none if the gate needs only the group's number."""
    is_weighted: bool = True  # whether tasks are weighted by their documents
    times: Mapping[str, int] = field(default_factory=dict)
    """Task → how often the group includes it."""

    def with_tasks(self, tasks: Sequence[Observations]) -> GroupObservations:
        """The group with these tasks, weighted anew."""
        weights = [
            Fraction(self.times[one.task] * (one.size if self.is_weighted else 1))
            for one in tasks
        ]
        total = sum(weights)
        members = tuple(
            Member(one, weight / total)
            for one, weight in zip(tasks, weights, strict=True)
        )
        return replace(self, members=members)


_PLAIN = ("mean", "max", "majority")
_OF_K = re.compile(r"pass([@^])([1-9]\d*)", re.ASCII)
REDUCERS = (*_PLAIN, "pass@k", "pass^k")
"""Names of reducers with a number k."""


def is_reducer(name: str) -> bool:
    """Whether the name is a reducer."""
    return name in _PLAIN or bool(_OF_K.fullmatch(name))


def n_needed(name: str) -> int:
    """The smallest number of answers to a document that the reducer accepts."""
    match = _OF_K.fullmatch(name)
    return int(match[2]) if match else 1


def reduced(
    name: str, values: Sequence[float], answers: Sequence[Hashable] = ()
) -> float:
    """Reduce the values of a document's answers to one.

    ``pass@k`` and ``pass^k`` are the unbiased estimates from n answers, c of them
    correct: 1 - C(n-c, k) / C(n, k) (Chen et al. 2021, arXiv 2107.03374) and C(c, k) /
    C(n, k) (Yao et al. 2024, arXiv 2406.12045).

    Args:
        values: One for each answer; not empty. For ``pass`` each is 0 or 1.
        answers: The answers; ``majority`` returns the value of the most frequent one,
            the earliest of several.

    Raises:
        ValueError: There are too few answers for the reducer, or values that are
            neither 0 nor 1.
    """
    if name == "mean":
        return math.fsum(values) / len(values)
    if name == "max":
        return max(values)
    if name == "majority":
        ((most, _),) = Counter(answers).most_common(1)
        return values[list(answers).index(most)]
    if not {*values} <= {0, 1}:
        raise ValueError(f"{name} counts right answers, and a value is neither 0 nor 1")
    n, k = len(values), n_needed(name)
    if n < k:
        raise ValueError(f"{name} needs {k} answers to a document, and one has {n}")
    right = round(sum(values))
    if "^" in name:
        return math.comb(right, k) / math.comb(n, k)
    return 1 - math.comb(n - right, k) / math.comb(n, k)


def reduced_task(gate: Gate, seen: Observations) -> Observations:
    """The documents with their answers reduced, and the metric as their mean.

    Raises:
        InvalidGateError: Answers cannot be scored one by one, or are copies.
    """
    metric, scores = seen.metric, seen.scores
    if len(scores) > 1 and all(score.is_copied for score in scores):
        n = len(scores[0].repeats)
        raise InvalidGateError(
            f"all {n} answers to each document are identical although the "
            "temperature is above 0, so they are copies and not independent"
        )
    pairs = zip(seen.positions, scores, strict=True)
    values = [_reduced(gate, seen, at, score) for at, score in pairs]
    changed = replace(
        metric,
        estimate=estimated_mean(values),
        total=sum(map(int, values)) if {*values} <= {0, 1} else None,
        how=Metric(
            name=metric.name,
            filter=metric.filter,
            aggregate=estimated_mean,
            higher_is_better=metric.higher_is_better,
            is_mean=True,
            limits=seen.limits,
        ),
    )
    return replace(seen, metric=changed, values=values)


def estimated_mean(values: Sequence[float]) -> Estimate:
    """The mean of documents' values with its standard error."""
    return Estimate(mean(values), mean_stderr(values), "analytic")


def _reduced(gate: Gate, seen: Observations, at: int, score: Score) -> float:
    if not score.repeats:
        raise InvalidGateError(
            f"reducer {gate.reducer!r} needs the value of each answer, and document "
            f"{seen.ids[at]!r} has none: the task has one answer, or its filters "
            "combine several answers"
        )
    if not all(isinstance(value, (int, float)) for value in score.repeats):
        raise InvalidGateError(f"{seen.metric.key} has no numbers to reduce")
    try:
        return reduced(gate.reducer, score.repeats, score.repeat_answers)
    except ValueError as error:
        raise InvalidGateError(str(error)) from error


def reduced_reference(
    gate: Gate, metric: MetricResult, reference: Reference
) -> dict[int, float]:
    """Position of a document to its reduced value in a baseline.

    Raises:
        InvalidGateError: The baseline has no repeated answers, or they cannot be
            reduced.
    """
    kept = reference.repeats.get(metric.key)
    name = reference.baseline
    if not kept:
        fix = reference.fix or (
            f"a run with this gate and --evals-save-baseline={name} does, where "
            "answers are not copies"
        )
        raise InvalidGateError(
            f"baseline {name!r} has not kept the value of each answer; {fix}"
        )
    try:
        return {
            at: reduced(gate.reducer, answers.values, answers.texts)
            for at, answers in kept.items()
        }
    except ValueError as error:
        raise InvalidGateError(f"in baseline {name!r}, {error}") from error
