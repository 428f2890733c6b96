"""Traces, items and solver outputs. DOC, CORE and OBS mean LatticeFlow's documentation,
its code, and measurements of it (3.17.0)."""

import json
from copy import deepcopy

import pytest

from pytest_evals.errors import DocumentError
from pytest_evals.guests.latticeflow.prompts.items import (
    FunctionCall,
    Message,
    OutputTextContent,
    messages_of,
    unwrap,
)
from pytest_evals.guests.latticeflow.prompts.output import (
    ModelResponse,
    SolverOutput,
    SolverTrace,
)
from pytest_evals.guests.latticeflow.prompts.trace import Trace, trace_of

CALL = {"type": "function_call", "call_id": "c1", "name": "look", "arguments": "{}"}
GAVE = {"type": "function_call_output", "call_id": "c1", "output": "ok"}
CHAT = [
    {"role": "system", "content": "Be brief."},
    {"role": "assistant", "content": "Welcome."},
    {"role": "user", "content": "Hi"},
    CALL,
    GAVE,
    {"role": "assistant", "content": "Hello."},
    {"role": "user", "content": "Bye"},
    {"role": "assistant", "content": "So long."},
]


def reply(text, **more):
    message = {"role": "assistant", "content": text}
    return {"choices": [{"message": message, **more}], "usage": None}


def test_items_before_the_first_message_of_the_user_are_the_preamble():
    """CORE: all items except system messages omit the preamble."""
    trace = Trace(CHAT)
    assert [item.role for item in trace.preamble] == ["system", "assistant"]
    assert [m.content[0].text for m in trace.assistant_messages] == [
        "Hello.",
        "So long.",
    ]
    assert [m.content[0].text for m in trace.system_messages] == ["Be brief."]
    assert len(trace.user_messages) == 2
    assert len(trace.conversation_items) == 6


def test_dialogues_begin_with_a_user_message():
    first, second = Trace(CHAT).turns
    assert first.user_message.content[0].text == "Hi"
    assert [call.name for call in first.function_calls] == ["look"]
    assert first.function_call_pairs[0][1].output == "ok"
    assert [m["content"][0]["text"] for m in second.assistant_messages] == ["So long."]


def test_a_trace_has_the_methods_that_templates_call():
    trace = Trace(CHAT)
    assert trace.get_last_assistant_text() == "So long."
    assert trace.get_last_user_text() == "Bye"
    assert trace.get_first_system_prompt() == "Be brief."
    assert trace.get_function_calls_by_name("look") == trace.function_calls
    assert trace.get_function_output_for_call("c1").output == "ok"
    assert trace.get_function_output_for_call("c9") is None
    assert trace.get_function_call_arguments(trace.function_calls[0]) == {}
    assert trace.get_function_output_text(trace.function_outputs[0]) == "ok"
    nothing = Trace()
    assert nothing.get_last_assistant_text() is None
    assert nothing.get_first_system_prompt() is None
    assert (nothing.turns, nothing.preamble) == ([], [])


def test_texts_and_refusals_of_a_message_are_joined_by_newlines():
    """DOC."""
    parts = [{"type": "output_text", "text": "a"}, {"type": "refusal", "refusal": "b"}]
    item = {"type": "message", "role": "assistant", "content": parts}
    assert Trace([item]).get_last_assistant_text() == "a\nb"


def test_a_trace_without_the_user_has_only_system_messages_as_preamble():
    trace = Trace([{"role": "system", "content": "s"}, CALL])
    assert [call.name for call in trace.function_calls] == ["look"]


@pytest.mark.parametrize(
    "form",
    [
        CHAT,
        {"messages": CHAT},
        {"items": CHAT},
        {"events": [{"item": one} for one in CHAT]},
        json.dumps(CHAT),
        json.dumps({"items": CHAT, "metadata": {"k": 1}}),
        Trace(CHAT),
    ],
    ids=["messages", "OpenAI", "items", "events", "JSON", "JSON of items", "trace"],
)
def test_a_recorded_trace_may_have_any_of_these_forms(form):
    """OBS: upstream accepts a plain message as a custom item without a warning."""
    assert trace_of(form) == Trace(CHAT)


@pytest.mark.parametrize(
    ("form", "message"),
    [
        (3, "not a trace: 3"),
        ({"a": 1}, "not a trace: {'a': 1}"),
        ("[", "invalid JSON in a trace: '['"),
        ([3], "an item of a trace must be a mapping, not 3"),
        ([{"x": 1}], "an item of a trace needs a type or a role, not {'x': 1}"),
        (
            [{"role": "bot"}],
            "a message's role must be one of system, user, assistant, "
            "developer, not 'bot'",
        ),
    ],
)
def test_an_invalid_trace_is_rejected(form, message):
    with pytest.raises(DocumentError) as caught:
        trace_of(form)
    assert str(caught.value) == message


def test_calls_of_functions_survive_the_way_to_messages_and_back():
    messages = [
        {"role": "user", "content": "Hi"},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {
                    "id": "c1",
                    "type": "function",
                    "function": {"name": "look", "arguments": '{"a": 1}'},
                }
            ],
        },
        {"role": "tool", "tool_call_id": "c1", "content": "ok"},
        {"role": "assistant", "content": "Done.", "session": 7},
    ]
    items = trace_of(messages).items
    assert [item["type"] for item in items] == [
        "message",
        "function_call",
        "function_call_output",
        "message",
    ]
    assert messages_of(items) == messages


def test_an_output_is_read_by_attribute_and_by_key():
    """CORE."""
    output = SolverOutput(raw_outputs=[reply("no"), reply("Paris")])
    assert output.output.choices[0].message.content == "Paris"
    assert output.output["choices"][0]["message"]["content"] == "Paris"
    assert output.messages[-1].content == output.messages[-1]["content"] == "Paris"


def test_an_output_as_text_is_the_answer():
    """Decision 10: upstream prints its fields."""
    assert str(SolverOutput(raw_outputs=[reply("Paris")]).output) == "Paris"
    assert str(SolverOutput(trace=CHAT).output) == "So long."
    with pytest.raises(DocumentError, match="no answer"):
        str(SolverOutput(raw_outputs=[{"choices": []}]).output)


def test_only_the_first_choice_counts():
    """CORE."""
    raw = {"choices": [*reply("a")["choices"], *reply("b")["choices"]]}
    assert ModelResponse(raw).text == "a"
    assert SolverOutput(raw_outputs=[raw]).answer == "a"


def test_an_agents_items_are_seen_as_a_chat():
    raw = {"items": [CALL, GAVE, {"role": "assistant", "content": "Done."}]}
    output = SolverOutput(raw_outputs=[raw])
    assert output.output.choices[0].message.content == "Done."
    assert len(output.trace.items) == 3
    assert SolverOutput(raw_outputs=[{"items": [CALL]}]).output.choices == []


def test_outputs_of_custom_tasks_are_unchanged():
    output = SolverOutput(raw_outputs=[{"score": 3}])
    assert (output.output.score, output.messages) == (3, [{"score": 3}])
    assert SolverOutput(raw_outputs=["yes"]).answer == "yes"
    with pytest.raises(DocumentError, match="no answer"):
        output.answer  # noqa: B018


def test_references_become_citations():
    raw = reply("Paris", references=[{"content": "one"}, {"content": "two"}])
    assert SolverOutput(raw_outputs=[raw]).references == ["one", "two"]


def test_a_snippet_writes_a_trace():
    trace = SolverTrace()
    trace.append_system_message("s")
    trace.append_user_message("u")
    trace.append(Message(role="assistant", content=[OutputTextContent(text="a")]))
    trace.extend([FunctionCall(name="f", call_id="1", arguments="{}")])
    trace.add_model_response(ModelResponse(reply("b")))
    assert [m.content for m in SolverOutput(trace=trace.trace).messages] == list("suab")
    assert trace.raw_outputs == [reply("b")]
    with pytest.raises(DocumentError, match="not coroutine; await it"):
        trace.add_model_response(late := _late())
    late.close()


async def _late():
    return None


def test_a_response_without_text_is_reported():
    with pytest.raises(DocumentError, match="output has no text"):
        ModelResponse({"choices": []}).text  # noqa: B018


def test_parts_can_be_copied_changed_and_written_as_json():
    part = Message(role="assistant", content="a")
    twin = deepcopy(part)
    twin.content[0].text = "b"
    assert (part.content[0].text, type(twin)) == ("a", Message)
    assert json.loads(json.dumps(part)) == unwrap(part)
    assert type(unwrap(part)) is dict
    with pytest.raises(
        AttributeError, match="unknown field 'rol'; did you mean 'role'"
    ):
        part.rol  # noqa: B018
