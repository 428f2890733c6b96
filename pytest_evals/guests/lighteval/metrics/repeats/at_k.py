"""Estimates for ``k`` answers from ``n`` samples: pass@k (Chen et al. 2021, arXiv
2107.03374) and G-Pass@k (Liu et al. 2024, arXiv 2412.13147).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from pytest_evals.core.doc import Doc
from pytest_evals.errors import EvalsError
from pytest_evals.guests.lighteval.metrics.repeats.sampling import (
    SamplingMetric,
    check_count,
    required_count,
    single_reference,
)
from pytest_evals.scorers.custom_metrics.response import ModelResponse

__all__ = ["GPassAtK", "PassAtK", "g_pass_at_k", "pass_at_k"]

THRESHOLDS = (0.0, 0.25, 0.5, 0.75, 1.0)


@dataclass(frozen=True)
class PassAtK(SamplingMetric):
    """pass@k: the probability that one of ``k`` answers is correct, estimated from
    ``n`` answers.

    Args:
        k: Number of attempts.
        n: Number of answers used; ``None`` for all.
    """

    is_share: ClassVar[bool] = True
    required: ClassVar[tuple[str, ...]] = ("k",)
    k: int | None = None
    n: int | None = None

    def __post_init__(self) -> None:
        """Validate ``k`` and ``n``.

        Raises:
            EvalsError: They are not positive integers, or ``k`` is greater than ``n``.
        """
        SamplingMetric.__post_init__(self)
        check_count("k", self.k)
        check_count("n", self.n)
        if self.k and self.n and self.k > self.n and not self.published:
            raise EvalsError(f"k={self.k} must not be greater than n={self.n}")

    def num_samples(self) -> int | None:
        """Return the number of answers needed."""
        return self.n if self.n is not None else self.k

    def measure(self, doc: Doc, model_response: ModelResponse) -> float:
        """Compute pass@k.

        Raises:
            DocumentError: There are too few answers, or several references.
        """
        single_reference(doc, "pass@k")
        k = required_count("k", self.k, "pass@k")
        scores = self.scores(doc, model_response, self.n)
        self.check_number(len(scores), k)
        n = max(len(scores), self.n or 0)
        return pass_at_k(n, scores.count(1), k)


def pass_at_k(n: int, n_correct: int, k: int) -> float:
    """Return the probability that ``k`` of ``n`` answers, drawn without replacement,
    include a correct one."""
    if n - n_correct < k:
        return 1.0
    return 1.0 - math.prod(1.0 - k / i for i in range(n - n_correct + 1, n + 1))


@dataclass(frozen=True)
class GPassAtK(SamplingMetric):
    """G-Pass@k: the probability that at least a fraction of ``k`` answers is correct,
    estimated from ``n`` answers.

    Args:
        k: Number of attempts, or several.
        n: Number of answers used; ``None`` for all.
        thresholds: The fractions.
        name_prefix: Prefix of the names of its numbers.
    """

    is_share: ClassVar[bool] = True
    required: ClassVar[tuple[str, ...]] = ("k",)
    k: int | Sequence[int] | None = None
    n: int | None = None
    thresholds: Sequence[float] | None = None
    name_prefix: str | None = None

    def __post_init__(self) -> None:
        """Validate the numbers.

        Raises:
            EvalsError: A number is out of range.
        """
        SamplingMetric.__post_init__(self)
        check_count("n", self.n)
        for k in self.ks:
            check_count("k", k, needed=True)
            if self.n and k > self.n and not self.published:
                raise EvalsError(f"k={k} must not be greater than n={self.n}")
        for share in self.thresholds or ():
            if not 0 <= share <= 1:
                raise EvalsError(f"a threshold must be between 0 and 1, not {share!r}")

    @property
    def ks(self) -> list[int]:
        """Return the values of ``k`` as a list."""
        if self.k is None:
            return []
        return [self.k] if isinstance(self.k, int) else list(self.k)

    def num_samples(self) -> int | None:
        """Return the number of answers needed."""
        return self.n if self.n is not None else max(self.ks, default=None)

    def metric_names(self) -> list[str]:
        """Return the names of its numbers."""
        return list(self._numbers(0, 0))

    def measure(self, doc: Doc, model_response: ModelResponse) -> dict[str, float]:
        """Compute the probabilities by name.

        Raises:
            DocumentError: There are too few answers, or several references.
        """
        single_reference(doc, "G-Pass@k")
        required_count("k", max(self.ks, default=None), "G-Pass@k")
        scores = self.scores(doc, model_response, self.n)
        self.check_number(len(scores), max(self.ks))
        n = max(len(scores), self.n or 0)
        return self._numbers(n, int(sum(scores)))

    def _numbers(self, n: int, n_correct: int) -> dict[str, float]:
        return g_pass_at_k(
            n, n_correct, self.ks, self.thresholds or THRESHOLDS, self.name_prefix
        )


def g_pass_at_k(
    n: int,
    n_correct: int,
    ks: Sequence[int],
    thresholds: Sequence[float] = THRESHOLDS,
    name_prefix: str | None = None,
) -> dict[str, float]:
    """Return G-Pass@k for each ``k`` and threshold, and mG-Pass@k, the mean over
    thresholds above 0.5, for each ``k``."""
    prefix = f"{name_prefix}_" if name_prefix else ""
    found: dict[str, float] = {}
    for k in ks:
        for share in thresholds:
            least = max(math.ceil(k * share), 1)
            name = f"{prefix}g-pass@{k}_{share}"
            found[name] = _at_least(least, n, n_correct, k)
        upper = range(math.ceil(k / 2) + 1, k + 1)
        total = sum(_at_least(i, n, n_correct, k) for i in upper)
        found[f"m{prefix}g-pass@{k}"] = 2 * total / k
    return found


def _at_least(least: int, n: int, n_correct: int, k: int) -> float:
    """Return the probability of at least that many correct answers among ``k`` drawn
    without replacement."""
    if k > n or least > min(n_correct, k):
        return 0.0
    ways = sum(
        math.comb(n_correct, hits) * math.comb(n - n_correct, k - hits)
        for hits in range(least, min(n_correct, k) + 1)
    )
    return ways / math.comb(n, k)
