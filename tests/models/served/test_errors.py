"""Handling of busy, broken, slow or incorrect servers: an error of the document, never
a score; no request is lost or repeated endlessly."""

from __future__ import annotations

import json
import time
from threading import Thread

import pytest

from pytest_evals.core.request import Generate, Loglikelihood, Message
from pytest_evals.errors import ModelError
from pytest_evals.models.http.event_loop import StreamEndedError


def many(n):
    return [Generate(f"Q{i}:") for i in range(n)]


def body(**choice):
    return {"choices": [choice] if choice else []}


@pytest.mark.slow
def test_every_request_is_answered_in_its_own_place(served, model_of, ask):
    found = ask(model_of(), *many(100))
    assert [r.text for r in found] == [f"said Q{i}:" for i in range(100)]
    assert {(r.n_prompt_tokens, r.n_tokens, r.finish) for r in found} == {
        (7, 3, "stop")
    }


def test_replies_are_passed_on_before_they_are_requested(served, model_of):
    """Scoring the first document may take long, and the run may be interrupted then."""
    model, requests, received = model_of(concurrency=10), many(40), []
    model.on_response = lambda request, response: received.append((request, response))
    answers = iter(model.answer(requests))
    first, _ = next(answers)
    deadline = time.monotonic() + 30
    while len(received) < 40 and time.monotonic() < deadline:
        time.sleep(0.01)
    assert {r: f"said {r.prompt}" for r in requests} == {
        request: response.text for request, response in received
    }
    assert sorted([first, *(i for i, _ in answers)]) == list(range(40))


@pytest.mark.slow
@pytest.mark.parametrize("way", ["stop", "close", "error"])
def test_requests_in_flight_are_answered_when_nothing_further_is_sent(
    way, served, model_of, fault
):
    """A run is interrupted, a task ends early, or an error ends the run."""
    served.fault = lambda body: fault(
        body=served.reply("completions", body), slow_s=0.2
    )
    model, received = model_of(concurrency=4), []
    model.on_response = lambda request, response: received.append(response.text)
    answers = iter(model.answer(many(40)))
    next(answers)
    if way == "stop":
        model.stop_sending()
    elif way == "close":
        answers.close()
    else:
        with pytest.raises(KeyboardInterrupt):
            answers.throw(KeyboardInterrupt)
    assert model.wait_for_sent(30) == 0
    sent = [body["prompt"] for _, body in served.bodies]
    assert sorted(received) == sorted(f"said {prompt}" for prompt in sent)
    assert 4 <= len(sent) < 20


def test_a_request_that_waits_for_another_attempt_is_not_sent_after_a_stop(
    served, model_of, fault
):
    slow_down = {"error": {"message": "slow down"}}
    served.fault = lambda body: fault(429, slow_down, {"retry-after": "60"})
    model = model_of(concurrency=2)
    model.on_response = lambda request, response: None
    answers = iter(model.answer(many(6)))

    def wait() -> None:
        with pytest.raises(StreamEndedError):
            next(answers)

    waiting = Thread(target=wait)
    waiting.start()
    deadline = time.monotonic() + 30
    while len(served.bodies) < 2 and time.monotonic() < deadline:
        time.sleep(0.01)
    model.stop_sending()
    assert model.wait_for_sent(30) == 0
    waiting.join()
    assert len(served.bodies) == 2


def test_no_more_requests_are_sent_at_once_than_allowed(served, model_of, ask, fault):
    served.fault = lambda body: fault(
        body=served.reply("completions", body), slow_s=0.01
    )
    ask(model_of(concurrency=3), *many(12))
    assert served.most_running == 3


@pytest.mark.slow
def test_a_storm_of_429_ends_with_all_answers(served, model_of, ask, fault):
    storm = fault(429, {"error": {"message": "slow down"}}, {"retry-after-ms": "20"})
    served.faults.extend([storm] * 60)
    model = model_of(max_retries=40)
    found = ask(model, *many(40))
    assert [r.text for r in found] == [f"said Q{i}:" for i in range(40)]
    assert model.info["usage"]["retries"] == 60
    assert model.info["usage"]["retried"] == {"429": 60}
    (overloaded,) = model.notes
    assert "the server was overloaded: at times only " in overloaded


@pytest.mark.slow
def test_retry_after_is_waited_for(served, model_of, ask, fault):
    served.faults.append(fault(429, "{}", {"retry-after": "0.3"}))
    ask(model_of(concurrency=1), *many(2))
    assert served.times[1] - served.times[0] >= 0.3


@pytest.mark.parametrize("after", ["36000", "inf", "Wed, 21 Oct 2065 07:28:00 GMT"])
def test_a_retry_after_of_hours_is_not_waited_for(served, model_of, ask, fault, after):
    words = {"error": {"message": "daily limit"}}
    closed = fault(429, words, {"retry-after": after})
    served.fault = lambda body: closed if "bad" in body["prompt"] else None
    model = model_of()
    with pytest.raises(ModelError) as caught:
        ask(model, *[Generate("bad")] * 50)
    message = "the server returned 429: 'daily limit', and asks to wait for "
    assert message in str(caught.value)
    assert "fix: run again with the same options" in str(caught.value)
    ask(model, Generate("first"))
    bad, good = ask(model, Generate("bad"), Generate("good"))
    assert message in bad.error
    assert good.text == "said good"


@pytest.mark.slow
def test_requests_in_flight_are_answered_before_the_run_ends(served, model_of, fault):
    """A rate limit rejects at once; the accepted requests take longer."""
    accepted = served.reply
    rejected = fault(429, {"error": "daily limit"}, {"retry-after": "36000"})
    served.fault = lambda body: (
        fault(body=accepted("completions", body), slow_s=0.4)
        if body["prompt"] in ("Q0:", "Q1:", "Q2:")
        else rejected
    )
    model, texts = model_of(concurrency=6), []
    with pytest.raises(ModelError, match="'daily limit', and asks to wait for"):
        for _, response in model.answer(many(30)):
            texts += [response.text] if response.text else []
    assert sorted(texts) == [f"said Q{i}:" for i in range(3)]
    assert len(served.bodies) <= 12


@pytest.mark.slow
def test_requests_that_wait_for_a_retry_are_not_sent_again_when_the_run_ends(
    served, model_of, fault
):
    busy = fault(503, {"error": "busy"}, {"retry-after": "1"})
    rejected = fault(401, {"error": "no key"}, slow_s=0.3)
    served.fault = lambda body: busy if body["prompt"] == "Q0:" else rejected
    model = model_of(concurrency=2)
    with pytest.raises(ModelError, match="'no key'"):
        list(model.answer(many(2)))
    assert [body["prompt"] for _, body in served.bodies].count("Q0:") == 1


@pytest.mark.parametrize(
    "after", ["nan", "-5", "soon", "Wed, 21 Oct 2015 07:28:00 GMT"]
)
def test_an_invalid_retry_after_is_ignored(served, model_of, ask, fault, after):
    served.faults.append(fault(429, "{}", {"retry-after": after}))
    (found,) = ask(model_of(), Generate("Q:"))
    assert found.text == "said Q:"


def test_responses_out_of_order_are_matched_by_their_index(
    served, model_of, ask, fault
):
    choices = [{"index": 1, "text": "second"}, {"index": 0, "text": "first"}]
    served.fault = lambda body: fault(body={"choices": choices})
    assert ask(model_of(), Generate("Q:"))[0].text == "first"


@pytest.mark.parametrize(
    "ended",
    ["content_filter", "SAFETY", "content_filter: PROHIBITED_CONTENT", "sensitive"],
)
def test_a_response_stopped_by_a_filter_is_an_error(
    served, model_of, ask, fault, ended
):
    stopped = fault(body=body(text="par", finish_reason=ended))
    served.fault = lambda body: stopped
    (found,) = ask(model_of(), Generate("Q:"))
    assert found.error.endswith(": the server's content filter stopped the answer")
    assert found.finish == "refused"


def test_a_prompt_that_a_filter_stopped_is_refused(served, model_of, ask, fault):
    """As Azure words it."""
    error = {"code": "content_filter", "message": "The prompt was filtered."}
    served.fault = lambda body: fault(400, {"error": error})
    (found,) = ask(model_of(), Generate("Q:"))
    assert found.finish == "refused"
    served.fault = lambda body: fault(400, {"error": {"message": "too long"}})
    (found,) = ask(model_of(), Generate("Q:"))
    assert found.finish == ""


@pytest.mark.parametrize("status", [408, 409, 429, 500, 502, 503, 504])
def test_a_fault_that_goes_away_costs_no_answer(served, model_of, ask, fault, status):
    served.faults.extend([fault(status, "<html>busy</html>")] * 3)
    (found,) = ask(model_of(), Generate("Q:"))
    assert (found.text, found.error) == ("said Q:", "")


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"status": 500, "body": "boom"}, "the server returned 500: 'boom'"),
        (
            {"body": '{"choices": [{"te'},
            """the reply is not JSON: '{"choices": [{"te'""",
        ),
        ({"body": "[1]"}, "the reply is not a JSON object: '[1]'"),
        ({"body": ""}, "the reply is not JSON: nothing"),
        ({"body": {"choices": []}}, "the reply has no choices: \"{'choices': []}\""),
        ({"body": {"choices": None}}, "the reply has no choices"),
        ({"body": body(text=7)}, "the answer is not text: '7'"),
        ({"body": body(text=None)}, "the answer is null (finish_reason None)"),
        (
            {"body": {"error": {"message": "upstream", "code": 502}}},
            "returned 502: 'upstream'",
        ),
        (
            {"body": body(text="half") | {"error": {"message": "upstream"}}},
            "returned 500: 'upstream'",
        ),
        ({"body": "[" * 100_000}, "the reply is not JSON: '[[["),
        ({"status": 500, "body": "[" * 100_000}, "the server returned 500: '[[["),
        # OpenRouter's message for a provider that failed, vLLM's and SGLang's for a
        # request that was cancelled: not a response, though there may be some text.
        (
            {"body": body(text="", finish_reason="error")},
            "the server broke the answer off: \"finish_reason 'error'\"",
        ),
        ({"body": {"choices": [None]}}, "the reply has no choices"),
        ({"body": "<html>", "headers": {"content-type": "text/html"}}, "is not JSON"),
        (
            {"body": "no gzip", "headers": {"content-encoding": "gzip"}},
            "the reply is not gzip, as its headers claim",
        ),
        ({"status": 307, "headers": {"location": "/v1/completions"}}, "redirects"),
        (
            {"body": body(text="", finish_reason="insufficient_system_resource")},
            "the server broke the answer off",
        ),
        (
            {"body": body(text="half", finish_reason="abort")},
            "the server broke the answer off: \"finish_reason 'abort'\"",
        ),
        (
            {"body": body(text="", error={"message": "provider", "code": 502})},
            "the server broke the answer off: \"{'message': 'provider'",
        ),
        ({"body": "x" * 900, "cut": True}, "/completions: the connection failed: "),
        ({"body": "{}", "slow_s": 2.0}, "no reply within 0.6 s"),
    ],
)
def test_a_fault_that_stays_is_an_error_of_its_document(
    served, model_of, ask, fault, wrong, message
):
    served.fault = lambda body: fault(**wrong) if "bad" in body["prompt"] else None
    patience_s = 0.6 if "slow_s" in wrong else 60
    model = model_of(max_retries=2, timeout=patience_s)
    ask(model, Generate("first"))
    bad, good = ask(model, Generate("bad"), Generate("good"))
    assert message in bad.error
    assert bad.error.endswith(" (3 attempts)")
    assert (bad.text, bad.logprob) == ("", None)
    assert good.text == "said good"


@pytest.mark.parametrize(
    "wrong",
    [
        {"status": 500, "body": "boom"},
        {"status": 400, "body": {"error": {"code": "content_filter"}}},
        {"body": "no JSON"},
        {"body": {"choices": []}},
        {"body": {"error": {"message": "behind the gateway"}}},
        {"body": "data: {}\n\n"},
        {"body": b"\xff"},
        {"body": "x", "headers": {"content-encoding": "gzip"}},
        {"status": 302, "headers": {"location": "/v2"}},
        {"status": 307, "headers": {"location": "/v1/completions"}},
        {"body": "x" * 900, "cut": True},
        {"body": "{}", "slow_s": 2.0},
    ],
    ids=str,
)
def test_each_error_names_its_model_and_its_address_without_secrets(
    served, model_of, ask, fault, wrong
):
    """Not only the first one, with which a run may end."""
    served.fault = lambda body: fault(**wrong) if "bad" in body["prompt"] else None
    url = served.url.replace("://", "://me:hush@") + "?api-version=3&token=hush"
    model = model_of(max_retries=0, timeout=0.6, base_url=url)
    assert ask(model, Generate("first"))[0].error == ""
    (found,) = ask(model, Generate("bad"))
    assert found.error.startswith(f"{served.source()}: ")
    assert "hush" not in found.error
    assert "?" not in found.error


def test_an_error_of_a_reply_without_log_probabilities_names_its_model(
    served, model_of, tiny, ask, fault
):
    served.reply = tiny("gpt2", "openai")
    model = model_of(max_retries=0)
    assert ask(model, Loglikelihood("the", " cat"))[0].error == ""
    nothing = fault(body=body(text="x"))
    served.fault = lambda body: nothing
    (found,) = ask(model, Loglikelihood("the", " dog"))
    assert found.error.startswith(f"{served.source()}: it gives no log-prob")


def test_a_reply_is_reported_escaped_and_shortened(served, model_of, ask, fault):
    served.fault = lambda body: fault(body="\x1b[31m" + "y" * 5000)
    (found,) = ask(model_of(max_retries=0), Generate("Q:"))
    assert "\x1b" not in found.error
    assert len(found.error) < 400
    assert "(5005 characters)" in found.error


def test_a_request_that_the_server_cannot_take_is_not_sent_again(
    served, model_of, ask, fault
):
    words = {"error": {"message": "This model's maximum context length is 64 tokens"}}
    served.fault = lambda body: fault(400, words) if "long" in body["prompt"] else None
    found = ask(model_of(), Generate("long"), Generate("short"))
    assert found[0].error.startswith(
        f"{served.source()}: the server returned 400: "
        '"This model\'s maximum context length is 64 tokens"; '
    )
    assert found[1].text == "said short"
    assert len(served.bodies) == 2


@pytest.mark.slow
def test_half_of_the_requests_fail_and_the_others_are_answered(
    served, model_of, ask, fault
):
    served.fault = lambda body: fault(500) if int(body["prompt"][1:-1]) % 2 else None
    found = ask(model_of(max_retries=1), *many(40))
    assert [bool(r.error) for r in found] == [False, True] * 20


def test_an_account_without_credit_is_one_error(served, model_of, fault):
    served.fault = lambda body: fault(402, {"error": {"message": "no credit"}})
    with pytest.raises(ModelError, match="returned 402: 'no credit'\n  fix: check the"):
        list(model_of(concurrency=2).answer(many(50)))
    assert len(served.bodies) <= 4


def test_a_prompt_that_is_not_unicode_is_an_error_of_its_document(
    served, model_of, ask
):
    bad, good = ask(model_of(), Generate("half \ud83d"), Generate("good"))
    assert ": the prompt is not Unicode: " in bad.error
    assert good.text == "said good"


@pytest.mark.parametrize("status", [401, 403])
def test_a_refused_key_is_one_error_that_names_the_variable(
    served, model_of, fault, status
):
    key = "sk-of-a-test-never-shown"
    words = {"error": {"message": f"Incorrect API key provided: {key}"}}
    served.fault = lambda body: fault(status, words)
    with pytest.raises(ModelError) as caught:
        list(model_of(concurrency=2, api_key_env="MY_KEY").answer(many(50)))
    assert str(caught.value) == (
        f"{served.source()}: the server returned {status}: "
        "'Incorrect API key provided: ***'\n"
        "  fix: set the environment variable MY_KEY to a key that the server accepts"
    )
    assert len(served.bodies) <= 4


@pytest.mark.parametrize(
    "wrong",
    [
        {"status": 400, "body": {"detail": "you sent {}"}},
        {"status": 400, "body": "x" * 180 + "{}"},
        {"body": "<html>you sent {}</html>"},
        {"body": {"choices": [], "headers": {"authorization": "{}"}}},
        {"body": body(text=["{}"])},
    ],
    ids=["refused", "cut off in its middle", "no JSON", "no choices", "no text"],
)
def test_a_server_that_repeats_a_secret_is_reported_without_it(
    served, model_of, ask, fault, wrong
):
    secrets = ("sk-of-a-test-never-shown", "hush-my-password", "hush-my-token")
    filled = json.loads(json.dumps(wrong).replace("{}", " ".join(secrets)))
    served.fault = lambda body: fault(**filled) if "bad" in body["prompt"] else None
    url = served.url.replace("://", "://me:hush-my-password@") + "?token=hush-my-token"
    model = model_of(max_retries=0, base_url=url)
    ask(model, Generate("first"))
    (bad,) = ask(model, Generate("bad"))
    assert bad.error
    assert "sk-of" not in bad.error
    assert "hush" not in bad.error


def test_a_model_that_is_not_there_is_one_error(served, model_of, fault):
    words = {"object": "error", "message": "The model `tiny` does not exist."}
    served.fault = lambda body: fault(404, words)
    with pytest.raises(ModelError) as caught:
        list(model_of().answer(many(50)))
    assert str(caught.value) == (
        f"{served.source()}: the server returned 404: "
        "'The model `tiny` does not exist.'\n"
        "  fix: check that the server has a model 'tiny' and supports completions (api="
        "chat or api=completions), and that base_url ends in /v1 if its API does"
    )


def test_money_that_is_used_up_is_one_error(served, model_of, fault):
    words = {"error": {"message": "no quota", "code": "insufficient_quota"}}
    served.fault = lambda body: fault(429, words)
    with pytest.raises(ModelError, match="the server returned 429: 'no quota'"):
        list(model_of().answer(many(50)))


def test_a_server_that_is_not_there_is_one_error(model_of):
    model = model_of(base_url="http://127.0.0.1:9/v1")
    with pytest.raises(ModelError) as caught:
        list(model.answer(many(50)))
    assert "tiny at http://127.0.0.1:9/v1/completions: the connection failed" in str(
        caught.value
    )
    assert "fix: start the server" in str(caught.value)


def test_who_stops_to_listen_ends_the_work(served, model_of, fault):
    served.fault = lambda body: fault(
        body=served.reply("completions", body), slow_s=0.02
    )
    model = model_of(concurrency=2)
    answers = model.answer(many(500))
    next(iter(answers))
    answers.close()
    model.close()
    assert len(served.bodies) < 20


def test_a_model_that_is_closed_twice_without_requests_sends_nothing(served, model_of):
    model = model_of()
    model.close()
    model.close()
    assert not served.bodies


def test_chat_replies_without_text_are_errors(served, model_of, ask, fault):
    silent = {
        "cut": {"message": {"content": None}, "finish_reason": "length"},
        "filtered": {"message": {"content": "par"}, "finish_reason": "content_filter"},
        "void": {},
    }
    served.fault = lambda body: fault(body=_chosen(silent, body))
    chats = [Generate((Message("user", name),)) for name in silent]
    cut, filtered, void = ask(model_of(max_retries=0), *chats)
    assert "the model used up its tokens before it began to answer" in cut.error
    source = served.source("chat/completions")
    assert filtered.error == f"{source}: the server's content filter stopped the answer"
    assert [one.finish for one in (cut, filtered, void)] == ["", "refused", ""]
    assert "the reply has no message" in void.error


PART = {"type": "refusal", "refusal": "I can't."}


@pytest.mark.parametrize("content", [None, "", " \n", [PART]])
@pytest.mark.parametrize("ended", ["stop", "content_filter", "length"])
def test_a_refusal_is_a_response_with_its_text(served, model_of, ask, content, ended):
    refusal = {} if content == [PART] else {"refusal": "I can't."}
    choice = {"message": {"content": content, **refusal}, "finish_reason": ended}
    usage = {"prompt_tokens": 7, "completion_tokens": 3}
    served.reply = lambda path, sent: {"choices": [choice], "usage": usage}
    (found,) = ask(model_of(), Generate((Message("user", "Q"),)))
    assert (found.text, found.finish, found.n_tokens) == ("I can't.", "refused", 3)


@pytest.mark.parametrize(
    "reasoning",
    [
        {"reasoning_content": "The answer is Paris"},
        {"reasoning": "The answer is Paris"},
        {"reasoning_details": [{"type": "reasoning.text", "text": "Paris"}]},
        {"content": [{"type": "thinking", "thinking": "Paris"}]},
    ],
    ids=["vllm", "openrouter", "details", "mistral"],
)
@pytest.mark.parametrize("content", ["", None, "\n \n"], ids=["empty", "null", "blank"])
@pytest.mark.parametrize("ended", ["stop", "eos", None])
def test_an_answer_that_is_only_in_the_reasoning_is_an_error(
    served, model_of, ask, reasoning, content, ended
):
    message = {"content": content, **reasoning}
    choice = {"message": message, "finish_reason": ended}
    served.reply = lambda path, sent: {"choices": [choice]}
    (found,) = ask(model_of(), Generate((Message("user", "Q"),), stop=("\n",)))
    assert f"the reply has only reasoning (finish_reason {ended!r})" in found.error
    assert "remove the task's stop strings" in found.error
    assert "set think_end_token=" in found.error
    assert len(served.bodies) == 1


@pytest.mark.parametrize("stream", ["true", "false"])
def test_an_aborted_answer_is_not_a_wrong_address(served, model_of, ask, stream):
    choice = {"message": {"content": "Par"}, "finish_reason": "abort"}
    served.reply = lambda path, sent: {"choices": [choice]}
    model = model_of(max_retries=0, stream=stream)
    (found,) = ask(model, Generate((Message("user", "Q"),)))
    assert "the server broke the answer off: \"finish_reason 'abort'\"" in found.error
    assert "fix: check the server's log" in found.error
    assert "base_url" not in found.error


CALLS = [{"id": "1", "function": {"name": "search", "arguments": "{}"}}]


@pytest.mark.parametrize(
    ("message", "ended"),
    [
        ({"content": ""}, "length"),
        ({"content": "", "reasoning_content": "hm"}, "max_tokens"),
        ({"content": "", "tool_calls": CALLS}, "tool_calls"),
        ({"content": None, "tool_calls": CALLS}, "tool_calls"),
        ({"function_call": CALLS[0]["function"]}, "function_call"),
    ],
)
def test_a_chat_reply_without_an_answer_is_an_error_and_not_paid_again(
    served, model_of, ask, message, ended
):
    choice = {"message": message, "finish_reason": ended}
    served.reply = lambda path, sent: {"choices": [choice]}
    (found,) = ask(model_of(), Generate((Message("user", "Q"),)))
    expected = "only tool calls" if "call" in ended else "used up its tokens before it"
    assert expected in found.error
    assert len(served.bodies) == 1


@pytest.mark.parametrize(
    "message",
    [{"content": ""}, {"content": "", "tool_calls": []}, {"content": "", "audio": {}}],
)
def test_an_empty_answer_that_ended_by_itself_is_an_answer(
    served, model_of, ask, fault, message
):
    choice = {"message": message, "finish_reason": "stop"}
    served.fault = lambda body: fault(body={"choices": [choice]})
    (found,) = ask(model_of(), Generate((Message("user", "Q"),)))
    assert (found.text, found.error) == ("", "")


def test_the_text_parts_of_a_message_are_the_answer(served, model_of, ask, fault):
    """Mistral's format for answers with reasoning."""
    thinking = {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}
    text, image = {"type": "text", "text": "Par"}, {"type": "image_url"}
    contents = {
        "parts": [thinking, text, {"type": "text", "text": "is"}],
        "silent": [thinking],
        "image": [text, image],
        "number": [{"type": "text", "text": 7}],
        "void": [],
    }
    replies = {name: {"message": {"content": of}} for name, of in contents.items()}
    served.fault = lambda body: fault(body=_chosen(replies, body))
    chats = [Generate((Message("user", name),)) for name in contents]
    parts, silent, *others = ask(model_of(max_retries=0), *chats)
    assert parts.text == "Paris"
    assert "the answer is null" in silent.error
    assert all("the answer is not text" in one.error for one in others)


def test_answers_longer_than_their_limit_are_reported(served, model_of, ask):
    usage = {"prompt_tokens": 5, "completion_tokens": 40}
    served.reply = lambda path, sent: {**body(text="a"), "usage": usage}
    model = model_of()
    requests = [Generate(f"Q{n}", max_tokens=n) for n in (16, 39, 40, 41)]
    assert all(one.text == "a" for one in ask(model, *requests))
    (note,) = model.notes
    assert note == (
        "tiny: answers with more tokens than their limit: 2 (the server ignores "
        "max_gen_toks)"
    )


def _chosen(replies, body):
    return json.dumps({"choices": [replies[body["messages"][0]["content"]]]})


def test_a_reply_that_is_not_utf_8_is_an_error(served, model_of, ask, fault):
    data = json.dumps(body(text="caf\u00e9"), ensure_ascii=False).encode("latin-1")
    served.fault = lambda body: fault(body=data)
    (found,) = ask(model_of(max_retries=1), Generate("Q:"))
    assert "the reply is not UTF-8" in found.error
    assert "(2 attempts)" in found.error


def test_a_declared_encoding_and_a_byte_order_mark_are_read(
    served, model_of, ask, fault
):
    text = json.dumps(body(text="caf\u00e9", finish_reason="stop"), ensure_ascii=False)
    declared = {"content-type": "application/json; charset=iso-8859-1"}
    served.faults.append(fault(body=text.encode("latin-1"), headers=declared))
    served.faults.append(fault(body=text.encode("utf-8-sig")))
    found = ask(model_of(concurrency=1), *many(2))
    assert [one.text for one in found] == ["caf\u00e9"] * 2


@pytest.mark.parametrize(
    ("requested", "replied"),
    [
        ("tiny", "tiny"),
        ("gpt-4o", "gpt-4o-2024-08-06"),
        ("openai/gpt-4o", "gpt-4o-2024-08-06"),
        ("small-latest", "small-2503"),
        ("org/Tiny", "tiny"),
        ("claude", "claude@20250219"),
    ],
)
def test_aliases_of_the_model_in_replies_are_accepted(
    served, model_of, ask, requested, replied
):
    served.reply = lambda path, sent: {**body(text="a"), "model": replied}
    model = model_of(requested)
    ask(model, *many(2))
    assert model.notes == ()
    assert model.info["usage"]["replied_as"] == {replied: 2}


@pytest.mark.parametrize(
    "replies", [["gpt-4o-mini"], ["gpt-4.1"], ["gpt-4o", "gpt-4o-2024-08-06"]]
)
def test_replies_of_another_model_or_of_several_are_reported(
    served, model_of, ask, replies
):
    names = iter(replies * 2)
    served.reply = lambda path, sent: {**body(text="a"), "model": next(names)}
    model = model_of("gpt-4o", concurrency=1)
    ask(model, *many(2))
    (note,) = model.notes
    assert "the model in the server's replies is" in note
    assert all(repr(name) in note for name in replies)
