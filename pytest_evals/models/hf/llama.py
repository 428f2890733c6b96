"""Llama, Mistral, Qwen 2 and Qwen 3 without transformers' model classes, whose import
takes longer than a small evaluation.

The computation is that of transformers with ``attn_implementation=sdpa``: on a CPU
logits are equal bit for bit (5.23; with 5.17, after left padding, up to rounding).
``llama_checkpoint`` selects the models.
"""

from __future__ import annotations

import math
from functools import cached_property
from types import SimpleNamespace
from typing import Any

import torch
import transformers
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention, silu


class Llama(nn.Module):
    """A causal language model with the interface of transformers' classes."""

    def __init__(self, config: SimpleNamespace, source: dict[str, Any]) -> None:
        super().__init__()
        self.config = config
        self.generation_config: Any = None
        self.model = _Body(config)
        self.lm_head = _Linear(config.hidden_size, config.vocab_size, bias=False)
        self._source = source
        if config.tie_word_embeddings:
            self.tie_weights()

    def forward(
        self, input_ids: Tensor, position_ids: Tensor | None = None, **view: Any
    ) -> SimpleNamespace:
        """``logits`` (B, T, V); arguments as of ``base_model``."""
        states = self.model(input_ids, position_ids=position_ids, **view)
        states = states.last_hidden_state
        return SimpleNamespace(logits=self.lm_head(states))

    def tie_weights(self) -> None:
        """Use the embeddings as the output head."""
        self.lm_head.weight = self.model.embed_tokens.weight

    @property
    def base_model(self) -> _Body:
        """The model without its output head."""
        return self.model

    @property
    def device(self) -> torch.device:
        """Device of the weights."""
        return self.lm_head.weight.device

    @property
    def dtype(self) -> torch.dtype:
        """Type of the weights."""
        return self.lm_head.weight.dtype

    def get_input_embeddings(self) -> nn.Module:
        """The embeddings of tokens."""
        return self.model.embed_tokens

    def get_output_embeddings(self) -> nn.Module:
        """The output head."""
        return self.lm_head

    def num_parameters(self) -> int:
        """Number of weights; tied ones count once."""
        return sum(weight.numel() for weight in self.parameters())

    def generate(self, **settings: Any) -> Tensor:
        """transformers' ``generate``, by its own class with these weights."""
        ids: Tensor = self._transformers_model.generate(**settings)
        return ids

    @cached_property
    def _transformers_model(self) -> Any:
        config = transformers.AutoConfig.from_pretrained(**self._source)
        auto: Any = transformers.AutoModelForCausalLM
        with torch.device("meta"):
            model = auto.from_config(config, dtype=self.dtype)
        model.load_state_dict(self.state_dict(), assign=True)
        model.tie_weights()
        # Not one of the weights, so it is still without numbers.
        rotary = type(model.model.rotary_emb)(config)
        model.model.rotary_emb = rotary.to(self.device)
        model.generation_config = self.generation_config
        return model.eval()


class _Linear(nn.Linear):
    def reset_parameters(self) -> None:
        """Leave the weights empty: PyTorch's random numbers are slow to import."""


class _Embedding(nn.Embedding):
    def reset_parameters(self) -> None:
        """Leave the weights empty."""


class _Body(nn.Module):
    def __init__(self, config: SimpleNamespace) -> None:
        super().__init__()
        self.embed_tokens = _Embedding(config.vocab_size, config.hidden_size)
        self.layers = nn.ModuleList(
            _Layer(config, i) for i in range(config.num_hidden_layers)
        )
        self.norm = _Norm(config.hidden_size, config.rms_norm_eps)
        self.frequencies = _frequencies(config.head_dim, config.rope)

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        position_ids: Tensor | None = None,
        past_key_values: Any = None,
        use_cache: bool = False,
    ) -> SimpleNamespace:
        """``last_hidden_state`` (B, T, N).

        Args:
            input_ids: (B, T) int64.
            attention_mask: (B, K) int64, 0 for hidden tokens, or (B, 1, T, K), added to
                the scores.
            position_ids: (B, T) int64; after the cached tokens if missing.
            past_key_values: A cache over the K - T tokens before, which is extended.
        """
        states = self.embed_tokens(input_ids)
        width = input_ids.shape[1]
        n_before = 0 if past_key_values is None else past_key_values.get_seq_length()
        if position_ids is None:
            position_ids = torch.arange(width, device=states.device)[None] + n_before
        mask = attention_mask
        if mask is None or mask.dim() == 2:
            mask = _mask(mask, n_before, width, states.device)
        rotations = self._rotations(position_ids, states.dtype)
        for layer in self.layers:
            states = layer(states, rotations, mask, past_key_values)
        return SimpleNamespace(last_hidden_state=self.norm(states))

    def _rotations(
        self, positions: Tensor, dtype: torch.dtype
    ) -> tuple[Tensor, Tensor]:
        """(B, 1, T, D) cosines and sines of the rotations of each position."""
        angles = positions[..., None].float() * self.frequencies
        angles = torch.cat([angles, angles], dim=-1)[:, None]
        return angles.cos().to(dtype), angles.sin().to(dtype)


class _Layer(nn.Module):
    def __init__(self, config: SimpleNamespace, index: int) -> None:
        super().__init__()
        self.input_layernorm = _Norm(config.hidden_size, config.rms_norm_eps)
        self.self_attn = _Attention(config, index)
        self.post_attention_layernorm = _Norm(config.hidden_size, config.rms_norm_eps)
        self.mlp = _Mlp(config.hidden_size, config.intermediate_size)

    def forward(self, states: Tensor, *view: Any) -> Tensor:
        states = states + self.self_attn(self.input_layernorm(states), *view)
        added: Tensor = self.mlp(self.post_attention_layernorm(states))
        return states + added


class _Norm(nn.Module):
    def __init__(self, size: int, epsilon: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(size))
        self.epsilon = epsilon

    def forward(self, states: Tensor) -> Tensor:
        exact = states.float()
        variance = exact.pow(2).mean(-1, keepdim=True)
        return self.weight * (exact * torch.rsqrt(variance + self.epsilon)).to(
            states.dtype
        )


class _Mlp(nn.Module):
    def __init__(self, size: int, inner: int) -> None:
        super().__init__()
        self.gate_proj = _Linear(size, inner, bias=False)
        self.up_proj = _Linear(size, inner, bias=False)
        self.down_proj = _Linear(inner, size, bias=False)

    def forward(self, states: Tensor) -> Tensor:
        out: Tensor = self.down_proj(
            silu(self.gate_proj(states)) * self.up_proj(states)
        )
        return out


class _Attention(nn.Module):
    def __init__(self, config: SimpleNamespace, index: int) -> None:
        super().__init__()
        size, family = config.hidden_size, config.family
        self.layer_idx = index
        self.head_dim = config.head_dim
        n_queries = config.num_attention_heads * self.head_dim
        n_keys = config.num_key_value_heads * self.head_dim
        self.q_proj = _Linear(size, n_queries, bias=family.bias)
        self.k_proj = _Linear(size, n_keys, bias=family.bias)
        self.v_proj = _Linear(size, n_keys, bias=family.bias)
        self.o_proj = _Linear(n_queries, size, bias=False)
        self.q_norm: nn.Module = nn.Identity()
        self.k_norm: nn.Module = nn.Identity()
        if family.norm:
            self.q_norm = _Norm(self.head_dim, config.rms_norm_eps)
            self.k_norm = _Norm(self.head_dim, config.rms_norm_eps)

    def forward(
        self,
        states: Tensor,
        rotations: tuple[Tensor, Tensor],
        mask: Tensor | None,
        past: Any,
    ) -> Tensor:
        shape = (*states.shape[:-1], -1, self.head_dim)
        query = self.q_norm(self.q_proj(states).view(shape)).transpose(1, 2)
        key = self.k_norm(self.k_proj(states).view(shape)).transpose(1, 2)
        value = self.v_proj(states).view(shape).transpose(1, 2)
        query, key = _rotated(query, *rotations), _rotated(key, *rotations)
        if past is not None:
            key, value = past.update(key, value, self.layer_idx)
        attended = _sdpa(query, key, value, mask)
        out: Tensor = self.o_proj(attended.reshape(*states.shape[:-1], -1))
        return out


def _rotated(states: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    first, second = states.chunk(2, dim=-1)
    return states * cos + torch.cat([-second, first], dim=-1) * sin


def _frequencies(size: int, rope: dict[str, Any]) -> Tensor:
    """(D / 2,) float32 angle per position (Su et al. 2021). With the type llama3, those
    with wavelengths longer than about the original context window are scaled down
    (Llama 3.1's release, ``apply_scaling``)."""
    places = torch.arange(0, size, 2, dtype=torch.float32, device="cpu")
    usual: Tensor = 1.0 / float(rope["rope_theta"]) ** (places / size)
    if rope["rope_type"] == "default":
        return usual
    low, high = float(rope["low_freq_factor"]), float(rope["high_freq_factor"])
    n_waves = float(rope["original_max_position_embeddings"]) / (2 * math.pi / usual)
    share = ((n_waves - low) / (high - low)).clamp(0, 1)
    return (1 - share) * usual / float(rope["factor"]) + share * usual


def _mask(
    shown: Tensor | None, n_before: int, width: int, device: torch.device
) -> Tensor | None:
    """(B, 1, T, K) bool, true where a token attends; ``None`` if plain causal attention
    does the same. ``shown`` is (B, K), 0 for hidden tokens."""
    if shown is not None and bool(shown.all()):
        shown = None
    if shown is None and (width == 1 or not n_before):
        return None
    rows = torch.arange(n_before, n_before + width, device=device)
    causal = torch.arange(n_before + width, device=device) <= rows[:, None]
    if shown is None:
        return causal[None, None]
    return causal & shown[:, None, None].bool()


def _sdpa(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> Tensor:
    """PyTorch's attention, (B, T, H, D). Keys and values of grouped queries are copied
    only if its kernels need that."""
    n_rows, n_heads, width, size = query.shape
    n_kv = key.shape[1]
    groups = n_heads // n_kv
    if groups > 1 and mask is not None:
        if width == 1:
            query = query.reshape(n_rows, n_kv, groups, size)
        else:
            key = key.repeat_interleave(groups, dim=1)
            value = value.repeat_interleave(groups, dim=1)
    out = scaled_dot_product_attention(
        query,
        key,
        value,
        attn_mask=mask,
        is_causal=mask is None and width > 1,
        enable_gqa=groups > 1 and mask is None,
    )
    return out.reshape(n_rows, n_heads, width, size).transpose(1, 2)
