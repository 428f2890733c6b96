"""Metrics that use their own neural model: BERTScore (Zhang et al. 2020,
arXiv 1904.09675), BLEURT (Sellam et al. 2020, arXiv 2004.04696) and SummaC (Laban et
al. 2022, arXiv 2111.09525)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

from pytest_evals.core.doc import Doc
from pytest_evals.core.registry import Registry
from pytest_evals.errors import DocumentError, EvalsError, MissingExtraError
from pytest_evals.scorers.lighteval.metric import Libraries, SampleLevelComputation
from pytest_evals.scorers.lighteval.reductions import reduce_values, reduction
from pytest_evals.scorers.lighteval.references import references
from pytest_evals.scorers.lighteval.response import ModelResponse
from pytest_evals.scorers.lighteval.similarity.fragments import SourceMetric
from pytest_evals.scorers.lighteval.similarity.normalization import NormalizedMetric
from pytest_evals.scorers.lighteval.text.normalizers import Normalizer
from pytest_evals.scorers.lighteval.text.words import sentences

__all__ = ["BLEURT", "BertScore", "Faithfulness"]

_HF: Libraries = (
    ("torch", "torch", "hf"),
    ("transformers", "transformers", "hf"),
)
_READERS: Registry[Callable[[str], Any]] = Registry(
    "model of metrics",
    {
        "pairs": "pytest_evals.models.hf.metric_models:PairClassifier",
        "tokens": "pytest_evals.models.hf.metric_models:TokenEncoder",
    },
)
"""Kind → what loads a model by its name. In another room, and imported on use: only
that one knows torch."""


def _reader(kind: str, name: str) -> Any:
    """A model, loaded once.

    Raises:
        EvalsError: It cannot be loaded, and why.
    """
    found = _loaded(kind, name)
    if isinstance(found, EvalsError):
        raise found
    return found


@cache
def _loaded(kind: str, name: str) -> Any:
    """The model, or the error, which is returned so that it is cached."""
    try:
        return _READERS[kind](name)
    except EvalsError as error:
        return error


def _first(texts: Sequence[str], what: str) -> str:
    if not texts:
        raise DocumentError(f"there is no {what}")
    return texts[0]


@dataclass(frozen=True)
class BertScore(NormalizedMetric):
    """How well the tokens of the first answer and the first reference match by meaning.

    Args:
        normalize_gold: What the reference goes through.
        normalize_pred: What the answer goes through.
        model: The encoder: a folder, or a name on the Hub.
        num_layers: The layer whose vectors are compared.
        rescale_with_baseline: Whether 0 is what unrelated texts get. The baselines are
            those of the package bert-score.
    """

    normalize_gold: Normalizer | str | None = None
    normalize_pred: Normalizer | str | None = None
    model: str = "microsoft/deberta-large-mnli"
    num_layers: int = 9
    rescale_with_baseline: bool = True

    def __post_init__(self) -> None:
        """Look at what is given by name."""
        self.look_up()

    @property
    def libraries(self) -> Libraries:
        """What has to be installed."""
        if not self.rescale_with_baseline:
            return _HF
        return (*_HF, ("bert_score", "bert-score", "bertscore"))

    def measure(self, doc: Doc, model_response: ModelResponse) -> dict[str, float]:
        """Precision, recall and F1 by name.

        Raises:
            DocumentError: There is no answer or no reference.
            MissingExtraError: A library is not installed.
            ModelError: The model cannot be loaded.
        """
        gold = self.gold(references(doc)[0])
        pred = self.pred(_first(model_response.final_text, "answer"))
        encode = _reader("tokens", self.model)
        right, said = encode(gold, self.num_layers), encode(pred, self.num_layers)
        values = _matched(said, right)
        return dict(zip(_BERT_NAMES, self._rescaled(values), strict=True))

    def _rescaled(self, values: Sequence[float]) -> list[float]:
        if not self.rescale_with_baseline:
            return list(values)
        base = _baseline(self.model, self.num_layers)
        return [(v - b) / (1 - b) for v, b in zip(values, base, strict=True)]


_BERT_NAMES = ("BERTScore-P", "BERTScore-R", "BERTScore-F")


def _matched(said: Any, right: Any) -> tuple[float, float, float]:
    """Precision, recall and F1 of two encoded texts.

    Each token of one text is as right as its best likeness in the other, where the
    model's own tokens may be that too; theirs does not count.
    """
    if not said.is_text.any() or not right.is_text.any():
        return 0.0, 0.0, 0.0
    like = said.vectors @ right.vectors.T  # (answer, reference)
    precision = float(like[said.is_text].max(axis=1).mean())
    recall = float(like[:, right.is_text].max(axis=0).mean())
    both = precision + recall
    return precision, recall, 2 * precision * recall / both if both else 0.0


@cache
def _baseline(model: str, layer: int) -> tuple[float, float, float]:
    """What unrelated English texts get with a layer of a model.

    Raises:
        MissingExtraError: The package with the numbers is not installed.
        DocumentError: It has none of that model and layer.
    """
    try:
        import bert_score
    except ModuleNotFoundError as error:
        what = "rescale_with_baseline"
        raise MissingExtraError(what, "bert-score", "bertscore") from error
    file = Path(bert_score.__file__).parent / "rescale_baseline" / "en" / f"{model}.tsv"
    lines = file.read_text().splitlines()[1:] if file.is_file() else []
    for line in lines:
        number, *values = line.split(",")
        if int(number) == layer:
            precision, recall, f1 = map(float, values)
            return precision, recall, f1
    raise DocumentError(
        f"bert-score has no baseline of layer {layer} of {model!r}; set "
        "rescale_with_baseline: false"
    )


@dataclass(frozen=True)
class BLEURT(SampleLevelComputation):
    """Score of an answer by a model trained on human ratings; the best reference
    counts, and the mean over answers.

    Args:
        model: The classifier with one class: a folder, or a name on the Hub.
    """

    model: str = "Elron/bleurt-tiny-512"

    libraries: ClassVar[Libraries] = _HF

    def measure(self, doc: Doc, model_response: ModelResponse) -> float:
        """The rating; around 0 for a bad answer, 1 for a good one.

        Raises:
            DocumentError: There is no answer or no reference.
            ModelError: The model cannot be loaded.
        """
        golds, preds = references(doc), model_response.final_text
        pairs = [(gold, pred) for pred in preds for gold in golds]
        rated = [logits[0] for logits in _reader("pairs", self.model)(pairs, 512)]
        n = len(golds)
        best = [max(rated[i * n : (i + 1) * n]) for i in range(len(preds))]
        return float(reduce_values(reduction("mean"), best, "answers"))


_SHORT = 10
"""Sentences up to this number of characters are ignored."""
_MOST = 100
"""Sentences of the source that are read."""


@dataclass(frozen=True)
class Faithfulness(SourceMetric):
    """SummaC-ZS: whether the source implies each sentence of the first answer, less
    whether it contradicts it.

    Args:
        model: A classifier of premise and hypothesis, whose classes are entailment,
            contradiction and neutral: a folder, or a name on the Hub.
    """

    model: str = "tals/albert-xlarge-vitaminc-mnli"

    libraries: ClassVar[Libraries] = (*_HF, ("nltk", "nltk", "metrics"))

    def measure(self, doc: Doc, model_response: ModelResponse) -> float:
        """From -1 to 1; 0 where there are no sentences.

        Raises:
            DocumentError: There is no source or no answer.
            ModelError: The model cannot be loaded.
        """
        source, answer = self.texts(doc, model_response)
        premises, claims = _long(source)[:_MOST], _long(answer)
        if not premises or not claims:
            return 0.0
        pairs = [(premise, claim) for claim in claims for premise in premises]
        shares = [_softmax(x) for x in _reader("pairs", self.model)(pairs, 500)]
        n = len(premises)
        each = [_support(shares[i : i + n]) for i in range(0, len(shares), n)]
        return sum(each) / len(each)


def _long(text: str) -> list[str]:
    return [sentence for sentence in sentences(text) if len(sentence) > _SHORT]


def _softmax(logits: Sequence[float]) -> list[float]:
    top = max(logits)
    weights = [math.exp(logit - top) for logit in logits]
    return [weight / sum(weights) for weight in weights]


def _support(shares: Sequence[Sequence[float]]) -> float:
    """The best entailment less the best contradiction, over all premises."""
    return max(share[0] for share in shares) - max(share[1] for share in shares)
