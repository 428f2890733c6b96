"""Batch sizes, and handling of out-of-memory errors."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from pytest_evals.core.request import Generate, Loglikelihood, Rolling
from pytest_evals.models.engine.device_memory import (
    FITTING_BATCHES,
    BatchBudget,
    in_batches,
)
from pytest_evals.models.registry import open_model, parse_spec
from pytest_evals.models.tokens.request_encoder import InvalidRequestError

costs = st.lists(st.integers(1, 50), max_size=40)


@given(costs=costs, tokens=st.integers(1, 120), rows=st.integers(0, 5))
def test_batches_hold_everything_once_and_keep_the_budget(costs, tokens, rows):
    items = list(range(len(costs)))
    batches = list(in_batches(items, costs, list, BatchBudget(tokens, rows)))
    assert [i for batch in batches for i in batch.items] == items
    for batch in batches:
        n = len(batch.items)
        assert n == 1 or n * max(costs[i] for i in batch.items) <= tokens
        assert rows == 0 or n <= rows


@given(costs=costs, room=st.integers(1, 60))
def test_requests_that_fit_alone_run_once_when_memory_is_short(costs, room):
    def run(items):
        if len(items) * max(costs[i] for i in items) > room:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return items

    items = list(range(len(costs)))
    batches = list(in_batches(items, costs, run, BatchBudget(10_000)))
    assert [i for batch in batches for i in batch.items] == items
    for batch in batches:
        failed = isinstance(batch.result, InvalidRequestError)
        assert failed == (costs[batch.items[0]] > room)
        assert not failed or len(batch.items) == 1


def test_the_budget_grows_back_after_batches_that_fit():
    budget = BatchBudget(100)
    budget.shrink(100)
    assert budget.tokens == 50
    for _ in range(FITTING_BATCHES):
        budget.grow()
    assert budget.tokens == 100
    for _ in range(10 * FITTING_BATCHES):
        budget.grow()
    assert budget.tokens == 100


@pytest.mark.parametrize(
    "error",
    [
        torch.OutOfMemoryError("x"),
        RuntimeError("CUDA error: out of memory"),
        RuntimeError("[enforce] DefaultCPUAllocator: not enough memory: you tried"),
        MemoryError(),
    ],
    ids=repr,
)
def test_every_way_to_say_out_of_memory_is_understood(error):
    def run(items):
        if len(items) > 1:
            raise error
        return items

    assert len(list(in_batches([1, 2], [1, 1], run, BatchBudget(9)))) == 2


def test_other_errors_are_not_taken_for_a_lack_of_memory():
    def run(items):
        raise RuntimeError("shapes do not match")

    with pytest.raises(RuntimeError, match="shapes"):
        list(in_batches([1], [1], run, BatchBudget(9)))


@pytest.mark.slow
def test_a_model_that_runs_out_of_memory_still_answers_requests_that_fit(
    saved_model, opened, ask, monkeypatch
):
    """The torch model rejects more than 40 tokens at a time, past and padding
    included."""
    requests = [
        *(Loglikelihood("the cat sat " * n, "on the mat") for n in range(1, 12)),
        Rolling("q" * 100),
        *(Generate("the dog " * n, max_tokens=6) for n in range(1, 8)),
        *(Generate("the dog", max_tokens=6, temperature=1.0, repeat=r) for r in (0, 1)),
    ]
    expected = ask(opened("gpt2"), *requests)
    model = open_model(parse_spec(f"hf:{saved_model('gpt2')}"))
    body = model._scorer._choice.path.forward.model.transformer
    real = body.forward

    def forward(input_ids, **kwargs):
        past = kwargs.get("past_key_values")
        width = input_ids.shape[1] + (past.get_seq_length() if past else 0)
        if input_ids.shape[0] * width > 40:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return real(input_ids=input_ids, **kwargs)

    monkeypatch.setattr(body, "forward", forward)
    found = ask(model, *requests)
    for one, other in zip(expected, found, strict=True):
        if other.error:
            assert other.error.endswith("do not fit into the device's memory")
            assert other.n_prompt_tokens == 0
            continue
        assert other.text == one.text
        if one.logprob is not None:
            assert other.logprob == pytest.approx(one.logprob, abs=1e-4)
    errors = [i for i, response in enumerate(found) if response.error]
    # The rolling text has a window of 64 tokens; eleven times three words are 33.
    assert errors == [11]


def test_responses_come_as_batches_finish(opened):
    """The longest come first; a batch may have one row, and a row ten tokens."""
    model = opened("gpt2", batch_size=1, batch_tokens=10)
    letters = "abcdefg"
    answers = model.answer(
        [Loglikelihood(sign * n, "h") for n, sign in enumerate(letters, start=3)]
    )
    assert next(answers)[0] == 6
    answers.close()
