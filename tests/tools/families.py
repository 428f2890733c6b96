"""Log-likelihoods of every family of causal models in transformers, at a tiny size.

    python -m tests.tools.families [FAMILY …]

Each family is built with random weights. Its scoring path scores sequences after
several prefixes, on a CPU once as it is and once with separate attention also to short
prefixes. The numbers are compared with those of each sequence alone, whose logits
transformers computes. Families that take other settings than the common ones are
listed as not built. The exit status is 1 if a number differs.
"""

from __future__ import annotations

import argparse
import inspect
import sys
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any
from unittest import mock

import numpy as np
import torch
import transformers
from transformers.models.auto import modeling_auto

from pytest_evals.models.engine.device_memory import BatchBudget
from pytest_evals.models.engine.scorer import ScoringStrategy
from pytest_evals.models.hf.forward import Forward, TokenCounts, sees_later_tokens
from pytest_evals.models.hf.scoring import strategies
from pytest_evals.models.hf.scoring.padded_strategy import PaddedStrategy
from pytest_evals.models.tokens.spans import ScoredSpan

CONTEXT = 128
VOCABULARY = 330
SETTINGS = {
    **dict.fromkeys(("hidden_size", "d_model", "n_embd"), 32),
    **dict.fromkeys(("intermediate_size", "ffn_dim"), 64),
    **dict.fromkeys(("num_hidden_layers", "num_layers", "n_layers", "n_layer"), 2),
    **dict.fromkeys(("num_attention_heads", "attention_heads", "n_heads", "n_head"), 4),
    **dict.fromkeys(("num_key_value_heads", "num_kv_heads"), 2),
    **dict.fromkeys(("head_dim", "kv_channels", "qk_nope_head_dim", "v_head_dim"), 8),
    **dict.fromkeys(("max_position_embeddings", "n_positions", "n_ctx"), CONTEXT),
    **dict.fromkeys(("num_experts", "num_local_experts", "n_routed_experts"), 4),
    **dict.fromkeys(("q_lora_rank", "kv_lora_rank"), 16),
    **dict.fromkeys(("rotary_dim", "qk_rope_head_dim"), 4),
    **dict.fromkeys(("moe_intermediate_size", "shared_expert_intermediate_size"), 32),
    **{"vocab_size": VOCABULARY, "bos_token_id": 0, "eos_token_id": 1},
    **{"pad_token_id": 1, "num_experts_per_tok": 2, "n_group": 2, "topk_group": 1},
    **{"first_k_dense_replace": 1, "mamba_d_ssm": 64, "mamba_d_state": 8},
    **{"mamba_n_heads": 4, "mamba_d_head": 16, "mamba_n_groups": 1},
}
VARIANTS = ((), ("head_dim",), ("num_key_value_heads",), ("num_kv_heads",))
"""Settings that a family may not take as they are."""
MOST_PARAMETERS = 5_000_000
TOLERANCE = 1e-5
"""Of log-probabilities, relative to the larger of 1 and the number."""


def main() -> int:
    """Print a line for each family, and how many use each path."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("families", nargs="*")
    chosen = parser.parse_args().families
    warnings.simplefilter("ignore")
    transformers.logging.set_verbosity_error()
    torch.set_num_threads(1)
    found: Counter[str] = Counter()
    for family, name in sorted(modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES.items()):
        if chosen and family not in chosen:
            continue
        result = _result(getattr(transformers, name, None))
        found[result.split(":")[0]] += 1
        print(f"{family:28} {result}", flush=True)
    print(", ".join(f"{n} {result}" for result, n in found.most_common()))
    return int(found["WRONG"] > 0)


def _result(model_class: Any) -> str:
    model = None if model_class is None else _build(model_class)
    if model is None:
        return "not built"
    if sees_later_tokens(model):
        return "not causal"
    plain = PaddedStrategy(Forward(model), TokenCounts())
    usual = strategies.choose_strategy(plain, CONTEXT - 8)
    with mock.patch.dict(strategies.CASCADE_DEPTHS, {"sdpa": 0, "eager": 0}):
        separate = strategies.choose_strategy(plain, CONTEXT - 8)
    error = max(_error(model, choice.path) for choice in (usual, separate))
    name = getattr(usual.path, "name", "plain up to a length")
    return f"{name}: {error:.1e}" if error < TOLERANCE else f"WRONG: {name} {error:.1e}"


def _build(model_class: Any) -> Any:
    """A random model whose answers are far from uniform; ``None`` if the family needs
    other settings."""
    config_class = model_class.config_class
    known = set(inspect.signature(config_class.__init__).parameters)
    for base in config_class.__mro__:
        known |= set(getattr(base, "__annotations__", {}))
    known |= set(getattr(config_class, "attribute_map", {}))
    for left_out in VARIANTS:
        names = known.difference(left_out)
        given = {name: value for name, value in SETTINGS.items() if name in names}
        torch.manual_seed(3)
        try:
            config = config_class(**given)
            with torch.device("meta"):
                n_parameters = model_class(config).num_parameters()
            if n_parameters > MOST_PARAMETERS:
                continue
            model = model_class(config).eval()
            with torch.no_grad():
                for parameter in model.parameters():
                    if parameter.dim() > 1:
                        parameter.mul_(4)
                    else:
                        parameter.add_(torch.randn_like(parameter) / 10)
                model(input_ids=torch.arange(9)[None])
        except Exception:  # noqa: BLE001 - families raise all kinds for other settings
            continue
        return model
    return None


def _error(model: Any, path: ScoringStrategy) -> float:
    """Largest relative difference to the numbers of each sequence alone."""
    errors = []
    for spans in _span_sets():
        for done in path.score(spans, BatchBudget(5000)):
            for i, score in done.scored.items():
                exact = _alone(model, spans[i])
                errors.append(abs(score.logprob - exact) / max(1.0, abs(exact)))
    return max(errors)


def _span_sets() -> Iterator[Sequence[ScoredSpan]]:
    """Twelve sequences after two prefixes, of different lengths each time."""
    draw = np.random.default_rng(5)
    for n in range(4):
        prefixes = [
            draw.integers(2, 320, length) for length in (25 * n + 3, 20 * n + 5)
        ]
        spans = []
        for prefix in prefixes * 6:
            text = np.append(prefix, draw.integers(2, 320, draw.integers(2, 14)))
            n_scored = int(draw.integers(1, len(text) - len(prefix) + 1))
            spans.append(ScoredSpan(text.astype(np.int32), n_scored))
        yield spans


def _alone(model: Any, span: ScoredSpan) -> float:
    ids = torch.as_tensor(span.tokens, dtype=torch.long)
    with torch.no_grad():
        logits = model(input_ids=ids[None, :-1]).logits[0].double()
    logprobs = logits.log_softmax(-1)[-span.n_scored :]
    return float(logprobs.gather(1, ids[-span.n_scored :, None]).sum())


if __name__ == "__main__":
    sys.exit(main())
