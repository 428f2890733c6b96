"""Verdicts of ``tool_calls`` on made cases in the form of the Berkeley Function Calling
Leaderboard. The verdicts were written by hand from the rules of the docs: arguments are
JSON values, ``""`` is an argument that may be missing, calls are in any order."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from pytest_evals.core.case import Case
from pytest_evals.core.request import Response
from pytest_evals.core.returned import calls_of
from pytest_evals.scorers.tool_calls import no_tool_calls, tool_calls

VALUES = """\
[4] | 4 R | 4.0 R | 5 W | "4" W | true W | null W | [4] W | {"x": 4} W
[1] | 1 R | 1.0 R | true W | "1" W | false W
[0] | 0 R | 0.0 R | false W | null W | "" W | [] W
[4.9] | 4.9 R | 4.90 R | 4 W | "4.9" W | 5 W | 4.91 W
[-3] | -3 R | -3.0 R | 3 W | "-3" W
[100000000000] | 100000000000 R | 1e11 R | 100000000001 W
[true] | true R | 1 W | "true" W | false W | null W
[false] | false R | 0 W | "" W | null W | "false" W
["EUR"] | "EUR" R | "eur" W | "EUR " W | "Euro" W | null W | ["EUR"] W
["A-17"] | "A-17" R | "A17" W | "a-17" W | "A_17" W
["São Paulo"] | "São Paulo" R | "S\\u00e3o Paulo" R | "Sao Paulo" W
["4"] | "4" R | 4 W | "4.0" W
["EUR", "Euro"] | "EUR" R | "Euro" R | "USD" W | ["EUR", "Euro"] W
[4, 5] | 4 R | 5 R | 5.0 R | 4.5 W | [4, 5] W | "5" W
[null] | null R | "null" W | 0 W | "" W
[null, "all"] | null R | "all" R | "All" W | [] W
[[1, 2]] | [1, 2] R | [1.0, 2] R | [2, 1] W | [1] W | [1, 2, 3] W | "[1, 2]" W | 1 W
[[1, 2], [2, 1]] | [1, 2] R | [2, 1] R | [2, 2] W | [1] W
[["a"]] | ["a"] R | "a" W | ["A"] W | [] W
["2026-11-01"] | "2026-11-01" R | "2026-11-1" W | 20261101 W | "01.11.2026" W
["say \\"hi\\""] | "say \\"hi\\"" R | "say 'hi'" W | "say hi" W
["a\\nb"] | "a\\nb" R | "a b" W | "a\\r\\nb" W
[0.1] | 0.1 R | 0.10000000000000001 R | 0.30000000000000004 W
[[1, [2, 3]]] | [1, [2, 3]] R | [1, 2, 3] W | [1, [3, 2]] W
[[true, 0]] | [true, 0] R | [1, false] W | [true, false] W
[[]] | [] R | null W | "" W | [[]] W
[{"beds": [1, 2], "view": ["sea", ""]}] | {"beds": 2} R | \
{"beds": 1, "view": "sea"} R | \
{"beds": 3} W | {"view": "sea"} W | {"beds": 2, "view": "city"} W | \
{"beds": 2, "pets": 1} W | {"beds": "2"} W | {} W | "beds" W
[[{"name": ["Ann"], "age": [30, ""]}]] | [{"name": "Ann", "age": 30}] R | \
[{"name": "Ann"}] R | [{"name": "Ann", "age": 31}] W | [{"age": 30}] W | [] W | \
[{"name": "Ann"}, {"name": "Ann"}] W | {"name": "Ann"} W
"""
"""Accepted values of an argument, then values of a call: right (R) or wrong (W)."""

FIND, PAY = '{"find": {"id": ["A"]}}', '{"pay": {"sum": [4, 5], "unit": ["EUR", ""]}}'
F, P = '{"name": "find", "arguments": {"id": "A"}}', '{"name": "pay", "arguments": %s}'
CALLS = f"""\
[{PAY}] | [{P % '{"sum": 4}'}] R | [{P % '{"sum": 5, "unit": "EUR"}'}] R
[{PAY}] | [{P % '{"unit": "EUR"}'}] W | [{P % '{"sum": 4, "unit": "USD"}'}] W
[{PAY}] | [{P % '{"sum": 4, "note": "x"}'}] W | [{P % "{}"}] W | [] W
[{PAY}] | [{P % '{"Sum": 4}'}] W | [{P % '{"sum": 4, "unit": null}'}] W
[{PAY}] | [{P % '{"sum": 4}'}, {P % '{"sum": 4}'}] W | [{P % '{"sum": 4}'}, {F}] W
[{PAY}] | [{F}] W | [{{"name": "Pay", "arguments": {{"sum": 4}}}}] W
[{PAY}] | [{{"name": "pay", "arguments": "sum=4"}}] W
[{PAY}] | [{{"name": "pay", "arguments": "{{\\"sum\\": 4}}"}}] R
[{PAY}] | [{{"name": "pay", "arguments": "{{\\"sum\\": 4"}}] W
[{PAY}] | [{{"name": "pay", "arguments": [4]}}] W
[{PAY}] | [{{"name": "pay", "arguments": {{"sum": 4}}, "error": "declined"}}] R
[{FIND}, {PAY}] | [{F}, {P % '{"sum": 4}'}] R | [{P % '{"sum": 4}'}, {F}] R
[{FIND}, {PAY}] | [{F}] W | [{P % '{"sum": 4}'}] W | [{F}, {F}] W | [] W
[{FIND}, {PAY}] | [{F}, {P % '{"sum": 6}'}] W | [{F}, {P % '{"sum": 5}'}, {F}] W
[{FIND}, {FIND}] | [{F}, {F}] R | [{F}] W | [{F}, {F}, {F}] W
[{{"weather": {{"city": ["Oslo", "Bergen"]}}}}, {{"weather": {{"city": ["Oslo"]}}}}] | \
[{{"name": "weather", "arguments": {{"city": "Oslo"}}}}, \
{{"name": "weather", "arguments": {{"city": "Bergen"}}}}] R | \
[{{"name": "weather", "arguments": {{"city": "Bergen"}}}}, \
{{"name": "weather", "arguments": {{"city": "Oslo"}}}}] R | \
[{{"name": "weather", "arguments": {{"city": "Oslo"}}}}, \
{{"name": "weather", "arguments": {{"city": "Oslo"}}}}] R | \
[{{"name": "weather", "arguments": {{"city": "Bergen"}}}}, \
{{"name": "weather", "arguments": {{"city": "Bergen"}}}}] W
[{{"shop.pay": {{"sum": [4]}}}}] | \
[{{"name": "shop.pay", "arguments": {{"sum": 4}}}}] R | \
[{{"name": "shop_pay", "arguments": {{"sum": 4}}}}] R | \
[{{"name": "shoppay", "arguments": {{"sum": 4}}}}] W | [{P % '{"sum": 4}'}] W
[{{"now": {{}}}}] | [{{"name": "now", "arguments": {{}}}}] R | [{{"name": "now"}}] R | \
[{{"name": "now", "arguments": ""}}] R | [{{"name": "now", "arguments": {{"x": 1}}}}] W
[{{"list": {{"page": [1, ""], "size": [10, ""]}}}}] | [{{"name": "list"}}] R | \
[{{"name": "list", "arguments": {{"page": 1}}}}] R | \
[{{"name": "list", "arguments": {{"size": 10.0, "page": 1}}}}] R | \
[{{"name": "list", "arguments": {{"page": 2}}}}] W | \
[{{"name": "list", "arguments": {{"page": 1, "sort": "a"}}}}] W
[{{"name": "pay", "arguments": {{"sum": 4}}}}] | [{P % '{"sum": 4}'}] R | \
[{P % '{"sum": 4.0}'}] R | [{P % '{"sum": 4, "unit": "EUR"}'}] W | [{P % "{}"}] W
[{{"name": "pay", "arguments": {{"sum": [4, 5]}}}}] | [{P % '{"sum": [4, 5]}'}] R | \
[{P % '{"sum": 4}'}] W
[{{"name": "pay"}}] | [{P % '{"sum": 4}'}] R | [{P % "{}"}] R | [{F}] W | [] W
[] | [] R | [{F}] W | [{{"name": "find", "arguments": "broken"}}] W
"""
"""Targets, then calls."""
EXTRA = f"""\
[{FIND}] | [{F}, {P % "{}"}] R | [{P % "{}"}, {F}] R | [{F}, {F}] R | [{P % "{}"}] W
[{FIND}, {PAY}] | [{F}, {P % '{"sum": 9}'}, {P % '{"sum": 4}'}] R | [{F}, {F}] W
[] | [{F}] R | [] R
"""
"""The same if further calls are right."""
STRICT = f"""\
[{FIND}, {PAY}] | [{F}, {P % '{"sum": 4}'}] R | [{P % '{"sum": 4}'}, {F}] W | [{F}] W
[{FIND}, {PAY}] | [{F}, {P % '{"sum": 4}'}, {F}] W
[{PAY}, {PAY}] | [{P % '{"sum": 4}'}, {P % '{"sum": 5}'}] R | [{P % '{"sum": 4}'}] W
"""
"""The same if the order counts."""


def cases(table: str) -> Iterator[tuple[Any, Any, bool]]:
    """Target, calls and verdict of each case."""
    for line in table.splitlines():
        target, *given = line.split(" | ")
        for one in given:
            text, verdict = one.rsplit(" ", 1)
            yield json.loads(target), json.loads(text), {"R": True, "W": False}[verdict]


def arguments() -> Iterator[tuple[Any, Any, bool]]:
    """The cases of :data:`VALUES` as calls with one argument."""
    for accepted, value, verdict in cases(VALUES):
        yield (
            [{"f": {"x": accepted}}],
            [{"name": "f", "arguments": {"x": value}}],
            verdict,
        )


ALL = {
    "values": (tool_calls(), [*arguments()]),
    "calls": (tool_calls(), [*cases(CALLS)]),
    "extra": (tool_calls(extra="allow"), [*cases(EXTRA)]),
    "strict": (tool_calls(order="strict"), [*cases(STRICT)]),
}


@pytest.mark.parametrize("name", ALL)
def test_made_calls_have_the_verdict_of_the_rules(name):
    scorer, listed = ALL[name]
    faults = []
    for target, calls, verdict in listed:
        case = Case(prompt="q", target=target)
        score = scorer(Response(calls=calls_of(calls)), case)
        if score.correct is not verdict or bool(score.explanation) is verdict:
            faults.append((json.dumps(target), json.dumps(calls), score))
    assert not faults


def test_calls_are_irrelevant_whatever_their_arguments():
    for _, calls, _ in ALL["calls"][1]:
        score = no_tool_calls()(Response(calls=calls_of(calls)), Case(prompt="q"))
        assert score.correct is (calls == [])


def test_there_are_two_hundred_cases():
    assert sum(len(listed) for _, listed in ALL.values()) >= 200
