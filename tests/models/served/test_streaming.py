"""Streamed responses, and the latencies of requests. The server's pauses are known."""

from __future__ import annotations

import json
import time

import pytest

from pytest_evals.core.latency import Timings, percentile, with_latency
from pytest_evals.core.request import Generate, Message
from pytest_evals.models.registry import fingerprint_of, parse_spec
from pytest_evals.run.inference import with_usage

CHAT = Generate((Message("user", "Q:"),))
USAGE = {"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 5}}
VLLM_ERROR = {"object": "error", "message": "boom", "code": 500}


def event(value):
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return f"data: {text}\n\n".encode()


def deltas(*texts, **last):
    choices = [{"index": 0, "delta": {"content": t}} for t in texts]
    first = {"index": 0, "delta": {"role": "assistant", "content": ""}}
    end = {"index": 0, "delta": {}, "finish_reason": "stop", **last}
    return [{"choices": [one]} for one in (first, *choices, end)]


def stream(fault, events, first_s=0.0, between_s=0.0, newline=b"\n"):
    """The events, ``first_s`` before the third one, which is the first with text."""

    def chunks():
        for number, one in enumerate(events):
            if number == 1:
                time.sleep(first_s)
            elif number:
                time.sleep(between_s)
            yield event(one).replace(b"\n", newline)

    return fault(chunks=chunks, headers={"content-type": "text/event-stream"})


@pytest.mark.parametrize("newline", [b"\n", b"\r\n"])
def test_a_streamed_chat_is_the_same_answer(served, model_of, ask, fault, newline):
    parts = ("Hé", "llo", " \u2028wörld", " {}")
    events = [*deltas(*parts), USAGE, "[DONE]"]
    served.faults.append(stream(fault, events, newline=newline))
    (found,) = ask(model_of(stream="true"), CHAT)
    assert found.text == "".join(parts)
    assert (found.finish, found.n_prompt_tokens, found.n_tokens) == ("stop", 7, 5)
    body = served.bodies[0][1]
    assert body["stream"] is True
    assert body["stream_options"] == {"include_usage": True}


def _events(write, end="\n\n"):
    parts = [*deltas("a", "b", "c"), USAGE]
    return "".join(f"{write(one)}{end}" for one in parts)


def _data(value, indent=None):
    lines = json.dumps(value, indent=indent).splitlines()
    return "\n".join(f"data: {line}" for line in lines)


@pytest.mark.parametrize(
    "text",
    [
        _events(lambda one: _data(one, indent=1)),
        _events(lambda one: f": ping\nevent: message\nid: 7\n{_data(one)}\nretry: 9"),
        _events(lambda one: f"{_data(one)}\nevent: message\n: ping\n\n: ping"),
        _events(lambda one: _data(one).replace(": ", ":", 1)),
        _events(lambda one: f"data:\n\n{_data(one, indent=0)}").replace("\n", "\r"),
        _events(lambda one: _data(one, indent=0)).replace("\n", "\r\n"),
        f"\ufeff{_events(_data)}",
        f"id: 1\n{_events(_data)}",
        _events(_data, end="\n"),
        f"{_events(_data)}data: [DONE]",
        _events(_data).rstrip(),
    ],
    ids=[
        "several lines of data",
        "other fields and comments",
        "fields after the data",
        "no space after the colon",
        "CR and empty data",
        "CRLF",
        "byte order mark",
        "an id first",
        "no blank lines",
        "no newline after DONE",
        "no newline at the end",
    ],
)
def test_a_stream_is_parsed_by_the_rules_of_server_sent_events(
    served, model_of, ask, fault, text
):
    """https://html.spec.whatwg.org/multipage/server-sent-events.html#parsing"""
    headers = {"content-type": "text/event-stream"}
    served.faults.append(fault(body=text, headers=headers))
    (found,) = ask(model_of(stream="true", max_retries=0), CHAT)
    assert (found.text, found.error) == ("abc", "")
    assert (found.finish, found.n_tokens) == ("stop", 5)


def test_the_text_parts_of_a_streamed_message_are_the_answer(
    served, model_of, ask, fault
):
    """Mistral's format: reasoning as parts, and then strings or parts."""
    hm = {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}
    for more in (["Par", "is"], ["Par", [{"type": "text", "text": "is"}], ""]):
        served.faults.append(stream(fault, [*deltas([hm], *more, None), "[DONE]"]))
        (found,) = ask(model_of(stream="true"), CHAT)
        assert (found.text, found.error) == ("Paris", "")


def test_a_streamed_tool_call_is_an_error_and_not_paid_again(
    served, model_of, ask, fault
):
    events = [*deltas("", finish_reason="tool_calls"), "[DONE]"]
    served.fault = lambda body: stream(fault, events)
    (found,) = ask(model_of(stream="true"), CHAT)
    assert "the answer has no text, only tool calls" in found.error
    assert "fix" not in found.error
    assert len(served.bodies) == 1


def test_a_streamed_completion_has_its_top_logprobs(served, model_of, ask, fault):
    texts = [
        {"text": t, "logprobs": {"tokens": [t], "top_logprobs": [{t: -0.5, "z": -2.0}]}}
        for t in ("a", "b")
    ]
    events = [{"choices": [{"index": 0, **one}]} for one in texts]
    events.append({"choices": [{"index": 0, "text": "", "finish_reason": "length"}]})
    served.faults.append(stream(fault, [*events, USAGE, "[DONE]"]))
    request = Generate("Q:", options=(("top_logprobs", 2),))
    (found,) = ask(model_of(stream="true"), request)
    assert (found.text, found.finish) == ("ab", "length")
    assert [one[0] for one in found.top_logprobs] == ["a", "b"]


def test_a_server_that_does_not_stream_is_understood(served, model_of, ask):
    model = model_of(stream="true")
    assert ask(model, CHAT)[0].text == "said Q:"
    latency = with_latency(model.info)["latency"]
    assert latency["first_token_s"] == "unknown: the server does not stream"


@pytest.mark.parametrize(
    ("events", "words"),
    [
        (deltas("a", "b")[:-1], "the stream ended before the answer did"),
        ([*deltas("a"), "{nonsense"], "an event of the stream is invalid"),
        ([{"choices": [3]}], "an event of the stream is invalid"),
        ([{"choices": 3}], "an event of the stream is invalid"),
        ([[1], {}], "an event of the stream is invalid"),
        ([{"error": {"message": "boom", "code": 500}}], "the server returned 500"),
        ([*deltas("a")[:-1], VLLM_ERROR, "[DONE]"], "the server returned 500"),
        ([*deltas("a")[:-1], {"type": "error", "message": "boom"}], "boom"),
        ([], "the reply is not JSON"),
    ],
)
def test_a_broken_stream_is_an_error_and_not_an_answer(
    served, model_of, ask, fault, events, words
):
    served.fault = lambda body: stream(fault, events)
    (found,) = ask(model_of(stream="true", max_retries=1), CHAT)
    assert words in found.error
    assert "(2 attempts)" in found.error
    assert not found.text


@pytest.mark.parametrize("is_last", [False, True])
def test_an_event_named_error_is_an_error(served, model_of, ask, fault, is_last):
    data = event({"message": "overloaded", "code": 503}).strip() + b"\n"
    error = data + b"event: error\n\n" if is_last else b"event: error\n" + data
    parts = [*map(event, deltas("a")[:-1]), error]
    served.fault = lambda body: fault(chunks=lambda: iter(parts))
    (found,) = ask(model_of(stream="true", max_retries=0), CHAT)
    assert "the server returned 503: 'overloaded'" in found.error


def test_a_stream_ends_at_done(served, model_of, ask, fault):
    events = [*deltas("a"), "[DONE]", *deltas("b")]
    served.faults.append(stream(fault, events))
    (found,) = ask(model_of(stream="true"), CHAT)
    assert found.text == "a"


@pytest.mark.slow
def test_latencies_to_the_first_token_and_per_token(served, model_of, ask, fault):
    events = [*deltas("a", "b", "c", "d", "e"), USAGE, "[DONE]"]
    served.fault = lambda body: stream(fault, events, first_s=0.3, between_s=0.05)
    model = model_of(stream="true", concurrency=1)
    ask(model, *[Generate((Message("user", f"Q{i}"),)) for i in range(3)])
    info = with_latency(model.info)["latency"]
    assert info["first_token_s"]["n"] == 3
    assert 0.28 < info["first_token_s"]["p50"] < 0.6
    # 5 tokens; 4 pauses between them, then 3 to the end of the stream
    assert 0.06 < info["per_token_s"]["p50"] < 0.15
    assert info["reply_s"]["p95"] >= info["reply_s"]["p50"] > 0.6
    assert info["per_token_includes_prompt"] is False
    assert 0.5 < info["replies_per_s"] < 1.6


@pytest.mark.slow
@pytest.mark.parametrize(
    ("delta", "n_tokens"), [({}, 4), ({"reasoning_content": "thinking"}, 104)]
)
def test_the_latency_per_token_leaves_out_reasoning_before_the_first_token(
    served, model_of, ask, fault, delta, n_tokens
):
    """104 tokens, 100 of them reasoning, which this server does or does not stream; 0.3
    seconds pass after the first part."""
    usage = {
        "prompt_tokens": 7,
        "completion_tokens": 104,
        "completion_tokens_details": {"reasoning_tokens": 100},
    }
    parts = deltas("a", "b", "c", "d")
    parts[0]["choices"][0]["delta"] |= delta
    served.faults.append(
        stream(fault, [*parts, {"choices": [], "usage": usage}, "[DONE]"], 0.05, 0.05)
    )
    model = model_of(stream="true")
    (found,) = ask(model, CHAT)
    assert found.n_tokens == 104
    latency = with_latency(model.info)["latency"]
    rest = latency["reply_s"]["p50"] - latency["first_token_s"]["p50"]
    expected = pytest.approx(rest / (n_tokens - 1), rel=0.05)
    assert latency["per_token_s"]["p50"] == expected


def test_a_stream_without_text_does_not_count_as_no_stream(
    served, model_of, ask, fault
):
    end = [{"index": 0, "text": "", "finish_reason": "stop"}]
    usage = {"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 0}}
    served.faults.append(stream(fault, [{"choices": end}, usage, "[DONE]"]))
    model = model_of(stream="true")
    (found,) = ask(model, Generate("Q:"))
    assert (found.text, found.error) == ("", "")
    assert "first_token_s" not in with_latency(model.info)["latency"]


def test_without_a_stream_the_first_token_is_unknown(served, model_of, ask):
    model = model_of()
    ask(model, CHAT)
    latency = with_latency(model.info)["latency"]
    assert latency["first_token_s"] == "unknown: stream=true measures it"
    assert latency["per_token_includes_prompt"] is True


@pytest.mark.parametrize(
    ("more", "seconds"),
    [
        ({"timings": {"prompt_ms": 125.0}}, 0.125),  # llama.cpp
        ({"usage": {"queue_time": 0.05, "prompt_time": 0.2}}, 0.25),  # Groq
        ({"timings": {"prompt_ms": "soon"}}, None),
        ({"timings": [], "usage": {"prompt_time": -1}}, None),
    ],
)
def test_times_that_a_server_reports_are_used(served, model_of, ask, more, seconds):
    choice = {"text": "a", "finish_reason": "stop"}
    served.reply = lambda path, body: {"choices": [choice], **more}
    model = model_of()
    ask(model, Generate("Q:"))
    first = with_latency(model.info)["latency"]["first_token_s"]
    if seconds is None:
        assert first.startswith("unknown")
    else:
        assert first["p50"] == pytest.approx(seconds, rel=0.02)


def test_percentiles_of_several_workers_are_those_of_all_replies():
    usages = [{}, {}]
    for number in range(1, 101):
        Timings(usages[number % 2]).replied(number / 10, 0)
    summed = with_usage([{"usage": usage} for usage in usages])
    reply = with_latency(summed)["latency"]["reply_s"]
    assert reply["n"] == 100
    assert reply["p50"] == pytest.approx(5.0, rel=0.02)
    assert reply["p95"] == pytest.approx(9.5, rel=0.02)


def test_percentile_of_one_value_is_that_value():
    usage = {}
    Timings(usage).replied(0.2, 0)
    for share in (0.5, 0.95):
        assert percentile(usage["times"]["reply_s"], share) == pytest.approx(0.2, 0.02)


def test_streaming_does_not_change_stored_responses():
    specs = ("openai:m", "openai:m,stream=true")
    first, second = (fingerprint_of(parse_spec(spec), str) for spec in specs)
    assert first == second


def test_streamed_reasoning_without_an_answer_is_an_error(served, model_of, ask, fault):
    parts = [{"delta": {"reasoning_content": one}} for one in ("The answer ", "is 4")]
    events = [*deltas(), *({"choices": [one]} for one in parts), "[DONE]"]
    events = [*events[:1], *events[2:-1], events[1], "[DONE]"]
    served.faults.append(stream(fault, events))
    (found,) = ask(model_of(stream="true"), CHAT)
    assert "the reply has only reasoning" in found.error


def test_a_streamed_refusal_is_a_response_with_its_text(served, model_of, ask, fault):
    first, last = deltas()
    parts = [{"choices": [{"delta": {"refusal": one}}]} for one in ("I ", "can't.")]
    served.faults.append(stream(fault, [first, *parts, last, "[DONE]"]))
    (found,) = ask(model_of(stream="true"), CHAT)
    assert (found.text, found.finish) == ("I can't.", "refused")
