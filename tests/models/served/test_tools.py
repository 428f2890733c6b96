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


def silent(*calls):
    return {"role": "assistant", "content": None, "tool_calls": [*calls]}


def piece(arguments, name=None, **more):
    named = {"name": name} if name else {}
    return {**more, "function": {**named, "arguments": arguments}}


def streamed(deltas, finish):
    """The events of a stream: first the role, as servers send it, then each delta."""
    first = {"role": "assistant", "content": None, "tool_calls": None}
    choices = [{"index": 0, "delta": one} for one in (first, *deltas)]
    choices.append({"index": 0, "delta": {}, "finish_reason": finish})
    events = [json.dumps({"choices": [one]}) for one in choices]
    return "".join(f"data: {one}\n\n" for one in (*events, "[DONE]"))


PAY_4 = {"name": "pay", "arguments": {"amount": 4}}
GET = {"name": "get", "arguments": {}}
A_PAY, B_GET = PAY_4 | {"id": "a"}, GET | {"id": "b"}
A_PIECE = piece('{"amount"', "pay", id="a")
B_PIECE = piece("{}", "get", id="b")
TEXT = '<tool_call>{"name": "pay", "arguments": {"amount": 4}}</tool_call>'
REPLIES = {
    # A message, or the list of the pieces of calls of a stream; the finish reason, the
    # calls, and the text.
    "OpenAI": (silent(call(id="a"), call("get", "{}", id="b")), "tool_calls",
               (A_PAY, B_GET), ""),
    "text and a call": ({"content": "I pay.", "tool_calls": [call()]}, "tool_calls",
                        (PAY_4,), "I pay."),
    "SGLang reports stop, and numbers as ids": (
        {"content": None, "reasoning_content": "Hm",
         "tool_calls": [call(id="0", index=0), call(id="1", index=1)]}, "stop",
        (PAY_4 | {"id": "0"}, PAY_4 | {"id": "1"}), ""),
    "vLLM reports stop, and reasoning": (
        silent(call(id="a")) | {"reasoning": "Hm", "refusal": None}, "stop",
        (A_PAY,), ""),
    "no type": (silent({"function": call()["function"]}), "stop", (PAY_4,), ""),
    "NaN is not JSON": (silent(call(arguments='{"amount": NaN}')), "tool_calls",
                        (PAY_4 | {"arguments": '{"amount": NaN}'},), ""),
    "no ids": (silent(call(), call("get", "{}")), "tool_calls", (PAY_4, GET), ""),
    "equal indices": (silent(call(index=0), call(index=0)), "tool_calls",
                      (PAY_4, PAY_4), ""),
    "legacy": ({"content": None, "function_call": call()["function"]},
               "function_call", (PAY_4,), ""),
    "legacy and null": ({"content": None, "tool_calls": None,
                         "function_call": call()["function"]}, "function_call",
                        (PAY_4,), ""),
    "one call that is not in a list": ({"content": "", "tool_calls": call()}, "stop",
                                       (PAY_4,), ""),
    "custom tool": (silent({"type": "custom", "id": "a",
                            "custom": {"name": "sql", "input": "SELECT 1"}}),
                    "tool_calls",
                    ({"id": "a", "name": "sql", "arguments": "SELECT 1"},), ""),
    "Ollama's arguments are an object": (silent(call(arguments={"amount": 4})), "stop",
                                         (PAY_4,), ""),
    "empty arguments": (silent(call("get", ""), call("get", None), call("get", {})),
                        "stop", (GET, GET, GET), ""),
    # The text is kept, so that the call is wrong.
    "arguments that are not JSON": (silent(call(arguments="{'amount': 4}")),
                                    "tool_calls",
                                    (PAY_4 | {"arguments": "{'amount': 4}"},), ""),
    "arguments that are a list": (silent(call(arguments="[4]")), "tool_calls",
                                  (PAY_4 | {"arguments": "[4]"},), ""),
    "arguments that are cut off": (
        silent(call("get", "{}"), call(arguments='{"am')), "length",
        (GET, {"name": "pay", "arguments": '{"am', "truncated": True}), ""),
    "an empty list": ({"content": "No.", "tool_calls": []}, "tool_calls", (), "No."),
    "null": ({"content": "No.", "tool_calls": None}, "stop", (), "No."),
    "a call as text": ({"content": TEXT}, "stop", (), TEXT),
    "pieces": ([[A_PIECE | {"index": 0, "type": "function"}],
                [piece(": 4}", index=0), B_PIECE | {"index": 1}]], "tool_calls",
               (A_PAY, B_GET), ""),
    "pieces in turns": ([[A_PIECE | {"index": 0}], [B_PIECE | {"index": 1}],
                         [piece(": 4}", index=0)]], "tool_calls", (A_PAY, B_GET), ""),
    "pieces without index": ([[A_PIECE], [piece(": 4}")], [B_PIECE]], "stop",
                             (A_PAY, B_GET), ""),
    "pieces with an index in the first only": (
        [[A_PIECE | {"index": 0}], [piece(": 4}")], [B_PIECE | {"index": 1}]], "stop",
        (A_PAY, B_GET), ""),
    "whole calls without index and ids": (
        [[piece('{"amount": 4}', "pay"), piece('{"amount": 4}', "pay")],
         [piece("", "get")]], "stop", (PAY_4, PAY_4, GET), ""),
    "Google's calls have equal indices": (
        [[piece('{"amount": 4}', "pay", id="a", index=0)], [B_PIECE | {"index": 0}]],
        "stop", (A_PAY, B_GET), ""),
    "equal indices without ids": (
        [[piece('{"amount": 4}', "pay", index=0), piece("{}", "get", index=0)]],
        "stop", (PAY_4, GET), ""),
    "a new id in each piece of old vLLM": (
        [[A_PIECE | {"index": 0}], [piece(": 4}", index=0, id="x")]], "tool_calls",
        (A_PAY,), ""),
    "the name in each piece": (
        [[A_PIECE | {"index": 0}], [piece(": 4}", "pay", index=0)],
         [piece("", "pay", index=0)]], "tool_calls", (A_PAY,), ""),
    "the id in each piece": ([[A_PIECE], [piece(": 4}", id="a")]], "stop",
                             (A_PAY,), ""),
    "an object in a piece": ([[piece({"amount": 4}, "pay", id="a", index=0)]], "stop",
                             (A_PAY,), ""),
    "pieces without arguments": ([[{"index": 0, "function": {"name": "get"}}]], "stop",
                                 (GET,), ""),
    "pieces that are cut off": ([[A_PIECE | {"index": 0}]], "length",
                                ({**A_PAY, "arguments": '{"amount"',
                                  "truncated": True},), ""),
}  # fmt: skip


@pytest.mark.parametrize("name", REPLIES)
def test_calls_of_all_servers_have_one_form(served, model_of, ask, fault, name):
    given, finish, calls, text = REPLIES[name]
    more, headers = {}, {}
    body = reply(given, finish)
    if isinstance(given, list):
        more, headers = {"stream": "true"}, {"content-type": "text/event-stream"}
        body = streamed([{"tool_calls": one} for one in given], finish)
    served.faults.append(fault(body=body, headers=headers))
    model = model_of(api="chat", **more)
    (found,) = ask(model, CHAT)
    assert (found.error, found.calls, found.text) == ("", calls, text)
    assert served.bodies[-1][1]["tools"] == json.loads(TOOLS)
    assert any("resemble tool calls" in one for one in model.notes) == (text == TEXT)


def test_a_legacy_call_is_streamed(served, model_of, ask, fault):
    pieces = [{"name": "pay", "arguments": '{"amount"'}, {"arguments": ": 4}"}]
    text = streamed([{"function_call": one} for one in pieces], "function_call")
    served.faults.append(
        fault(body=text, headers={"content-type": "text/event-stream"})
    )
    (found,) = ask(model_of(api="chat", stream="true"), CHAT)
    assert (found.error, found.calls) == ("", (PAY_4,))


def test_more_calls_than_were_allowed_are_kept(served, model_of, ask, fault):
    served.faults.append(fault(body=reply(silent(call(), call("get", "{}")))))
    options = (*CHAT.options, ("parallel_tool_calls", False), ("tool_choice", "auto"))
    (found,) = ask(model_of(api="chat"), Generate(CHAT.prompt, options=options))
    sent = served.bodies[-1][1]
    assert (sent["parallel_tool_calls"], sent["tool_choice"]) == (False, "auto")
    assert found.calls == (PAY_4, GET)


@pytest.mark.parametrize("calls", [[{"id": "a"}], ["pay"], "pay", [None]])
def test_a_call_without_a_name_is_an_error(served, model_of, ask, fault, calls):
    served.fault = lambda body: fault(
        body=reply({"content": None, "tool_calls": calls})
    )
    (found,) = ask(model_of(api="chat", max_retries=1), CHAT)
    assert "a tool call has no name" in found.error


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


@pytest.mark.parametrize("tools", ["'{{tools}}'", "tools", "[{name: pay}]"])
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


@pytest.mark.parametrize("tools", ["offered", "{{ offered }}"])
def test_an_eval_in_python_names_the_value_with_its_tools(
    served, model_of, fault, tools
):
    @ev.eval(score=[ev.no_tool_calls()], tools=tools)
    def bot():
        yield ev.case("Pay.", id="a", offered=[{"name": "pay"}])

    served.faults.append(fault(body=reply({"content": "No."}, "stop")))
    (task,) = evaluate(bot, model_of(api="chat")).tasks
    assert task.records[0].scores[0].value == 1.0
    assert served.bodies[-1][1]["tools"][0]["function"]["name"] == "pay"
