"""Scorers of tool calls: comparisons with the calls of the target, and conditions.

The target is a list of calls, empty if no call is right. A call is ``{name: pay,
arguments: {amount: 4}}`` (without ``arguments`` any are right), or has accepted values
for each argument as in the Berkeley Function Calling Leaderboard: ``{pay: {amount: [4,
5], unit: ["EUR", ""]}}``, where ``""`` says that an argument may be missing.

Values are compared as JSON: 4 equals 4.0 and not true, texts are equal in every
character, mappings and lists are equal in all their values. Each call of the target is
assigned to another call, so that as many as possible fit. ``rules="bfcl"`` are those of
:mod:`~pytest_evals.scorers.bfcl` instead.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

from pytest_evals.core.case import Case
from pytest_evals.core.record import Score
from pytest_evals.core.request import Response
from pytest_evals.core.returned import call_text, compact
from pytest_evals.errors import DocumentError, EvalsError, plural
from pytest_evals.scorers.answers import AnswerScorer, binary
from pytest_evals.scorers.arguments import checked_arguments
from pytest_evals.scorers.bfcl import bfcl_fault, functions_of, same_name
from pytest_evals.scorers.call_matches import (
    Call,
    ExpectedCall,
    Extra,
    assigned,
    best_pairs,
    expected_calls,
    fault_in_any_order,
    fault_in_order,
    has_arguments,
)
from pytest_evals.scorers.templates import ScorerTemplate, readings, templates_in

Order = Literal["any", "strict"]
Rules = Literal["json", "bfcl"]
_FUNCTIONS = ("tools", "function", "functions")
"""Columns with the descriptions of functions."""


@checked_arguments
def tool_calls(
    *,
    order: Order = "any",
    extra: Extra = "forbid",
    rules: Rules = "json",
    name: str = "tool_calls",
) -> AnswerScorer:
    """Whether the tool calls of an answer are those of the target.

    Args:
        order: ``strict`` if calls must be in the order of the target.
        extra: Whether further calls are right.
        rules: ``bfcl`` for the rules of the Berkeley Function Calling Leaderboard; the
            rows then have the functions in a column ``function`` or ``tools``;
            it cannot be combined with ``order`` or ``extra``.
    """
    if rules == "bfcl" and (order, extra) != ("any", "forbid"):
        raise EvalsError(f"{name}: rules: bfcl sets the order and extra calls itself")

    def score(response: Response, case: Case) -> Score:
        expected, calls = expected_calls(case.target), response.calls
        compare = fault_in_order if order == "strict" else fault_in_any_order
        if rules == "bfcl":
            fault = _bfcl(calls, expected, case)
        else:
            fault = compare(calls, expected, extra)
        return binary(not fault, fault, _shown(response))

    return _comparing(_scorer(name, score, order=order, extra=extra, rules=rules))


@checked_arguments
def tool_names(
    *, order: Order = "any", extra: Extra = "forbid", name: str = "tool_names"
) -> AnswerScorer:
    """Whether the tools called are those of the target; arguments are not compared.

    ``order`` and ``extra`` are as in :func:`tool_calls`."""

    def score(response: Response, case: Case) -> Score:
        expected = [ExpectedCall(one.name, None) for one in expected_calls(case.target)]
        compare = fault_in_order if order == "strict" else fault_in_any_order
        calls = [{**one, "arguments": {}} for one in response.calls]
        fault = compare(calls, expected, extra)
        return binary(not fault, fault, _shown(response))

    return _comparing(_scorer(name, score, order=order, extra=extra))


@checked_arguments
def tool_arguments(*, name: str = "tool_arguments") -> AnswerScorer:
    """The share of arguments that are right, of all that are expected or given; calls
    are assigned by name to those of the target, so that as many as possible are right.
    1 without any; further calls count as wrong."""

    def score(response: Response, case: Case) -> Score:
        expected, calls = expected_calls(case.target), [*response.calls]
        pairs = best_pairs(calls, expected)
        right = sum(one.n_right(call) for one, call in pairs if call)
        total = sum(one.n_arguments(call) for one, call in pairs)
        used = [id(call) for _, call in pairs]
        total += sum(
            max(len(given), 1) if isinstance(given := call["arguments"], Mapping) else 1
            for call in calls
            if id(call) not in used
        )
        missing = sum(call is None for _, call in pairs)
        value = right / total if total else float(not missing)
        return _share(value, f"{right} of {total} arguments are right", response)

    return replace(_comparing(_scorer(name, score)), is_graded=True)


@checked_arguments
def tool_f1(*, name: str = "tool_f1") -> AnswerScorer:
    """F1 of the calls: twice the number of right ones over those of answer and target
    together; 1 without any."""

    def score(response: Response, case: Case) -> Score:
        expected, calls = expected_calls(case.target), response.calls
        right, total = len(assigned(calls, expected)), len(expected) + len(calls)
        why = f"{right} of {len(expected)} expected calls, {len(calls)} made"
        return _share(2 * right / total if total else 1.0, why, response)

    return replace(_comparing(_scorer(name, score)), is_graded=True)


@checked_arguments
def no_tool_calls(*, name: str = "no_tool_calls") -> AnswerScorer:
    """Whether an answer has no tool calls."""

    def score(response: Response, case: Case) -> Score:
        named = ", ".join(call["name"] for call in response.calls)
        return binary(not named, f"called {named}", _shown(response))

    return _scorer(name, score)


@checked_arguments
def called(
    calls: Mapping[str, Any] | Sequence[str] | str, *, name: str = "called"
) -> AnswerScorer:
    """Whether each of these tools was called, in any order, among any others.

    Args:
        calls: Name of a tool, several, or name → the arguments that a call must have
            among others; ``None`` for any. Texts are templates over the case's row.
    """
    wanted = _wanted(calls, name)

    def score(response: Response, case: Case) -> Score:
        for tool, given in wanted.items():
            arguments = _readings(given, case, f"{name}: {tool}")
            made = [one for one in response.calls if same_name(one["name"], tool)]
            if not any(has_arguments(one["arguments"], arguments) for one in made):
                first = {key: values[0] for key, values in arguments.items()}
                shown = f"{tool}({compact(first)})" if arguments else tool
                others = f"; called {'; '.join(map(call_text, made))}" if made else ""
                fault = f"{shown} was not called{others}"
                return binary(False, fault, _shown(response))
        return binary(True, "", _shown(response))

    templates = tuple(templates_in(wanted, name))
    return _scorer(name, score, templates=templates, calls=wanted)


@checked_arguments
def not_called(
    calls: Mapping[str, Any] | Sequence[str] | str, *, name: str = "not_called"
) -> AnswerScorer:
    """Whether none of these tools was called, or none with these arguments.

    ``calls`` are as in :func:`called`."""
    wanted = _wanted(calls, name)

    def score(response: Response, case: Case) -> Score:
        for tool, given in wanted.items():
            arguments = _readings(given, case, f"{name}: {tool}")
            made = [one for one in response.calls if same_name(one["name"], tool)]
            for one in made:
                if has_arguments(one["arguments"], arguments):
                    return binary(False, f"called {call_text(one)}", _shown(response))
        return binary(True, "", _shown(response))

    templates = tuple(templates_in(wanted, name))
    return _scorer(name, score, templates=templates, calls=wanted)


@checked_arguments
def max_calls(most: int, *, name: str = "max_calls") -> AnswerScorer:
    """Whether an answer took at most so many tool calls, failed ones included."""
    if most < 0:
        raise EvalsError(f"{name}: the number of calls is {most}, not 0 or more")

    def score(response: Response, case: Case) -> Score:
        why = f"{plural(len(response.calls), 'call')}, at most {most}"
        return binary(len(response.calls) <= most, why, _shown(response))

    return _scorer(name, score, most=most)


@checked_arguments
def call_order(tools: Sequence[str], *, name: str = "call_order") -> AnswerScorer:
    """Whether these tools were called in this order; others may be in between."""

    if not tools:
        raise EvalsError(f"{name}: no tool is named\n  fix: {name}: [find, refund]")

    def score(response: Response, case: Case) -> Score:
        left = [*tools]
        for call in response.calls:
            if left and same_name(call["name"], left[0]):
                del left[0]
        made = ", ".join(call["name"] for call in response.calls) or "nothing"
        why = f"no {left[0]!r} in its place: called {made}" if left else ""
        return binary(not left, why, _shown(response))

    return _scorer(name, score, tools=[*tools])


def _bfcl(calls: Sequence[Call], expected: Sequence[ExpectedCall], case: Case) -> str:
    given = next((case.row[one] for one in _FUNCTIONS if one in case.row), ())
    if isinstance(given, str):
        given = json.loads(given)
    functions = [*functions_of(given if isinstance(given, list | tuple) else [given])]
    if expected and not functions:
        raise DocumentError(
            "rules: bfcl needs the functions of the row\n"
            "  fix: add a column 'function' or 'tools', or remove rules"
        )
    if any(one.accepted is None for one in expected):
        raise DocumentError("rules: bfcl needs the arguments of each call")
    truth = [{one.name: one.accepted or {}} for one in expected]
    made = [(one["name"], one["arguments"]) for one in calls]
    return bfcl_fault(made, truth, functions)


def _readings(given: Any, case: Case, key: str) -> Mapping[str, Sequence[Any]]:
    """Argument → its accepted values: the readings of its templates."""
    return {name: readings(one, case, key) for name, one in (given or {}).items()}


def _wanted(given: Any, name: str) -> Mapping[str, Any]:
    if isinstance(given, str):
        given = [given]
    if isinstance(given, list | tuple):
        if not all(isinstance(one, str) for one in given):
            raise EvalsError(
                f"{name}: arguments of tools are a mapping, not a list\n"
                f"  fix: {name}: {{refund: {{order_id: A-17}}, find_order: null}}"
            )
        given = dict.fromkeys(given)
    if not isinstance(given, Mapping):
        raise EvalsError(f"{name}: {given!r:.40} names no tool\n  fix: {name}: refund")
    for tool, arguments in given.items():
        if arguments is not None and not isinstance(arguments, Mapping):
            raise EvalsError(
                f"{name}: the arguments of {tool} are {arguments!r:.40}\n"
                f"  fix: {name}: {{{tool}: {{order_id: A-17}}}}"
            )
    if not given:
        raise EvalsError(f"{name}: no tool is named\n  fix: {name}: refund")
    return {**given}


def _shown(response: Response) -> str:
    return response.text or "; ".join(map(call_text, response.calls))


def _share(value: float, why: str, response: Response) -> Score:
    return Score(
        value=value, correct=value == 1, answer=_shown(response), explanation=why
    )


def _scorer(
    name: str,
    score: Callable[[Response, Case], Score],
    templates: tuple[ScorerTemplate, ...] = (),
    **settings: Any,
) -> AnswerScorer:
    return AnswerScorer(
        name=name,
        score=score,
        settings={"tool_calls": settings},
        templates=templates,
        reads_response=True,
    )


def _comparing(scorer: AnswerScorer) -> AnswerScorer:
    """A scorer of calls that are in the target, which is checked before the run."""
    return replace(scorer, check=lambda case: expected_calls(case.target))
