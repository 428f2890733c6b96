"""Log-likelihoods from a server that is sent token ids: those of one joint encoding,
wherever the continuation begins. The oracle is plain torch."""

from __future__ import annotations

import shutil

import pytest

from pytest_evals.core.request import Generate, Loglikelihood, Message, Rolling
from pytest_evals.errors import ModelError

FORMS = ["openai", "vllm", "sglang", "prompt_logprobs"]
PAIRS = [
    ("the cat sat on the", " mat"),
    ("the c", "at sat"),  # begins within the token " cat"
    ("the cat sat on the ", "mat"),
    ("hello wor", "k"),
    ("the c", "at on"),
    ("x", "é"),
    ("", "the cat"),
]


def spelled_alike(pair):
    """Whether some servers spell parts of characters alike, so that the most likely
    token is ambiguous."""
    return "é" in pair[1]


@pytest.fixture(params=["gpt2", "llama"])
def kind(request):
    return request.param


@pytest.fixture(params=FORMS)
def model(request, kind, served, model_of, tiny, saved_model):
    """The model of that kind behind a server, which is sent ids."""
    served.reply = tiny(kind, request.param)
    return model_of(tokenizer=saved_model(kind))


@pytest.mark.slow
def test_boundaries_are_exact_wherever_a_continuation_begins(model, oracle, ask, kind):
    found = ask(model, *(Loglikelihood(*pair) for pair in PAIRS))
    for pair, response in zip(PAIRS, found, strict=True):
        expected, greedy = oracle(kind).loglikelihood(*pair)
        assert response.error == "", pair
        assert response.logprob == pytest.approx(expected, abs=1e-6), pair
        if not spelled_alike(pair):
            assert response.greedy == greedy, pair


@pytest.mark.slow
def test_a_whole_text_is_scored_as_in_this_process(model, opened, oracle, ask, kind):
    """P(BOS | BOS) is included, as in lm-eval."""
    texts = [Rolling("the cat sat on the mat"), Rolling("hello world")]
    found = ask(model, *texts)
    for text, ours, local in zip(texts, found, ask(opened(kind), *texts), strict=True):
        assert ours.logprob == pytest.approx(oracle(kind).rolling(text.text), abs=1e-6)
        assert ours.n_tokens == local.n_tokens


@pytest.mark.slow
def test_each_request_is_sent_once_and_as_ids(
    served, model_of, tiny, ask, saved_model, oracle
):
    served.reply = tiny("gpt2")
    model = model_of(tokenizer=saved_model("gpt2"))
    ask(model, Loglikelihood("the c", "at sat"), Loglikelihood("the c", "at on"))
    texts, _, _, ids, *prompts = [
        body["prompt"]
        for _, body in served.bodies
        if "prompt" in body and "logprob_token_ids" not in body  # trials fail here
    ]
    assert isinstance(texts, str)
    assert oracle("gpt2").tokenizer.decode(ids) == "<s>" + texts
    # the tokens after as many as the context alone has, as in lm-eval
    assert sorted(oracle("gpt2").tokenizer.decode(one) for one in prompts) == [
        "the c on",
        "the c sat",
    ]


@pytest.mark.slow
def test_equal_requests_of_a_batch_have_equal_responses(
    served, model_of, tiny, saved_model, ask
):
    served.reply = tiny("gpt2")
    model = model_of(tokenizer=saved_model("gpt2"))
    one, other = Loglikelihood("the cat", " sat on"), Rolling("the cat")
    found = ask(model, one, other, one, other)
    assert [response.error for response in found] == [""] * 4
    assert found[0].logprob == found[2].logprob
    assert found[1].logprob == found[3].logprob


@pytest.mark.slow
def test_the_continuation_of_a_chat_is_scored_after_the_template(
    served, model_of, tiny, opened, ask, saved_model
):
    served.reply = tiny("llama")
    request = Loglikelihood((Message("user", "hello"),), " world")
    (found,) = ask(model_of(tokenizer=saved_model("llama")), request)
    (local,) = ask(opened("llama"), request)
    assert found.logprob == pytest.approx(local.logprob, abs=1e-4)


def test_texts_are_written_as_before(served, model_of, ask, saved_model):
    (found,) = ask(model_of(tokenizer=saved_model("gpt2")), Generate("Q:"))
    assert found.text == "said Q:"


def test_another_models_tokenizer_is_one_error(
    served, model_of, tiny, saved_model, tmp_path
):
    """Its ids would give numbers of other texts, and nobody would notice."""
    folder = shutil.copytree(saved_model("gpt2"), tmp_path / "other")
    path = folder / "tokenizer.json"
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace('"q":', '"@@":').replace('"z":', '"q":'), "utf-8")
    path.write_text(path.read_text("utf-8").replace('"@@":', '"z":'), "utf-8")
    served.reply = tiny("gpt2")
    with pytest.raises(ModelError, match="is not that of the server's 'tiny'"):
        list(model_of(tokenizer=folder).answer([Loglikelihood("a", " b")]))


@pytest.mark.slow
def test_a_server_that_reads_other_tokens_than_were_sent_is_an_error(
    served, model_of, tiny, ask, saved_model
):
    """As a server that puts BOS in front of ids."""
    good = tiny("llama", "prompt_logprobs")

    def doubled(path, body):
        if len(body["prompt"]) == 4:
            body = {**body, "prompt": [0, *body["prompt"]]}
        return good(path, body)

    served.reply = doubled
    model = model_of(tokenizer=saved_model("llama"))
    found = ask(model, Loglikelihood("the cat", " sat"), Loglikelihood("the", " sat"))
    assert (
        found[0].error
        == f"{served.source()}: it read 5 tokens where 4 token ids were sent"
    )
    assert found[1].error == ""
