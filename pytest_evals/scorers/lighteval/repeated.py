"""Metrics of several answers to one prompt: average, majority, pass@k and G-Pass@k.

pass@k is the unbiased estimate of Chen et al. 2021 (arXiv 2107.03374), G-Pass@k that of
Liu et al. 2024 (arXiv 2412.13147). Names and arguments are lighteval's (0.13.0); unlike
there, all of them take out reasoning and normalise in the same way, and ask for as many
answers as they need.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from pytest_evals.core.doc import Doc
from pytest_evals.errors import DocumentError, EvalsError
from pytest_evals.scorers.lighteval.matches import match_type, matches
from pytest_evals.scorers.lighteval.metric import Libraries, SampleLevelComputation
from pytest_evals.scorers.lighteval.normalizers import Normalizer, resolved
from pytest_evals.scorers.lighteval.response import ModelResponse

__all__ = [
    "AvgAtN",
    "GPassAtK",
    "MajAtN",
    "PassAtK",
    "SamplingMetric",
    "g_pass_at_k",
    "pass_at_k",
]

THRESHOLDS = (0.0, 0.25, 0.5, 0.75, 1.0)


@dataclass(frozen=True, kw_only=True)
class SamplingMetric(SampleLevelComputation):
    """What all of them share.

    Args:
        normalize: What references and answers go through, a function or its name.
        strip_strings: Whether white space at the ends is cut off first.
        sample_scoring_function: How one answer is scored: ``full``, ``prefix`` or
            ``suffix`` match of the reference, an object with ``compute``, or a function
            of document and response.
        published: Whether, as in lighteval, answers that are missing count as wrong
            ones, and an average is that of the texts as they came.
    """

    normalize: Normalizer | str | None = None
    strip_strings: bool = False
    sample_scoring_function: Any = None
    published: bool = False
    _normalize: Normalizer | None = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Look up what is given by name.

        Raises:
            EvalsError: There is nothing of that name.
        """
        object.__setattr__(self, "_normalize", resolved(self.normalize))
        if isinstance(self.sample_scoring_function, str):
            match_type(self.sample_scoring_function)

    @property
    def libraries(self) -> Libraries:
        """What has to be installed: whatever scores an answer needs."""
        needed: Libraries = getattr(self.sample_scoring_function, "libraries", ())
        return needed

    def preprocess(self, text: str) -> str:
        """The text as it is compared."""
        if not text:
            return ""
        if self.strip_strings:
            text = text.strip()
        return self._normalize(text) if self._normalize else text

    def score(self, doc: Doc, pred: str) -> float:
        """The score of one answer, already preprocessed, and so are the choices."""
        how = self.sample_scoring_function or "full"
        if isinstance(how, str):
            return float(matches(doc.get_golds()[0], pred, how))
        response = ModelResponse(text=[pred])
        if hasattr(how, "compute"):
            return float(how.compute(doc=doc, model_response=response))
        return float(how(doc, response))

    def scores(
        self, doc: Doc, model_response: ModelResponse, n: int | None
    ) -> list[float]:
        """The scores of the first ``n`` answers, of all with ``None``.

        Raises:
            DocumentError: There are fewer.
        """
        prepared = replace(doc, choices=[self.preprocess(one) for one in doc.choices])
        return [self.score(prepared, pred) for pred in self.taken(model_response, n)]

    def taken(self, model_response: ModelResponse, n: int | None) -> list[str]:
        """The first ``n`` answers, preprocessed.

        Raises:
            DocumentError: There are fewer, or none at all.
        """
        answers = model_response.final_text
        self.check_number(len(answers), n)
        return [self.preprocess(answer) for answer in answers[:n]]

    def check_number(self, given: int, n: int | None) -> None:
        """Make sure that there are as many answers as are wanted.

        Raises:
            DocumentError: There are fewer, or none at all.
        """
        if not given or (n is not None and given < n and not self.published):
            wanted = f"{n} answers are" if n else "an answer is"
            raise DocumentError(
                f"{wanted} wanted and there are {given}; set repeats to as many"
            )


def _one_gold(doc: Doc, metric: str) -> str:
    golds = doc.get_golds()
    if len(golds) != 1:
        raise DocumentError(f"{metric} is not defined for {len(golds)} references")
    return golds[0]


def _whole(name: str, value: Any, *, needed: bool = False) -> None:
    if value is None and not needed:
        return
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise EvalsError(f"{name} is a whole number from 1, not {value!r}")


def _needed(name: str, value: int | None, metric: str) -> int:
    if value is None:
        raise DocumentError(f"{metric} needs {name}, the number of answers")
    return value


@dataclass(frozen=True)
class _OfN(SamplingMetric):
    """A metric of ``n`` answers."""

    required: ClassVar[tuple[str, ...]] = ("n",)
    n: int | None = None

    def __post_init__(self) -> None:
        """Check the number."""
        SamplingMetric.__post_init__(self)
        _whole("n", self.n)

    def num_samples(self) -> int | None:
        """Answers that it needs."""
        return self.n


@dataclass(frozen=True)
class AvgAtN(_OfN):
    """The mean score of ``n`` answers."""

    def compute(self, doc: Doc, model_response: ModelResponse, **more: Any) -> float:
        """From 0 to 1.

        Raises:
            DocumentError: There are too few answers.
        """
        n = _needed("n", self.n, "avg@n")
        if not self.published:
            scores = self.scores(doc, model_response, n)
        elif n > len(model_response.text):
            raise DocumentError(f"avg@{n} needs {n} answers")
        else:
            scores = [self.score(doc, text) for text in model_response.text[:n]]
        return sum(scores) / len(scores)


@dataclass(frozen=True)
class MajAtN(_OfN):
    """The score of the most frequent of ``n`` answers, the first one of equals."""

    def prepared_gold(self, text: str) -> str:
        """The reference as it is compared."""
        return self.preprocess(text)

    def compute(self, doc: Doc, model_response: ModelResponse, **more: Any) -> float:
        """From 0 to 1.

        Raises:
            DocumentError: There are too few answers, or several references.
        """
        gold = self.prepared_gold(_one_gold(doc, "maj@n"))
        answers = self.taken(model_response, _needed("n", self.n, "maj@n"))
        majority = Counter(answers).most_common(1)[0][0]
        return self.score(replace(doc, choices=[gold], gold_index=0), majority)


@dataclass(frozen=True)
class PassAtK(SamplingMetric):
    """The chance that one of ``k`` answers is right, as ``n`` answers show it.

    Args:
        k: Answers that one may give.
        n: Answers that are looked at; ``None`` for all.
    """

    required: ClassVar[tuple[str, ...]] = ("k",)
    k: int | None = None
    n: int | None = None

    def __post_init__(self) -> None:
        """Check the numbers.

        Raises:
            EvalsError: ``k`` is above ``n``.
        """
        SamplingMetric.__post_init__(self)
        _whole("k", self.k)
        _whole("n", self.n)
        if self.k and self.n and self.k > self.n and not self.published:
            raise EvalsError(f"k={self.k} of n={self.n} answers cannot be drawn")

    def num_samples(self) -> int | None:
        """Answers that it needs."""
        return self.n if self.n is not None else self.k

    def compute(self, doc: Doc, model_response: ModelResponse, **more: Any) -> float:
        """From 0 to 1.

        Raises:
            DocumentError: There are too few answers, or several references.
        """
        _one_gold(doc, "pass@k")
        k = _needed("k", self.k, "pass@k")
        scores = self.scores(doc, model_response, self.n)
        self.check_number(len(scores), k)
        n = max(len(scores), self.n or 0)
        return pass_at_k(n, scores.count(1), k)


def pass_at_k(n: int, n_correct: int, k: int) -> float:
    """The chance that ``k`` answers drawn of ``n`` hold one of the right ones."""
    if n - n_correct < k:
        return 1.0
    return 1.0 - math.prod(1.0 - k / i for i in range(n - n_correct + 1, n + 1))


@dataclass(frozen=True)
class GPassAtK(SamplingMetric):
    """The chance that a share of ``k`` answers is right, as ``n`` answers show it.

    Args:
        k: Answers that are drawn; one number or several.
        n: Answers that are looked at; ``None`` for all.
        thresholds: The shares.
        name_prefix: In front of the names of its numbers.
    """

    required: ClassVar[tuple[str, ...]] = ("k",)
    k: int | Sequence[int] | None = None
    n: int | None = None
    thresholds: Sequence[float] | None = None
    name_prefix: str | None = None

    def __post_init__(self) -> None:
        """Check the numbers.

        Raises:
            EvalsError: One of them means nothing.
        """
        SamplingMetric.__post_init__(self)
        _whole("n", self.n)
        for k in self.ks:
            _whole("k", k, needed=True)
            if self.n and k > self.n and not self.published:
                raise EvalsError(f"k={k} of n={self.n} answers cannot be drawn")
        for share in self.thresholds or ():
            if not 0 <= share <= 1:
                raise EvalsError(f"a threshold is a share from 0 to 1, not {share!r}")

    @property
    def ks(self) -> list[int]:
        """The numbers of answers that are drawn."""
        if self.k is None:
            return []
        return [self.k] if isinstance(self.k, int) else list(self.k)

    def num_samples(self) -> int | None:
        """Answers that it needs."""
        return self.n if self.n is not None else max(self.ks, default=None)

    def metric_names(self) -> list[str]:
        """The names of its numbers."""
        return list(self._numbers(0, 0))

    def compute(
        self, doc: Doc, model_response: ModelResponse, **more: Any
    ) -> dict[str, float]:
        """The chances by name.

        Raises:
            DocumentError: There are too few answers, or several references.
        """
        _one_gold(doc, "G-Pass@k")
        _needed("k", max(self.ks, default=None), "G-Pass@k")
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
    """The chance that at least a share of ``k`` answers drawn of ``n`` is right, for
    each ``k`` and share; and for each ``k`` its mean over the shares above a half."""
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
    """The chance of so many right ones among ``k`` drawn without putting back."""
    if k > n or least > min(n_correct, k):
        return 0.0
    ways = sum(
        math.comb(n_correct, hits) * math.comb(n - n_correct, k - hits)
        for hits in range(least, min(n_correct, k) + 1)
    )
    return ways / math.comb(n, k)
