"""Selection of the next token: greedy decoding and sampling.

The parameters are the model's ``generation_config`` overridden by the request's
options, as in transformers' ``generate``, which lm-eval uses. Each request has its own
random generator, so that samples do not depend on the batch.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from transformers.generation import logits_process

from pytest_evals.core.request import (
    FITTING,
    GRAMMAR,
    IMAGE_OPTIONS,
    TOP_LOGPROBS,
    Generate,
)
from pytest_evals.models.engine.generation_options import (
    DEFAULTS,
    DIGITS,
    ONLY_DRAWING,
    SEED,
    bad_value,
    is_slow,
    unknown,
    without_tools,
)
from pytest_evals.models.tokens.request_encoder import InvalidRequestError


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingParams:
    """Parameters of token selection."""

    temperature: float = 0.0  # 0 for greedy decoding
    repetition_penalty: float = 1.0  # Divides the logits of previous tokens, 1 for none
    no_repeat_ngram_size: int = 0  # No n-gram of this size is repeated, 0 for none
    top_k: int = 50  # Draw from the most likely so many, 0 for all
    top_p: float = 1.0  # Draw from the most likely that together have this probability
    min_p: float | None = None
    """Draw from those with this share of the highest probability."""
    typical_p: float = 1.0  # As ``top_p``, by nearness to the expected surprise
    num_beams: int = 1  # Beams of a beam search, 1 for none
    length_penalty: float = 1.0  # Exponent of the length by which beams are compared
    early_stopping: bool | str = False  # When a beam search ends, as in transformers
    top_logprobs: int = 0  # Number of top tokens returned for each token
    others: tuple[tuple[str, Any], ...] = ()
    """Further settings, which only transformers' ``generate`` knows, as sorted
    pairs."""
    of_model: tuple[str, ...] = ()  # Those of the model's ``generation_config``

    @property
    def looks_back(self) -> bool:
        """Whether the choice depends on previous tokens."""
        return self.repetition_penalty != 1.0 or self.no_repeat_ngram_size > 0

    @property
    def slow(self) -> tuple[str, ...]:
        """The options that only transformers' ``generate`` supports."""
        beams = ("num_beams",) if self.num_beams > 1 else ()
        return (*beams, *(name for name, _ in self.others), *self.of_model)

    @property
    def settings(self) -> dict[str, Any]:
        """All parameters as arguments of ``generate``."""
        given = {name: getattr(self, name) for name in DEFAULTS}
        drawn = {"temperature": self.temperature} if self.temperature else {}
        if not drawn:
            given = {k: v for k, v in given.items() if k not in ONLY_DRAWING}
        others = {name: _listed(value) for name, value in self.others}
        return {"do_sample": bool(drawn), **given, **drawn, **others}


def sampling_params_of(
    request: Generate, config: Any, slow: Collection[str] = ()
) -> SamplingParams:
    """The settings of a request. ``None`` is an option that is not given. ``slow``:
    options of ``config``, the model's ``generation_config``, that only ``generate``
    supports. Raises ``InvalidRequestError`` if an option does not exist, or a value
    means nothing."""
    # Tools and images are part of the prompt. The response format is a hint: its parser
    # checks the completion strictly.
    options = without_tools(dict(request.options))
    for name in ("response_format", FITTING, *IMAGE_OPTIONS):
        options.pop(name, None)
    seed = options.pop(SEED, None)  # part of the request's own seed
    n_top = options.pop(TOP_LOGPROBS, None) or 0
    if GRAMMAR in options:
        raise InvalidRequestError(
            "this model cannot be held to a grammar; an openai: model of a server with "
            "structured outputs can"
        )
    of_request = {"temperature": request.temperature, TOP_LOGPROBS: n_top, SEED: seed}
    problem = unknown(options) or bad_value({**options, **of_request})
    if problem:
        raise InvalidRequestError(problem)
    sample = options.pop("do_sample", True) and request.temperature > 0
    chosen: dict[str, Any] = {}
    for name, usual in DEFAULTS.items():
        value = options.get(name, getattr(config, name, None))
        chosen[name] = usual if value is None else value
    if not sample:
        # Equal parameters share batches: unused parameters must not separate them.
        chosen |= {k: v for k, v in DEFAULTS.items() if k in ONLY_DRAWING}
    # The options are right, so that a fault is the model's own.
    problem = bad_value(chosen)
    if problem:
        raise InvalidRequestError(f"in the model's generation_config {problem}")
    others = {k: v for k, v in options.items() if is_slow(k) and v is not None}
    unused = set() if sample else ONLY_DRAWING
    return SamplingParams(
        temperature=request.temperature if sample else 0.0,
        others=tuple((k, v) for k, v in sorted(others.items()) if k not in unused),
        of_model=tuple(k for k in slow if k not in others and k not in unused),
        top_logprobs=n_top,
        **chosen,
    )


def _listed(value: Any) -> Any:
    """The value as ``generate`` takes it, which knows lists only."""
    return list(map(_listed, value)) if isinstance(value, tuple) else value


class TokenHistory:
    """Previous tokens of each row, for penalties."""

    def __init__(self, params: SamplingParams) -> None:
        """Tokens are only recorded if the parameters need them."""
        self._params = params
        self._rows: list[list[int]] = []
        self._seen: Tensor | None = None

    def join(self, rows: Sequence[Sequence[int]]) -> None:
        """Append rows."""
        if self._params.looks_back:
            self._rows += [list(row) for row in rows]

    def keep(self, order: Sequence[int]) -> None:
        """Select rows: the new row ``i`` is the old row ``order[i]``."""
        if self._params.looks_back:
            self._rows = [self._rows[row] for row in order]
            if self._seen is not None:
                # None if memory ran out before it knew all rows: it is made again.
                all_known = len(self._seen) > max(order, default=-1)
                self._seen = self._seen[list(order)] if all_known else None

    def change(self, logits: Tensor, first: int = 0) -> Tensor:
        """Logits (B, V) of the last B rows, from ``first``, with penalties for previous
        tokens applied."""
        if self._params.repetition_penalty != 1.0:
            logits = self._penalised(logits, first)
        size = self._params.no_repeat_ngram_size
        if size > 0:
            logits = logits.clone()
            for i, row in enumerate(self._rows[first:]):
                logits[i, _repeating(row, size)] = -torch.inf
        return logits

    def add(self, tokens: Sequence[int], first: int = 0) -> None:
        """Append a token to each row from ``first``."""
        if not self._params.looks_back:
            return
        for row, token in zip(self._rows[first:], tokens, strict=True):
            row.append(token)
        if self._seen is not None:
            chosen = torch.tensor(tokens, device=self._seen.device)
            self._seen[first:].scatter_(1, chosen[:, None], True)

    def _penalised(self, logits: Tensor, first: int) -> Tensor:
        seen = self._up_to_date(logits)[first:]
        penalty = float(self._params.repetition_penalty)
        less = torch.where(logits < 0, logits * penalty, logits / penalty)
        return torch.where(seen, less, logits)

    def _up_to_date(self, logits: Tensor) -> Tensor:
        """(R, V) whether each row contains each token, extended by new rows."""
        old = logits.new_zeros((0, logits.shape[1]), dtype=torch.bool)
        old = old if self._seen is None else self._seen
        new = old.new_zeros((len(self._rows) - len(old), old.shape[1]))
        for i, row in enumerate(self._rows[len(old) :]):
            new[i, row] = True
        self._seen = torch.cat([old, new]) if len(new) else old
        return self._seen


def pick(logits: Tensor, params: SamplingParams, points: Sequence[float]) -> Tensor:
    """The next token of each row. ``logits``: (B, V) float32. ``points``: B random
    numbers from 0 to 1; none for greedy decoding. Returns (B,) int64."""
    if params.temperature == 0:
        return logits.argmax(dim=-1)
    scores = logits / float(params.temperature)
    ids = None
    if 0 < params.top_k < logits.shape[1]:
        scores, ids = _most_likely(scores, params.top_k)
    no_history = torch.empty((len(logits), 0), dtype=torch.long, device=logits.device)
    for warper in _warpers(params):
        scores = warper(no_history, scores)
    # The inverse of the cumulative distribution: one number a row is all that is drawn.
    exact = torch.float32 if logits.device.type == "mps" else torch.float64
    shares = scores.softmax(dim=-1, dtype=exact).cumsum(dim=-1)  # (B, V)
    where = torch.tensor(points, dtype=exact, device=logits.device)[:, None]
    tokens = torch.searchsorted(shares, where * shares[:, -1:], right=True)[:, 0]
    tokens = tokens.clamp(max=shares.shape[1] - 1)
    return tokens if ids is None else ids.gather(1, tokens[:, None])[:, 0]


def _most_likely(scores: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The ``k`` highest scores of each row, with those equal to the last of them, and
    their ids, ascending. What follows need not sort the vocabulary."""
    least = scores.topk(k, dim=-1).values[:, -1:]
    n = int((scores >= least).sum(dim=-1).max())
    ids = scores.topk(n, dim=-1).indices.sort(dim=-1).values
    found = scores.gather(1, ids)
    return found.masked_fill(found < least, -torch.inf), ids


def top_of(logits: Tensor, n: int) -> list[list[tuple[int, float]]]:
    """The ``n`` likeliest tokens of each row with their log-probabilities. ``logits``:
    (B, V). ``n``: number of tokens, 0 for none."""
    if not n:
        return [[]] * len(logits)
    logprobs = logits.float().log_softmax(dim=-1)
    values, ids = logprobs.topk(min(n, logits.shape[1]), dim=-1)  # (B, n) each
    return [
        [(token, round(value, DIGITS)) for token, value in zip(*row, strict=True)]
        for row in zip(ids.tolist(), values.tolist(), strict=True)
    ]


def _warpers(params: SamplingParams) -> list[Any]:
    """Warpers after temperature and top-k, in the order of ``generate``."""
    steps: list[Any] = []
    if params.top_p < 1.0:
        steps.append(logits_process.TopPLogitsWarper(float(params.top_p)))
    if params.min_p is not None:
        steps.append(logits_process.MinPLogitsWarper(float(params.min_p)))
    if params.typical_p < 1.0:
        steps.append(logits_process.TypicalLogitsWarper(float(params.typical_p)))
    return steps


def _repeating(row: Sequence[int], size: int) -> list[int]:
    """Tokens that would repeat an existing n-gram of ``size`` tokens."""
    last = list(row[len(row) - size + 1 :])
    starts = range(len(row) - size + 1)
    return [row[i + size - 1] for i in starts if row[i : i + size - 1] == last]
