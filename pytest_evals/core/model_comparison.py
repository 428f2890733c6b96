"""Several models on the same documents, without any computation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any, Literal, NamedTuple

from pytest_evals.core.comparison import MetricChange
from pytest_evals.core.display import as_frame, table
from pytest_evals.errors import OptionError, suggestion

Agreement = Literal["all correct", "all wrong", "they disagree", ""]
"""How the models answer a document; empty if an answer is neither correct nor wrong."""
AGREEMENTS: tuple[Agreement, ...] = ("all correct", "all wrong", "they disagree")
MatrixRows = Literal["metrics", "matrix"]


class ModelRank(NamedTuple):
    """The rank of a model by a metric, with its 90% interval over other documents."""

    rank: int  # from 1 for the best
    low: int  # best rank of the interval
    high: int  # worst rank of the interval
    first: float  # fraction of resamples in which it is the best one


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
    rank: ModelRank | None = None  # None for metrics that are no means

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
