"""ROUGE and BLEU of single texts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from pytest_evals.core.doc import Doc
from pytest_evals.errors import EvalsError, MissingExtraError, did_you_mean
from pytest_evals.scorers.lighteval.metric import Libraries, SampleLevelComputation
from pytest_evals.scorers.lighteval.reductions import (
    Reduction,
    reduce_values,
    reduction,
)
from pytest_evals.scorers.lighteval.references import references
from pytest_evals.scorers.lighteval.response import ModelResponse
from pytest_evals.scorers.lighteval.similarity.normalization import NormalizedMetric
from pytest_evals.scorers.lighteval.text.normalizers import Normalizer
from pytest_evals.scorers.lighteval.text.words import words

__all__ = ["BLEU", "ROUGE"]

_METHODS = ("rouge1", "rouge2", "rougeL", "rougeLsum")


@dataclass(frozen=True)
class ROUGE(NormalizedMetric):
    """F-measures of ROUGE, by Google's ``rouge_score`` without stemming.

    Its own tokenizer keeps a-z and 0-9 only, so other scripts score 0: give a
    ``tokenizer`` for them.

    Args:
        methods: Which of rouge1, rouge2, rougeL and rougeLsum; a single name gives a
            number, a list numbers by name.
        multiple_golds: Whether each answer counts against its best reference.
        bootstrap: Answers against references pairwise, in percent, as T5 did.
        normalize_gold: What the references go through.
        normalize_pred: What the answers go through.
        aggregation_function: Over all pairs; the mean if it is not given. (``max``
            takes the best reference, as most harnesses do.)
        tokenizer: An object with ``tokenize(text)``.
    """

    libraries: ClassVar[Libraries] = (("rouge_score", "rouge-score", "metrics"),)

    methods: str | Sequence[str]
    multiple_golds: bool = False
    bootstrap: bool = False
    normalize_gold: Normalizer | str | None = None
    normalize_pred: Normalizer | str | None = None
    aggregation_function: Reduction | str | None = None
    tokenizer: Any = None

    def __post_init__(self) -> None:
        """Look up what is given by name.

        Raises:
            EvalsError: There is nothing of that name, or two ways to add up.
        """
        for name in self._names:
            if name not in _METHODS:
                hint = did_you_mean(name, _METHODS) or f"; known: {', '.join(_METHODS)}"
                raise EvalsError(f"no ROUGE called {name!r}{hint}")
        if self.bootstrap and self.aggregation_function is not None:
            raise EvalsError("bootstrap has its own mean: leave out one of the two")
        self.look_up()
        reduction(self.aggregation_function, "mean")

    @property
    def _names(self) -> list[str]:
        return [self.methods] if isinstance(self.methods, str) else list(self.methods)

    def measure(self, doc: Doc, model_response: ModelResponse) -> Any:
        """A number, or numbers by name.

        Raises:
            MissingExtraError: ``rouge_score`` is not installed.
        """
        golds = [self.gold(text) for text in references(doc)]
        preds = [self.pred(text) for text in model_response.final_text]
        found = self._scored(golds, preds)
        return found[self.methods] if isinstance(self.methods, str) else found

    def _scored(self, golds: list[str], preds: list[str]) -> dict[str, float]:
        scorer = _scorer(self._names, self.tokenizer)
        if self.multiple_golds:
            scores = [scorer.score_multi(golds, pred) for pred in preds]
        elif self.bootstrap:
            # The middle of its bootstrap is the mean, up to chance.
            pairs = zip(golds, preds, strict=False)
            scores = [scorer.score(gold, pred) for gold, pred in pairs]
        else:
            scores = [scorer.score(gold, pred) for pred in preds for gold in golds]
        scale = 100.0 if self.bootstrap else 1.0
        return {
            name: scale * self._added(name, scores, "answers") for name in self._names
        }

    def _added(self, name: str, scores: Sequence[Mapping[str, Any]], of: str) -> float:
        how = reduction(self.aggregation_function, "mean")
        return float(reduce_values(how, [s[name].fmeasure for s in scores], of))


def _scorer(names: Sequence[str], tokenizer: Any) -> Any:
    try:
        from rouge_score.rouge_scorer import RougeScorer
    except ModuleNotFoundError as error:
        raise MissingExtraError("ROUGE", "rouge-score", "metrics") from error
    return RougeScorer(list(names), tokenizer=tokenizer)


@dataclass(frozen=True)
class BLEU(SampleLevelComputation):
    """The share of an answer's n-grams that are in a reference, with BLEU's brevity
    penalty; the mean over answers.

    Args:
        n_gram: Length of the n-grams; others do not count.
    """

    libraries: ClassVar[Libraries] = (("nltk", "nltk", "metrics"),)

    n_gram: int

    def __post_init__(self) -> None:
        """Check the length.

        Raises:
            EvalsError: It is no whole number from 1.
        """
        if not isinstance(self.n_gram, int) or self.n_gram < 1:
            raise EvalsError(f"n_gram is a whole number from 1, not {self.n_gram!r}")

    def measure(self, doc: Doc, model_response: ModelResponse) -> float:
        """From 0 to 1.

        Raises:
            MissingExtraError: NLTK is not installed.
        """
        golds = [words(gold) for gold in references(doc)]
        values = [self._one(golds, words(p)) for p in model_response.final_text]
        return float(reduce_values(reduction("mean"), values, "answers"))

    def _one(self, references: list[list[str]], said: list[str]) -> float:
        from nltk.translate.bleu_score import (
            brevity_penalty,
            closest_ref_length,
            modified_precision,
        )

        if not said:
            return 0.0
        share = float(modified_precision(references, said, self.n_gram))
        closest = closest_ref_length(references, len(said))
        return share * float(brevity_penalty(closest, len(said)))
