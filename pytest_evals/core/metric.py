"""Metrics: from the scores of the documents to one number; and the ratings by people of
answers that a judge rates too."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from pytest_evals.errors import Place

LEAST_LABELS = 30  # fewest human labels that a gate may use


class HumanLabel(NamedTuple):
    """A person's rating of the answer to one document."""

    value: float  # from 0 to 1, on the scale of the judge's values
    response: str | None  # the rated answer, None if the file does not contain it
    line: int


@dataclass(frozen=True, slots=True, kw_only=True)
class HumanLabels:
    """The human labels of a judge."""

    by_id: Mapping[str, HumanLabel]  # id of a document → its label
    sampled: str  # how the labelled documents were chosen, as the user stated it
    place: Place  # the file
    threshold: float  # an answer passes from this value on
    scale: tuple[int, int] | None = None
    """Lowest and highest grade, if grades are few enough for a table; ``None`` for pass
    or fail."""

    @property
    def is_random(self) -> bool:
        """Whether the labelled documents are stated to be a random sample."""
        return self.sampled == "random"

    def rating(self, id_: str, answer: str) -> float | None:
        """The label of an answer; ``None`` if the document has none, or if another
        answer was labelled."""
        label = self.by_id.get(id_)
        if label is None:
            return None
        if label.response is not None and label.response.strip() != answer.strip():
            return None
        return label.value

    def category(self, value: float) -> str:
        """The row or column of a value in the confusion table."""
        if self.scale is None:
            return "pass" if value >= self.threshold else "fail"
        low, high = self.scale
        return f"{low + value * (high - low):.4g}"


BOOTSTRAP_ITERS = 100_000
"""Resamples of a bootstrapped standard error, as many as in lm-eval."""


class Span(NamedTuple):
    """The smallest and the largest possible value of a number; infinite if there is no
    limit or it is unknown."""

    low: float = -math.inf
    high: float = math.inf

    def around(self, other: Span) -> Span:
        """The span that contains both."""
        return Span(min(self.low, other.low), max(self.high, other.high))


ANYTHING = Span()
SHARE = Span(0.0, 1.0)
ACCURACIES = ("acc", "acc_norm", "acc_bytes", "acc_mutual_info", "exact_match")
"""Metrics whose value of a document is 1 if it is correct, else 0, unless a user's
function computes another one."""
POSITIVE = Span(math.ulp(0.0), math.inf)
"""Above 0: the smallest positive double is the lower limit."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A number with its standard error."""

    value: float
    stderr: float | None = None  # its standard error, None if missing
    method: str = ""
    """How the standard error was obtained: ``analytic``, ``bootstrap`` or empty."""
    is_mean: bool = False  # whether a user's function is the mean of the values
    note: str = ""  # a remark for the report, such as why there is no standard error
    undecided: str = ""
    """Why its values do not determine whether a document is correct; empty if they do,
    or if nobody expects it."""
    range: tuple[float, float] | None = None
    """Smallest and largest possible value, ``None`` if unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """The contributions of each document to the sums that a metric is computed from."""

    columns: Sequence[Sequence[float]]  # (m, n): m numbers of each of n documents
    score: Callable[[Sequence[float]], float]
    """Computes the metric from the m sums; its logarithm if ``is_log``."""
    is_log: bool = False  # whether the metric is compared as a ratio: a perplexity
    is_smooth: bool = True
    """Whether the score is differentiable; BLEU's brevity penalty has a kink."""
    is_ratio: bool = False
    """Whether it is a ratio of sums or a mean, which is approximately normal even for
    few documents."""
    kinds: Sequence[Sequence[float]] = ()
    """The possible contributions of one document, if they are few: of F1 those of a
    true positive, an error and a true negative."""


@dataclass(frozen=True, slots=True)
class Ratio:
    """A ratio of weighted counts: precision, recall, F1. Each document adds 1 to at
    most one of the counts."""

    above: tuple[int, ...]
    """Weights of the counts in the numerator, in the order of the totals' columns."""
    below: tuple[int, ...]  # weights in the denominator


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """One number of a task: which scores it uses and how it aggregates them."""

    name: str  # name of the metric, as in Score
    filter: str = "none"  # name of the filter pipeline, as in Score
    aggregate: Callable[[Sequence[Any]], Estimate | Mapping[str, Estimate]]
    """Computes one estimate from the documents' values, which are in document order and
    never empty; or several by name, if a user's function returns a mapping."""
    higher_is_better: bool | None = None  # direction, None if unknown
    is_mean: bool = False
    """Whether it is the plain mean of the values, which a count of correct answers
    determines exactly."""
    totals: Callable[[Sequence[Any]], Totals] | None = None
    """Computes the sums from the documents' values; ``None`` if missing."""
    ratio: Ratio | None = None  # the sums as a ratio of counts, if they are one
    number: Callable[[Sequence[Any]], float] | None = None
    """Computes only the number from the documents' values; ``None`` if only
    ``aggregate`` can."""
    statistic: Callable[[Sequence[Any]], Callable[[Any], Any]] | None = None
    """Maps the documents' values to a function that computes the numbers of many
    resamples at once: (B, n) counts of documents to (B,) numbers. Faster than
    ``number``, which is used if it is ``None``."""
    several: Callable[[Sequence[Any]], Mapping[str, Estimate]] | None = None
    """Computes several numbers by name, for names that are not known before;
    ``aggregate`` is not called, and no number has the metric's own name."""
    lacking: str = ""
    """Error message if no document has a value; empty if the metric is then left out.
    """
    span: Span = ANYTHING  # its possible values
    scale: Span | None = None
    """The range that was rescaled to ``span``, such as ratings from 0 to 10."""
    closed: bool = False
    """Whether all its numbers have its own name. A task whose metrics are all closed
    has no other metrics."""
    limits: tuple[float, float] | None = None
    """Smallest and largest possible value of a document; ``None`` if unknown."""
    is_graded: bool | None = None
    """Whether a document's value may be another one than 0 and 1, which only the names
    of :data:`ACCURACIES` rule out if it is ``None``."""
    labels: HumanLabels | None = None
    """Human labels of the judge whose ratings are the values; gates correct the mean by
    them."""

    @property
    def is_share(self) -> bool:
        """Whether each document's value is 0 or 1: known, or usual for its name. Plans,
        early stopping and gates read it here only."""
        if self.is_graded is None:
            return self.name in ACCURACIES
        return not self.is_graded

    @property
    def known_limits(self) -> tuple[float, float] | None:
        """Smallest and largest possible value of a document, if known; for a mean, the
        limits of the mean."""
        if self.limits is not None or self.is_share:
            return self.limits or SHARE
        return self.span if all(map(math.isfinite, self.span)) else None

    @property
    def key(self) -> str:
        """Metric and filter as results files name them: ``acc,none``."""
        return f"{self.name},{self.filter}"


class Limits(NamedTuple):
    """Confidence limits, and how they were computed."""

    low: float | None = None
    high: float | None = None
    method: str = ""


_Z = 1.6448536269514722  # the 95% quantile of the normal distribution


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricResult:
    """A metric over the documents of a task."""

    name: str
    filter: str  # name of its filter pipeline
    estimate: Estimate | None
    """The number, ``None`` if no document was scored or the aggregation failed."""
    higher_is_better: bool | None = None  # direction, None if unknown
    n_scored: int = 0  # documents with a value
    n_errored: int = 0  # documents that could not be prompted, answered or scored
    n_unscored: int = 0  # documents whose score has no value
    n_missing: int = 0  # documents that were not run
    n_absent: int = 0  # scored documents without a score of this metric
    total: int | None = None  # exact sum of the values if each is 0 or 1, else None
    error: str = ""  # why there is no estimate
    how: Metric | None = field(default=None, repr=False, compare=False)
    """The metric it was computed with; ``None`` if a user's hook computed it."""

    def limits(self) -> Limits:
        """Limits of the 90% confidence interval: Wilson's for a proportion, else from
        the standard error."""
        if self.estimate is None:
            return Limits()
        value, stderr = self.estimate.value, self.estimate.stderr
        if self.total is not None and self.n_scored:
            n, z2 = self.n_scored, _Z * _Z
            middle = (self.total + z2 / 2) / (n + z2)
            share = self.total / n
            spread = _Z * math.sqrt(n * share * (1 - share) + z2 / 4) / (n + z2)
            return Limits(middle - spread, middle + spread, "Wilson")
        if stderr is None:
            return Limits()
        method = " ".join(f"normal, {self.estimate.method} standard error".split())
        return Limits(value - _Z * stderr, value + _Z * stderr, method)

    @property
    def key(self) -> str:
        """Metric and filter as results files name them: ``acc,none``."""
        return f"{self.name},{self.filter}"

    @property
    def labels(self) -> HumanLabels | None:
        """The human labels of its judge, if any."""
        return None if self.how is None else self.how.labels

    @property
    def known_limits(self) -> tuple[float, float] | None:
        """Smallest and largest possible value of a document, if known."""
        return None if self.how is None else self.how.known_limits

    @property
    def n_lost(self) -> int:
        """Number of documents that were run and have no value."""
        return self.n_errored + self.n_unscored

    @property
    def n_lacking(self) -> int:
        """Number of selected documents without a value."""
        return self.n_lost + self.n_missing
