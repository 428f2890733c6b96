"""Metrics of n-grams: ROUGE, BLEU, and the extractiveness of summaries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from pytest_evals.core.doc import Doc
from pytest_evals.errors import DocumentError, EvalsError, unknown_name
from pytest_evals.guests.lighteval.metrics.normalizers import (
    Normalizer,
    library,
    normalized,
    remove_braces,
    remove_braces_and_strip,
    resolve_normalizer,
    tokenizer_of,
    words,
)
from pytest_evals.guests.lighteval.metrics.reductions import (
    NormalizedMetric,
    Reduction,
    check_count,
    reduce_answers,
    reduction,
    references,
)
from pytest_evals.scorers.custom_metrics.metric import Libraries, SampleLevelComputation
from pytest_evals.scorers.custom_metrics.response import ModelResponse


@dataclass(frozen=True)
class SourceMetric(SampleLevelComputation):
    """Base class of metrics of a summary and its source.

    Args:
        input_column: Key of the source text in ``doc.specific``.
    """

    normalize_input: Normalizer | str = remove_braces
    normalize_pred: Normalizer | str = remove_braces_and_strip
    input_column: str = "text"

    def __post_init__(self) -> None:
        """Validate names."""
        resolve_normalizer(self.normalize_input)
        resolve_normalizer(self.normalize_pred)

    def texts(self, doc: Doc, response: ModelResponse) -> tuple[str, str]:
        """Return the source and the first answer, normalized.

        Raises:
            DocumentError: Source or answer is missing.
        """
        source = (doc.specific or {}).get(self.input_column)
        if not isinstance(source, str):
            raise DocumentError(
                f"column {self.input_column!r} (or doc.specific) must contain the "
                "source text\n  fix: set input_column to its column"
            )
        if not response.final_text:
            raise DocumentError("the response has no answer")
        answer = normalized(response.final_text[0], self.normalize_pred)
        return normalized(source, self.normalize_input), answer


@dataclass(frozen=True)
class Extractiveness(SourceMetric):
    """Extractiveness of the first answer. ``language``: code of a spaCy tokenizer."""

    language: str = "en"

    libraries: ClassVar[Libraries] = (("spacy", "spacy", "languages"),)

    def measure(self, doc: Doc, model_response: ModelResponse) -> dict[str, float]:
        """Compute the three numbers by name; all 0 for an empty answer."""
        source, answer = self.texts(doc, model_response)
        tokens = tokenizer_of(self.language)
        text = [token.lower() for token in tokens(source)]
        summary = [token.lower() for token in tokens(answer)]
        n = len(summary)
        lengths = fragment_lengths(text, summary) if n else []
        return {
            "summarization_coverage": sum(lengths) / n if n else 0.0,
            "summarization_density": sum(i * i for i in lengths) / n if n else 0.0,
            "summarization_compression": len(text) / n if n else 0.0,
        }


def fragment_lengths(text: Sequence[str], summary: Sequence[str]) -> list[int]:
    """Return the lengths of copied fragments, matched greedily from the start."""
    lengths = []
    at = 0
    while at < len(summary):
        length = _longest(text, summary, at)
        if length:
            lengths.append(length)
        at += max(length, 1)
    return lengths


def _longest(text: Sequence[str], summary: Sequence[str], at: int) -> int:
    """Return the length of the longest fragment that starts at a position of the
    summary. As in the paper, the search continues after each match."""
    best = start = 0
    while start < len(text):
        length = 0
        while (
            start + length < len(text)
            and at + length < len(summary)
            and text[start + length] == summary[at + length]
        ):
            length += 1
        best = max(best, length)
        start += max(length, 1)
    return best


_METHODS = ("rouge1", "rouge2", "rougeL", "rougeLsum")


@dataclass(frozen=True)
class ROUGE(NormalizedMetric):
    """ROUGE F-measures by Google's ``rouge_score`` without stemming.

    The default tokenizer keeps only a-z and 0-9, so other scripts score 0; set
    ``tokenizer`` for them.

    Args:
        methods: rouge1, rouge2, rougeL or rougeLsum for one number; a list for several.
        multiple_golds: Score each answer against its best reference.
        bootstrap: Score the i-th answer against the i-th reference, in percent, as T5.
        aggregation_function: Reduction over all pairs; the mean by default. (``max``
            uses the best reference, as most harnesses do.)
        tokenizer: An object with ``tokenize(text)``.
    """

    is_share: ClassVar[bool] = True
    libraries: ClassVar[Libraries] = (("rouge_score", "rouge-score", "metrics"),)

    methods: str | Sequence[str]
    multiple_golds: bool = False
    bootstrap: bool = False
    normalize_gold: Normalizer | str | None = None
    normalize_pred: Normalizer | str | None = None
    aggregation_function: Reduction | str | None = None
    tokenizer: Any = None

    def __post_init__(self) -> None:
        """Validate names."""
        for name in self._names:
            if name not in _METHODS:
                raise EvalsError(unknown_name("ROUGE method", name, _METHODS))
        if self.bootstrap and self.aggregation_function is not None:
            raise EvalsError(
                "bootstrap and aggregation_function exclude each other; set one of them"
            )
        NormalizedMetric.__post_init__(self)
        reduction(self.aggregation_function, "mean")

    @property
    def _names(self) -> list[str]:
        return [self.methods] if isinstance(self.methods, str) else list(self.methods)

    def measure(self, doc: Doc, model_response: ModelResponse) -> Any:
        """Compute one number, or several by name."""
        golds = [self.gold(text) for text in references(doc)]
        preds = [self.pred(text) for text in model_response.final_text]
        module = library("rouge_score.rouge_scorer", "ROUGE", "rouge-score")
        scorer = module.RougeScorer(self._names, tokenizer=self.tokenizer)
        if self.multiple_golds:
            scores = [scorer.score_multi(golds, pred) for pred in preds]
        elif self.bootstrap:
            # The median of its bootstrap is the mean, up to sampling error.
            pairs = zip(golds, preds, strict=False)
            scores = [scorer.score(gold, pred) for gold, pred in pairs]
        else:
            scores = [scorer.score(gold, pred) for pred in preds for gold in golds]
        scale, how = 100.0 if self.bootstrap else 1.0, self.aggregation_function
        found = {
            name: scale * float(reduce_answers(how, [s[name].fmeasure for s in scores]))
            for name in self._names
        }
        return found[self.methods] if isinstance(self.methods, str) else found


@dataclass(frozen=True)
class BLEU(SampleLevelComputation):
    """Modified n-gram precision with BLEU's brevity penalty; mean over answers.

    Args:
        n_gram: Length of n-grams; shorter ones do not count.
    """

    is_share: ClassVar[bool] = True
    libraries: ClassVar[Libraries] = (("nltk", "nltk", "metrics"),)

    n_gram: int

    def __post_init__(self) -> None:
        """Validate the length."""
        check_count("n_gram", self.n_gram)

    def measure(self, doc: Doc, model_response: ModelResponse) -> float:
        """Compute the score, between 0 and 1."""
        golds = [words(gold) for gold in references(doc)]
        values = [self._one(golds, words(p)) for p in model_response.final_text]
        return float(reduce_answers("mean", values))

    def _one(self, references: list[list[str]], answer: list[str]) -> float:
        from nltk.translate.bleu_score import (
            brevity_penalty,
            closest_ref_length,
            modified_precision,
        )

        if not answer:
            return 0.0
        share = float(modified_precision(references, answer, self.n_gram))
        closest = closest_ref_length(references, len(answer))
        return share * float(brevity_penalty(closest, len(answer)))
