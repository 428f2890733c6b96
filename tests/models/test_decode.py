"""Rows that are added, grow and are removed: the same results with and without a KV
cache."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import transformers
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pytest_evals.models.hf.forward import Forward, TokenCounts
from pytest_evals.models.hf.generation.decode import (
    CachedDecoder,
    UncachedDecoder,
    decoder_for,
)
from pytest_evals.models.hf.generation.model_cache_decoder import ModelCacheDecoder
from pytest_evals.models.hf.generation.prefill import prompt_groups

V5 = not transformers.__version__.startswith("4.")
DECODERS = {
    **dict.fromkeys(("gpt2", "llama", "mistral", "gemma2", "bloom"), CachedDecoder),
    # Recurrent layers had caches of their own before.
    **dict.fromkeys(
        ("mamba", "jamba", "qwen3_next"),
        ModelCacheDecoder if V5 else UncachedDecoder,
    ),
    "rwkv": UncachedDecoder,
}
SHOTS = [5, 300, 7, 7, 20, 31, 6, 9, 11, 12]
"""More tokens than the sliding windows of these models."""


@pytest.fixture(scope="module")
def model(opened):
    """A function from a kind to the model and its forward pass."""
    known = {}

    def of(kind):
        if kind not in known:
            torch_model = opened(kind)._engine._model
            known[kind] = (torch_model, Forward(torch_model))
        return known[kind]

    return of


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind",
    [
        k if k in ("mistral", "mamba") else pytest.param(k, marks=pytest.mark.nightly)
        for k in DECODERS
        if k != "rwkv"
    ],
)
@settings(
    max_examples=12,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(data=st.data())
def test_logits_are_those_of_reading_everything_again(kind, data, model):
    _, forward = model(kind)
    counters = TokenCounts()
    fast = DECODERS[kind](forward, counters)
    plain = UncachedDecoder(forward, TokenCounts())
    rests = st.lists(st.integers(2, 329), min_size=1, max_size=12)
    prompts = data.draw(
        st.lists(
            st.tuples(st.sampled_from([[], SHOTS, [*SHOTS, 40, 41, 42]]), rests),
            min_size=1,
            max_size=8,
        )
    )
    prompts = [np.asarray([*a, *b], dtype=np.int32) for a, b in prompts]
    prompts += prompts[:2]
    waiting = [
        (prompts[i], leaf.branch)
        for leaf in prompt_groups(prompts, [len(p) for p in prompts], 4)
        for i in leaf.members
    ]
    n_rows = 0
    while waiting or n_rows:
        if waiting and (not n_rows or data.draw(st.booleans())):
            n = data.draw(st.integers(1, len(waiting)))
            group = [p for p, branch in waiting[:n] if branch is waiting[0][1]]
            branch, waiting = waiting[0][1], waiting[len(group) :]
            again = bool(waiting) and np.array_equal(waiting[0][0], group[-1])
            most = data.draw(st.sampled_from([0, 1, 3, 7]))
            assert_near(
                fast.join(group, branch, again, most), plain.join(group, branch, again)
            )
            n_rows += len(group)
        tokens = st.lists(st.integers(2, 329), min_size=n_rows, max_size=n_rows)
        chosen = torch.tensor(data.draw(tokens))
        assert_near(fast.step(chosen), plain.step(chosen))
        stay = data.draw(st.permutations(range(n_rows)))
        stay = stay[: data.draw(st.integers(0, n_rows))]
        fast.keep(stay)
        plain.keep(stay)
        n_rows = len(stay)
        if n_rows and data.draw(st.integers(0, 4)) == 0:
            fast.trim()
    assert counters.n_read >= counters.n_padding


@pytest.mark.parametrize("kind", DECODERS)
def test_the_fastest_correct_decoder_is_selected(kind, model):
    decoder = decoder_for(model(kind)[1], TokenCounts())()
    assert type(decoder) is DECODERS[kind]


@pytest.mark.parametrize("n", range(0, 20, 3))
def test_a_lack_of_memory_in_the_self_test_selects_no_slower_decoder(n, model):
    """The ``n``-th pass fails once; memory of earlier batches is freed meanwhile."""
    forward = model("llama")[1]
    passes = iter(range(1_000))

    def fail(*_):
        if next(passes) == n:
            raise torch.OutOfMemoryError("CUDA out of memory.")

    hook = forward.model.get_input_embeddings().register_forward_pre_hook(fail)
    try:
        decoder = decoder_for(forward, TokenCounts())()
    finally:
        hook.remove()
    assert next(passes) > n
    assert type(decoder) is CachedDecoder


@pytest.mark.skipif(not V5, reason="needs the recurrent layers of transformers 5")
@pytest.mark.parametrize("kind", ["jamba", "mamba"])
def test_a_step_without_enough_memory_changes_no_row(kind, model):
    """Some layers have the states of the new tokens then, and others do not."""
    body, forward = model(kind)
    fast = ModelCacheDecoder(forward, TokenCounts())
    plain = UncachedDecoder(forward, TokenCounts())
    prompts = [np.arange(2, 2 + n, dtype=np.int32) for n in (5, 9, 5)]
    assert_near(fast.join(prompts, None, False), plain.join(prompts, None, False))

    def fail(*_):
        raise torch.OutOfMemoryError

    handle = body.base_model.layers[1].register_forward_hook(fail)
    with pytest.raises(torch.OutOfMemoryError):
        fast.step(torch.tensor([4, 5, 6]))
    handle.remove()
    for tokens in ([7, 8, 9], [3, 4, 5]):
        chosen = torch.tensor(tokens)
        assert_near(fast.step(chosen), plain.step(chosen))


def assert_near(one, other):
    assert one.shape == other.shape
    assert float((one - other).abs().max()) < 1e-4 * max(1, float(other.abs().max()))


def test_shared_beginnings_and_equal_prompts_are_read_once(model):
    _, forward = model("gpt2")
    counters = TokenCounts()
    steps = CachedDecoder(forward, counters)
    shots, rows = list(range(40)), [[50], [51, 52], [50], [50]]
    prompts = [np.asarray([*shots, *row], dtype=np.int32) for row in rows]
    order = prompt_groups(prompts, [1, 2, 1, 1], pays=8)
    first, second = order
    assert first.members == (1,)
    steps.join([prompts[1]], first.branch, keeps_last=False)
    steps.join([prompts[0]], second.branch, keeps_last=True)
    steps.join([prompts[2]], second.branch, keeps_last=True)
    steps.join([prompts[3]], second.branch, keeps_last=False)
    assert counters.as_mapping() == {"n_read": 40 + 2 + 1, "n_padding": 0}


def test_padding_is_counted(model):
    _, forward = model("gpt2")
    counters = TokenCounts()
    steps = CachedDecoder(forward, counters)
    steps.join(
        [np.arange(5, dtype=np.int32), np.arange(2, dtype=np.int32)], None, False
    )
    steps.step(torch.tensor([1, 2]))
    assert counters.as_mapping() == {"n_read": 12, "n_padding": 3}


def test_nan_in_one_row_does_not_reach_the_next_row_in_its_slot(model):
    """A mask does not hide it: zero times NaN is NaN."""
    _, forward = model("llama")
    steps, plain = (
        CachedDecoder(forward, TokenCounts()),
        UncachedDecoder(forward, TokenCounts()),
    )
    long, short = np.arange(2, 20, dtype=np.int32), np.arange(2, 5, dtype=np.int32)
    steps.join([long, long], None, keeps_last=False)
    with torch.inference_mode():
        for layer in steps._shelf._layers:
            for buffer in layer.buffers:
                buffer[1] = torch.nan
    steps.keep([0])
    steps.join([short], None, keeps_last=False)
    plain.join([long, short], None, keeps_last=False)
    tokens = torch.tensor([7, 8])
    assert_near(steps.step(tokens), plain.step(tokens))
