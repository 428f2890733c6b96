"""Metrics with a neural model: BERTScore (Zhang et al. 2020,
arXiv 1904.09675), BLEURT (Sellam et al. 2020, arXiv 2004.04696) and SummaC (Laban et
al. 2022, arXiv 2111.09525).

Models are loaded by transformers from a folder, the Hub's cache or the Hub; in full
precision, on the GPU if there is one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from pytest_evals.core.doc import Doc
from pytest_evals.errors import DocumentError, EvalsError, MissingExtraError, ModelError
from pytest_evals.guests.lighteval.metrics.normalizers import (
    Normalizer,
    library,
    sentences,
)
from pytest_evals.guests.lighteval.metrics.reductions import (
    NormalizedMetric,
    reduce_answers,
    references,
)
from pytest_evals.guests.lighteval.metrics.rouge import SourceMetric
from pytest_evals.scorers.custom_metrics.metric import Libraries, SampleLevelComputation
from pytest_evals.scorers.custom_metrics.response import ModelResponse

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

BATCH = 20
"""Batch size."""


def _with_tokenizer(kind: str, name: str) -> tuple[Any, Any]:
    """Tokenizer and model."""
    try:
        import torch
        import transformers
    except ModuleNotFoundError as error:
        raise MissingExtraError(f"the model {name!r}", "transformers", "hf") from error
    try:
        tokenizer = transformers.AutoTokenizer.from_pretrained(name)
        model = getattr(transformers, kind).from_pretrained(name)
    except (OSError, ValueError) as error:
        message = str(error).partition("\n")[0]
        raise ModelError(f"the model {name!r} of a metric: {message}") from error
    device = "cuda" if torch.cuda.is_available() else "cpu"
    return tokenizer, model.to(device).eval()


@cache
def _cached(kind: str, name: str) -> tuple[Any, Any] | EvalsError:
    """Return tokenizer and model or the error, so that errors are cached, too."""
    try:
        return _with_tokenizer(kind, name)
    except EvalsError as error:
        return error


def _loaded(kind: str, name: str) -> tuple[Any, Any]:
    found = _cached(kind, name)
    if isinstance(found, EvalsError):
        raise found
    return found


def pair_logits(
    name: str, pairs: Sequence[tuple[str, str]], max_tokens: int
) -> list[list[float]]:
    """The logits of pairs of strings by a sequence classifier, one per class."""
    tokenizer, model = _loaded("AutoModelForSequenceClassification", name)
    import torch

    found: list[list[float]] = []
    for start in range(0, len(pairs), BATCH):
        first, second = zip(*pairs[start : start + BATCH], strict=True)
        how = {"padding": True, "truncation": True, "return_tensors": "pt"}
        encoded = tokenizer(list(first), list(second), max_length=max_tokens, **how)
        with torch.inference_mode():
            found += model(**encoded.to(model.device)).logits.float().tolist()
    return found


class TokenVectors(NamedTuple):
    """Embeddings of a string's tokens."""

    vectors: NDArray[np.float32]  # (n, d) float32, each of length 1
    is_text: NDArray[np.bool_]
    """(n,) whether a token is the text's; the others are the model's own."""


def token_vectors(name: str, text: str, layer: int) -> TokenVectors:
    """The embeddings of a string's tokens, truncated to the maximum length of the
    model, from a layer's output; layer 0 is the embedding.

    Raises:
        ModelError: The model has not so many layers.
    """
    tokenizer, model = _loaded("AutoModel", name)
    import torch

    encoded = tokenizer(
        text, truncation=True, return_tensors="pt", return_special_tokens_mask=True
    )
    special = encoded.pop("special_tokens_mask")[0].bool().numpy()
    with torch.inference_mode():
        states = model(
            **encoded.to(model.device), output_hidden_states=True
        ).hidden_states
    if not 0 <= layer < len(states):
        raise ModelError(f"the model has {len(states) - 1} layers, and no {layer}")
    vectors = torch.nn.functional.normalize(states[layer][0].float(), dim=-1)
    return TokenVectors(vectors.cpu().numpy(), ~special)


_HF: Libraries = (("torch", "torch", "hf"), ("transformers", "transformers", "hf"))


@dataclass(frozen=True)
class BertScore(NormalizedMetric):
    """BERTScore of the first answer and the first reference.

    Args:
        model: The encoder: a folder, or a name on the Hub.
        num_layers: The layer whose embeddings are compared.
        rescale_with_baseline: Rescale scores so that unrelated texts score 0, with the
            baselines of the package bert-score.
    """

    normalize_gold: Normalizer | str | None = None
    normalize_pred: Normalizer | str | None = None
    model: str = "microsoft/deberta-large-mnli"
    num_layers: int = 9
    rescale_with_baseline: bool = True

    @property
    def libraries(self) -> Libraries:
        """Return the required libraries."""
        if not self.rescale_with_baseline:
            return _HF
        return (*_HF, ("bert_score", "bert-score", "bertscore"))

    def measure(self, doc: Doc, model_response: ModelResponse) -> dict[str, float]:
        """Compute precision, recall and F1 by name."""
        gold = self.gold(references(doc)[0])
        if not model_response.final_text:
            raise DocumentError("the response has no answer")
        pred = self.pred(model_response.final_text[0])
        reference, answer = (
            token_vectors(self.model, text, self.num_layers) for text in (gold, pred)
        )
        values = _matched(answer, reference)
        if self.rescale_with_baseline:
            base = _baseline(self.model, self.num_layers)
            values = [(v - b) / (1 - b) for v, b in zip(values, base, strict=True)]
        return dict(zip(_BERT_NAMES, values, strict=True))


_BERT_NAMES = ("BERTScore-P", "BERTScore-R", "BERTScore-F")


def _matched(answer: Any, reference: Any) -> list[float]:
    """Return precision, recall and F1 of two encoded texts.

    Each token scores its maximum similarity to a token of the other text, special
    tokens included. Special tokens themselves are not scored.
    """
    if not answer.is_text.any() or not reference.is_text.any():
        return [0.0, 0.0, 0.0]
    similarity = answer.vectors @ reference.vectors.T  # (answer, reference)
    precision = float(similarity[answer.is_text].max(axis=1).mean())
    recall = float(similarity[:, reference.is_text].max(axis=0).mean())
    both = precision + recall
    return [precision, recall, 2 * precision * recall / both if both else 0.0]


@cache
def _baseline(model: str, layer: int) -> list[float]:
    """Return the scores of unrelated English texts for a layer of a model."""
    bert_score = library(
        "bert_score", "rescale_with_baseline", "bert-score", "bertscore"
    )
    file = Path(bert_score.__file__).parent / "rescale_baseline" / "en" / f"{model}.tsv"
    lines = file.read_text().splitlines()[1:] if file.is_file() else []
    for line in lines:
        number, *values = line.split(",")
        if int(number) == layer:
            return [float(value) for value in values]
    raise DocumentError(
        f"bert-score has no baseline for layer {layer} of {model!r}\n"
        "  fix: rescale_with_baseline: false"
    )


@dataclass(frozen=True)
class BLEURT(SampleLevelComputation):
    """BLEURT: score by a model trained on human ratings; maximum over references, mean
    over answers. ``model``: a classifier with one class, as a folder or a name on the
    Hub."""

    model: str = "Elron/bleurt-tiny-512"

    libraries: ClassVar[Libraries] = _HF

    def measure(self, doc: Doc, model_response: ModelResponse) -> float:
        """Compute the score: around 0 for bad answers, 1 for good ones."""
        golds, preds = references(doc), model_response.final_text
        pairs = [(gold, pred) for pred in preds for gold in golds]
        rated = [logits[0] for logits in pair_logits(self.model, pairs, 512)]
        n = len(golds)
        best = [max(rated[i * n : (i + 1) * n]) for i in range(len(preds))]
        return float(reduce_answers("mean", best))


_SHORT = 10
"""Sentences of at most this number of characters are ignored."""
_MOST = 100
"""Maximum number of sentences of the source."""


@dataclass(frozen=True)
class Faithfulness(SourceMetric):
    """SummaC-ZS: mean over sentences of the first answer of entailment by the source
    minus contradiction. ``model``: an NLI classifier with the classes entailment,
    contradiction and neutral, as a folder or a name on the Hub."""

    model: str = "tals/albert-xlarge-vitaminc-mnli"

    libraries: ClassVar[Libraries] = (*_HF, ("nltk", "nltk", "metrics"))

    def measure(self, doc: Doc, model_response: ModelResponse) -> float:
        """Compute the score, between -1 and 1; 0 without sentences."""
        source, answer = self.texts(doc, model_response)
        premises, claims = _long(source)[:_MOST], _long(answer)
        if not premises or not claims:
            return 0.0
        pairs = [(premise, claim) for claim in claims for premise in premises]
        shares = [_softmax(x) for x in pair_logits(self.model, pairs, 500)]
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
    """Return maximum entailment minus maximum contradiction over all premises."""
    return max(share[0] for share in shares) - max(share[1] for share in shares)
