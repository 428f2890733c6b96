"""The hf model, compared with recorded responses of lm-eval 0.4.13 on the same weights
(see recorded/record.py)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pytest_evals.core.request import Loglikelihood, Rolling
from pytest_evals.prompts.generation import read_sampling

RECORDED = json.loads(
    (Path(__file__).parent / "recorded" / "lm_eval.json").read_text(encoding="utf-8")
)
REQUESTS = RECORDED["requests"]


@pytest.mark.parametrize("kind", ["gpt2", "llama"])
def test_log_probabilities_are_those_of_lm_eval(kind, opened, ask):
    found = ask(opened(kind), *(Loglikelihood(*pair) for pair in REQUESTS["pairs"]))
    expected = RECORDED["answers"][kind]["loglikelihood"]
    for response, (logprob, greedy) in zip(found, expected, strict=True):
        assert response.logprob == pytest.approx(logprob, abs=1e-3)
        assert response.greedy is greedy


@pytest.mark.parametrize("kind", ["gpt2", "llama"])
def test_log_probabilities_of_texts_are_those_of_lm_eval(kind, opened, ask):
    found = ask(opened(kind), *(Rolling(text) for text in REQUESTS["texts"]))
    expected = RECORDED["answers"][kind]["loglikelihood_rolling"]
    for response, logprob in zip(found, expected, strict=True):
        assert response.logprob == pytest.approx(logprob, rel=1e-5, abs=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["gpt2", "llama"])
def test_texts_are_those_of_lm_eval(kind, opened, ask):
    requests = [
        read_sampling(
            {"until": stop, "max_gen_toks": n, **settings}, {}, ""
        ).sampling.requests(prompt, 1)[0]
        for prompt, stop, n, settings in REQUESTS["prompts"]
    ]
    found = [response.text for response in ask(opened(kind), *requests)]
    assert found == RECORDED["answers"][kind]["generate_until"]
