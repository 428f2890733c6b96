"""Corpus BLEU, chrF and TER."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pytest_evals.errors import EvalsError
from pytest_evals.guests.lighteval.metrics.corpus.corpus_metric import (
    CorpusMetric,
    check_choice,
)
from pytest_evals.scorers.aggregations import Aggregation
from pytest_evals.scorers.corpus import CORPUS_METRICS, SPANS, Corpus
from pytest_evals.scorers.custom_metrics.metric import Libraries

__all__ = ["CorpusLevelTranslationMetric"]

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
        check_choice("translation metric", self.metric_type, list(CORPUS_METRICS))
        check_choice("lang", self.lang, _LANGUAGES)

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
        return Aggregation(
            name=self.metric_type,
            takes="pairs",
            read=lambda items: Corpus(self.metric_type, self._texts(items), self.lang),
            value=Corpus.score,
            statistic=Corpus.resampled,
            totals=Corpus.totals,
            span=SPANS[self.metric_type],
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
