"""Embeddings of texts by a Hugging Face model: its last hidden states, pooled."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
import transformers
from transformers.utils.hub import cached_file

from pytest_evals.core.model import Model
from pytest_evals.core.request import Request, Response, is_embedding, size_of
from pytest_evals.errors import ModelError
from pytest_evals.models.encoder.settings import POOLING_FILE, EncoderSettings
from pytest_evals.models.engine.device_memory import device_name, use_device
from pytest_evals.models.folders import path_of
from pytest_evals.models.prefix_order import prompt_text
from pytest_evals.models.tokens.loader import one_error, quiet

_NO_EMBEDDING = "encoder: models return embeddings and no answers"
_MODULES = ("Transformer", "Pooling", "Normalize")
"""Modules of sentence-transformers; normalization does not change a cosine."""
_MODES = {
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_cls_token": "cls",
    "pooling_mode_lasttoken": "last",
}
_UNBOUNDED = 10**6  # Tokenizers without a limit have a number near 1e30


class Encoder(Model):
    """A model that returns embeddings."""

    is_deterministic = True

    def __init__(self, name: str, settings: EncoderSettings) -> None:
        """Load the model, or ``ModelError``: it fails, or is pooled in another way."""
        self.name, self._settings = name, settings
        source: dict[str, Any] = {
            "pretrained_model_name_or_path": path_of(settings.target),
            "revision": settings.revision or None,
            "trust_remote_code": settings.trust_remote_code,
        }
        device = settings.device or ("cuda" if torch.cuda.is_available() else "cpu")
        with quiet(), one_error(settings.target):
            self._pooling = settings.pooling or _pooling_of(settings)
            self._tokenizer: Any = transformers.AutoTokenizer.from_pretrained(**source)
            model: Any = transformers.AutoModel.from_pretrained(
                **source, dtype=torch.float32
            )
            use_device(torch.device(device))
            self._model = model.to(device).eval()
        if self._tokenizer.pad_token is None:
            self._tokenizer.pad_token = self._tokenizer.eos_token
        self._tokenizer.padding_side = "right"
        self._max_length = settings.max_length or self._own_length()
        self._n_cut = 0
        self.info: Mapping[str, Any] = {
            "model": name,
            "pretrained": settings.target,
            "revision": settings.revision,
            "model_class": type(model).__name__,
            "pooling": self._pooling,
            "max_length": self._max_length,
            "device": str(self._model.device),
            "device_name": device_name(self._model.device),
            "torch_version": torch.__version__,
            "transformers_version": transformers.__version__,
        }

    def _own_length(self) -> int:
        table = getattr(self._model.config, "max_position_embeddings", None)
        pad = getattr(self._model.config, "pad_token_id", None) or 0
        if type(self._model).__name__.startswith(("Roberta", "XLMRoberta", "MPNet")):
            table = table and table - pad - 1  # positions begin after the padding's
        lengths = [table, self._tokenizer.model_max_length]
        known = [one for one in lengths if one is not None and one < _UNBOUNDED]
        return min(known, default=512)

    @property
    def notes(self) -> tuple[str, ...]:
        """Warnings about the embeddings so far."""
        if not self._n_cut:
            return ()
        return (
            f"{self._settings.target}: {self._n_cut} texts were longer than "
            f"{self._max_length} tokens, and their rest was cut off",
        )

    def answer(self, requests: Sequence[Request], /) -> Iterator[tuple[int, Response]]:
        """Return the embeddings, in batches of texts of similar lengths."""
        texts = []
        for position, request in enumerate(requests):
            if is_embedding(request):
                texts.append(position)
            else:
                yield position, Response(error=_NO_EMBEDDING)
        texts.sort(key=lambda position: size_of(requests[position]))
        size = self._settings.batch_size
        for start in range(0, len(texts), size):
            batch = texts[start : start + size]
            given = [prompt_text(requests[position]) for position in batch]
            yield from zip(batch, self._embedded(given), strict=True)

    def _embedded(self, texts: Sequence[str]) -> Iterator[Response]:
        whole = self._tokenizer(list(texts), truncation=False)["input_ids"]
        encoded = self._tokenizer(
            list(texts),
            padding=True,
            truncation=True,
            max_length=self._max_length,
            return_tensors="pt",
        ).to(self._model.device)
        with torch.inference_mode():
            states = self._model(**encoded).last_hidden_state.float()  # (B, T, D)
            vectors = pooled(states, encoded["attention_mask"], self._pooling)
        for ids, vector in zip(whole, vectors.cpu(), strict=True):
            n_cut = max(0, len(ids) - self._max_length)
            self._n_cut += n_cut > 0
            if not bool(torch.isfinite(vector).all()):
                yield Response(error="the embedding has values that are not finite")
                continue
            yield Response(
                data=vector.tolist(),
                n_prompt_tokens=min(len(ids), self._max_length),
                n_truncated=n_cut,
            )


def pooled(states: torch.Tensor, mask: torch.Tensor, pooling: str) -> torch.Tensor:
    """Combine the embeddings of tokens. ``states``: (B, T, D). ``mask``: (B, T) 1 for
    tokens of the text, which come first, 0 for padding. Returns (B, D)."""
    if pooling == "cls":
        return states[:, 0]
    if pooling == "last":
        last = mask.sum(dim=1) - 1  # (B,)
        return states[torch.arange(len(states), device=states.device), last]
    weights = mask.unsqueeze(-1).to(states.dtype)  # (B, T, 1)
    return (states * weights).sum(dim=1) / weights.sum(dim=1).clamp(min=1)


def _pooling_of(settings: EncoderSettings) -> str:
    """The model's own pooling; the mean if it does not state one. Raises ``ModelError``
    if it has a step that is not computed here."""
    fix = "  fix: serve it, and use openai:, or set pooling=mean"
    for module in _json(settings, "modules.json") or ():
        kind = str(module.get("type", "")).rpartition(".")[2]
        if kind not in _MODULES:
            message = f"{settings.target}: its module {kind} is not supported"
            raise ModelError(f"{message}\n{fix}")
    given = _json(settings, POOLING_FILE)
    if given is None:
        return "mean"
    modes = [one for one, value in given.items() if value is True]
    modes = [one for one in modes if one.startswith("pooling_mode_")]
    if len(modes) != 1 or modes[0] not in _MODES:
        shown = ", ".join(modes) or "none"
        message = f"{settings.target}: its pooling ({shown}) is not supported"
        raise ModelError(f"{message}\n{fix}")
    return _MODES[modes[0]]


def _json(settings: EncoderSettings, name: str) -> Any:
    """A file of the model, ``None`` without it."""
    found = cached_file(
        path_of(settings.target),
        name,
        revision=settings.revision or None,
        _raise_exceptions_for_missing_entries=False,
        _raise_exceptions_for_gated_repo=False,
        _raise_exceptions_for_connection_errors=False,
    )
    return None if found is None else json.loads(Path(found).read_text("utf-8"))
