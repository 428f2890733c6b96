"""Scorers of tool calls."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from pytest_evals import (
    Response,
    call_order,
    called,
    case,
    max_calls,
    no_tool_calls,
    not_called,
    tool_arguments,
    tool_calls,
    tool_f1,
    tool_names,
)
from pytest_evals.core.returned import calls_of
from pytest_evals.errors import DocumentError, EvalsError
from pytest_evals.scorers.bfcl import bfcl_fault

RECORDED = json.loads(
    gzip.decompress((Path(__file__).parent / "bfcl_verdicts.json.gz").read_bytes())
)


def made(*calls):
    """A response with calls: name, and arguments by keyword."""
    return Response(calls=calls_of([{"name": n, "arguments": a} for n, a in calls]))


PAY = {"amount": 4, "unit": "EUR"}


def test_verdicts_are_those_of_bfcl():
    assert len(RECORDED["cases"]) == 1000
    wrong = [
        (functions, truth, reply, verdict)
        for functions, truth, reply, verdict in RECORDED["cases"]
        if (not bfcl_fault([next(iter(c.items())) for c in reply], truth, functions))
        != verdict
    ]
    assert wrong == []


@pytest.mark.parametrize(
    ("target", "calls", "verdict"),
    [
        # Plain targets: arguments are equal as JSON.
        ([{"name": "pay", "arguments": PAY}], [("pay", PAY)], True),
        ([{"name": "pay", "arguments": PAY}], [("pay", {**PAY, "amount": 4.0})], True),
        ([{"name": "pay", "arguments": PAY}], [("pay", {**PAY, "amount": "4"})], False),
        ([{"name": "pay", "arguments": PAY}], [("pay", {**PAY, "unit": "eur"})], False),
        ([{"name": "pay", "arguments": PAY}], [("pay", {**PAY, "x": 1})], False),
        ([{"name": "pay", "arguments": PAY}], [("pay", {"amount": 4})], False),
        ([{"name": "f", "arguments": {"on": True}}], [("f", {"on": 1})], False),
        ([{"name": "f", "arguments": {}}], [("f", {"a": 1})], False),
        ([{"name": "f"}], [("f", {"a": 1})], True),
        (["f"], [("f", {"a": 1})], True),
        ([{"name": "f", "arguments": {"a": [1, 2]}}], [("f", {"a": [2, 1]})], False),
        # Accepted values; "" is an argument that may be missing.
        ([{"pay": {"amount": [4, 5], "unit": ["EUR", ""]}}], [("pay", PAY)], True),
        ([{"pay": {"amount": [4, 5], "unit": ["EUR", ""]}}], [("pay", {"amount": 5})],
         True),
        ([{"pay": {"amount": [4, 5]}}], [("pay", {"amount": 6})], False),
        ([{"book": {"room": [{"beds": [1, 2], "view": ["sea", ""]}]}}],
         [("book", {"room": {"beds": 2}})], True),
        ([{"book": {"room": [{"beds": [1, 2], "view": ["sea", ""]}]}}],
         [("book", {"room": {"beds": 3}})], False),
        ([{"book": {"guests": [[{"name": ["Ann"]}]]}}],
         [("book", {"guests": [{"name": "Ann"}]})], True),
        # A plain call has its values alone: no marks in them.
        ([{"name": "f", "arguments": {"a": ""}}], [("f", {})], False),
        ([{"name": "f", "arguments": {"o": {"a": ["x", "y"]}}}],
         [("f", {"o": {"a": "x"}})], False),
        # Names: servers accept no dots.
        ([{"shop.pay": {"amount": [4]}}], [("shop_pay", {"amount": 4})], True),
        ([{"pay": {"amount": [4]}}], [("buy", {"amount": 4})], False),
        # The number of calls, and their assignment.
        ([], [], True),
        ([], [("pay", PAY)], False),
        (["f"], [], False),
        (["f"], [("f", {}), ("f", {})], False),
        ([{"w": {"city": ["Oslo", "Bergen"]}}, {"w": {"city": ["Oslo"]}}],
         [("w", {"city": "Oslo"}), ("w", {"city": "Bergen"})], True),
        # Arguments that are not JSON are wrong, not an error.
        (["f"], [("f", '{"a": 1')], False),
        ([{"name": "f", "arguments": {"a": 1}}], [("f", '{"a": 1')], False),
        ([{"name": "f", "arguments": {"a": 1}}], [("f", '{"a": 1}')], True),
        ('[{"name": "f", "arguments": {"a": 1}}]', [("f", {"a": 1})], True),
    ],
)  # fmt: skip
def test_calls_are_compared_with_the_target(target, calls, verdict):
    score = tool_calls()(made(*calls), case("q", target=target))
    assert (score.correct, score.value) == (verdict, float(verdict))
    assert bool(score.explanation) != verdict


TWO = [{"name": "a", "arguments": {"n": 1}}, {"name": "b", "arguments": {"n": 2}}]


@pytest.mark.parametrize(
    ("calls", "values"),
    [
        # Any order, strict order, extra calls, names, share of arguments, F1.
        ("ab", (1, 1, 1, 1, 1, 1)),
        ("ba", (1, 0, 1, 1, 1, 1)),
        ("axb", (0, 0, 1, 0, 2 / 3, 0.8)),
        ("a", (0, 0, 0, 0, 0.5, 2 / 3)),
        ("", (0, 0, 0, 0, 0, 0)),
        ("aB", (0, 0, 0, 1, 0.5, 0.5)),
    ],
)
def test_scorers_of_one_target(calls, values):
    arguments = {"a": {"n": 1}, "b": {"n": 2}, "x": {"n": 3}, "B": {"n": 9}}
    response = made(*((one.lower(), arguments[one]) for one in calls))
    scorers = (
        tool_calls(),
        tool_calls(order="strict"),
        tool_calls(extra="allow"),
        tool_names(),
        tool_arguments(),
        tool_f1(),
    )
    given = case("q", target=TWO)
    found = [one(response, given).value for one in scorers]
    assert found == pytest.approx(values)


CALLS = made(("find", {"id": 7}), ("refund", {"order": "A-17", "amount": 4.9}))


@pytest.mark.parametrize(
    ("scorer", "verdict"),
    [
        (called("refund"), True),
        (called(["refund", "find"]), True),
        (called({"refund": {"order": "{{order}}"}}), True),
        (called({"refund": {"amount": 4.90}, "find": None}), True),
        (called({"find": {"id": "{{number}}"}}), True),
        (called({"find": {"id": "{{text}}"}}), True),
        (called({"find": {"id": "7"}}), False),
        (called({"find": {"id": "{{yes}}"}}), False),
        (called({"refund": {"order": "B-2"}}), False),
        (called("delete"), False),
        (not_called("delete"), True),
        (not_called({"refund": {"order": "B-2"}}), True),
        (not_called("find"), False),
        (~called("delete"), True),
        (max_calls(2), True),
        (max_calls(1), False),
        (call_order(["find", "refund"]), True),
        (call_order(["refund", "find"]), False),
        (no_tool_calls(), False),
        (~no_tool_calls(), True),
    ],
)
def test_conditions_on_calls(scorer, verdict):
    score = scorer(CALLS, case("q", order="A-17", number=7, text="7", yes=True))
    assert score.correct is verdict
    assert bool(score.explanation) != verdict


def test_arguments_that_are_wrong_are_named():
    given = case("q", target=[{"pay": {"amount": [4]}}])
    score = tool_calls()(made(("pay", {"amount": 5})), given)
    assert score.explanation == "pay: amount is 5, expected 4"
    assert score.answer == 'pay({"amount": 5})'


def test_a_target_that_is_no_list_of_calls_is_an_error():
    for target in (None, 4, "pay", [3], [{"a": 1, "b": 2}]):
        with pytest.raises(DocumentError, match="not a list of tool calls"):
            tool_calls()(made(), case("q", target=target))


def test_conditions_that_name_no_tool_are_refused():
    for make in (
        lambda: called([{"refund": {"order": "A-17"}}]),
        lambda: not_called(5),
        lambda: call_order([]),
    ):
        with pytest.raises(EvalsError, match="fix: "):
            make()


def test_bfcl_rules_read_the_functions_of_the_row():
    pay = {"type": "dict", "properties": {"unit": {"type": "string"}}, "required": []}
    tools = [{"type": "function", "function": {"name": "pay", "parameters": pay}}]
    given = case("q", target=[{"pay": {"unit": ["New York"]}}], tools=tools)
    response = made(("pay", {"unit": "new-york"}))
    assert tool_calls(rules="bfcl")(response, given).correct
    assert not tool_calls()(response, given).correct
    with pytest.raises(DocumentError, match="needs the functions"):
        tool_calls(rules="bfcl")(response, case("q", target=[{"pay": {}}]))
    with pytest.raises(EvalsError, match="sets the order"):
        tool_calls(rules="bfcl", order="strict")
