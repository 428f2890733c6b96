"""The measured error of a judge: agreement with human labels, bias, the mean that the
labels correct, and agreement of the members of a jury."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple, TypeVar

from pytest_evals.core.metric import MetricResult
from pytest_evals.core.rated_documents import RatedDocuments, rated_documents
from pytest_evals.core.record import Score
from pytest_evals.core.result import TaskResult
from pytest_evals.stats.averages import mean
from pytest_evals.stats.interval_methods import Proportion
from pytest_evals.stats.prediction_powered import METHOD, mean_of_run

_Value = TypeVar("_Value")

CONFIDENCE = 0.95  # of each one-sided limit

_PERMUTATIONS = 4_000
_RESAMPLES = 2_000
_MOST_COUNTS = 4_000_000  # counts of resamples that are in memory at a time
_EQUAL = 1e-12  # variance below which all ratings are equal
Units = Sequence[Sequence[float]]
"""For each rated thing, the ratings that it got, from any of the raters."""


class AlphaLimits(NamedTuple):
    """Confidence limits of Krippendorff's alpha."""

    low: float
    high: float
    n_undefined: int  # resamples without a value, which are left out


@dataclass(frozen=True, slots=True)
class LengthBias:
    """How ratings depend on the length of an answer if its human label is the same.
    ``slope``: change of the rating for an answer of twice the length. ``p_value``:
    two-sided, of no dependence on the length."""

    slope: float
    p_value: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PositionBias:
    """How verdicts on pairs depend on the order of the answers."""

    metric: str
    n_pairs: int  # pairs that were judged in both orders
    n_consistent: int  # pairs with the same winner in both orders
    first_preferred: float
    """Share of verdicts for the answer that came first, with ties as one half; 0.5
    without a bias."""
    p_value: float  # two-sided, of no bias: sign test over pairs


@dataclass(frozen=True, slots=True, kw_only=True)
class JuryAgreement:
    """How far the members of a jury, or the repeats of a judge, agree."""

    metric: str
    n_answers: int  # answers that were rated
    n_members: int  # ratings of each answer; 1 if the replies were copies
    n_unanimous: int  # answers with equal ratings
    means: tuple[float, ...]  # mean rating of each member
    alpha: float | None  # krippendorff's alpha; ``None`` if all ratings are equal
    limits: AlphaLimits | None  # by resampling documents; ``None`` without a value

    def as_json(self) -> dict[str, Any]:
        """The fields as plain values."""
        limits = None if self.limits is None else self.limits._asdict()
        return {**asdict(self), "limits": limits}


@dataclass(frozen=True, slots=True, kw_only=True)
class CorrectedMean:
    """The mean of human ratings over this run's documents. ``value``:
    prediction-powered estimate. ``confidence``: of each limit, one-sided."""

    value: float
    low: float
    high: float
    confidence: float = CONFIDENCE
    method: str = METHOD


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeError:
    """The error of a judge on documents with human labels."""

    metric: str
    n_labels: int  # human labels of answers that the judge rated
    sampled: str  # how the labelled documents were chosen
    n_changed: int  # labels of answers other than those of this run; not used
    n_not_run: int  # labels of documents that are not in this run; not used
    n_agree: int  # documents with the same category from judge and person
    kappa: float | None
    """Cohen's kappa, with quadratic weights for grades; ``None`` if both give the same
    category throughout."""
    confusion: Mapping[str, Mapping[str, int]]
    """Person's category → judge's category → number of documents."""
    human_mean: float  # mean of the labels
    judge_mean: float  # mean of the judge's ratings, over all documents
    length: LengthBias | None  # bias by the length of answers, ``None`` if unknown
    corrected: CorrectedMean | None
    """The corrected mean; ``None`` if the labels do not allow it."""
    fault: str  # why they do not
    checked: bool  # whether the labels contain the answers that were labelled

    @property
    def agreement(self) -> float:
        """Share of labelled documents with the same category."""
        return self.n_agree / self.n_labels

    def as_json(self) -> dict[str, Any]:
        """The fields as plain values."""
        return {**asdict(self), "agreement": self.agreement}


def judge_errors(result: TaskResult) -> Iterator[JudgeError]:
    """Yield the measured errors of a task's judges with human labels."""
    for metric in result.metrics:
        rated = rated_documents(result, metric)
        if rated is not None and rated.human:
            yield judge_error(metric, rated)


def position_biases(result: TaskResult) -> Iterator[PositionBias]:
    """Yield the position biases of a task's judges of pairs."""
    for metric in result.metrics:
        orders = [*_values(result, metric, lambda one: one.orders)]
        if not orders:
            continue
        first = [(one + 1 - other) / 2 for one, other in orders]
        n_first, n_second = sum(x > 0.5 for x in first), sum(x < 0.5 for x in first)
        signs = Proportion(n_first, max(1, n_first + n_second))
        tail = min(signs.p_less(0.5), signs.p_greater(0.5))
        yield PositionBias(
            metric=metric.key,
            n_pairs=len(orders),
            n_consistent=sum(one == other for one, other in orders),
            first_preferred=mean(first),
            p_value=min(1.0, 2 * tail) if n_first + n_second else 1.0,
        )


def jury_agreements(result: TaskResult) -> Iterator[JuryAgreement]:
    """Yield how far the members of a task's juries agree."""
    for metric in result.metrics:
        documents = [*_values(result, metric, lambda one: one.votes)]
        if not documents:
            continue
        votes = [one for units in documents for one in units]
        yield JuryAgreement(
            metric=metric.key,
            n_answers=len(votes),
            n_members=min(map(len, votes)),
            n_unanimous=sum(len(set(one)) == 1 for one in votes),
            means=tuple(map(mean, zip(*votes, strict=False))),
            alpha=krippendorff_alpha(votes),
            limits=alpha_limits(documents, CONFIDENCE),
        )


def _values(
    result: TaskResult, metric: MetricResult, value_of: Callable[[Score], _Value]
) -> Iterator[_Value]:
    """The pairs or votes of a metric's scores, of documents without errors."""
    key = metric.key
    for record in result.records:
        for one in record.scores:
            # First, since few tasks have any.
            value = value_of(one)
            if value and one.key == key and not record.error:
                yield value


def judge_error(metric: MetricResult, rated: RatedDocuments) -> JudgeError:
    """The error of a judge on its labelled documents, at least one."""
    labels, doublings = rated.labels, [math.log2(max(1, n)) for n in rated.lengths]
    length = slope_within(rated.human, doublings, rated.judge)
    named = [
        (labels.category(y), labels.category(f))
        for y, f in zip(rated.human, rated.judge, strict=True)
    ]
    counts, order = Counter(named), ["pass", "fail"]
    pairs = [(float(y == "pass"), float(f == "pass")) for y, f in named]
    if labels.scale is not None:
        order = sorted({one for pair in counts for one in pair}, key=float)
        pairs = [*zip(rated.human, rated.judge, strict=True)]
    corrected = None
    if not rated.fault:
        estimate = mean_of_run(rated.human, rated.judge, rated.others)
        corrected = CorrectedMean(
            value=estimate.value, **estimate.interval(CONFIDENCE)._asdict()
        )
    return JudgeError(
        metric=metric.key,
        n_labels=len(rated.human),
        sampled=labels.sampled,
        n_changed=rated.n_changed,
        n_not_run=rated.n_not_run,
        n_agree=sum(y == f for y, f in named),
        kappa=kappa(pairs),
        confusion={y: {f: counts[y, f] for f in order} for y in order},
        human_mean=mean(rated.human),
        judge_mean=mean([*rated.judge, *rated.others]),
        length=None if length is None else LengthBias(*length),
        corrected=corrected,
        fault=rated.fault,
        checked=all(one.response is not None for one in labels.by_id.values()),
    )


def krippendorff_alpha(units: Units) -> float | None:
    """Return Krippendorff's alpha with the interval metric: 1 minus the observed over
    the expected disagreement (Krippendorff 2011, Computing Krippendorff's
    Alpha-Reliability). With two categories it equals that of the nominal metric. Things
    with fewer than two ratings do not count. ``None`` if all ratings are equal, so that
    no disagreement is expected."""
    parts = [_contributions(one) for one in units]
    return _alpha(*map(math.fsum, zip(*parts, strict=True))) if parts else None


def alpha_limits(documents: Sequence[Units], confidence: float) -> AlphaLimits | None:
    """Return percentile limits of Krippendorff's alpha by seeded resampling of
    documents, whose ratings stay together; ``None`` if no resample has a value.
    ``documents``: the units of each document. ``confidence``: of each limit, one-sided.
    """
    import numpy as np

    totals = np.array(
        [np.sum([_contributions(one) for one in units], axis=0) for units in documents]
    )  # (n, 4)
    n, rng = len(documents), np.random.default_rng(0)
    block = max(1, _MOST_COUNTS // n)
    found: list[float] = []
    for start in range(0, _RESAMPLES, block):
        size = min(block, _RESAMPLES - start)
        counts = rng.multinomial(n, np.full(n, 1 / n), size=size)  # (B, n)
        values = (_alpha(*map(float, row)) for row in counts @ totals)
        found += [one for one in values if one is not None]
    if not found:
        return None
    low, high = np.quantile(found, [1 - confidence, confidence])
    return AlphaLimits(float(low), float(high), _RESAMPLES - len(found))


def _contributions(ratings: Sequence[float]) -> tuple[float, ...]:
    """What a rated thing adds to the sums: disagreement, ratings, their sum and that of
    their squares."""
    m = len(ratings)
    if m < 2:
        return 0.0, 0.0, 0.0, 0.0
    total, squares = math.fsum(ratings), math.fsum(one * one for one in ratings)
    return 2 * (m * squares - total**2) / (m - 1), float(m), total, squares


def _alpha(disagreement: float, n: float, total: float, squares: float) -> float | None:
    spread = 2 * (n * squares - total**2)
    if spread <= _EQUAL * n * n:
        return None
    return 1 - disagreement * (n - 1) / spread


def kappa(pairs: Sequence[tuple[float, float]]) -> float | None:
    """Return Cohen's kappa of two raters with quadratic weights (Cohen 1968). With two
    categories it equals Cohen's unweighted kappa (1960). ``None`` if both raters give
    one and the same rating throughout, so that chance alone explains it. ``pairs``: the
    ratings of each document; not empty."""
    n = len(pairs)
    first = math.fsum(one for one, _ in pairs) / n
    second = math.fsum(one for _, one in pairs) / n
    observed = math.fsum((one - other) ** 2 for one, other in pairs) / n
    expected = (
        math.fsum((one - first) ** 2 + (other - second) ** 2 for one, other in pairs)
        / n
        + (first - second) ** 2
    )
    return 1 - observed / expected if expected > 0 else None


def slope_within(
    groups: Sequence[Hashable], x: Sequence[float], y: Sequence[float]
) -> tuple[float, float] | None:
    """Return the least-squares slope of y on x among members of the same group, and the
    two-sided p-value of no dependence; ``None`` if x does not vary within a group. The
    p-value is that of seeded permutations of x within the groups, which also holds for
    few values and for values of 0 and 1."""
    import numpy as np

    rng = np.random.default_rng(0)
    square, product, permuted = 0.0, 0.0, np.zeros(_PERMUTATIONS)
    for group in dict.fromkeys(groups):
        here = [i for i, one in enumerate(groups) if one == group]
        dx, dy = (np.array([one[i] for i in here], dtype=float) for one in (x, y))
        dx, dy = dx - dx.mean(), dy - dy.mean()
        square += float(dx @ dx)
        product += float(dx @ dy)
        permuted += rng.permuted(np.tile(dx, (_PERMUTATIONS, 1)), axis=1) @ dy
    if square <= 1e-12 * len(x):
        return None
    n_extreme = int((np.abs(permuted) >= abs(product) * (1 - 1e-9) - 1e-12).sum())
    return product / square, (1 + n_extreme) / (1 + _PERMUTATIONS)
