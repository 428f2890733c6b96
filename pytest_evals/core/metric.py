"""From the scores of many documents to one number."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

BOOTSTRAP_ITERS = 100_000
"""Resamples of a bootstrapped standard error, as many as in lm-eval."""


class Span(NamedTuple):
    """The smallest and the largest value that a number can have, whatever the model
    answers; infinite if there is no limit or none is known."""

    low: float = -math.inf
    high: float = math.inf

    def around(self, other: Span) -> Span:
        """The span that contains both."""
        return Span(min(self.low, other.low), max(self.high, other.high))


ANYTHING = Span()
SHARE = Span(0.0, 1.0)
POSITIVE = Span(math.ulp(0.0), math.inf)
"""Above 0: the smallest double beyond it is the smallest value."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A number with its standard error.

    Args:
        value: The number.
        stderr: Its standard error, ``None`` where there is none.
        method: How the standard error was obtained: ``analytic``, ``bootstrap`` or
            empty.
        is_mean: Whether a user's function turned out to be the mean of the values.
        note: A remark for the report, such as why there is no standard error.
        undecided: Why its values make no document correct or wrong; empty if they do,
            or if nobody could expect it.
    """

    value: float
    stderr: float | None = None
    method: str = ""
    is_mean: bool = False
    note: str = ""
    undecided: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """What each document adds to the sums that a metric is computed from.

    Args:
        columns: (m, n): m numbers of each of n documents.
        score: The m sums to the metric; to its logarithm where ``is_log``.
        is_log: Whether the metric is compared as a ratio: a perplexity.
        is_smooth: Whether the score has a slope everywhere near; BLEU's brevity penalty
            has a kink.
        is_ratio: Whether it is one sum over another, or a mean: as good as normal for
            few documents already.
    """

    columns: Sequence[Sequence[float]]
    score: Callable[[Sequence[float]], float]
    is_log: bool = False
    is_smooth: bool = True
    is_ratio: bool = False


@dataclass(frozen=True, slots=True)
class Ratio:
    """A number that is one weighted count over another: precision, recall, F1. Each
    document adds 1 to at most one of the counts.

    Args:
        above: Weights of the counts above the line, in the order of the totals'
            columns.
        below: Those below it.
    """

    above: tuple[int, ...]
    below: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """One number of a task: which scores it reads and how it adds them up.

    Args:
        name: Name of the metric, as in :class:`Score`.
        filter: Name of the filter pipeline, as in :class:`Score`.
        aggregate: The documents' values, in document order and never empty, to one
            estimate; or to several by name, where a user's function gives a mapping.
        higher_is_better: Direction, ``None`` if unknown.
        is_mean: Whether it is the plain mean of the values, so that a sum of right
            answers says it exactly.
        totals: The documents' values to the sums that it is computed from; ``None``
            where there are none.
        ratio: How these sums are one count over another, where they are.
        number: The documents' values to the number alone; ``None`` if only
            ``aggregate`` can say it.
        statistic: The documents' values to a function that computes the numbers of many
            resamples at once: (B, n) positions to (B,) numbers. Faster than ``number``,
            which is used if it is ``None``.
        several: The documents' values to several numbers by name, where the names are
            known only then; ``aggregate`` is not asked, and no number has the metric's
            own name.
        lacking: What is wrong where no document has a value; empty if the metric is
            then left out.
        span: The values that it can have.
        scale: The values that were converted to ``span``, as grades from 0 to 10 to
            shares.
        closed: Whether it has no numbers under other names than its own. A task whose
            metrics are all closed has no other metrics.
        limits: Ends of the values that a document can have; ``None`` if they are not
            known: then 0 and 1 are assumed if no document lies outside of them.
    """

    name: str
    filter: str = "none"
    aggregate: Callable[[Sequence[Any]], Estimate | Mapping[str, Estimate]]
    higher_is_better: bool | None = None
    is_mean: bool = False
    totals: Callable[[Sequence[Any]], Totals] | None = None
    ratio: Ratio | None = None
    number: Callable[[Sequence[Any]], float] | None = None
    statistic: Callable[[Sequence[Any]], Callable[[Any], Any]] | None = None
    several: Callable[[Sequence[Any]], Mapping[str, Estimate]] | None = None
    lacking: str = ""
    span: Span = ANYTHING
    scale: Span | None = None
    closed: bool = False
    limits: tuple[float, float] | None = None

    @property
    def known_limits(self) -> tuple[float, float] | None:
        """Ends of the values that a document can have, as far as they are known: those
        of a mean are the mean's own."""
        if self.limits is None and all(map(math.isfinite, self.span)):
            return self.span
        return self.limits

    @property
    def key(self) -> str:
        """Metric and filter as results files name them: ``acc,none``."""
        return f"{self.name},{self.filter}"


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricResult:
    """A metric over the documents of a task.

    Args:
        name: Name of the metric.
        filter: Name of its filter pipeline.
        estimate: The number, ``None`` when no document was scored or the aggregation
            failed.
        higher_is_better: Direction, ``None`` if unknown.
        n_scored: Documents with a value.
        n_errored: Documents that could not be rendered, answered or scored.
        n_unscored: Documents whose score has no value.
        n_missing: Documents that were not run.
        total: Exact sum of the values when each is 0 or 1, else ``None``.
        error: Why there is no estimate.
        how: What it was computed by; ``None`` if a user's hook has.
    """

    name: str
    filter: str
    estimate: Estimate | None
    higher_is_better: bool | None = None
    n_scored: int = 0
    n_errored: int = 0
    n_unscored: int = 0
    n_missing: int = 0
    total: int | None = None
    error: str = ""
    how: Metric | None = field(default=None, repr=False, compare=False)

    @property
    def key(self) -> str:
        """Metric and filter as results files name them: ``acc,none``."""
        return f"{self.name},{self.filter}"

    @property
    def n_lacking(self) -> int:
        """Documents that the number does without."""
        return self.n_errored + self.n_unscored + self.n_missing
