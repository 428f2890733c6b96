"""Requests that are longer than a server's window: with the model's tokenizer they are
truncated, or scored in windows, as plain torch does with the remaining window; without
it, the rejection is explained. The server behaves as vLLM 0.32 does."""

from __future__ import annotations

import copy
import shutil

import pytest

from pytest_evals.core.request import (
    FITTING,
    IMAGES,
    Generate,
    Loglikelihood,
    Message,
    Rolling,
)
from pytest_evals.errors import ModelError, OptionError
from pytest_evals.models.openai.context_window import window_in
from pytest_evals.models.registry import check_spec, fingerprint_of, parse_spec

WINDOW = 64
FORMS = ["vllm", "prompt_logprobs"]
LISTED = {"object": "list", "data": [{"id": "tiny", "max_model_len": WINDOW}]}
TOKENIZER = "pass tokenizer= (the served model's) to cut prompts as hf: does"


@pytest.fixture(params=["gpt2", "llama"])
def kind(request):
    return request.param


@pytest.fixture(params=FORMS)
def model(request, kind, served, model_of, windowed, saved_model):
    """A model with a window of 64 tokens behind a server that reports it."""
    served.reply, served.models = windowed(kind, request.param, WINDOW), LISTED
    return model_of(tokenizer=saved_model(kind))


@pytest.fixture
def behind(served, model_of, windowed, saved_model):
    """A function from a kind of model and arguments to it behind such a server."""
    served.models = LISTED

    def opened(kind, **arguments):
        served.reply = windowed(kind)
        return model_of(**{"tokenizer": saved_model(kind), **arguments})

    return opened


@pytest.fixture
def narrow(oracle, kind):
    """The oracle with the window that a server leaves: one token less is read, and the
    last one of these is scored."""
    found = copy.copy(oracle(kind))
    found.max_length = WINDOW - 2
    return found


def long_ids(served):
    return [
        len(body["prompt"])
        for _, body in served.bodies
        if isinstance(body.get("prompt"), list)
    ]


@pytest.mark.slow
def test_contexts_are_cut_at_their_beginning(model, served, narrow, ask):
    pairs = [("q" * n, " cat sat") for n in (40, 57, 58, 59, 60, 61, 62, 63, 70, 200)]
    found = ask(model, *(Loglikelihood(*pair) for pair in pairs))
    for (context, continuation), response in zip(pairs, found, strict=True):
        expected, greedy = narrow.loglikelihood(context, continuation)
        n_all = len(narrow.tokenizer.encode(context + continuation))
        n_context = len(narrow.tokenizer.encode(context))
        assert response.error == "", context
        assert response.logprob == pytest.approx(expected, abs=1e-5), context
        assert response.greedy == greedy
        assert response.n_truncated == max(0, n_all - (WINDOW - 1))
        assert response.n_prompt_tokens == n_context
        assert response.n_tokens == n_all - n_context
    assert max(long_ids(served)) == WINDOW - 1
    assert model.info["max_length"] == WINDOW


@pytest.mark.slow
def test_a_continuation_beyond_the_window_is_an_error_as_of_a_model_here(
    model, opened, kind, ask
):
    request = Loglikelihood("q", "z" * 100)
    (found,) = ask(model, request)
    (local,) = ask(opened(kind, max_length=WINDOW - 2), request)
    assert found.error == local.error
    assert "the model's window only 62" in found.error


@pytest.mark.slow
def test_a_whole_text_is_scored_in_windows(model, served, narrow, opened, kind, ask):
    texts = ["the cat", "q" * 61, "q" * 62, "q" * 63, "q" * 64, "the cat sat " * 40]
    found = ask(model, *map(Rolling, texts))
    local = ask(opened(kind, max_length=WINDOW - 2), *map(Rolling, texts))
    for text, ours, theirs in zip(texts, found, local, strict=True):
        assert ours.error == "", text
        assert ours.logprob == pytest.approx(narrow.rolling(text), abs=1e-4), text
        assert ours.n_tokens == theirs.n_tokens
    assert max(long_ids(served)) == WINDOW - 1


@pytest.mark.slow
def test_prompts_are_cut_for_the_limit_of_their_answers(
    model, served, oracle, kind, ask
):
    requests = [
        Generate("q" * n + " the", max_tokens=16) for n in (30, 46, 47, 48, 63, 64, 200)
    ]
    found = ask(model, *requests)
    for request, response in zip(requests, found, strict=True):
        ids = oracle(kind).tokenizer.encode(request.prompt)
        assert response.error == ""
        assert response.text == oracle(kind).generate(request.prompt, (), 16)
        assert response.n_truncated == max(0, len(ids) - (WINDOW - 16))
        assert response.n_prompt_tokens == len(ids)
        assert response.n_tokens == 16


def test_prompts_that_fit_are_sent_as_texts(model, served, ask):
    request = Generate("the cat", max_tokens=8)
    ask(model, request)
    (sent,) = [body for _, body in served.bodies]
    assert (sent["prompt"], sent["max_tokens"]) == ("the cat", 8)


def test_an_answer_that_leaves_no_room_is_the_error_of_a_model_here(
    model, opened, kind, ask
):
    request = Generate("the cat", max_tokens=WINDOW)
    (found,) = ask(model, request)
    (local,) = ask(opened(kind), request)
    assert found.error == local.error != ""


def test_a_default_limit_is_the_rest_of_the_window(model, served, oracle, kind, ask):
    """LatticeFlow's chats."""
    request = Generate("q" * 40, max_tokens=1024, options=((FITTING, True),))
    (found,) = ask(model, request)
    left = WINDOW - len(oracle(kind).tokenizer.encode("q" * 40))
    assert (found.error, found.n_tokens, found.n_truncated) == ("", left, 0)
    assert served.bodies[-1][1]["max_tokens"] == left


@pytest.mark.slow
def test_a_chat_is_cut_as_its_text(behind, served, opened, ask):
    model = behind("llama")
    long, short = (
        Generate((Message("user", "q" * n),), max_tokens=16) for n in (70, 5)
    )
    found, local = ask(model, long, short), ask(opened("llama"), long, short)
    assert [one.text for one in found] == [one.text for one in local]
    assert found[0].n_truncated == local[0].n_truncated > 0
    paths = [path for path, _ in served.bodies]
    assert paths.count("/v1/chat/completions") == 1


def test_chats_for_the_chat_api_are_left_to_the_server(behind, served, ask):
    model = behind("llama", api="chat")
    (found,) = ask(model, Generate((Message("user", "q" * 99),), max_tokens=16))
    assert "exceed the server's context window: remove api=chat and pass" in found.error
    assert {path for path, _ in served.bodies} == {"/v1/chat/completions"}


@pytest.mark.parametrize(
    "arguments",
    [{"extra_body": '{"truncate_prompt_tokens": 40}'}, {}],
    ids=["of the model", "of the request"],
)
def test_prompts_that_the_server_cuts_are_sent_whole(
    served, model_of, saved_model, ask, arguments
):
    served.models = LISTED
    options = () if arguments else (("truncate_prompt_tokens", 40),)
    model = model_of(tokenizer=saved_model("gpt2"), **arguments)
    ask(model, Generate("q" * 99, max_tokens=16, options=options))
    assert served.bodies[-1][1]["prompt"] == "q" * 99


def test_images_are_left_to_the_server(served, model_of, saved_model, ask):
    served.models = LISTED
    url = "data:image/png;base64,AAAA"
    request = Generate("q" * 99, max_tokens=16, options=((IMAGES, (url,)),))
    (found,) = ask(model_of(tokenizer=saved_model("gpt2")), request)
    assert found.text == "said " + "q" * 99


@pytest.mark.slow
@pytest.mark.parametrize(
    "models", [None, "torn", {"data": []}, {"data": [{"id": "tiny"}]}, [1], {"data": 7}]
)
def test_where_the_server_does_not_say_it_the_window_can_be_given(
    served, behind, oracle, ask, models
):
    served.models = models
    request, pair = Generate("q" * 99, max_tokens=16), Loglikelihood("q" * 99, " cat")
    for one in ask(behind("gpt2"), request, pair):
        assert "pass max_length= (the window in tokens) to cut" in one.error
    text, scored = ask(behind("gpt2", max_length=WINDOW), request, pair)
    assert text.text == oracle("gpt2").generate("q" * 99, (), 16)
    assert (text.n_truncated > 0, scored.n_truncated > 0) == (True, True)
    (refused,) = ask(behind("gpt2", max_length=80), request)
    assert "the server's context window, which is not max_length=80" in refused.error


@pytest.mark.parametrize(
    ("listed", "window"),
    [
        ({"data": [{"id": "m", "max_model_len": 32768}]}, 32768),
        ({"data": [{"id": "m", "context_length": 8192}]}, 8192),
        ({"data": [{"id": "m", "context_window": 8192, "max_model_len": None}]}, 8192),
        ({"data": [{"id": "m", "meta": {"n_ctx": 512, "n_ctx_train": 4096}}]}, 512),
        ({"data": [{"id": "m", "meta": {"n_ctx_train": 4096}}]}, 0),
        ({"models": [{"id": "m", "max_context_length": 99}]}, 99),
        ({"data": [{"id": "x", "max_model_len": 9}, {"id": "m"}]}, 9),
        ({"data": [{"id": "x", "max_model_len": 9}]}, 9),
        (
            {
                "data": [
                    {"id": "x", "max_model_len": 9},
                    {"id": "y", "max_model_len": 8},
                ]
            },
            0,
        ),
        (
            {
                "data": [
                    {"id": "x", "max_model_len": 9},
                    {"id": "m", "max_model_len": 8},
                ]
            },
            8,
        ),
        ({"data": [{"id": "m", "max_model_len": True}]}, 0),
        ({"data": [{"id": "m", "max_model_len": -1}]}, 0),
        ({"data": [{"id": "m", "max_model_len": "64"}]}, 0),
        ({"data": [{"id": "m", "max_model_len": 10**400}]}, 0),
        ({"data": [None, 7, {"id": ["m"], "max_model_len": 64}]}, 64),
        ({}, 0),
    ],
)
def test_the_window_in_a_list_of_models(listed, window):
    assert window_in(listed, "m") == window


@pytest.mark.parametrize("n", [64, 65, 200])
def test_without_a_tokenizer_the_refusal_is_explained(
    served, model_of, windowed, ask, n
):
    served.reply = windowed("gpt2")
    found = ask(
        model_of(), Generate("q" * n, max_tokens=8), Loglikelihood("q" * n, " a")
    )
    for one in found:
        assert (
            "the prompt and the answer's limit exceed the server's context window: "
            in one.error
        )
        assert TOKENIZER in one.error
        assert "400" in one.error


@pytest.mark.parametrize(
    "words",
    [
        "The decoder prompt (length 80) is longer than the maximum model length of 64.",
        "'max_tokens' or 'max_completion_tokens' is too large: 100. This model's "
        "maximum context length is 64 tokens and your request has 10 input tokens",
        "The input (80 tokens) is longer than the model's context length (64 tokens).",
        "the request exceeds the available context size, try increasing it",
        "Input validation error: `inputs` must have less than 64 tokens. Given: 80",
        "`inputs` tokens + `max_new_tokens` must be <= 64. Given: 60 and 16",
        "Requested tokens (80) exceed context window of 64",
        "Prompt is too long: 80 tokens",
    ],
)
@pytest.mark.parametrize("status", [400, 413, 422])
def test_the_words_of_servers_for_a_window_that_is_too_short(
    served, model_of, ask, fault, words, status
):
    served.fault = lambda body: fault(status, {"error": {"message": words}})
    (found,) = ask(model_of(), Generate("Q:"))
    assert TOKENIZER in found.error


@pytest.mark.parametrize(
    "words", ["temperature must be at least 0", "unknown field 'top_k'"]
)
def test_another_refusal_is_not_explained_by_the_window(
    served, model_of, ask, fault, words
):
    served.fault = lambda body: fault(400, {"error": {"message": words}})
    (found,) = ask(model_of(), Generate("Q:"))
    assert found.error == f"{served.source()}: the server returned 400: {words!r}"


def test_a_server_without_token_ids_generates_up_to_its_window(
    behind, served, ask, fault
):
    words = {"error": {"message": "prompt must be a string"}}
    served.fault = lambda body: (
        fault(422, words) if isinstance(body.get("prompt"), list) else None
    )
    model = behind("gpt2")
    long, short = ask(
        model, Generate("q" * 99, max_tokens=16), Generate("the", max_tokens=16)
    )
    assert long.error == (
        "the prompt has 99 tokens, the model's window of 64 has room for 48 of them, "
        f"and it cannot be cut: {served.source()}: the server returned 422: 'prompt "
        "must be a string'"
    )
    assert short.error == ""


@pytest.mark.slow
def test_prompts_are_not_cut_by_another_models_tokenizer(
    behind, saved_model, tmp_path, ask
):
    """Its ids would be another prompt, and nobody would notice."""
    folder = shutil.copytree(saved_model("gpt2"), tmp_path / "other")
    path = folder / "tokenizer.json"
    text = path.read_text("utf-8")
    swapped = text.replace('"e":', '"@@":').replace('"o":', '"e":')
    path.write_text(swapped.replace('"@@":', '"o":'), "utf-8")
    model = behind("gpt2", tokenizer=folder)
    long, short = ask(
        model, Generate("q" * 99, max_tokens=16), Generate("the", max_tokens=16)
    )
    assert "is not that of the server's 'tiny': after 'The quick" in long.error
    assert (long.text, short.error) == ("", "")


@pytest.mark.slow
def test_ids_are_tried_once_and_only_where_something_is_cut(behind, served, ask):
    model = behind("gpt2")
    ask(model, Generate("the", max_tokens=8))
    assert len(served.bodies) == 1
    for letter in "xyz":
        ask(model, Generate(letter * 99, max_tokens=8))
    trial = 2
    assert len(served.bodies) == 1 + trial + 3


@pytest.mark.slow
def test_equal_prompts_are_all_cut(behind, served, ask):
    long = Generate("q" * 99, max_tokens=8)
    found = ask(behind("gpt2"), long, long)
    assert [response.error for response in found] == ["", ""]
    assert found[0].n_truncated == found[1].n_truncated > 0


def test_an_unusable_window_is_rejected(saved_model):
    def error_of(text):
        with pytest.raises(OptionError) as caught:
            check_spec(parse_spec(f"openai:m,base_url=http://h/v1,{text}"))
        return str(caught.value)

    assert error_of("max_length=64") == (
        "the openai model takes max_length only with tokenizer, which counts the "
        "tokens of prompts\n  fix: add tokenizer=, a folder or a name on the Hub"
    )
    folder = saved_model("gpt2")
    assert "max_length is '2'" in error_of(f"tokenizer={folder},max_length=2")


def test_responses_under_another_window_are_stored_apart(saved_model):
    def found(arguments):
        tokenizer = f"openai:m,base_url=http://h/v1,tokenizer={saved_model('gpt2')}"
        return fingerprint_of(parse_spec(tokenizer + arguments), lambda path: path.name)

    assert "max_length" not in found("")
    assert found(",max_length=64") == {**found(""), "max_length": 64}
    assert found(",max_length=64") != found(",max_length=65")


def test_a_server_that_lists_its_models_and_takes_no_key_is_one_error(
    behind, fault, served
):
    """As a server that requires a key for paid endpoints only."""
    served.fault = lambda body: fault(401, {"error": {"message": "who?"}})
    with pytest.raises(ModelError, match="the server returned 401: 'who\\?'"):
        list(behind("gpt2").answer([Generate("the", max_tokens=8)] * 9))


def test_a_server_that_is_not_there_is_one_error_also_with_a_tokenizer(behind):
    model = behind("gpt2", base_url="http://127.0.0.1:9/v1")
    with pytest.raises(ModelError, match=r"127.0.0.1:9/v1/\w+: the connection failed"):
        list(model.answer([Generate("the")] * 9))


def test_a_chat_is_cut_with_the_arguments_that_the_server_gives_its_template(
    behind, served, saved_model, tmp_path, ask
):
    folder = shutil.copytree(saved_model("llama"), tmp_path / "thinking")
    path = folder / "chat_template.jinja"
    path.write_text(path.read_text() + "{% if quiet %}<quiet>{% endif %}")
    extra = '{"chat_template_kwargs": {"quiet": true}}'
    model = behind("llama", tokenizer=folder, extra_body=extra)
    ask(model, Generate((Message("user", "q" * 99),), max_tokens=16))
    tokenizer = served.reply.tokenizer
    assert tokenizer.decode(served.bodies[-1][1]["prompt"]).endswith("<quiet>")
    plain, quiet = (
        fingerprint_of(parse_spec(text), lambda path: path.name)
        for text in (
            f"openai:m,tokenizer={folder}",
            f"openai:m,tokenizer={folder},extra_body={extra}",
        )
    )
    assert quiet["template_args"] == {"quiet": True}
    assert "template_args" not in plain
