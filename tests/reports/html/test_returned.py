"""What applications returned, as the page shows it."""

from __future__ import annotations

from pytest_evals.reports.html.returned import returned_fields


def shown(name, value):
    ((found, part),) = returned_fields({name: value})
    assert found == name
    return part


def names(tree):
    """The names of calls, each with those of the calls that it made."""
    return [(one["line"].partition("(")[0], names(one["inner"])) for one in tree]


def call(name, id_=None, parent=None, **more):
    return {"name": name, "arguments": {}, "id": id_, "parent": parent, **more}


def test_calls_are_below_the_calls_that_made_them():
    tree = shown("calls", [call("c", 3, 2), call("a", 1), call("b", 2, 1), call("d")])
    assert names(tree) == [("a", [("b", [("c", [])])]), ("d", [])]


def test_no_call_is_lost_and_none_is_shown_twice():
    """Unknown parents, calls that name each other or themselves, ids that occur
    twice."""
    calls = [call("a", 1, 9), call("b", 2, 3), call("c", 3, 2), call("d", 4, 4)]
    tree = shown("calls", [*calls, call("e", 1), call("f", 5, 1)])
    assert names(tree) == [
        ("a", [("f", [])]),
        ("e", []),
        ("b", [("c", [])]),
        ("d", []),
    ]


def test_fields_of_a_call_are_indented_json_with_all_digits():
    (one,) = shown("calls", [call("pay", 1, amount=None, result={"n": 2**80})])
    assert one["fields"] == [
        ("arguments", "{}"),
        ("amount", "null"),
        ("result", f'{{\n  "n": {2**80}\n}}'),
    ]
    assert not one["failed"]
    (one,) = shown("calls", [call("pay", error="lost", result="text")])
    assert one["failed"] and ("result", "text") in one["fields"]


def test_messages_have_their_calls_texts_and_data():
    messages = [
        {"role": "user", "content": [{"type": "text", "text": "Refund"}]},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {"id": "x", "function": {"name": "pay", "arguments": '{"n": 1}'}}
            ],
        },
        {"role": "tool", "content": "paid", "tool_call_id": "x"},
        {"role": "assistant", "content": "Done", "contexts": ["a"], "data": {"b": 1}},
    ]
    user, calling, tool, last = shown("messages", messages)
    assert (user["role"], user["text"], user["returned"]) == ("user", "Refund", [])
    ((name, tree),) = calling["returned"]
    assert (name, calling["text"]) == ("calls", "")
    assert tree[0]["line"] == 'pay({"n": 1})'
    assert tool["returned"] == [("metadata", '{\n  "tool_call_id": "x"\n}')]
    assert last["returned"] == [
        ("data", '{\n  "b": 1\n}'),
        ("contexts", [{"about": "", "text": "a"}]),
    ]


def test_contexts_are_a_list():
    contexts = ["one", {"id": 7, "text": "two", "score": 0.5}, {"id": "bare"}]
    assert shown("contexts", contexts) == [
        {"about": "", "text": "one"},
        {"about": "id 7, score 0.5", "text": "two"},
        {"about": "id bare", "text": ""},
    ]


def test_other_forms_are_json():
    """Samples files of other programs have what they have."""
    for name in ("calls", "contexts", "messages"):
        assert shown(name, {"a": 1}) == '{\n  "a": 1\n}'
        assert shown(name, [7]) == "[\n  7\n]"
