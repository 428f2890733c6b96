"""Log-likelihoods from a server, compared with plain torch (the oracle of these tests,
which is independent of the package) and with the same model in this process."""

from __future__ import annotations

import math
import sys

import pytest

from pytest_evals.core.request import Loglikelihood, Message, Rolling
from pytest_evals.errors import ModelError
from pytest_evals.models.registry import KINDS, open_model, parse_spec

FORMS = ["openai", "vllm", "sglang", "prompt_logprobs"]
SERVERS = [(kind, form) for kind in ("gpt2", "llama") for form in FORMS]
SERVERS.append(("llama", "unlisted"))
PAIRS = [
    ("the cat sat on the", " mat"),
    ("the cat sat on the", " dog and the cat"),
    ("the cat sat on the ", "mat"),
    ("Question:\n\n", "Answer"),
    ("hello wor", "k"),
    ("Question: é", "à ö"),  # characters of two tokens each
    ("x", "é"),
]
TRIAL = 3
"""Requests before the first text is scored."""
VAGUE = [("Question: é", "à ö"), ("x", "é")]
"""Requests whose parts of characters some servers spell alike, so that the most likely
token is ambiguous."""


@pytest.mark.parametrize("server", SERVERS)
def test_a_server_gives_the_log_likelihoods_of_plain_torch(
    served, model_of, tiny, oracle, ask, server
):
    served.reply = tiny(*server)
    found = ask(model_of(), *(Loglikelihood(*pair) for pair in PAIRS))
    for pair, response in zip(PAIRS, found, strict=True):
        expected, greedy = oracle(server[0]).loglikelihood(*pair)
        assert (response.error, response.n_truncated) == ("", 0), pair
        assert response.greedy in (greedy, None if pair in VAGUE else greedy), pair
        assert response.logprob == pytest.approx(expected, rel=1e-6), pair


@pytest.mark.parametrize("server", SERVERS)
def test_a_server_gives_the_results_of_the_same_model_in_this_process(
    served, model_of, tiny, opened, ask, server
):
    served.reply = tiny(*server)
    requests = [Loglikelihood(*pair) for pair in PAIRS]
    found, local = ask(model_of(), *requests), ask(opened(server[0]), *requests)
    for ours, theirs in zip(found, local, strict=True):
        assert ours.logprob == pytest.approx(theirs.logprob, abs=1e-4)
        assert ours.n_tokens == theirs.n_tokens
        n_unlisted = server[1] == "unlisted"
        assert ours.n_prompt_tokens == theirs.n_prompt_tokens - n_unlisted


@pytest.mark.slow
def test_a_context_is_requested_only_if_a_token_spans_its_end(
    served, model_of, tiny, ask
):
    served.reply = tiny("gpt2")
    model = model_of()
    ask(model, *(Loglikelihood("the cat sat", c) for c in (" on", " mat", " dog")))
    texts = [body["prompt"] for _, body in served.bodies[TRIAL:]]
    assert sorted(texts) == ["the cat sat dog", "the cat sat mat", "the cat sat on"]
    served.bodies.clear()
    ask(model, *(Loglikelihood("the c", c) for c in ("at", "at sat", "at on")))
    assert [body["prompt"] for _, body in served.bodies].count("the c") == 1


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
def test_a_continuation_that_begins_within_a_token_is_an_error(
    served, model_of, tiny, ask, form
):
    """lm-eval sends ``the``, `` c``, `` sat`` to the model, which is no encoding of any
    text; `` sat`` after `` cat`` has another log-probability."""
    served.reply = tiny("gpt2", form)
    (found,) = ask(model_of(), Loglikelihood("the c", "at sat"))
    assert "'at sat' begins within a token" in found.error
    assert found.logprob is None


@pytest.mark.parametrize("form", FORMS)
def test_a_continuation_without_a_token_of_its_own_is_an_error(
    served, model_of, tiny, opened, ask, form
):
    served.reply = tiny("gpt2", form)
    request = Loglikelihood("the c", "at")
    (found,) = ask(model_of(), request)
    (local,) = ask(opened("gpt2"), request)
    assert found.error == local.error
    assert "merges it into the context" in found.error


@pytest.mark.parametrize("form", FORMS)
def test_a_text_without_context_comes_after_the_token_that_the_server_puts_first(
    served, model_of, tiny, oracle, ask, form
):
    served.reply = tiny("llama", form)
    (found,) = ask(model_of(), Loglikelihood("", "the cat"))
    expected, greedy = oracle("llama").loglikelihood("", "the cat")
    assert (found.logprob, found.greedy) == (pytest.approx(expected, abs=1e-6), greedy)


@pytest.mark.parametrize("request_", [Loglikelihood("", "the cat"), Rolling("the cat")])
@pytest.mark.parametrize("form", FORMS)
def test_a_first_token_without_anything_before_it_is_an_error(
    served, model_of, tiny, ask, form, request_
):
    served.reply = tiny("gpt2", form)
    (found,) = ask(model_of(), request_)
    assert found.error == (
        f"{served.source()}: the first token has no log-probability, since "
        "the server puts no token before a text; name one that it knows, as in "
        "prefix=<|endoftext|>"
    )


@pytest.mark.parametrize("form", FORMS)
def test_a_prefix_is_put_before_texts_without_context(
    served, model_of, tiny, oracle, ask, form
):
    served.reply = tiny("gpt2", form)
    model = model_of(prefix="<s>")
    found = ask(model, Loglikelihood("", "the cat"), Rolling("the cat sat"))
    expected = oracle("gpt2").loglikelihood("", "the cat")[0]
    assert found[0].logprob == pytest.approx(expected, abs=1e-6)
    assert found[1].logprob == pytest.approx(
        oracle("gpt2").rolling("the cat sat"), abs=1e-6
    )


@pytest.mark.parametrize("form", FORMS)
def test_a_whole_text_is_scored_after_the_token_that_the_server_puts_first(
    served, model_of, tiny, oracle, ask, form
):
    served.reply = tiny("llama", form)
    (found,) = ask(model_of(), Rolling("the cat sat é"))
    # P(BOS | BOS) is not part of it: only the tokens after BOS are scored.
    ids = oracle("llama").tokenizer.encode("the cat sat é")
    expected, _ = oracle("llama").tokens(ids[:1], ids[1:])
    assert found.error or found.logprob == pytest.approx(expected, abs=1e-6)


def test_a_server_that_repeats_nothing_is_one_error_before_the_batch(
    served, model_of, text_of
):
    """As ``transformers serve``, which ignores unknown keys."""
    requests = [Loglikelihood("a", " b")] * 100 + [text_of()]
    with pytest.raises(ModelError) as caught:
        list(model_of().answer(requests))
    assert "cannot score texts" in str(caught.value)
    assert "echo: it gives no log-probabilities" in str(caught.value)
    assert "prompt_logprobs: it gives no prompt_logprobs" in str(caught.value)
    assert len(served.bodies) == 2


def test_prompt_logprobs_are_used_if_a_server_rejects_echo(
    served, model_of, tiny, oracle, ask, fault
):
    served.reply = tiny("gpt2", "prompt_logprobs")
    words = {"error": {"message": "echo is not supported"}}
    served.fault = lambda body: fault(400, words) if "echo" in body else None
    model = model_of()
    (found,) = ask(model, Loglikelihood("the cat", " sat"))
    expected, _ = oracle("gpt2").loglikelihood("the cat", " sat")
    assert found.logprob == pytest.approx(expected, abs=1e-6)
    assert model.info["loglikelihoods"] == "prompt_logprobs"


def test_a_server_whose_log_probabilities_belong_to_other_tokens_is_one_error(
    served, model_of, tiny
):
    """As llama-cpp-python 0.3 for models without BOS: its numbers look valid, but
    belong to the next position."""
    served.reply = tiny("trained", "late")
    with pytest.raises(ModelError) as caught:
        list(model_of().answer([Loglikelihood("the cat", " sat")] * 20))
    assert "echo: its log-probabilities belong to other tokens" in str(caught.value)
    assert "are not the most likely ones" in str(caught.value)
    assert len(served.bodies) == TRIAL + 1  # the one for prompt_logprobs


@pytest.mark.parametrize("form", FORMS)
def test_a_server_whose_log_probabilities_are_right_is_not_taken_for_such_a_one(
    served, model_of, tiny, oracle, ask, form
):
    served.reply = tiny("trained", form)
    (found,) = ask(model_of(), Loglikelihood("Question: 1+1=?\nAnswer:", " 2"))
    expected, greedy = oracle("trained").loglikelihood("Question: 1+1=?\nAnswer:", " 2")
    assert (found.logprob, found.greedy) == (pytest.approx(expected, abs=1e-6), greedy)


@pytest.mark.slow
def test_the_server_is_tried_once(served, model_of, tiny, ask):
    served.reply = tiny()
    model = model_of()
    for _ in range(3):
        ask(model, Loglikelihood("the cat", " sat"))
    assert len(served.bodies) == TRIAL + 3


@pytest.mark.slow
def test_the_probe_at_collection_is_sent_once_and_counts(
    served, tiny, saved_model, ask, fault
):
    """Also with several sessions in a process, each of which probes the server."""
    served.reply = tiny("gpt2", "prompt_logprobs")
    served.fault = lambda body: fault(400, "{}") if "echo" in body else None
    spec = parse_spec(
        f"openai:tiny,base_url={served.url},tokenizer={saved_model('gpt2')}"
    )
    for _ in range(2):
        assert KINDS["openai"].why_unable(spec) == ""
    first = len(served.bodies) // 2
    assert len(served.bodies) == 2 * first > 0
    model = open_model(spec)
    try:
        (found,) = ask(model, Loglikelihood("the", " cat"))
        assert found.error == ""
        assert len(served.bodies) == 2 * first + 1
        assert model.info["usage"]["requests"] == first + 1
        assert model.info["loglikelihoods"] == "prompt_logprobs"
    finally:
        model.close()


def test_the_chat_api_cannot_score_and_gets_no_requests(served, model_of):
    with pytest.raises(ModelError, match="the chat api gives no log-probabilities"):
        list(model_of(api="chat").answer([Loglikelihood("a", " b")]))
    assert served.bodies == []


def test_the_continuation_of_a_chat_is_an_error_of_its_document(
    served, model_of, tiny, ask
):
    served.reply = tiny()
    (found,) = ask(model_of(), Loglikelihood((Message("user", "hi"),), " b"))
    assert "a server cannot score the continuation of a chat" in found.error


@pytest.mark.parametrize("value", [None, float("nan"), "x", True, 0.5])
def test_a_log_probability_that_is_none_is_an_error(served, model_of, tiny, ask, value):
    good = tiny("gpt2")

    def spoiled(path, body):
        reply = good(path, body)
        if body["prompt"].startswith("bad"):
            reply["choices"][0]["logprobs"]["token_logprobs"][-2] = value
        return reply

    served.reply = spoiled
    found = ask(model_of(), Loglikelihood("bad", " cat"), Loglikelihood("the", " cat"))
    assert "log-probability" in found[0].error
    assert found[0].logprob is None
    assert found[1].error == ""


@pytest.mark.parametrize(
    "entry", [None, {}, {"7": None}, {"7": {"rank": 1}}, {"7": {"logprob": "x"}}, 5]
)
def test_prompt_logprobs_that_lack_something_are_an_error_of_their_document(
    served, model_of, tiny, ask, fault, entry
):
    good = tiny("gpt2", "prompt_logprobs")

    def spoiled(path, body):
        reply = good(path, body)
        if body["prompt"].startswith("bad"):
            reply["choices"][0]["prompt_logprobs"][-1] = entry
        return reply

    served.reply = spoiled
    served.fault = lambda body: fault(400, "{}") if "echo" in body else None
    found = ask(model_of(), Loglikelihood("bad", " cat"), Loglikelihood("the", " cat"))
    assert found[0].error
    assert found[0].logprob is None
    assert found[1].error == ""


@pytest.mark.parametrize(
    "spoil",
    [lambda r: r[:-1], lambda r: r[:1] + r[2:], lambda r: [*r, r[-1]]],
    ids=["cut", "gap", "twice"],
)
def test_prompt_logprobs_of_fewer_or_more_tokens_than_the_prompts_are_an_error(
    served, model_of, tiny, ask, fault, spoil
):
    """In texts as well, whose tokens are unknown here."""
    good = tiny("gpt2", "prompt_logprobs")

    def spoiled(path, body):
        reply = good(path, body)
        choice = reply["choices"][0]
        if body["prompt"] == "hello world and all":
            choice["prompt_logprobs"] = spoil(choice["prompt_logprobs"])
        return reply

    served.reply = spoiled
    served.fault = lambda body: fault(400, "{}") if "echo" in body else None
    bad, fine = ask(
        model_of(max_retries=0),
        Loglikelihood("hello", " world and all"),
        Loglikelihood("the", " cat"),
    )
    assert "of the prompt's" in bad.error
    assert bad.logprob is None
    assert fine.error == ""


def test_a_token_above_one_half_that_is_not_the_most_likely_one_is_an_error(
    served, model_of, tiny, ask, fault
):
    good = tiny("gpt2", "prompt_logprobs")

    def spoiled(path, body):
        reply = good(path, body)
        if body["prompt"].startswith("bad"):
            ((_, entry),) = reply["choices"][0]["prompt_logprobs"][-1].items()
            entry |= {"logprob": 0.0, "rank": 2}
        return reply

    served.reply = spoiled
    served.fault = lambda body: fault(400, "{}") if "echo" in body else None
    bad, fine = ask(model_of(), Loglikelihood("bad", " cat"), Loglikelihood("a", " b"))
    assert "add up to more than 1" in bad.error
    assert fine.error == ""


def _without_first(found):
    return {name: values[1:] for name, values in found.items()}


def _shifted(found):
    values = found["token_logprobs"]
    return {**found, "token_logprobs": [*values[1:], None]}


@pytest.mark.slow
@pytest.mark.parametrize("spoil", [_without_first, _shifted])
def test_lists_of_other_tokens_than_those_of_the_prompt_are_an_error(
    served, model_of, tiny, ask, saved_model, spoil
):
    """At first the server replies as it should, so that the probe succeeds."""
    good = tiny("gpt2")

    def spoiled(path, body):
        reply = good(path, body)
        if reply["choices"][0]["text"].startswith("hello"):
            choice = reply["choices"][0]
            choice["logprobs"] = spoil(choice["logprobs"])
        return reply

    served.reply = spoiled
    for arguments in ({}, {"tokenizer": saved_model("gpt2")}):
        bad, fine = ask(
            model_of(max_retries=0, **arguments),
            Loglikelihood("hello", " world and all"),
            Loglikelihood("the", " cat"),
        )
        assert bad.error
        assert bad.logprob is None
        assert fine.error == ""


def test_a_server_that_lists_one_token_too_few_is_one_error(
    served, model_of, tiny, fault
):
    good = tiny("gpt2")

    def spoiled(path, body):
        reply = good(path, body)
        if "echo" in body:
            choice = reply["choices"][0]
            choice["logprobs"] = _without_first(choice["logprobs"])
        return reply

    served.reply = spoiled
    served.fault = lambda body: fault(400, "{}") if "prompt_logprobs" in body else None
    with pytest.raises(ModelError, match="cannot be distinguished from those generat"):
        list(model_of(max_retries=0).answer([Loglikelihood("the", " cat")]))


def test_a_first_token_of_probability_one_has_none(served, model_of, tiny, ask):
    good = tiny("gpt2")

    def spoiled(path, body):
        reply = good(path, body)
        if "echo" in body:
            found = reply["choices"][0]["logprobs"]
            found["token_logprobs"][0] = 0.0
            found["top_logprobs"][0] = {found["tokens"][0]: 0.0}
        return reply

    served.reply = spoiled
    found = ask(model_of(), Loglikelihood("", "the cat"), Loglikelihood("the", " cat"))
    assert "the first token has no log-probability" in found[0].error
    assert found[1].error == ""


@pytest.mark.slow
def test_prompt_logprobs_of_other_tokens_than_were_sent_are_an_error(
    served, model_of, tiny, ask, fault, saved_model
):
    good = tiny("gpt2", "prompt_logprobs")
    hello = good.tokenizer.encode("hello world")

    def spoiled(path, body):
        reply = good(path, body)
        rows = reply["choices"][0].get("prompt_logprobs")
        sent = body["prompt"]
        if sent == hello:
            ((_, entry),) = rows[-1].items()
            rows[-1] = {"1000000": entry}
        return reply

    served.reply = spoiled
    served.fault = lambda body: fault(400, "{}") if "echo" in body else None
    model = model_of(tokenizer=saved_model("gpt2"), max_retries=0)
    bad, fine = ask(
        model, Loglikelihood("hello", " world"), Loglikelihood("the", " cat")
    )
    assert "for the token " in bad.error
    assert bad.logprob is None
    assert fine.error == ""


def test_the_lowest_floats_add_up_to_minus_infinity(served, model_of, tiny, ask):
    lowest = -sys.float_info.max
    good = tiny("gpt2")

    def spoiled(path, body):
        reply = good(path, body)
        choice = reply["choices"][0]
        if choice["text"].startswith("bad"):
            found = choice["logprobs"]
            found["token_logprobs"] = [lowest for _ in found["tokens"]]
            found["top_logprobs"] = [{word: lowest} for word in found["tokens"]]
        return reply

    served.reply = spoiled
    found = ask(model_of(), Loglikelihood("bad", " cat sat"), Loglikelihood("a", " b"))
    assert found[0].logprob == -math.inf
    assert math.isfinite(found[1].logprob)
