"""Top log-probabilities of generated tokens, in the formats of different servers."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from pytest_evals.core.case import Case
from pytest_evals.core.request import TOP_LOGPROBS, Generate, Message
from pytest_evals.scorers.rubric import judge

CHAT = (Message("user", "Hi?"),)
TOP = ((TOP_LOGPROBS, 2),)


def chat_logprobs():
    """As in OpenAI's API reference, "The chat completion object"."""
    tops = [
        {"token": "4", "logprob": -0.1, "bytes": [52]},
        {"token": "5", "logprob": -3.0, "bytes": [53]},
    ]
    one = {"token": "4", "logprob": -0.1, "bytes": [52], "top_logprobs": tops}
    return {"content": [one], "refusal": None}


def completion_logprobs():
    """OpenAI's and vLLM's completions; vLLM adds the sampled token."""
    return {
        "tokens": ["4", "9"],
        "token_logprobs": [-0.1, -5.0],
        "top_logprobs": [{"4": -0.1, "5": -3.0}, {"9": -5.0, "1": -0.2, "2": -2.0}],
        "text_offset": [0, 1],
    }


def replying(served, logprobs):
    before = served.reply

    def reply(path, body):
        found = before(path, body)
        if body.get("logprobs"):
            found["choices"][0]["logprobs"] = logprobs
        return found

    served.reply = reply


def test_a_chat_asks_for_them_in_the_words_of_chats(served, model_of, ask):
    replying(served, chat_logprobs())
    (response,) = ask(model_of(), Generate(CHAT, options=TOP))
    body = served.bodies[-1][1]
    assert (body["logprobs"], body["top_logprobs"]) == (True, 2)
    assert response.top_logprobs == (("4", (("4", -0.1), ("5", -3.0))),)


@pytest.mark.parametrize("logprobs", [completion_logprobs, chat_logprobs])
def test_completions_ask_for_them_by_number(logprobs, served, model_of, ask):
    """llama.cpp replies in the form of chats."""
    replying(served, logprobs())
    (response,) = ask(model_of(), Generate("Q:", options=TOP))
    body = served.bodies[-1][1]
    assert body["logprobs"] == 2 and "top_logprobs" not in body
    assert response.top_logprobs[0] == ("4", (("4", -0.1), ("5", -3.0)))
    # The sampled token is not among the two most likely ones.
    assert response.top_logprobs[1:] in ((), (("9", (("1", -0.2), ("2", -2.0))),))


def _entry(token, logprob):
    top = {"token": token, "logprob": logprob}
    return {**top, "top_logprobs": [top]}


def test_texts_that_do_not_identify_a_token_are_left_out(served, model_of, ask):
    tops = [{"token": "\ufffd", "logprob": math.log(0.5)}]
    tops += [{"token": "a", "logprob": math.log(0.3)}]
    one = {"token": "\ufffd", "logprob": math.log(0.5), "top_logprobs": tops}
    replying(served, {"content": [one]})
    (response,) = ask(model_of(), Generate(CHAT, options=TOP))
    assert response.top_logprobs == (("", (("a", math.log(0.3)),)),)


@pytest.mark.parametrize(
    "logprobs",
    [
        None,
        {},
        {"content": None},
        {"content": [{}]},
        {"tokens": ["a"]},
        3,
        {"content": [_entry("a", 0.7)]},
        {"content": [_entry("a", -0.7), _entry("b", True)]},
        {"content": [_entry("a", 10**400)]},
        {"tokens": ["a"], "top_logprobs": [{"a": -1.0, "b": 1000.0}]},
    ],
)
def test_an_answer_without_them_is_an_answer(logprobs, served, model_of, ask):
    replying(served, logprobs)
    (response,) = ask(model_of(), Generate(CHAT, options=TOP))
    assert (response.error, response.text) == ("", "said Hi?")
    assert response.top_logprobs == ()


def test_a_server_that_refuses_them_is_sent_the_request_without(
    served, model_of, ask, fault
):
    refusal = {"error": {"message": "logprobs are not supported by this model"}}

    def refuse(body):
        return fault(400, refusal) if body.get("logprobs") else None

    served.fault = refuse
    model = model_of(concurrency=1)
    requests = [Generate(CHAT, max_tokens=n, options=TOP) for n in (4, 5, 6)]
    responses = ask(model, *requests)
    assert [one.error for one in responses] == [""] * 3
    assert [bool(body.get("logprobs")) for _, body in served.bodies] == [1, 0, 0, 0]
    assert "does not accept requests for top log-probabilities" in model.notes[0]


def test_a_judge_whose_server_refuses_its_format_is_asked_without(
    served, model_of, ask, fault
):
    scorer = judge("Is it polite?")
    request = scorer.request("Rate.", (("answer", "no"),), "no", Case(prompt="Q?"))
    refusal = {"error": {"message": "response_format is not supported"}}
    served.fault = lambda body: "response_format" in body and fault(422, refusal)
    model = model_of(concurrency=1)
    responses = ask(model, request, replace(request, max_tokens=7))
    assert [one.error for one in responses] == ["", ""]
    assert ["response_format" in body for _, body in served.bodies] == [1, 0, 0]
    assert "the server rejects response_format" in model.notes[0]
    own = replace(request, options=(("response_format", '{"type": "json_object"}'),))
    (response,) = ask(model, own)
    assert "the server returned 422: 'response_format is not" in response.error


def test_another_refusal_is_the_error_of_the_request(served, model_of, ask, fault):
    served.fault = lambda body: fault(400, {"error": {"message": "too long"}})
    (response,) = ask(model_of(), Generate(CHAT, options=TOP))
    assert response.error.endswith("/completions: the server returned 400: 'too long'")
