"""Sampling of tokens."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest
import torch
from transformers import GenerationConfig

from pytest_evals.core.request import Generate
from pytest_evals.models.engine.generation_options import seed_of
from pytest_evals.models.hf.generation.sampling import (
    SamplingParams,
    pick,
    sampling_params_of,
)
from pytest_evals.models.tokens.request_encoder import InvalidRequestError
from tests.models.live_memory import LiveMemory

LOGITS = torch.tensor([[0.0, 1.0, 2.0, 3.0]])


def drawn(recipe, n=4000):
    points = [Random(i).random() for i in range(n)]
    found = pick(LOGITS.repeat(n, 1), recipe, points).tolist()
    return {token: count / n for token, count in Counter(found).items()}


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
def test_token_frequencies_are_those_of_the_softmax(temperature):
    """Within four standard errors of the exact probability."""
    exact = (LOGITS[0] / temperature).softmax(-1).tolist()
    found = drawn(SamplingParams(temperature=temperature))
    for token, share in enumerate(exact):
        error = (share * (1 - share) / 4000) ** 0.5
        assert found.get(token, 0.0) == pytest.approx(share, abs=4 * error)


@pytest.mark.parametrize(
    ("recipe", "kept"),
    [
        (SamplingParams(temperature=1.0, top_k=2), {2, 3}),
        # Probabilities are 0.03, 0.09, 0.24, 0.64.
        (SamplingParams(temperature=1.0, top_p=0.8), {2, 3}),
        (SamplingParams(temperature=1.0, min_p=0.1), {1, 2, 3}),
        (SamplingParams(temperature=1.0, top_k=0), {0, 1, 2, 3}),
        (SamplingParams(temperature=0.0), {3}),
    ],
)
def test_only_the_tokens_that_a_recipe_keeps_are_drawn(recipe, kept):
    assert set(drawn(recipe)) == kept


def test_each_repeat_has_a_separate_seed_that_is_equal_in_all_processes():
    seeds = [seed_of(Generate("a", temperature=1.0, repeat=r)) for r in (0, 1)]
    assert seeds[0] != seeds[1]
    assert seeds[0] == seed_of(Generate("a", temperature=1.0, repeat=0))


def test_a_seed_selects_other_samples():
    seeds = [
        seed_of(Generate("a", temperature=1.0, options=options))
        for options in ((), (("seed", 1),), (("seed", 2),))
    ]
    assert len(set(seeds)) == 3
    params = sampling_params_of(
        Generate("a", temperature=1.0, options=(("seed", 1),)), GenerationConfig()
    )
    assert params == sampling_params_of(
        Generate("a", temperature=1.0), GenerationConfig()
    )
    for wrong in ("1", 1.5, True):
        given = Generate("a", temperature=1.0, options=(("seed", wrong),))
        with pytest.raises(InvalidRequestError, match="it must be a whole number"):
            sampling_params_of(given, GenerationConfig())


def test_a_response_format_does_not_change_the_sampling():
    """It is optional: this model does not support it; others do."""
    plain, wishing = (
        Generate("a", temperature=1.0, options=options)
        for options in ((), (("response_format", "{}"),))
    )
    assert sampling_params_of(wishing, None) == sampling_params_of(plain, None)


@pytest.mark.parametrize(
    "params",
    [
        SamplingParams(temperature=0.7, top_k=50, top_p=0.9),
        SamplingParams(temperature=1.3, top_k=5, min_p=0.05),
        SamplingParams(temperature=1.0, top_k=20, typical_p=0.8),
        SamplingParams(temperature=1.0, top_k=3, top_p=0.99),
    ],
)
def test_top_k_before_the_others_samples_as_over_the_whole_vocabulary(params):
    """Compared with transformers' warpers over all logits, in bfloat16 with many
    ties."""
    import transformers as hf

    torch.manual_seed(3)
    logits = (4 * torch.randn(200, 1000)).bfloat16().float()
    points = [Random(i).random() for i in range(200)]
    warpers = [
        hf.TemperatureLogitsWarper(params.temperature),
        hf.TopKLogitsWarper(params.top_k),
        hf.TopPLogitsWarper(params.top_p),
        hf.MinPLogitsWarper(params.min_p or 0.0),
        *([hf.TypicalLogitsWarper(0.8)] if params.typical_p < 1 else []),
    ]
    scores = logits
    for warper in warpers:
        scores = warper(None, scores)
    shares = scores.double().softmax(-1).cumsum(-1)
    expected = [
        int(torch.searchsorted(row, point * row[-1], right=True))
        for row, point in zip(shares, points, strict=True)
    ]
    assert pick(logits, params, points).tolist() == expected


def test_top_p_after_top_k_does_not_sort_the_vocabulary():
    """A sort would add its values, its ids and a mask to the float64 probabilities."""
    logits = torch.randn(64, 32_768)
    params = SamplingParams(temperature=1.0, top_k=50, top_p=0.9)
    with torch.inference_mode(), LiveMemory() as memory:
        pick(logits, params, [0.5] * 64)
    assert memory.peak < 2.1 * logits.nbytes
