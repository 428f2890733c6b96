"""Metrics of a whole corpus: F1, Matthews' correlation, perplexities, translation.

Each is an object with ``compute_corpus``, as lighteval's (0.13.0,
``metrics/metrics_corpus.py``), and says how the house adds it up, so that it has a
standard error: a bootstrap over documents.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

from pytest_evals.core.metric import Totals
from pytest_evals.errors import EvalsError, did_you_mean
from pytest_evals.scorers import totals
from pytest_evals.scorers.aggregations import AGGREGATIONS, Aggregation
from pytest_evals.scorers.corpus import CORPUS_METRICS, Corpus
from pytest_evals.scorers.lighteval.metric import (
    CorpusLevelComputation,
    Libraries,
)
from pytest_evals.stats import agreement
from pytest_evals.stats.resampling import (
    resampled_matthews,
    resampled_perplexity,
    resampled_scores,
)

__all__ = [
    "CorpusLevelF1Score",
    "CorpusLevelPerplexityMetric",
    "CorpusLevelTranslationMetric",
    "FlatMean",
    "MatthewsCorrCoef",
]


class _Added(CorpusLevelComputation):
    """What all of them share."""

    def aggregation(self) -> Aggregation:
        """How it is added up, with its standard error."""
        raise NotImplementedError

    def compute_corpus(self, items: Sequence[Any]) -> float:
        """The number of all documents.

        Raises:
            EvalsError: The values are not what it takes.
        """
        how = self.aggregation()
        return float(how.value(how.read(items)))


def _checked(noun: str, name: Any, known: Sequence[Any]) -> None:
    if name not in known:
        listed = ", ".join(map(str, known))
        hint = did_you_mean(str(name), [str(k) for k in known]) or f"; known: {listed}"
        raise EvalsError(f"no {noun} called {name!r}{hint}")


def _labels(items: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """Right labels and predicted ones; lists of one label count as that."""
    golds, preds = [], []
    for position, item in enumerate(items):
        if not isinstance(item, list | tuple) or len(item) != 2:
            raise EvalsError(f"it takes pairs, and value {position} is {item!r:.200}")
        golds.append(_label(item[0], position))
        preds.append(_label(item[1], position))
    return golds, preds


def _label(given: Any, position: int) -> Any:
    if not isinstance(given, list | tuple):
        return given
    if len(given) != 1:
        raise EvalsError(
            f"it takes one label a document, and value {position} has {len(given)}: "
            f"{given!r:.200}"
        )
    return given[0]


@dataclass(frozen=True)
class CorpusLevelF1Score(_Added):
    """F1 of labels.

    Args:
        average: ``weighted``, ``macro`` or ``micro`` over the labels; ``None`` for the
            label 1 of two, and for ``macro`` of more.
        num_classes: How many labels there are.
        published: Whether it is computed as in lighteval: without average as the best
            label's F1, and of more than two labels as the mean over these of the F1 of
            "it or another one", where being right about "another one" counts too.
    """

    average: Literal["weighted", "macro", "micro"] | None
    num_classes: int = 2
    published: bool = False

    def __post_init__(self) -> None:
        """Check the average."""
        _checked("average", self.average, ("weighted", "macro", "micro", None))

    def aggregation(self) -> Aggregation:
        """Counts of pairs of labels."""
        return Aggregation(
            name="f1",
            takes="pairs",
            read=_labels,
            value=lambda labels: self._value(Counter(zip(*labels, strict=True))),
            statistic=lambda labels: resampled_scores(*self._sums(labels)),
            totals=self._totals,
        )

    def _totals(self, labels: tuple[list[Any], list[Any]]) -> Totals:
        columns, score = self._sums(labels)
        return Totals(columns=columns, score=score)

    def _sums(
        self, labels: tuple[list[Any], list[Any]]
    ) -> tuple[list[list[int]], Callable[[Sequence[float]], float]]:
        """How often each pair of labels comes, and the number that these give."""
        pairs = list(zip(*labels, strict=True))
        kinds = list(dict.fromkeys(pairs))
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


def _either(
    counts: Mapping[tuple[Any, Any], float], label: int
) -> Mapping[tuple[Any, Any], float]:
    """The counts of the question whether it is that label."""
    found: Counter[tuple[bool, bool]] = Counter()
    for (gold, pred), n in counts.items():
        found[gold == label, pred == label] += n  # type: ignore[assignment]
    return found


@dataclass(frozen=True)
class MatthewsCorrCoef(_Added):
    """Matthews' correlation of right and predicted labels."""

    def aggregation(self) -> Aggregation:
        """Counts of pairs of labels."""
        return Aggregation(
            name="matthews_corrcoef",
            takes="pairs",
            read=_labels,
            value=lambda labels: agreement.matthews_corrcoef(*labels),
            statistic=lambda labels: resampled_matthews(*labels),
            totals=totals.matthews_totals,
        )


@dataclass(frozen=True)
class FlatMean(_Added):
    """The mean of what all documents' lists hold."""

    def aggregation(self) -> Aggregation:
        """Sums and lengths of the lists."""
        return Aggregation(
            name="mean of all",
            read=lambda lists: ([sum(x) for x in lists], [len(x) for x in lists]),
            value=_share,
            statistic=lambda sums: resampled_scores(
                sums, lambda drawn: _share(([drawn[0]], [drawn[1]]))
            ),
            totals=lambda sums: Totals(
                columns=sums,
                score=lambda drawn: _share(([drawn[0]], [drawn[1]])),
                is_ratio=True,
            ),
        )


def _share(sums: tuple[Sequence[float], Sequence[float]]) -> float:
    above, below = sums
    if not sum(below):
        raise EvalsError("the lists of all documents are empty")
    return sum(above) / sum(below)


_PERPLEXITIES = ("perplexity", "weighted_perplexity", "bits_per_byte")


@dataclass(frozen=True)
class CorpusLevelPerplexityMetric(_Added):
    """Perplexity per document, per unit of text, or bits per byte.

    Args:
        metric_type: ``perplexity`` (the documents' lengths do not count),
            ``weighted_perplexity`` or ``bits_per_byte``.
    """

    metric_type: str

    def __post_init__(self) -> None:
        """Check the type."""
        _checked("perplexity", self.metric_type, _PERPLEXITIES)

    def aggregation(self) -> Aggregation:
        """Sums of log-probabilities and of lengths."""
        known = AGGREGATIONS[self.metric_type]
        if self.metric_type == "perplexity":
            return Aggregation(
                name="perplexity",
                takes="pairs",
                read=lambda pairs: [pair[0] for pair in pairs],
                value=known.value,
                statistic=resampled_perplexity,
                totals=known.totals,
            )
        return Aggregation(
            name=known.name,
            takes="pairs",
            read=known.read,
            value=partial(_per_unit, known.value),
            statistic=lambda pairs: resampled_scores(
                pairs, lambda sums: known.value(([sums[0]], [sums[1]]))
            ),
            totals=known.totals,
        )


def _per_unit(value: Callable[[Any], float], pairs: tuple[Any, Any]) -> float:
    if not sum(pairs[1]):
        raise EvalsError("the texts have no length to divide their log-probability by")
    return value(pairs)


_LANGUAGES = ("", "zh", "ja", "ko")


@dataclass(frozen=True)
class CorpusLevelTranslationMetric(_Added):
    """BLEU, chrF, chrF++ or TER of a corpus, by sacrebleu, in percent.

    References are put to sacrebleu document by document; lighteval mixed them up for
    all but BLEU. Only the first answer to each document counts, and for BLEU only its
    first reference.

    Args:
        metric_type: ``bleu``, ``chrf``, ``chrf++`` or ``ter``.
        lang: The language of the answers, where their words are not parted by spaces:
            zh, ja or ko.
    """

    metric_type: str
    lang: str = ""

    def __post_init__(self) -> None:
        """Check both names."""
        _checked("translation metric", self.metric_type, list(CORPUS_METRICS))
        _checked("lang", self.lang, _LANGUAGES)

    @property
    def libraries(self) -> Libraries:
        """What has to be installed: sacrebleu, and what cuts some languages."""
        needed = [("sacrebleu", "sacrebleu", "metrics")]
        if self.metric_type == "bleu" and self.lang == "ja":
            needed.append(("MeCab", "sacrebleu[ja]", "languages"))
        if self.metric_type == "bleu" and self.lang == "ko":
            needed.append(("mecab_ko", "sacrebleu[ko]", "languages"))
        return tuple(needed)

    def aggregation(self) -> Aggregation:
        """Counts of n-grams or edits."""
        return Aggregation(
            name=self.metric_type,
            takes="pairs",
            read=lambda items: Corpus(self.metric_type, self._texts(items), self.lang),
            value=Corpus.score,
            statistic=Corpus.resampled,
            totals=Corpus.totals,
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
