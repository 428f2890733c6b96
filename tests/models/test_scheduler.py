"""Concurrent generations, with little memory and with enough."""

from __future__ import annotations

from contextlib import contextmanager

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pytest_evals.core.request import Generate
from pytest_evals.models.registry import open_model, parse_spec

SHOTS = "Question: is it big? Answer: no\n\n" * 2
QUESTIONS = ["a", "is it", "the cat sat on the mat", "hello", "Question: the dog?"]
REQUESTS = [
    *(
        Generate(SHOTS + q, max_tokens=n)
        for q, n in zip(QUESTIONS, (9, 3, 12, 1, 6), strict=True)
    ),
    *(Generate(q, ("at", "\n"), max_tokens=20) for q in QUESTIONS),
    *(Generate("the dog", max_tokens=7, temperature=1.0, repeat=r) for r in range(5)),
    Generate(
        SHOTS, max_tokens=5, temperature=0.7, options=(("repetition_penalty", 1.3),)
    ),
    *(
        Generate(SHOTS + q, max_tokens=8, options=(("repetition_penalty", 1.3),))
        for q in QUESTIONS
    ),
]


class Memory:
    """A hook on the model itself: a selected pass, or one that is too large together
    with its past, runs out of memory."""

    def __init__(self, most_tokens=10**9, fails=lambda number: False):
        self.most_tokens = most_tokens
        self.fails = fails
        self.n_passes = 0
        self.n_failures = 0

    def __call__(self, module, args, kwargs):
        self.n_passes += 1
        past = kwargs.get("past_key_values")
        rows, width = (args[0] if args else kwargs["input_ids"]).shape
        tokens = rows * (width + (past.get_seq_length() if past is not None else 0))
        if tokens > self.most_tokens or self.fails(self.n_passes):
            self.n_failures += 1
            raise torch.OutOfMemoryError("CUDA out of memory")

    @contextmanager
    def around(self, layer):
        handle = layer.register_forward_pre_hook(self, with_kwargs=True)
        try:
            yield self
        finally:
            handle.remove()


@pytest.fixture
def fresh(saved_model):
    """A function from a kind to a newly loaded model with custom budgets, after its
    self-test."""

    def model(kind, **arguments):
        parts = [f"hf:{saved_model(kind)}", "device=cpu"]
        parts += [f"{name}={value}" for name, value in arguments.items()]
        found = open_model(parse_spec(",".join(parts)))
        list(found.answer([Generate("a", max_tokens=1)]))
        return found

    return model


@pytest.fixture(scope="module")
def alone(opened):
    """A function from a kind to the responses of one request at a time."""
    known = {}

    def responses(kind):
        if kind not in known:
            known[kind] = [next(iter(opened(kind).answer([r])))[1] for r in REQUESTS]
        return known[kind]

    return responses


def shown(responses):
    return [(r.text, r.n_tokens, r.finish, r.error) for r in responses]


def body_of(model):
    return model._engine._model.base_model


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["gpt2", "llama", "mistral", "mamba"])
@pytest.mark.parametrize(
    "arguments",
    [{}, {"batch_tokens": 1}, {"batch_tokens": 120}, {"batch_size": 2}],
    ids=str,
)
def test_texts_are_those_of_one_request_at_a_time(kind, arguments, opened, alone, ask):
    found = ask(opened(kind, **arguments), *REQUESTS)
    assert shown(found) == shown(alone(kind))


@pytest.mark.parametrize("kind", ["gpt2", "llama", "mistral", "gemma2", "bloom"])
def test_a_prompt_that_is_longer_than_a_pass_may_be_is_read_in_parts(
    kind, fresh, opened, ask, monkeypatch
):
    """The prompts have 25 to 50 tokens, with a common prefix."""
    monkeypatch.setattr("pytest_evals.models.hf.generation.kv_cache.SMALLEST_PART", 1)
    requests = [Generate(SHOTS + q, max_tokens=6) for q in QUESTIONS]
    expected = ask(opened(kind), *requests)
    assert min(response.n_prompt_tokens for response in expected) > 20
    model, widths = fresh(kind, batch_tokens=7), []

    def look(module, args, kwargs):
        widths.append(kwargs["input_ids"].numel())

    handle = body_of(model).register_forward_pre_hook(look, with_kwargs=True)
    found = ask(model, *requests)
    handle.remove()
    assert max(widths) == 7
    assert shown(found) == shown(expected)


def test_a_prompt_for_which_memory_is_short_is_read_in_smaller_parts(
    fresh, opened, ask, monkeypatch
):
    monkeypatch.setattr("pytest_evals.models.hf.generation.scheduler.SMALLEST_PART", 1)
    monkeypatch.setattr("pytest_evals.models.hf.generation.kv_cache.SMALLEST_PART", 1)
    request = Generate(SHOTS, max_tokens=6)
    expected = ask(opened("llama"), request)
    model = fresh("llama")

    def look(module, args, kwargs):
        if kwargs["input_ids"].numel() > 8:
            raise torch.OutOfMemoryError("CUDA out of memory")

    handle = body_of(model).register_forward_pre_hook(look, with_kwargs=True)
    found = ask(model, request)
    handle.remove()
    assert shown(found) == shown(expected)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["llama", "mamba"])
def test_texts_do_not_depend_on_the_order(kind, opened, alone, ask):
    found = ask(opened(kind, batch_size=4), *reversed(REQUESTS))
    assert shown(reversed(found)) == shown(alone(kind))


def test_rows_that_outgrow_the_budget_wait_and_go_on_where_they_were(
    fresh, opened, ask, monkeypatch
):
    """Rows reserve memory for 64 new tokens at first; here for one."""
    monkeypatch.setattr("pytest_evals.models.hf.generation.kv_cache.FIRST_GROWTH", 1)
    requests = [Generate(q * 3, max_tokens=30) for q in QUESTIONS]
    model = fresh("llama", batch_tokens=80)
    most = 0

    def look(module, args, kwargs):
        nonlocal most
        past = kwargs["past_key_values"].get_seq_length()
        rows, width = kwargs["input_ids"].shape
        if past and rows > 1:
            most = max(most, rows * (past + width))

    handle = body_of(model).register_forward_pre_hook(look, with_kwargs=True)
    found = ask(model, *requests)
    handle.remove()
    assert shown(found) == shown(ask(opened("llama"), *requests))
    assert 40 < most <= 80


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["gpt2", "llama", "jamba", "rwkv"])
@pytest.mark.parametrize("most_tokens", [60, 100, 200])
def test_texts_are_the_same_with_less_memory(kind, most_tokens, fresh, alone, ask):
    model = fresh(kind)
    with Memory(most_tokens).around(body_of(model)) as memory:
        found = ask(model, *REQUESTS)
    assert memory.n_failures > 0
    expected = alone(kind)
    lost = "tokens do not fit into the device's memory"
    for response, other in zip(found, expected, strict=True):
        if response.error:
            assert response.error.endswith(lost)
            assert other.n_prompt_tokens + other.n_tokens > most_tokens
        else:
            assert shown([response]) == shown([other])


@pytest.mark.nightly
@pytest.mark.parametrize("kind", ["gpt2", "llama", "jamba"])
@settings(
    max_examples=6,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(passes=st.sets(st.integers(1, 120), max_size=25), picks=st.data())
def test_texts_are_the_same_when_any_pass_runs_out_of_memory(
    kind, passes, picks, fresh, alone, ask
):
    """Not three times in a row: a single sequence that fails again has no memory at
    all."""
    passes = {n for n in passes if not {n - 1, n - 2} & passes}
    chosen = picks.draw(st.permutations(range(len(REQUESTS))))
    model = fresh(kind)
    with Memory(fails=lambda number: number in passes).around(body_of(model)):
        found = ask(model, *(REQUESTS[i] for i in chosen))
    assert shown(found) == shown([alone(kind)[i] for i in chosen])


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["phi3", "llama4_sharp"])
def test_long_texts_are_the_same_whichever_pass_runs_out_of_memory(kind, fresh, ask):
    """The passes that reset the model's scale are among them."""
    model, requests = fresh(kind), [Generate(SHOTS + q, max_tokens=3) for q in "ab"]
    with Memory().around(body_of(model)) as memory:
        expected = shown(ask(model, *requests))
    for failing in range(1, memory.n_passes + 1):
        with Memory(fails=lambda number, n=failing: number == n).around(body_of(model)):
            assert shown(ask(model, *requests)) == expected


def test_tokens_generated_before_memory_ran_out_are_kept(fresh, ask):
    """The tenth pass fails: half of the rows wait, and prefill their prompts and
    generated tokens at once when they are resumed."""
    requests = [Generate(f"{q} it is", max_tokens=20) for q in QUESTIONS[:4]]
    model = fresh("llama")
    expected = ask(model, *requests)
    before = model.counters["n_read"] - model.counters["n_padding"]
    with Memory(fails=lambda number: number == 10).around(body_of(model)) as memory:
        assert shown(ask(model, *requests)) == shown(expected)
    after = model.counters["n_read"] - model.counters["n_padding"] - before
    assert memory.n_failures == 1
    n_prompts = sum(r.n_prompt_tokens for r in expected)
    assert after <= before + n_prompts + 2 * 10


@pytest.mark.slow
def test_the_budget_grows_again(fresh, ask):
    requests = [Generate(f"{q} it is", max_tokens=40) for q in QUESTIONS * 6]
    model = fresh("gpt2", batch_tokens=2000)
    room = model._engine._budget
    with Memory(fails=lambda number: number == 5).around(body_of(model)):
        ask(model, *requests)
    low = room.held
    assert low < 2000
    for _ in range(4):  # 160 steps
        ask(model, *requests[:8])
    assert room.held > low


def test_a_text_that_does_not_even_fit_alone_is_an_error_of_its_request(fresh, ask):
    model = fresh("gpt2")
    with Memory(30).around(body_of(model)):
        long, fine = ask(
            model, Generate("q" * 31, max_tokens=4), Generate("the cat", max_tokens=4)
        )
    assert long.error == "31 tokens do not fit into the device's memory"
    assert (fine.error, fine.n_tokens) == ("", 4)


def test_memory_that_runs_out_while_a_token_is_chosen_does_no_harm(
    fresh, alone, ask, monkeypatch
):
    """The softmax of the sampled rows fails sometimes."""
    real, calls = torch.Tensor.softmax, []

    def softmax(self, *args, **kwargs):
        calls.append(1)
        if len(calls) % 4 == 2:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return real(self, *args, **kwargs)

    model, expected = fresh("llama"), shown(alone("llama"))
    monkeypatch.setattr(torch.Tensor, "softmax", softmax)
    assert shown(ask(model, *REQUESTS)) == expected
    assert len(calls) > 8


def test_a_row_leaves_as_soon_as_it_has_ended(opened):
    """Its response is available while the others are still generated."""
    model = opened("llama")
    requests = [Generate("the cat", max_tokens=n) for n in (40, 2, 30)]
    order = [position for position, _ in model.answer(requests)]
    assert order == [1, 2, 0]


def test_time_is_shared_among_the_rows(opened, ask):
    import time

    begun = time.perf_counter()
    found = ask(opened("llama"), *REQUESTS)
    passed = time.perf_counter() - begun
    assert all(response.elapsed_s > 0 for response in found)
    assert sum(response.elapsed_s for response in found) <= passed
