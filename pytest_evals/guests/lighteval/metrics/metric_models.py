"""Models used by metrics: a classifier of string pairs, and an encoder of token
embeddings.

Loaded by transformers from a folder, the Hub's cache or the Hub; in full precision, on
the GPU if there is one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from pytest_evals.errors import MissingExtraError, ModelError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

BATCH = 20
"""Batch size."""


def _loaded(kind: str, name: str) -> tuple[Any, Any]:
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
        what = str(error).partition("\n")[0]
        raise ModelError(f"the model {name!r} of a metric: {what}") from error
    device = "cuda" if torch.cuda.is_available() else "cpu"
    return tokenizer, model.to(device).eval()


def _batches(items: Sequence[Any]) -> Iterator[Sequence[Any]]:
    for start in range(0, len(items), BATCH):
        yield items[start : start + BATCH]


class PairClassifier:
    """A sequence classifier of string pairs."""

    def __init__(self, name: str) -> None:
        """Load the model from a folder or the Hub."""
        self._tokenizer, self._model = _loaded(
            "AutoModelForSequenceClassification", name
        )

    def __call__(
        self, pairs: Sequence[tuple[str, str]], max_tokens: int
    ) -> list[list[float]]:
        """The logits of each pair, one a class."""
        import torch

        found: list[list[float]] = []
        for batch in _batches(pairs):
            first, second = zip(*batch, strict=True)
            encoded = self._tokenizer(
                list(first),
                list(second),
                padding=True,
                truncation=True,
                max_length=max_tokens,
                return_tensors="pt",
            ).to(self._model.device)
            with torch.inference_mode():
                found += self._model(**encoded).logits.float().tolist()
        return found


class TokenVectors(NamedTuple):
    """Embeddings of a string's tokens."""

    vectors: NDArray[np.float32]  # (n, d) float32, each of length 1
    is_text: NDArray[np.bool_]
    """(n,) whether a token is the text's; the others are the model's own."""


class TokenEncoder:
    """A model that returns an embedding for each token."""

    def __init__(self, name: str) -> None:
        """Load the model from a folder or the Hub."""
        self._tokenizer, self._model = _loaded("AutoModel", name)

    def __call__(self, text: str, layer: int) -> TokenVectors:
        """The embeddings of a string's tokens.

        Args:
            text: The text; what is longer than the model takes is cut off.
            layer: Which layer's output; 0 is the embedding.

        Raises:
            ModelError: The model has not so many layers.
        """
        import torch

        encoded = self._tokenizer(
            text, truncation=True, return_tensors="pt", return_special_tokens_mask=True
        )
        special = encoded.pop("special_tokens_mask")[0].bool().numpy()
        with torch.inference_mode():
            states = self._model(
                **encoded.to(self._model.device), output_hidden_states=True
            ).hidden_states
        if not 0 <= layer < len(states):
            raise ModelError(f"the model has {len(states) - 1} layers, and no {layer}")
        vectors = torch.nn.functional.normalize(states[layer][0].float(), dim=-1)
        return TokenVectors(vectors.cpu().numpy(), ~special)
