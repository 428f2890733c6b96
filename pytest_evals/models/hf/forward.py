"""Forward pass of a causal model over right-padded rows, with logits only at the
requested places.

The output head is most of the computation of small models, and nearly all of the
memory. If the model is a body and a head, hidden states are selected before the head;
if it transforms logits after the head, they are selected at the head's input. A
self-test at load time verifies this. Without a view no attention mask is passed: a
causal model does not attend to padding on the right.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

CHUNK_ELEMENTS = {"cuda": 2**28, "cpu": 2**24}  # Float32 logits in memory at a time


class LogitsChunk(NamedTuple):
    """Logits of some of the requested places."""

    start: int  # First place of the chunk, as an index into the selected places
    logits: Tensor  # (p, V) float32


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class AttentionView:
    """Mask, positions and cache of a batch, if not plain causal attention."""

    mask: Tensor | dict[str, Tensor] | None = None
    """(B, K) int64, (B, 1, T, K) in the model's type and added to the scores, or one
    such for each kind of layer."""
    positions: Tensor | None = None  # (B, T) int64
    past: Any = None  # A cache over the K - T tokens that come before each row
    attention: Callable[[Any], AbstractContextManager[None]] = nullcontext
    """Context in which a model is called, with another attention function."""

    def arguments(self) -> dict[str, Any]:
        """Keyword arguments of ``forward`` of models that take positions."""
        given = {
            "attention_mask": self.mask,
            "position_ids": self.positions,
            "past_key_values": self.past,
        }
        chosen = {name: value for name, value in given.items() if value is not None}
        return {**chosen, "use_cache": self.past is not None}


class Forward:
    """A model as a function from token ids to logits at some places."""

    def __init__(self, model: Any) -> None:
        """Detect where hidden states can be selected."""
        self.model = model
        self.device = model.device
        self.head = model.get_output_embeddings()
        self.picks_hidden = self.head is not None and _is_body_and_head(model)
        self.picks_before_head = (
            not self.picks_hidden and self.head is not None and self._picks_before()
        )
        known = inspect.signature(model.forward).parameters
        self.takes_positions = "position_ids" in known
        self._cache_name = "cache_params" if "cache_params" in known else ""

    def __call__(
        self, ids: Tensor, places: Tensor, view: AttentionView | None = None
    ) -> Iterator[LogitsChunk]:
        """Logits at the requested places, in chunks. ``ids``: (B, T) int64,
        right-padded. ``places``: (P,) int64, flat places ``row * T + position``.
        ``view``: mask, positions and cache; causal attention if missing."""
        ids, places = ids.to(self.device), places.to(self.device)
        view = view or AttentionView()
        given = self._arguments(view)
        with view.attention(self.model):
            if self.picks_hidden:
                states = self.model.base_model(input_ids=ids, **given).last_hidden_state
                selected = _at(states, places)  # (P, H)
            elif self.picks_before_head:
                selected = self._logits_at(ids, places, given)  # (P, V)
            else:
                selected = _at(self.model(input_ids=ids, **given).logits, places)
        width = self.head.weight.shape[0] if self.picks_hidden else selected.shape[1]
        most = CHUNK_ELEMENTS.get(self.device.type, 2**24)
        step = max(1, most // width)
        for start in range(0, len(places), step):
            part = selected[start : start + step]
            yield LogitsChunk(
                start, (self.head(part) if self.picks_hidden else part).float()
            )

    def logits(
        self, ids: Tensor, places: Tensor, view: AttentionView | None = None
    ) -> Tensor:
        """(P, V) float32 of the places that are few enough for one chunk."""
        return torch.cat([part.logits for part in self(ids, places, view)])

    def after(self, past: Any, mask: Tensor | None, positions: Tensor) -> AttentionView:
        """The view of tokens after those of a cache. The (B, K) mask, 0 for padding,
        and the (B, T) positions may be on the CPU."""
        mask = None if mask is None else mask.to(self.device)
        return AttentionView(mask=mask, positions=positions.to(self.device), past=past)

    def remember(self, ids: Tensor, view: AttentionView) -> None:
        """Process tokens only to fill the view's cache."""
        with view.attention(self.model):
            given = self._arguments(view)
            self.model.base_model(input_ids=ids.to(self.device), **given)

    def _arguments(self, view: AttentionView) -> dict[str, Any]:
        given = view.arguments()
        if not self.takes_positions:
            given.pop("position_ids", None)
        if self._cache_name and view.past is not None:
            # transformers, ``MambaForCausalLM``
            given[self._cache_name] = given.pop("past_key_values")
        return given

    def _logits_at(self, ids: Tensor, places: Tensor, given: dict[str, Any]) -> Tensor:
        with _changed_input(self.head, lambda states: _at(states, places)[None]):
            logits: Tensor = self.model(input_ids=ids, **given).logits
        return logits.flatten(0, 1)

    def _picks_before(self) -> bool:
        """Whether each place's logits depend on its own hidden state only, for any
        number of rows."""
        ids = _some_ids(self.model).reshape(2, 4)
        places = torch.tensor([1, 3, 6], device=self.device)
        with torch.inference_mode():
            theirs = self.model(input_ids=ids, use_cache=False).logits.flatten(0, 1)
            try:
                mine = self._logits_at(ids, places, {"use_cache": False})
            except (AttributeError, TypeError, ValueError, RuntimeError, IndexError):
                return False  # a test may not fail the run: there is a slower way
        return _near(self.model, mine, theirs[places])


def _at(states: Tensor, places: Tensor) -> Tensor:
    """(P, N) of (B, T, N), which a model on several devices has on its last one."""
    return states.flatten(0, 1)[places.to(states.device)]


def has_rounding(model: Any) -> bool:
    """Whether logits depend on the batch beyond float32 rounding: half precision, or
    8-bit weights, whose matrix products depend on all tokens."""
    half = model.dtype in (torch.float16, torch.bfloat16)
    return half or bool(getattr(model, "is_quantized", False))


def sees_later_tokens(model: Any) -> bool:
    """Whether a token changes the logits of earlier ones. Log-likelihoods of such a
    model, which is not causal, are meaningless."""
    ids = _some_ids(model)
    changed = ids.clone()
    changed[:, 6:] = ids[:, :2]
    with torch.inference_mode():
        one = model(input_ids=ids, use_cache=False).logits[:, :6]
        other = model(input_ids=changed, use_cache=False).logits[:, :6]
    return not _near(model, one, other)


def _is_body_and_head(model: Any) -> bool:
    """Whether ``head(body(ids))`` equals the model's logits.

    Tested twice, once with hidden states scaled so that logits reach 100: a soft cap
    changes small logits by less than rounding does.
    """
    body, head = model.base_model, model.get_output_embeddings()
    if body is model or not hasattr(head, "weight"):
        return False
    ids = _some_ids(model)
    with torch.inference_mode():
        try:
            states = body(input_ids=ids, use_cache=False).last_hidden_state
            mine = head(states)
            # Some models cast or clip on the way: the type must be the same too.
            scale = 100.0 / max(float(mine.abs().max()), 1e-6)
            loud = head(states * scale)
        except (AttributeError, TypeError, RuntimeError):
            return False  # a test may not fail the run: there is a slower way
        theirs = model(input_ids=ids, use_cache=False).logits
        with _changed_input(head, lambda states: states * scale):
            theirs_loud = model(input_ids=ids, use_cache=False).logits
    return _near(model, mine, theirs) and _near(model, loud, theirs_loud)


@contextmanager
def _changed_input(head: Any, change: Callable[[Tensor], Tensor]) -> Iterator[None]:
    """Change the hidden states that a model's head gets."""
    handle = head.register_forward_pre_hook(lambda _, x: (change(x[0]), *x[1:]))
    try:
        yield
    finally:
        handle.remove()


def _some_ids(model: Any) -> Tensor:
    """(1, 8) distinct token ids from the whole vocabulary; always the same."""
    size = model.get_input_embeddings().weight.shape[0]
    ids = torch.arange(1, 9) * max(1, size // 9) % size
    placed: Tensor = ids[None].to(model.device)
    return placed


def _near(model: Any, one: Tensor, other: Tensor) -> bool:
    if one.shape != other.shape or not torch.isfinite(one).all():
        return False
    return relative_error(other, one) <= tolerance(model)


def relative_error(found: Tensor, expected: Tensor) -> float:
    """The largest difference of logits, relative to the largest one."""
    found, expected = found.float(), expected.float()
    size = expected.abs().max().clamp(min=1e-6)
    return float((found - expected).abs().max() / size)


def tolerance(model: Any) -> float:
    """Most :func:`relative_error` of logits that are equal except for rounding."""
    return 0.02 if has_rounding(model) else 1e-4


class TokenCounts:
    """Number of processed tokens and of padding."""

    def __init__(self) -> None:
        self.n_read = 0  # Tokens processed by the model, padding included
        self.n_padding = 0  # Number of padding tokens

    def add(self, n_read: int, n_useful: int) -> None:
        """Add a pass over ``n_read`` tokens, of which ``n_useful`` are not padding."""
        self.n_read += n_read
        self.n_padding += n_read - n_useful

    def as_mapping(self) -> dict[str, int]:
        """The counts by name."""
        return {"n_read": self.n_read, "n_padding": self.n_padding}


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryEstimate:
    """Bytes per token, per attention score and per cached token.

    Args:
        token: A token of a batch while it is computed: activations of one layer, or its
            keys and values of all layers if that is more; and its logits where they
            cannot be kept apart.
        cell: A query and a key of a masked batch: the masks, and the scores of all
            heads of one layer where attention keeps them.
        before: A token before a row: its keys and values in one layer.
        joins: Whether masks and keys of a row contain the prefix.
    """

    token: int
    cell: int
    before: int
    joins: bool = True

    def tokens(self, width: int, depth: int) -> int:
        """Cost of a masked row, in tokens of an unmasked one. ``width``: its tokens.
        ``depth``: tokens of the prefix before it."""
        seen = width + depth * self.joins
        extra = width * seen * self.cell + depth * self.before
        return width + extra // self.token


def estimate_memory(
    forward: Forward, n_kinds: int = 1, *, joins: bool = True
) -> MemoryEstimate:
    """The estimate for a model with masks for ``n_kinds`` layer types, which contain
    the prefix if it ``joins`` the rows."""
    config = forward.model.config
    inner = getattr(config, "text_config", None) or config
    hidden = _most(inner, "hidden_size") or _most(inner, "n_embd") or 1024
    middle = _most(inner, "intermediate_size") or 4 * hidden
    layers = _most(inner, "num_hidden_layers") or 1
    heads = _most(inner, "num_attention_heads") or 1
    kv_heads = _most(inner, "num_key_value_heads") or heads
    size = int(forward.model.dtype.itemsize)
    kept = 2 * hidden * kv_heads // heads * size
    logits = 0 if forward.picks_hidden else _most(inner, "vocab_size") * 8
    eager = getattr(config, "_attn_implementation", None) == "eager"
    # Scores, their softmax in float32, and that in the model's type.
    scores = heads * (2 * size + 4) if eager and joins else 0
    return MemoryEstimate(
        token=max((8 * hidden + 4 * middle) * size, layers * kept) + logits,
        cell=(size + 1) * n_kinds + 2 + scores,
        # Once as they are kept for all rows, once joined with the row's own.
        before=2 * kept if joins else 0,
        joins=joins,
    )


def _most(config: Any, name: str) -> int:
    """A size in the config; the largest if layers differ, 0 if missing."""
    value = getattr(config, name, None) or 0
    return max(map(int, value)) if isinstance(value, list | tuple) else int(value)
