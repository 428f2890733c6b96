"""Return values of applications."""

from __future__ import annotations

from datetime import date

import pytest

from pytest_evals.core.model import AdaptedModel
from pytest_evals.core.request import Generate, Response
from pytest_evals.core.response_contract import checked_response
from pytest_evals.errors import DocumentError
from pytest_evals.models.python.functions import response_in
from pytest_evals.store.rows import response_body, row_checksum, row_response


class Named:
    name = "app"

    def answer(self, requests):
        return []


def checked(given):
    """A return value as scorers get it."""
    return checked_response(Generate("q"), response_in(given), AdaptedModel(Named()))


def nested(depth):
    value = []
    for _ in range(depth):
        value = [value]
    return value


class Dumped:
    """An object of pydantic, as clients return them."""

    def model_dump(self, mode):
        assert mode == "json"
        function = {"name": "f", "arguments": '{"a": 1}'}
        return {"id": "1", "type": "function", "function": function}


class Document:
    """A document of LangChain."""

    page_content, metadata = "text", {"id": 3}


CALL = {"name": "f", "arguments": {"a": 1}}


@pytest.mark.parametrize(
    ("given", "calls"),
    [
        ([CALL], [CALL]),
        ([Dumped()], [{**CALL, "id": "1"}]),
        ([{"type": "tool_call", "name": "f", "args": {"a": 1}}], [CALL]),
        ([{"name": "f"}], [{"name": "f", "arguments": {}}]),
        ([{"name": "f", "arguments": ""}], [{"name": "f", "arguments": {}}]),
        ([{"name": "f", "arguments": "{a"}], [{"name": "f", "arguments": "{a"}]),
        ([{**CALL, "result": [1], "error": "no", "parent": "0"}],
         [{**CALL, "result": [1], "error": "no", "parent": "0"}]),
    ],
)  # fmt: skip
def test_calls_of_frameworks_have_one_form(given, calls):
    assert checked({"text": "t", "calls": given}).calls == tuple(calls)


def test_a_dict_has_the_fields_of_a_response():
    response = checked(
        {
            "messages": [
                {"role": "user", "content": "hi"},
                {"role": "assistant", "content": [{"type": "text", "text": "ho"}]},
            ],
            "contexts": ["plain", Document(), {"id": "d", "score": 0.5}],
            "usage": {"input_tokens": 12, "output_tokens": 3},
            "cost": 0.01,
            "metadata": {"session": "s"},
            "data": None,
        }
    )
    assert response.error == ""
    assert response.text == "ho"
    assert response.contexts == (
        {"text": "plain"},
        {"id": 3, "text": "text", "metadata": {"id": 3}},
        {"id": "d", "score": 0.5},
    )
    assert (response.n_prompt_tokens, response.n_tokens, response.cost) == (12, 3, 0.01)
    assert response.metadata == {"session": "s"}


def test_data_alone_is_the_answer_as_json():
    assert checked({"data": {"a": [1, "é"]}}).text == '{"a": [1, "é"]}'


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (4, "4 \\(int\\)\n  fix: return a str, a dict or a Response"),
        ({}, "an empty dict"),
        ({"text": "a", "tool_calls": []}, "the key 'tool_calls'; did you mean 'calls'"),
        ({"messages": [{"role": "user"}]}, "without an answer of the assistant"),
    ],
)
def test_other_values_are_errors_with_a_fix(given, message):
    with pytest.raises(DocumentError, match=message):
        response_in(given)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("calls", [{"arguments": {}}]),
        ("calls", {"name": "f"}),
        ("contexts", [{"score": 1}]),
        ("contexts", "text"),
        ("messages", [{"content": "x"}]),
        ("data", {1, 2}),
        ("data", float("nan")),
        ("data", nested(3000)),
        ("usage", [1]),
    ],
)
def test_invalid_fields_are_named(field, value):
    error = checked({"text": "t", field: value}).error
    assert f"answer() gave {field}=" in error


def test_a_part_that_is_not_json_is_named():
    calls = [{"name": "f", "result": {"day": date(2026, 1, 2)}}]
    error = checked({"text": "t", "calls": calls}).error
    assert error.endswith("and a date in it is not a JSON value")


def test_what_an_application_returned_is_stored():
    response = checked(
        {
            "text": "t",
            "data": [0],
            "calls": [CALL],
            "contexts": ["c"],
            "usage": {"n": 1},
        }
    )
    body = response_body(response).encode()
    assert row_response(b"k", body, row_checksum(b"k", body)) == response
    old = b'{"text":"t","steps":[{"tool":"f"}]}'
    assert row_response(b"k", old, row_checksum(b"k", old)) == Response(
        text="t", steps=({"tool": "f"},)
    )
