"""The fast paths to log-probabilities on a CUDA device, compared with the plain path
there."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
import numpy as np  # noqa: E402

from pytest_evals.models.engine.device_memory import BatchBudget  # noqa: E402
from pytest_evals.models.hf.forward import Forward, TokenCounts  # noqa: E402
from pytest_evals.models.hf.scoring.packing import RowShape  # noqa: E402
from pytest_evals.models.hf.scoring.padded_strategy import PaddedStrategy  # noqa: E402
from pytest_evals.models.hf.scoring.strategies import (  # noqa: E402
    SHAPES,
    _candidates,
    choose_strategy,
)
from pytest_evals.models.tokens.spans import ScoredSpan  # noqa: E402

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]

SIZE = {
    "vocab_size": 1000,
    "hidden_size": 128,
    "intermediate_size": 256,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 1024,
    "bos_token_id": 0,
    "eos_token_id": 1,
    "pad_token_id": 1,
}
MODELS = {
    "llama": lambda: transformers.LlamaForCausalLM(transformers.LlamaConfig(**SIZE)),
    "mistral": lambda: transformers.MistralForCausalLM(
        transformers.MistralConfig(**SIZE, sliding_window=64)
    ),
    "gemma2": lambda: transformers.Gemma2ForCausalLM(
        transformers.Gemma2Config(**SIZE, head_dim=32, sliding_window=64)
    ),
    "falcon": lambda: transformers.FalconForCausalLM(
        transformers.FalconConfig(
            **SIZE, num_kv_heads=2, alibi=False, new_decoder_architecture=True
        )
    ),
    "doge": lambda: transformers.DogeForCausalLM(transformers.DogeConfig(**SIZE)),
    # Keys of 48 numbers and values of 32.
    "deepseek_v3": lambda: transformers.DeepseekV3ForCausalLM(
        transformers.DeepseekV3Config(
            **{**SIZE, "num_key_value_heads": 4},
            kv_lora_rank=32,
            q_lora_rank=32,
            qk_nope_head_dim=32,
            qk_rope_head_dim=16,
            v_head_dim=32,
            first_k_dense_replace=4,
        )
    ),
}


def plain_of(kind, dtype):
    torch.manual_seed(1)
    model = MODELS[kind]()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(4)  # answers far from uniform
    return PaddedStrategy(Forward(model.to("cuda", dtype).eval()), TokenCounts())


def spans():
    """40 questions of two tasks, with four answers each; and whole texts."""
    draw = np.random.default_rng(3)
    found = []
    for shots in draw.integers(2, 1000, (2, 300)):
        for _ in range(20):
            question = draw.integers(2, 1000, draw.integers(20, 60))
            for n in (1, 2, 5, 9):
                parts = [shots, question, draw.integers(2, 1000, n)]
                found.append(ScoredSpan(np.concatenate(parts).astype(np.int32), n))
    for n in (10, 100, 1000):
        found.append(ScoredSpan(draw.integers(2, 1000, n + 1).astype(np.int32), n))
    return found


def answers(path, some, budget=100_000):
    found = {}
    for done in path.score(some, BatchBudget(budget)):
        found.update(done.scored)
    assert sorted(found) == list(range(len(some)))
    return [found[i] for i in range(len(some))]


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("width", [1024, 200])
@pytest.mark.parametrize("name", ["cascade", "packed"])
def test_packed_rows_give_the_numbers_of_plain_ones(kind, dtype, width, name):
    """In half precision the difference is about that between plain rows one by one."""
    plain = plain_of(kind, dtype)
    assert choose_strategy(plain, 1024).path.name == "cascade"
    some = spans()
    expected = answers(plain, some)
    ways = [way for way in _candidates(plain.forward) if way.name == name]
    way = ways[-1 if kind == "doge" else 0]  # which changes cached keys
    path = way.path(plain, RowShape(width=width, gain=100, multiple=8))
    found = answers(path, some)
    assert path.n_alone == 0
    one = np.array([scored.logprob for scored in expected])
    other = np.array([scored.logprob for scored in found])
    if dtype is torch.float32:
        assert other == pytest.approx(one, rel=1e-5, abs=1e-3)
        return
    alone = answers(plain, some, budget=1)
    noise = np.abs(one - np.array([scored.logprob for scored in alone])).max()
    rounding = torch.finfo(dtype).eps * np.abs(one).max()
    assert np.abs(one - other).max() <= max(3 * noise, rounding)


def test_a_kept_prefix_and_wide_rows_make_room_when_memory_is_short():
    plain = plain_of("llama", torch.float32)
    some = spans()
    expected = answers(plain, some, budget=2000)
    path = next(iter(_candidates(plain.forward))).path(plain, SHAPES["cuda"])
    room = torch.cuda.memory_allocated() + 60 * 2**20
    total = torch.cuda.get_device_properties(0).total_memory
    torch.cuda.empty_cache()
    torch.cuda.set_per_process_memory_fraction(room / total)
    try:
        found = answers(path, some, budget=10_000_000)
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
    for one, other in zip(expected, found, strict=True):
        assert other.logprob == pytest.approx(one.logprob, rel=1e-5, abs=1e-3)


def test_reading_twice_gives_the_same_numbers():
    plain = plain_of("llama", torch.float32)
    some = spans()
    path = choose_strategy(plain, 1024).path
    first, again = ([one.logprob for one in answers(path, some)] for _ in range(2))
    assert first == pytest.approx(again, abs=1e-9)
