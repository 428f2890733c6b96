"""Differences between a baseline and a run, and several models on the same documents,
without any computation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any, Literal, NamedTuple

from pytest_evals.core.display import as_frame, table
from pytest_evals.errors import OptionError, plural, suggestion

ENVIRONMENT = "environment differs: "
"""Start of the note about other hardware and libraries."""


def is_environment(note: str) -> bool:
    """Whether a note is about other hardware and libraries than the baseline's."""
    return note.startswith(ENVIRONMENT)


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricChange:
    """A metric of a task or group in both runs."""

    task: str
    key: str
    before: float | None  # its value in the baseline, None if it has none
    now: float | None  # its value in this run
    higher_is_better: bool | None = None  # direction, None if unknown
    low: float | None = None
    """Lower limit of the 90% confidence interval of the change, from the paired
    documents; ``None`` without one."""
    high: float | None = None  # upper limit
    unit: Literal["plain", "percent"] = "plain"
    """``percent`` if the limits are relative to ``before`` (0.02 is 2%), as for
    perplexities; else ``plain``."""
    method: str = ""  # name of the interval's method
    no_interval: str = ""  # the reason for a missing interval


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentChange:
    """A document whose correctness differs between baseline and run."""

    task: str
    id: str
    prompt: Any  # the prompt, equal in both runs: a string, or messages
    target: str
    before: str  # the answer in the baseline
    now: str  # the answer in this run


@dataclass(frozen=True, slots=True, kw_only=True)
class RunDifference:
    """A difference between two runs that may explain another number."""

    text: str
    examples: tuple[str, ...] = ()  # word diffs of texts that differ


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """A run compared with a baseline."""

    name: str
    differences: tuple[RunDifference, ...] = ()
    """Differences of settings and prompts, the most likely cause first."""
    metrics: tuple[MetricChange, ...] = ()
    """Metrics of the tasks that could be compared."""
    worse: tuple[DocumentChange, ...] = ()
    """Documents that were correct and are wrong now."""
    better: tuple[DocumentChange, ...] = ()
    """Documents that were wrong and are correct now."""
    n_paired: int = 0  # documents with a score in both runs
    refused: tuple[str, ...] = ()
    """Reasons why tasks could not be compared; empty if all could."""
    warnings: tuple[str, ...] = ()  # documents and tasks that only one run has

    def __repr__(self) -> str:
        rows = ("  ".join(map(str, row)) for row in self._rows())
        lines = [*self._notes(), *(f"  {row}" for row in rows)]
        return "\n".join([f"<Comparison with {self.name}>", *lines])

    def _repr_html_(self) -> str:
        heading = ("task", "metric", "before", "now", "change", "90% CI")
        notes = (f"<p>{escape(line)}</p>" for line in self._notes())
        title = f"<p><b>compared with {escape(self.name)}</b></p>"
        return "\n".join([title, *notes, table(heading, [*self._rows()])])

    def _rows(self) -> Iterator[tuple[str, ...]]:
        for one in self.metrics:
            limits = (one.low, one.high)
            ci = "" if None in limits else "[{:+.4g}, {:+.4g}]".format(*limits)
            if one.before is None or one.now is None:
                change = "-"
            elif one.unit == "percent":
                change, ci = f"{one.now / one.before - 1:+.2%}", f"{ci} relative"
            else:
                change = f"{one.now - one.before:+.4g}"
            values = (
                f"{v:.4g}" if v is not None else "-" for v in (one.before, one.now)
            )
            yield one.task, one.key, *values, change, ci or one.no_interval

    def _notes(self) -> Iterator[str]:
        counts = f"{len(self.worse)} worse, {len(self.better)} better"
        yield f"{plural(self.n_paired, 'document')}: {counts}"
        yield from (f"differs: {one.text}" for one in self.differences)
        yield from (f"not compared: {text}" for text in self.refused)
        yield from self.warnings


Agreement = Literal["all correct", "all wrong", "they disagree", ""]
"""How the models answer a document; empty if an answer is neither correct nor wrong."""
AGREEMENTS: tuple[Agreement, ...] = ("all correct", "all wrong", "they disagree")
MatrixRows = Literal["metrics", "matrix"]


class ModelRank(NamedTuple):
    """The rank of a model by a metric, with its 90% interval over other documents."""

    rank: int  # from 1 for the best; models with equal means share the best of theirs
    low: int  # best rank of the interval
    high: int  # worst rank of the interval
    first: float
    """Fraction of resamples in which it is the best one; models with equal means share
    a resample."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelMetric:
    """A metric of a task or group for one model."""

    task: str
    key: str
    model: str
    value: float | None  # None if it has none
    higher_is_better: bool | None = None
    change: MetricChange | None = None
    """Paired change from the reference to this model; ``None`` for the reference."""
    p_value: float | None = None
    """Two-sided p-value of no change, adjusted for all models of this metric (Holm);
    ``None`` without one."""
    rank: ModelRank | None = None  # None for metrics that are not means

    @property
    def name(self) -> str:
        """The metric without the filter if there is only one."""
        return self.key.removesuffix(",none")


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelDocument:
    """A document and what each model made of it, in the order of the models."""

    task: str
    id: str
    correct: tuple[bool | None, ...]
    """``None`` if the answer is neither correct nor wrong, or has no score."""
    answers: tuple[str, ...]
    target: str = ""

    @property
    def agreement(self) -> Agreement:
        """Whether the models agree."""
        found = {*self.correct}
        if None in found:
            return ""
        if len(found) > 1:
            return "they disagree"
        return "all correct" if True in found else "all wrong"


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelComparison:
    """Models side by side."""

    models: tuple[str, ...]  # their names, in order
    reference: str  # the one that the others are compared with
    metrics: tuple[ModelMetric, ...] = ()  # for each metric, one entry for each model
    documents: tuple[ModelDocument, ...] = ()  # documents that all models have
    refused: tuple[str, ...] = ()
    """Why tasks could not be compared, or only on some documents."""

    @property
    def agreements(self) -> Mapping[str, int]:
        """Number of documents by agreement of the models."""
        counts = Counter(one.agreement for one in self.documents)
        return {name: counts[name] for name in AGREEMENTS}

    def of(self, task: str, key: str) -> tuple[ModelMetric, ...]:
        """A metric of all models, in their order."""
        return tuple(m for m in self.metrics if (m.task, m.key) == (task, key))

    def to_pandas(self, rows: MatrixRows = "matrix") -> Any:
        """A ``pandas.DataFrame``.

        Args:
            rows: ``matrix``: a row for each document, a column for each model with
                whether its answer is correct. ``metrics``: a row for each metric and
                model.

        Raises:
            OptionError: ``rows`` has another value.
            MissingExtraError: pandas is not installed.
        """
        if rows == "matrix":
            columns = ("task", "id", *self.models, "agreement")
            return as_frame(self.matrix(), columns)
        if rows == "metrics":
            return as_frame(self._numbers(), ("task", "metric", "model", "value"))
        hint = suggestion(str(rows), ["matrix", "metrics"])
        raise OptionError(f"to_pandas(): unknown rows {rows!r}{hint}")

    def matrix(self) -> Iterator[dict[str, Any]]:
        """Yield the rows of ``to_pandas("matrix")``."""
        for one in self.documents:
            cells = dict(zip(self.models, one.correct, strict=True))
            yield {"task": one.task, "id": one.id, **cells, "agreement": one.agreement}

    def _numbers(self) -> Iterator[dict[str, Any]]:
        for one in self.metrics:
            change = one.change
            yield {
                "task": one.task,
                "metric": one.key,
                "model": one.model,
                "value": one.value,
                "change": difference(one),
                "low": change.low if change else None,
                "high": change.high if change else None,
                "p_value": one.p_value,
                "rank": one.rank.rank if one.rank else None,
                "rank_low": one.rank.low if one.rank else None,
                "rank_high": one.rank.high if one.rank else None,
                "p_first": one.rank.first if one.rank else None,
            }

    def __repr__(self) -> str:
        rows = ("  ".join(row) for row in self._rows())
        head = f"<ModelComparison with {self.reference}>"
        return "\n".join([head, *(f"  {row}" for row in rows), *self.refused])

    def _repr_html_(self) -> str:
        title = f"<p><b>compared with {escape(self.reference)}</b></p>"
        heading = ("task", "metric", "model", "value", "change", "p")
        notes = (f"<p>{escape(line)}</p>" for line in self.refused)
        return "\n".join([title, table(heading, [*self._rows()]), *notes])

    def _rows(self) -> Iterator[tuple[str, ...]]:
        for one in self.metrics:
            by, p = difference(one), one.p_value
            value = "-" if one.value is None else f"{one.value:.4g}"
            change = "" if by is None else f"{by:+.4g}"
            shown = "" if p is None else f"{p:.3g}"
            yield one.task, one.name, one.model, value, change, shown


def difference(one: ModelMetric) -> float | None:
    """The change of a metric from the reference model to this one."""
    change = one.change
    if change is None or change.before is None or change.now is None:
        return None
    return change.now - change.before


def matrix_of(found: Sequence[ModelComparison]) -> Any:
    """A ``pandas.DataFrame`` with the matrices of comparisons below each other.

    Raises:
        OptionError: The sequence is empty.
        MissingExtraError: pandas is not installed.
    """
    if not found:
        raise OptionError(
            "to_pandas(): 'matrix' needs an eval with variants, or models"
        )
    names = dict.fromkeys(name for one in found for name in one.models)
    rows = (row for one in found for row in one.matrix())
    return as_frame(rows, ("task", "id", *names, "agreement"))
