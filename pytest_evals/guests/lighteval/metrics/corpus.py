"""Corpus metrics: objects with ``compute_corpus``, as in lighteval 0.13.0
(``metrics/metrics_corpus.py``), and an aggregation with a bootstrapped standard error.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from typing import Any, Literal

from pytest_evals.core.metric import SHARE, Totals
from pytest_evals.errors import EvalsError, unknown_name
from pytest_evals.scorers import agreement
from pytest_evals.scorers.aggregations import AGGREGATIONS, Aggregation
from pytest_evals.scorers.bootstrap import resampled_scores
from pytest_evals.scorers.corpus import CORPUS_METRICS, Corpus
from pytest_evals.scorers.custom_metrics.metric import CorpusLevelComputation, Libraries


class CorpusMetric(CorpusLevelComputation):
    """Base class of corpus metrics."""

    def aggregation(self) -> Aggregation:
        """Return the aggregation, with its standard error."""
        raise NotImplementedError

    def compute_corpus(self, items: Sequence[Any]) -> float:
        """Compute the metric over all documents."""
        if not items:
            raise EvalsError("a corpus metric needs at least one document")
        how = self.aggregation()
        return float(how.value(how.read(items)))


def _check_choice(noun: str, name: Any, known: Sequence[Any]) -> None:
    if name not in known:
        raise EvalsError(unknown_name(noun, name, known))


def _labels(items: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    golds, preds = [], []
    for position, item in enumerate(items):
        if not isinstance(item, list | tuple) or len(item) != 2:
            raise EvalsError(f"expected pairs, but value {position} is {item!r:.200}")
        golds.append(_label(item[0], position))
        preds.append(_label(item[1], position))
    return golds, preds


def _label(given: Any, position: int) -> Any:
    if not isinstance(given, list | tuple):
        return given
    if len(given) != 1:
        raise EvalsError(
            f"expected one label per document, but value {position} has {len(given)}: "
            f"{given!r:.200}"
        )
    return given[0]


@dataclass(frozen=True)
class CorpusLevelF1Score(CorpusMetric):
    """F1 of labels.

    Args:
        average: ``weighted``, ``macro`` or ``micro``; ``None`` for the F1 of label 1
            with two labels, and for ``macro`` with more.
        published: Reproduce lighteval: without average the F1 of the best label; with
            more than two labels the mean of one-versus-rest F1s that also count the
            "rest" class.
    """

    average: Literal["weighted", "macro", "micro"] | None
    num_classes: int = 2
    published: bool = False

    def __post_init__(self) -> None:
        """Validate the average."""
        _check_choice("average", self.average, ("weighted", "macro", "micro", None))

    def aggregation(self) -> Aggregation:
        """Return the aggregation over counts of label pairs."""
        return Aggregation(
            name="f1",
            takes="pairs",
            read=_labels,
            value=lambda labels: self._value(Counter(zip(*labels, strict=True))),
            statistic=lambda labels: resampled_scores(*self._sums(labels)),
            totals=self._totals,
            span=SHARE,
        )

    def _totals(self, labels: tuple[list[Any], list[Any]]) -> Totals:
        columns, score = self._sums(labels)
        kinds = [
            [float(i == j) for i in range(len(columns))] for j in range(len(columns))
        ]
        return Totals(columns=columns, score=score, kinds=kinds)

    def _sums(
        self, labels: tuple[list[Any], list[Any]]
    ) -> tuple[list[list[int]], Callable[[Sequence[float]], float]]:
        """Return counts of label pairs per document, and the score of their sums."""
        pairs = list(zip(*labels, strict=True))
        kinds = list(dict.fromkeys(pairs))
        names = list(dict.fromkeys(label for pair in pairs for label in pair))
        if len(names) <= MOST_LABELS:
            kinds = list(dict.fromkeys([*kinds, *product(names, repeat=2)]))
        columns = [[int(pair == kind) for pair in pairs] for kind in kinds]

        def score(sums: Sequence[float]) -> float:
            drawn = zip(kinds, sums, strict=True)
            return self._value({kind: n for kind, n in drawn if n})

        return columns, score

    def _value(self, counts: Mapping[tuple[Any, Any], float]) -> float:
        if self.published:
            return self._published(counts)
        if self.average is None and self.num_classes == 2:
            return agreement.f1_by_label(counts).get(1, 0.0)
        return agreement.averaged_f1(counts, self.average or "macro")

    def _published(self, counts: Mapping[tuple[Any, Any], float]) -> float:
        if self.num_classes == 2:
            if self.average is None:
                return max(agreement.f1_by_label(counts).values())
            return agreement.averaged_f1(counts, self.average)
        average = self.average or "macro"
        each = [
            agreement.averaged_f1(_either(counts, i), average)
            for i in range(self.num_classes)
        ]
        return sum(each) / len(each)


MOST_LABELS = 5
"""With more labels, only the pairs that occur are kinds of documents."""


def _either(
    counts: Mapping[tuple[Any, Any], float], label: int
) -> Mapping[tuple[Any, Any], float]:
    found: Counter[tuple[bool, bool]] = Counter()
    for (gold, pred), n in counts.items():
        found[gold == label, pred == label] += n  # type: ignore[assignment]
    return found


@dataclass(frozen=True)
class MatthewsCorrCoef(CorpusMetric):
    """Matthews correlation of true and predicted labels."""

    def aggregation(self) -> Aggregation:
        """Return the aggregation over counts of label pairs."""
        return replace(AGGREGATIONS["matthews_corrcoef"], read=_labels)


def matthews_corrcoef(items: Sequence[Any]) -> float:
    """Compute the Matthews correlation; the name of earlier releases."""
    return MatthewsCorrCoef().compute_corpus(items)


@dataclass(frozen=True)
class FlatMean(CorpusMetric):
    """Mean over the concatenated lists of all documents."""

    def aggregation(self) -> Aggregation:
        """Return the aggregation over sums and lengths of the lists."""
        return Aggregation(
            name="mean of all",
            read=lambda lists: ([sum(x) for x in lists], [len(x) for x in lists]),
            value=lambda columns: _share([sum(column) for column in columns]),
            statistic=lambda columns: resampled_scores(columns, _share),
            totals=lambda sums: Totals(columns=sums, score=_share, is_ratio=True),
        )


def _share(sums: Sequence[float]) -> float:
    if not sums[1]:
        raise EvalsError("the lists of all documents are empty")
    return sums[0] / sums[1]


_PERPLEXITIES = ("perplexity", "weighted_perplexity", "bits_per_byte")


@dataclass(frozen=True)
class CorpusLevelPerplexityMetric(CorpusMetric):
    """Perplexity per document, per unit of text, or bits per byte.

    Args:
        metric_type: ``perplexity`` (ignores the lengths of documents),
            ``weighted_perplexity`` or ``bits_per_byte``.
    """

    metric_type: str

    def __post_init__(self) -> None:
        """Validate the type."""
        _check_choice("perplexity", self.metric_type, _PERPLEXITIES)

    def compute_corpus(self, items: Sequence[Any]) -> float:
        """Compute the perplexity; NaN for no documents with ``perplexity``."""
        of_mean = self.metric_type == "perplexity"
        return math.nan if of_mean and not items else super().compute_corpus(items)

    def aggregation(self) -> Aggregation:
        """Return the aggregation over log-probabilities and lengths."""
        known = AGGREGATIONS[self.metric_type]
        if self.metric_type == "perplexity":
            return replace(
                known, takes="pairs", read=lambda pairs: [pair[0] for pair in pairs]
            )
        return replace(
            known,
            value=partial(_per_unit, known.value),
            statistic=lambda pairs: resampled_scores(
                pairs, lambda sums: known.value(([sums[0]], [sums[1]]))
            ),
        )


def _per_unit(value: Callable[[Any], float], pairs: tuple[Any, Any]) -> float:
    if not sum(pairs[1]):
        raise EvalsError("all texts are empty; per-unit perplexity is undefined")
    return value(pairs)


_LANGUAGES = ("", "zh", "ja", "ko")


@dataclass(frozen=True)
class CorpusLevelTranslationMetric(CorpusMetric):
    """BLEU, chrF, chrF++ or TER of a corpus, by sacrebleu, in percent.

    Only the first answer to each document counts, and for BLEU only the first
    reference. Unlike in lighteval, chrF and TER compare answers with the references of
    their own document.

    Args:
        metric_type: ``bleu``, ``chrf``, ``chrf++`` or ``ter``.
        lang: Language of the answers, if it needs its own tokenizer: zh, ja or ko.
    """

    metric_type: str
    lang: str = ""

    def __post_init__(self) -> None:
        """Validate both names."""
        _check_choice("translation metric", self.metric_type, list(CORPUS_METRICS))
        _check_choice("lang", self.lang, _LANGUAGES)

    @property
    def libraries(self) -> Libraries:
        """Return sacrebleu, and the tokenizer of the language."""
        needed = [("sacrebleu", "sacrebleu", "metrics")]
        if self.metric_type == "bleu" and self.lang == "ja":
            needed.append(("MeCab", "sacrebleu[ja]", "languages"))
        if self.metric_type == "bleu" and self.lang == "ko":
            needed.append(("mecab_ko", "sacrebleu[ko]", "languages"))
        return tuple(needed)

    def aggregation(self) -> Aggregation:
        """Return the aggregation over counts of n-grams or edits."""
        return replace(
            AGGREGATIONS[self.metric_type],
            read=lambda items: Corpus(self.metric_type, self._texts(items), self.lang),
        )

    def _texts(self, items: Sequence[Any]) -> list[tuple[list[str], str]]:
        texts = []
        for position, item in enumerate(items):
            golds, preds = item
            if not golds or not preds:
                raise EvalsError(f"value {position} has no reference or no answer")
            kept = golds[:1] if self.metric_type == "bleu" else golds
            texts.append((list(kept), preds[0]))
        return texts
