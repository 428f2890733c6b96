"""Generations of the hf model, compared with the definition: greedy, one prompt at a
time."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pytest_evals.core.request import (
    FITTING,
    TOP_LOGPROBS,
    Generate,
    Loglikelihood,
    Message,
)
from pytest_evals.errors import ModelError
from pytest_evals.models.registry import open_model, parse_spec

PROMPTS = ["the cat", "hello world and the dog sat on the mat", "a", "is it", "Answer:"]
SHOTS = "Question: is it? Answer: the cat\n\n"
CACHED = [
    "gpt2",
    "llama",
    "qwen3",
    "mistral",
    "mixtral",
    "gemma2",
    "gemma3",
    "gpt_oss",
    "olmo2",
    "opt",
    "bloom",
    "falcon",
    "phi",
    "gpt_neox",
]


def generated(plain, request):
    """The output of transformers' ``generate``, greedily, after one prompt."""
    import torch

    ids = torch.tensor([plain.tokenizer.encode(request.prompt)])
    out = plain.model.generate(
        ids,
        attention_mask=torch.ones_like(ids),
        max_new_tokens=request.max_tokens,
        do_sample=False,
        pad_token_id=1,
    )
    return plain.tokenizer.decode(out[0, ids.shape[1] :], skip_special_tokens=True)


@pytest.mark.parametrize("kind", [*CACHED, "mamba"])
def test_every_architecture_generates_as_transformers_for_one_prompt(
    kind, opened, oracle, ask
):
    """transformers' ``generate``, one prompt at a time. Prompts with few-shot examples
    are longer than the sliding windows, 8 tokens."""
    prompts = [*PROMPTS, *(SHOTS + p for p in PROMPTS), SHOTS]
    limits = [12, 20, 1, 12, 7, 9, 2, 14, 14, 5, 16]
    requests = [Generate(p, max_tokens=n) for p, n in zip(prompts, limits, strict=True)]
    found = ask(opened(kind), *requests)
    plain = oracle(kind)
    for request, response in zip(requests, found, strict=True):
        assert (response.error, response.text) == ("", generated(plain, request))


@pytest.mark.nightly
@pytest.mark.parametrize("kind", ["phi3", "dynamic", "llama4_sharp"])
def test_positions_that_are_scaled_in_long_texts_are_those_of_the_text_alone(
    kind, opened, oracle, ask
):
    """transformers' ``generate``, one prompt at a time. Beyond 24 tokens the scale
    changes: some prompts are longer, some generations grow beyond."""
    plain, long = oracle(kind), "the cat sat on the mat and the dog " * 3
    limits = {"hello": 30, SHOTS + "a": 12, "the cat and the dog": 14, "is it": 3}
    limits |= {SHOTS + "b": 9, "on": 25, "hello the the": 30, long: 20}
    requests = [Generate(prompt, max_tokens=n) for prompt, n in limits.items()]
    expected = []
    for request in requests:
        plain.loglikelihood("a", "b")  # the scale is reset
        expected.append(generated(plain, request))
    lengths = [len(plain.tokenizer.encode(r.prompt)) + r.max_tokens for r in requests]
    assert min(lengths) <= 24 < max(lengths)
    for budget in ({}, {"batch_tokens": 32}):
        found = ask(opened(kind, max_length=64, **budget), *requests)
        assert [response.text for response in found] == expected


@pytest.mark.slow
def test_texts_of_sparse_attention_do_not_depend_on_their_neighbours(
    opened, oracle, ask
):
    """Which of two equal words such a model attends to depends on the width of a batch;
    here it attends to 8 tokens."""
    base = "the cat sat on the mat and the dog sat on the big world "
    prompts = [base, base + "hello", "the", base * 2, base + "dog", base * 2 + "is"]
    found = ask(opened("deepseek_v32"), *(Generate(p, max_tokens=16) for p in prompts))
    for prompt, response in zip(prompts, found, strict=True):
        assert response.text == oracle("deepseek_v32").generate(prompt, (), 16)


@pytest.mark.slow
def test_models_with_another_memory_than_keys_and_values_are_noticed(opened):
    names = {
        kind: type(opened(kind)._engine._steps()).__name__ for kind in (*CACHED, "rwkv")
    }
    assert names.pop("rwkv") == "UncachedDecoder"
    assert set(names.values()) == {"CachedDecoder"}


@pytest.mark.slow
def test_generating_without_a_cache_is_reported(opened, ask):
    model, other = (opened(kind, batch_tokens=64) for kind in ("rwkv", "mistral"))
    assert model.notes == ()
    ask(model, Generate("the", max_tokens=2))
    (note,) = model.notes
    assert note.startswith("texts are generated without a cache, which takes longer")
    ask(other, Generate("the", max_tokens=2))
    assert other.notes == ()


@pytest.mark.nightly
@pytest.mark.parametrize("kind", ["gpt2", "llama"])
@settings(
    max_examples=15,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(data=st.data())
def test_any_set_of_prompts_limits_and_stops_gives_the_texts_of_one_at_a_time(
    kind, data, opened, oracle, ask
):
    """Stop strings are taken from texts that the model generates, so that they
    occur."""
    requests = []
    for prompt in data.draw(st.lists(st.sampled_from(PROMPTS), max_size=6)):
        n = data.draw(st.integers(1, 16))
        text = oracle(kind).generate(prompt, (), n)
        start = data.draw(st.integers(0, max(0, len(text) - 1)))
        stops = (text[start : start + data.draw(st.integers(1, 3))], "zzz")
        stops = tuple(stop for stop in stops if stop and "\ufffd" not in stop)
        requests.append(Generate(prompt, stops, max_tokens=n))
    large = ask(opened(kind), *requests)
    small = ask(opened(kind, batch_tokens=50), *requests)
    for request, one, other in zip(requests, large, small, strict=True):
        expected = oracle(kind).generate(
            request.prompt, request.stop, request.max_tokens
        )
        assert one.text == other.text == expected
        assert one.finish == other.finish
        assert one.n_tokens == other.n_tokens <= request.max_tokens


@pytest.fixture(scope="session")
def written(oracle):
    """A prompt, the model's generation, and a substring of whole letters from its
    middle."""
    for prompt in (p + q for p in PROMPTS for q in ("", "?", " the", " world")):
        text = oracle("llama").generate(prompt, (), 30)
        for piece in (text[i : i + 2] for i in range(2, len(text) - 3)):
            if "\ufffd" not in piece and piece.strip() and text.find(piece) > 1:
                return prompt, text, piece
    raise AssertionError("the model writes no letters")


def test_a_text_ends_where_its_stop_string_does(opened, written, ask):
    prompt, text, stop = written
    whole, stopped = ask(
        opened("llama"),
        Generate(prompt, max_tokens=30),
        Generate(prompt, (stop,), max_tokens=30),
    )
    assert whole.text == text
    assert stopped.text == text.split(stop)[0]
    assert stopped.finish == "stop"
    assert stopped.n_tokens < whole.n_tokens


def test_the_limit_and_the_end_token_are_distinguished(saved_model, oracle, ask):
    """The end token is set to the model's third token."""
    text = oracle("llama")
    ids = text.tokenizer.encode("the cat")
    import torch

    for _ in range(3):
        with torch.no_grad():
            ids.append(int(text.model(torch.tensor([ids])).logits[0, -1].argmax()))
    model = open_model(parse_spec(f"hf:{saved_model('llama')}"))
    model._engine._ends = frozenset(ids[-1:])
    ended, full = ask(
        model, Generate("the cat", max_tokens=9), Generate("the cat", max_tokens=2)
    )
    assert (ended.finish, ended.n_tokens) == ("stop", 3)
    assert (full.finish, full.n_tokens) == ("length", 2)


def test_a_long_prompt_is_cut_on_the_left_to_leave_room_for_the_answer(
    opened, oracle, ask
):
    prompt = "q" * 100
    (response,) = ask(opened("gpt2"), Generate(prompt, max_tokens=24))
    assert response.n_prompt_tokens == 100
    assert response.n_truncated == 100 - (64 - 24)
    assert response.text == oracle("gpt2").generate(prompt, (), 24)


def test_an_answer_that_leaves_no_room_is_an_error_of_its_request(opened, ask):
    long, none, fine = ask(
        opened("gpt2"),
        Generate("a", max_tokens=64),
        Generate("a", max_tokens=0),
        Generate("a", max_tokens=63),
    )
    assert long.error == (
        "an answer of up to 64 tokens leaves no room for a prompt "
        "in the model's window of 64"
    )
    assert none.error == "max_tokens is 0; it must be 1 or more"
    assert fine.error == ""


def test_a_default_length_is_the_rest_of_the_window(opened, oracle, ask):
    """If one is set, the prompt is truncated instead."""
    prompt = "q" * 40
    fitting, other = ask(
        opened("gpt2"),
        Generate(prompt, max_tokens=1024, options=((FITTING, True),)),
        Generate(prompt, max_tokens=24),
    )
    assert (fitting.n_truncated, other.n_truncated) == (0, 0)
    assert fitting.text == oracle("gpt2").generate(prompt, (), 24) == other.text
    (short,) = ask(
        opened("gpt2"), Generate(prompt, max_tokens=3, options=((FITTING, True),))
    )
    assert short.n_tokens == 3
    (cut,) = ask(
        opened("gpt2"), Generate("q" * 70, max_tokens=9, options=((FITTING, True),))
    )
    assert (cut.n_truncated, cut.n_tokens) == (7, 1)


def test_bos_is_decided_for_each_prompt_by_itself(opened, oracle, ask):
    """lm-eval 0.4.13 considers only the first prompt of a batch."""
    found = ask(
        opened("llama"),
        Generate("<s>the cat", max_tokens=8),
        Generate("the cat", max_tokens=8),
    )
    assert {r.text for r in found} == {oracle("llama").generate("the cat", (), 8)}
    n = len(oracle("llama").tokenizer.encode("the cat"))
    assert {r.n_prompt_tokens for r in found} == {n}


def test_an_empty_prompt_starts_from_the_prefix_token(opened, ask):
    empty, bos = ask(
        opened("gpt2"), Generate("", max_tokens=8), Generate("<s>", max_tokens=8)
    )
    assert empty.text == bos.text
    assert empty.n_prompt_tokens == 1


def test_a_chat_is_answered_after_the_template(opened, oracle, ask):
    chat = (Message("user", "hello"),)
    (response,) = ask(opened("llama"), Generate(chat, max_tokens=8))
    rendered = "<user>hello\n<assistant>"
    assert response.text == oracle("llama").generate(rendered, (), 8)


def test_text_before_the_end_of_reasoning_is_not_part_of_the_answer(
    opened, written, ask
):
    prompt, text, mark = written
    model = opened("llama", think_end_token=f'"{mark}"')
    (response,) = ask(model, Generate(prompt, max_tokens=30))
    assert response.text == text.split(mark)[-1].lstrip()


def test_a_stop_string_inside_the_thinking_is_noted(opened, written, ask):
    """HF models of lm-eval stop there as well (reference: flag)."""
    prompt, text, stop = written
    model = opened("llama", think_end_token="</never>")
    ask(model, Generate(prompt, max_tokens=30))
    assert model.notes == ()
    (response,) = ask(model, Generate(prompt, stop=(stop,), max_tokens=30))
    assert response.text == text.split(stop)[0].lstrip()
    (note,) = model.notes
    assert "before think_end_token came" in note


def test_the_end_of_thinking_may_be_the_id_of_a_token(opened, oracle, ask):
    """lm-eval 0.4.13, ``HFLM.generate_until``: the text after its last occurrence."""
    prompt, n = "the cat", 30
    (whole,) = ask(opened("llama"), Generate(prompt, max_tokens=n))
    plain = oracle("llama")
    import torch

    ids = plain.tokenizer.encode(prompt)
    for _ in range(n):
        with torch.no_grad():
            ids.append(int(plain.model(torch.tensor([ids])).logits[0, -1].argmax()))
    new = ids[-n:]
    mark = new[n // 2]
    last = n - 1 - new[::-1].index(mark)
    model = opened("llama", think_end_token=mark)
    (response,) = ask(model, Generate(prompt, max_tokens=n))
    rest = plain.tokenizer.decode(new[last + 1 :], skip_special_tokens=True)
    assert response.text == rest.lstrip() != whole.text
    assert response.n_tokens == n


def test_enable_thinking_reaches_the_chat_template(saved_model, tmp_path, ask):
    import shutil

    path = shutil.copytree(saved_model("llama"), tmp_path / "llama")
    template = "{% if enable_thinking is defined %}{{ enable_thinking }}{% endif %}!"
    (path / "chat_template.jinja").write_text(template)
    chat = (Message("user", "hello"),)
    for argument, text in [("false", "False!"), ("true,think_end_token=x", "True!")]:
        model = open_model(parse_spec(f"hf:{path},enable_thinking={argument}"))
        assert model.render(chat) == text
    assert open_model(parse_spec(f"hf:{path}")).render(chat) == "!"


def test_samples_depend_on_the_request_alone(opened, ask):
    """It depends neither on the batch, nor on the order, nor on torch's generator."""
    import torch

    warm = [
        Generate("the cat", temperature=1.0, max_tokens=8, repeat=r) for r in (0, 1)
    ]
    others = [Generate(p, temperature=1.0, max_tokens=5) for p in PROMPTS]
    before = torch.random.get_rng_state()
    alone = [ask(opened("llama"), request)[0].text for request in warm]
    torch.manual_seed(3)
    among = ask(opened("llama"), *others, warm[1], warm[0])
    assert [among[-1].text, among[-2].text] == alone
    assert alone[0] != alone[1]
    torch.random.set_rng_state(before)
    ask(opened("llama"), *warm)
    assert torch.equal(torch.random.get_rng_state(), before)


def test_a_temperature_near_zero_samples_the_greedy_text(opened, ask):
    greedy, cold, narrow = ask(
        opened("llama"),
        Generate("the cat", max_tokens=8),
        Generate("the cat", max_tokens=8, temperature=1e-3),
        Generate("the cat", max_tokens=8, temperature=2.0, options=(("top_k", 1),)),
    )
    assert greedy.text == cold.text == narrow.text


def test_do_sample_false_is_greedy_at_any_temperature(opened, ask):
    greedy, other = ask(
        opened("llama"),
        Generate("the cat", max_tokens=8),
        Generate(
            "the cat", max_tokens=8, temperature=2.0, options=(("do_sample", False),)
        ),
    )
    assert greedy.text == other.text


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [
        (("num_beams", 3),),
        (("repetition_penalty", 1.7),),
        (("no_repeat_ngram_size", 2),),
        (("no_repeat_ngram_size", 3), ("repetition_penalty", 1.2)),
    ],
    ids=str,
)
@pytest.mark.parametrize("kind", ["gpt2", "llama"])
def test_options_have_the_meaning_of_transformers(kind, options, opened, oracle, ask):
    """Compared with transformers' ``generate``, one prompt at a time."""
    import torch

    requests = [Generate(p, max_tokens=20, options=options) for p in PROMPTS]
    found = ask(opened(kind), *requests)
    plain = oracle(kind)
    for request, response in zip(requests, found, strict=True):
        ids = torch.tensor([plain.tokenizer.encode(request.prompt)])
        out = plain.model.generate(
            ids,
            attention_mask=torch.ones_like(ids),
            max_new_tokens=20,
            do_sample=False,
            pad_token_id=1,
            **dict(options),
        )
        new = out[0, ids.shape[1] :]
        assert response.text == plain.tokenizer.decode(new, skip_special_tokens=True)


def test_an_unknown_option_is_an_error_of_its_requests_only(opened, oracle, ask):
    fine, near, far, scored = ask(
        opened("gpt2"),
        Generate("a", max_tokens=4),
        Generate("a", options=(("topp", 0.9),)),
        Generate("a", options=(("sharpness", 2),)),
        Loglikelihood("a", "b"),
    )
    assert near.error == (
        "the hf model has no generation option 'topp'; did you mean 'top_p'?"
    )
    assert far.error == (
        "the hf model has no generation option 'sharpness'; known are those of "
        "transformers' GenerationConfig"
    )
    assert (fine.error, fine.text) == ("", oracle("gpt2").generate("a", (), 4))
    assert (scored.error, scored.logprob is None) == ("", False)


SHARE = "a number above 0 and at most 1"
COUNT = "a whole number, 0 or more"


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("top_p", 0, SHARE),
        ("top_p", 1.5, SHARE),
        ("top_p", "0.9", SHARE),
        ("typical_p", float("nan"), SHARE),
        ("min_p", -0.1, "a number from 0 to 1"),
        ("top_k", -1, COUNT),
        ("top_k", 2.5, COUNT),
        ("no_repeat_ngram_size", True, COUNT),
        ("repetition_penalty", 0.0, "a number above 0"),
        ("repetition_penalty", [1.2], "a number above 0"),
        ("num_beams", 0, "a whole number, 1 or more"),
        ("length_penalty", float("inf"), "a number"),
        ("early_stopping", "always", "true, false or 'never'"),
        ("do_sample", "false", "true or false"),
    ],
)
def test_a_bad_value_is_an_error_of_its_request_only(
    temperature, name, value, words, opened, ask
):
    bad, fine = ask(
        opened("gpt2"),
        Generate("a", temperature=temperature, options=((name, value),)),
        Generate("a", temperature=temperature, max_tokens=2),
    )
    assert bad.error == f"{name} is {value!r}; it must be {words}"
    assert fine.error == ""
    assert fine.n_tokens > 0


@pytest.mark.parametrize(
    "options", [(("num_beams", 3),), (("suppress_tokens", (3, 4)),)], ids=str
)
def test_texts_of_generate_are_drawn_from_numbers_of_their_own(options, opened, ask):
    """The draws do not depend on other requests, and global generators are not used."""
    import torch

    model = opened("gpt2")
    drawn = Generate("a", max_tokens=12, temperature=1.5, options=options)
    again = replace(drawn, repeat=1)
    before = torch.random.get_rng_state()
    one, _, three = ask(model, drawn, Generate("b", max_tokens=3), again)
    (alone,) = ask(model, again)
    assert torch.equal(torch.random.get_rng_state(), before)
    assert (one.error, three.text) == ("", alone.text)
    assert one.text != three.text


@pytest.mark.parametrize(
    ("name", "value", "other"),
    [
        ("use_cache", False, "takes no option 'use_cache': lm-eval sets it itself"),
        ("num_return_sequences", 2, "num_return_sequences is 2; it must be 1"),
        ("max_length", 3, "max_length is 3, and the prompt has 4 tokens"),
        ("suppress_tokens", "abc", "transformers refuses suppress_tokens: "),
        ("min_tokens", 3, "did you mean 'min_new_tokens'?"),
    ],
)
def test_options_that_lm_eval_rejects_are_errors_of_their_request_only(
    name, value, other, opened, ask
):
    bad, fine = ask(
        opened("gpt2"),
        Generate("it is big", max_tokens=4, options=((name, value),)),
        Generate("it is big", max_tokens=2),
    )
    assert other in bad.error
    assert fine.error == ""


def test_texts_that_generate_writes_say_that_they_are_slow(saved_model, ask):
    model = open_model(parse_spec(f"hf:{saved_model('gpt2')}"))
    ask(model, Generate("a", max_tokens=4, options=(("min_length", 4),)))
    assert (
        "texts with min_length were written one at a time by transformers' generate, "
        "which is slow"
    ) in model.notes


@pytest.mark.parametrize(
    "temperature", [-1.0, float("nan"), float("inf"), 10**400, "0.7"]
)
def test_a_bad_temperature_is_an_error_of_its_request_only(temperature, opened, ask):
    bad, fine = ask(
        opened("gpt2"),
        Generate("a", temperature=temperature),
        Generate("a", max_tokens=2),
    )
    assert (
        bad.error == f"temperature is {temperature!r}; it must be a number, 0 or more"
    )
    assert fine.error == ""


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("top_p", 1),
        ("top_p", None),
        ("top_k", 0),
        ("min_p", 0),
        ("min_p", 1.0),
        ("typical_p", 1.0),
        ("do_sample", True),
        ("early_stopping", "never"),
        ("length_penalty", -1),
    ],
)
def test_values_at_the_bounds_are_taken(name, value, opened, ask):
    request = Generate("a", temperature=1.0, max_tokens=2, options=((name, value),))
    (response,) = ask(opened("gpt2"), request)
    assert response.error == ""


def test_a_bad_value_of_the_model_itself_is_an_error_where_it_counts(saved_model, ask):
    """Greedy decoding does not read it."""
    model = open_model(parse_spec(f"hf:{saved_model('gpt2')}"))
    model._engine._config.top_k = -1
    greedy, drawn, other = ask(
        model,
        Generate("a", max_tokens=2),
        Generate("a", max_tokens=2, temperature=1.0),
        Generate("a", max_tokens=2, temperature=1.0, options=(("top_k", 5),)),
    )
    assert drawn.error == (
        "in the model's generation_config top_k is -1; "
        "it must be a whole number, 0 or more"
    )
    assert (greedy.error, other.error) == ("", "")


def test_settings_of_the_model_itself_count(saved_model, oracle, ask):
    model = open_model(parse_spec(f"hf:{saved_model('llama')}"))
    request = Generate("the cat", max_tokens=20)
    odd = tuple(range(1, 300, 2))
    penalised = (("repetition_penalty", 1.7),)
    both = (*penalised, ("suppress_tokens", odd))
    one, two = ask(
        model, *(replace(request, options=options) for options in (penalised, both))
    )
    assert one.text != two.text
    config = model._engine._config
    config.repetition_penalty = 1.7
    assert ask(model, request)[0].text == one.text
    config.suppress_tokens = list(odd)
    assert ask(model, request)[0].text == two.text
    config.stop_strings = ["a"]
    with pytest.raises(ModelError, match="sets 'stop_strings', which is not supported"):
        ask(model, request)


TOP = ((TOP_LOGPROBS, 5),)


@pytest.mark.parametrize("kind", ["gpt2", "llama"])
def test_top_log_probabilities_are_those_of_a_plain_pass_over_the_text(
    kind, opened, oracle, ask
):
    """Log-probabilities of the logits before penalties; the text is that of the request
    without."""
    import torch

    penalty = (("repetition_penalty", 1.5),)
    requests = [
        Generate(prompt, max_tokens=6, options=(*penalty, *TOP)) for prompt in PROMPTS
    ]
    plain = oracle(kind)
    bare = [replace(request, options=penalty) for request in requests]
    for request, found, same in zip(
        requests, ask(opened(kind), *requests), ask(opened(kind), *bare), strict=True
    ):
        assert (found.text, found.n_tokens) == (same.text, same.n_tokens)
        assert (same.top_logprobs, len(found.top_logprobs)) == ((), found.n_tokens)
        ids = plain.tokenizer.encode(request.prompt)
        for token, top in found.top_logprobs:
            with torch.no_grad():
                logits = plain.model(torch.tensor([ids])).logits[0, -1]
            values, best = logits.double().log_softmax(-1).topk(5)
            assert [value for _, value in top] == pytest.approx(
                values.tolist(), abs=1e-4
            )
            assert {int(name.partition(":")[0]) for name, _ in top} == {*best.tolist()}
            ids.append(int(token.partition(":")[0]))


def test_top_log_probabilities_do_not_change_the_sampling(opened, ask):
    plain = Generate("the cat", max_tokens=8, temperature=1.0)
    with_top = replace(plain, options=TOP)
    first, second = ask(opened("gpt2"), plain, with_top)
    assert first.text == second.text
    assert len(second.top_logprobs) == second.n_tokens


@pytest.mark.parametrize("n", ["5", -1, True])
def test_a_bad_number_of_top_log_probabilities_is_an_error(n, opened, ask):
    request = Generate("a", options=((TOP_LOGPROBS, n),))
    (response,) = ask(opened("gpt2"), request)
    assert (
        response.error == f"top_logprobs is {n!r}; it must be a whole number, 0 or more"
    )
