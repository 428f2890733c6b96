"""Metrics over several answers to one prompt: pass@k, G-Pass@k, maj@n and avg@n."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from pytest_evals.core.doc import Doc
from pytest_evals.errors import DocumentError, EvalsError, plural
from pytest_evals.guests.lighteval.metrics.matches import match_type
from pytest_evals.guests.lighteval.metrics.normalizers import (
    Normalizer,
    normalized,
    resolve_normalizer,
)
from pytest_evals.guests.lighteval.metrics.reductions import check_count, references
from pytest_evals.scorers.code_eval import pass_at_k
from pytest_evals.scorers.custom_metrics.metric import (
    Libraries,
    SampleLevelComputation,
    call_computation,
)
from pytest_evals.scorers.custom_metrics.response import ModelResponse


@dataclass(frozen=True, kw_only=True)
class SamplingMetric(SampleLevelComputation):
    """Base class of metrics of several answers.

    Args:
        normalize: Normalizer of references and answers, or its name.
        strip_strings: Strip whitespace first.
        sample_scoring_function: Scores one answer: ``full``, ``prefix`` or ``suffix``
            match of the reference, an object with ``compute``, or a function of
            document and response.
        published: Reproduce lighteval: missing answers are wrong, and averages use the
            unmodified texts.
    """

    normalize: Normalizer | str | None = None
    strip_strings: bool = False
    sample_scoring_function: Any = None
    published: bool = False

    def __post_init__(self) -> None:
        """Resolve names."""
        resolve_normalizer(self.normalize)
        if isinstance(self.sample_scoring_function, str):
            match_type(self.sample_scoring_function)

    @property
    def libraries(self) -> Libraries:
        """Return the libraries of the scoring function."""
        needed: Libraries = getattr(self.sample_scoring_function, "libraries", ())
        return needed

    def preprocess(self, text: str) -> str:
        """Normalize a text."""
        if not text:
            return ""
        return normalized(text.strip() if self.strip_strings else text, self.normalize)

    def score(self, doc: Doc, pred: str) -> float:
        """Score one answer; answer and choices are already normalized."""
        how = self.sample_scoring_function or "full"
        if isinstance(how, str):
            return float(match_type(how)(pred, references(doc)[0]))
        return float(call_computation(how, doc, ModelResponse(text=[pred])))

    def scores(
        self, doc: Doc, model_response: ModelResponse, n: int | None
    ) -> list[float]:
        """Score the first ``n`` answers, or all."""
        prepared = replace(doc, choices=[self.preprocess(one) for one in doc.choices])
        return [
            self.score(prepared, pred) for pred in self.first_answers(model_response, n)
        ]

    def first_answers(self, model_response: ModelResponse, n: int | None) -> list[str]:
        """Return the first ``n`` answers, normalized."""
        answers = model_response.final_text
        self.check_number(len(answers), n)
        return [self.preprocess(answer) for answer in answers[:n]]

    def check_number(self, given: int, n: int | None) -> None:
        """Check the number of answers."""
        if not given or (n is not None and given < n and not self.published):
            needed = n or 1
            raise DocumentError(
                f"expected at least {plural(needed, 'answer')}, got {given}\n"
                f"  fix: repeats: {needed}"
            )


def single_reference(doc: Doc, metric: str) -> str:
    """Return the only reference."""
    golds = references(doc)
    if len(golds) != 1:
        raise DocumentError(f"{metric} is not defined for {len(golds)} references")
    return golds[0]


def required_count(name: str, value: int | None, metric: str) -> int:
    """Return a number of answers, which must be set."""
    if value is None:
        raise DocumentError(f"{metric} needs {name}, the number of answers")
    return value


class _CountedMetric(SamplingMetric):
    """Base class of metrics with a field ``n``, and possibly ``k``."""

    n: int | None
    k: Any = None

    def __post_init__(self) -> None:
        SamplingMetric.__post_init__(self)
        if self.n is not None:
            check_count("n", self.n)
        for k in self.ks:
            check_count("k", k)
            if self.n and k > self.n and not self.published:
                raise EvalsError(f"k={k} must not be greater than n={self.n}")

    @property
    def ks(self) -> list[int]:
        return [] if self.k is None else [self.k]

    def num_samples(self) -> int | None:
        return self.n if self.n is not None else max(self.ks, default=None)


THRESHOLDS = (0.0, 0.25, 0.5, 0.75, 1.0)


@dataclass(frozen=True)
class PassAtK(_CountedMetric):
    """pass@k: the probability that one of ``k`` answers is correct, estimated from
    ``n`` answers, or all."""

    is_share: ClassVar[bool] = True
    required: ClassVar[tuple[str, ...]] = ("k",)
    k: int | None = None
    n: int | None = None

    def measure(self, doc: Doc, model_response: ModelResponse) -> float:
        """Compute pass@k."""
        single_reference(doc, "pass@k")
        k = required_count("k", self.k, "pass@k")
        scores = self.scores(doc, model_response, self.n)
        self.check_number(len(scores), k)
        n = max(len(scores), self.n or 0)
        return pass_at_k(n, scores.count(1), k)


@dataclass(frozen=True)
class GPassAtK(_CountedMetric):
    """G-Pass@k: the probability that at least a fraction of ``k`` answers is correct,
    estimated from ``n`` answers, or all; for one ``k`` or several.

    Args:
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
        """Validate the numbers."""
        _CountedMetric.__post_init__(self)
        for share in self.thresholds or ():
            if not 0 <= share <= 1:
                raise EvalsError(f"a threshold must be between 0 and 1, not {share!r}")

    @property
    def ks(self) -> list[int]:
        """Return the values of ``k`` as a list."""
        return super().ks if isinstance(self.k, int | None) else list(self.k)

    def metric_names(self) -> list[str]:
        """Return the names of its numbers."""
        return list(self._numbers(0, 0))

    def measure(self, doc: Doc, model_response: ModelResponse) -> dict[str, float]:
        """Compute the probabilities by name."""
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
    n_favourable = sum(
        math.comb(n_correct, hits) * math.comb(n - n_correct, k - hits)
        for hits in range(least, min(n_correct, k) + 1)
    )
    return n_favourable / math.comb(n, k)


@dataclass(frozen=True)
class AvgAtN(_CountedMetric):
    """The mean score of ``n`` answers."""

    required: ClassVar[tuple[str, ...]] = ("n",)
    n: int | None = None

    def measure(self, doc: Doc, model_response: ModelResponse) -> float:
        """Compute the mean score."""
        n = required_count("n", self.n, "avg@n")
        if not self.published:
            scores = self.scores(doc, model_response, n)
        elif n > len(model_response.text):
            raise DocumentError(
                f"avg@{n} needs {plural(n, 'answer')}, got {len(model_response.text)}"
            )
        else:
            scores = [self.score(doc, text) for text in model_response.text[:n]]
        return sum(scores) / len(scores)


@dataclass(frozen=True)
class MajAtN(_CountedMetric):
    """The score of the most frequent of ``n`` answers; ties go to the first."""

    required: ClassVar[tuple[str, ...]] = ("n",)
    n: int | None = None

    def prepared_gold(self, text: str) -> str:
        """Normalize the reference."""
        return self.preprocess(text)

    def measure(self, doc: Doc, model_response: ModelResponse) -> float:
        """Compute the score of the majority."""
        gold = self.prepared_gold(single_reference(doc, "maj@n"))
        answers = self.first_answers(
            model_response, required_count("n", self.n, "maj@n")
        )
        majority = Counter(answers).most_common(1)[0][0]
        return self.score(replace(doc, choices=[gold], gold_index=0), majority)
