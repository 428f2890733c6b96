"""Tools of chat servers: what is sent, and the calls that come back."""

from __future__ import annotations

import json

import pytest

import pytest_evals as ev
from pytest_evals import evaluate
from pytest_evals.core.request import Generate, Message
from pytest_evals.prompts.tools import tools_text

PAY = {"name": "pay", "parameters": {"type": "object", "properties": {}}}
TOOLS = tools_text([PAY])
CHAT = Generate((Message("user", "Pay."),), options=(("tools", TOOLS),))


def call(name="pay", arguments='{"amount": 4}', **more):
    return {
        "type": "function",
        "function": {"name": name, "arguments": arguments},
        **more,
    }


def reply(message, finish="tool_calls"):
    choice = {"index": 0, "message": message, "finish_reason": finish}
    return {"choices": [choice], "usage": {"prompt_tokens": 7, "completion_tokens": 3}}


ONE = ({"name": "pay", "arguments": {"amount": 4}},)


@pytest.mark.parametrize(
    "given",
    [
        ({"content": None, "tool_calls": [call(id="1")]}, "tool_calls",
         ({**ONE[0], "id": "1"},), ""),
        # vLLM and SGLang report stop with calls.
        ({"content": "I pay.", "tool_calls": [call()]}, "stop", ONE, "I pay."),
        ({"content": None, "tool_calls": [call(), call("get", "")]}, "stop",
         (*ONE, {"name": "get", "arguments": {}}), ""),
        # Ollama's arguments are an object.
        ({"content": "", "tool_calls": [call(arguments={"amount": 4})]}, "stop",
         ONE, ""),
        # Arguments that are not JSON are kept, so that the call is wrong.
        ({"content": None, "tool_calls": [call(arguments='{"amount"')]}, "tool_calls",
         ({"name": "pay", "arguments": '{"amount"'},), ""),
        ({"content": None, "tool_calls": [call(arguments='{"am')]}, "length",
         ({"name": "pay", "arguments": '{"am', "truncated": True},), ""),
        ({"content": None, "function_call": call()["function"]}, "function_call",
         ONE, ""),
        # An empty list is no call.
        ({"content": "No.", "tool_calls": []}, "tool_calls", (), "No."),
        ({"content": "No.", "tool_calls": None}, "stop", (), "No."),
    ],
)  # fmt: skip
def test_calls_of_all_servers_have_one_form(served, model_of, ask, fault, given):
    message, finish, calls, text = given
    served.faults.append(fault(body=reply(message, finish)))
    (found,) = ask(model_of(api="chat"), CHAT)
    assert (found.error, found.calls, found.text) == ("", calls, text)
    assert served.bodies[-1][1]["tools"] == json.loads(TOOLS)


@pytest.mark.parametrize(
    "pieces",
    [
        [{"index": 0, "id": "a", "function": {"name": "pay", "arguments": ""}},
         {"index": 0, "function": {"arguments": '{"amount"'}},
         {"index": 1, "id": "b", "function": {"name": "get", "arguments": "{}"}},
         {"index": 0, "function": {"arguments": ": 4}"}}],
        # Ollama leaves out the index.
        [{"id": "a", "function": {"name": "pay", "arguments": '{"amount"'}},
         {"function": {"arguments": ": 4}"}},
         {"id": "b", "function": {"name": "get", "arguments": "{}"}}],
    ],
)  # fmt: skip
def test_streamed_pieces_of_calls_are_joined(served, model_of, ask, fault, pieces):
    deltas = [{"role": "assistant", "content": None, "tool_calls": None}]
    deltas += [{"tool_calls": [one]} for one in pieces]
    events = [{"choices": [{"index": 0, "delta": one}]} for one in deltas]
    events.append({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
    text = (
        "".join(f"data: {json.dumps(one)}\n\n" for one in events) + "data: [DONE]\n\n"
    )
    headers = {"content-type": "text/event-stream"}
    served.faults.append(fault(body=text, headers=headers))
    (found,) = ask(model_of(api="chat", stream="true"), CHAT)
    assert found.error == ""
    assert [(one["name"], one["arguments"], one["id"]) for one in found.calls] == [
        ("pay", {"amount": 4}, "a"),
        ("get", {}, "b"),
    ]


def test_tools_need_a_chat(served, model_of, ask):
    (found,) = ask(model_of(api="completions"), Generate("q", options=CHAT.options))
    assert "tools are sent in a chat only" in found.error


def test_calls_that_nobody_asked_for_are_an_error(served, model_of, ask, fault):
    served.faults.append(fault(body=reply({"content": None, "tool_calls": [call()]})))
    (found,) = ask(model_of(api="chat"), Generate(CHAT.prompt))
    assert "only tool calls" in found.error


def test_descriptions_of_bfcl_become_tools():
    given = [
        {
            "name": "shop.pay",
            "parameters": {
                "type": "dict",
                "properties": {
                    "type": {"type": "any"},
                    "size": {"type": "tuple", "items": {"type": "float"}},
                    "way": {"type": "string", "enum": ["dict"]},
                },
            },
        }
    ]
    (tool,) = json.loads(tools_text(given))
    assert tool == {
        "type": "function",
        "function": {
            "name": "shop_pay",
            "parameters": {
                "type": "object",
                "properties": {
                    "type": {"type": "string"},
                    "size": {"type": "array", "items": {"type": "number"}},
                    "way": {"type": "string", "enum": ["dict"]},
                },
            },
        },
    }


@pytest.mark.parametrize("tools", ["'{{tools}}'", "[{name: pay}]"])
def test_an_eval_sends_the_tools_of_its_rows(served, model_of, fault, tmp_path, tools):
    rows = [
        {
            "id": "a",
            "q": "Pay.",
            "tools": [{"name": "pay"}],
            "target": [{"pay": {"amount": [4]}}],
        }
    ]
    text = f"prompt: '{{{{q}}}}'\ntools: {tools}\nrows: {json.dumps(rows)}\nscore: tool_calls\n"  # noqa: E501
    (tmp_path / "pay.yaml").write_text(text)
    served.faults.append(fault(body=reply({"content": None, "tool_calls": [call()]})))
    (task,) = evaluate(tmp_path / "pay.yaml", model_of(api="chat")).tasks
    assert task.records[0].scores[0].value == 1.0
    sent = served.bodies[-1][1]["tools"]
    assert sent == [{"type": "function", "function": {"name": "pay"}}]


def test_an_eval_in_python_names_the_value_with_its_tools(served, model_of, fault):
    @ev.eval(score=[ev.no_tool_calls()], tools="offered")
    def bot():
        yield ev.case("Pay.", id="a", offered=[{"name": "pay"}])

    served.faults.append(fault(body=reply({"content": "No."}, "stop")))
    (task,) = evaluate(bot, model_of(api="chat")).tasks
    assert task.records[0].scores[0].value == 1.0
    assert served.bodies[-1][1]["tools"][0]["function"]["name"] == "pay"
