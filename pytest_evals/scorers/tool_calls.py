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
from dataclasses import dataclass, replace
from typing import Any, Literal

from pytest_evals.core.case import Case
from pytest_evals.core.record import Score
from pytest_evals.core.request import Response
from pytest_evals.core.returned import call_text, compact
from pytest_evals.errors import DocumentError, EvalsError
from pytest_evals.scorers.answers import AnswerScorer, binary
from pytest_evals.scorers.arguments import checked_arguments
from pytest_evals.scorers.bfcl import ABSENT, bfcl_fault, functions_of, same_name
from pytest_evals.scorers.templates import ScorerTemplate, rendered, templates_in
from pytest_evals.scorers.values import difference

Call = Mapping[str, Any]
Order = Literal["any", "strict"]
Extra = Literal["forbid", "allow"]
Rules = Literal["json", "bfcl"]
_FUNCTIONS = ("tools", "function", "functions")
"""Columns with the descriptions of functions."""


@dataclass(frozen=True, slots=True)
class ExpectedCall:
    """A call of the target.

    Args:
        name: Name of the tool.
        accepted: Argument → its accepted values; ``None`` if any arguments are right.
    """

    name: str
    accepted: Mapping[str, Sequence[Any]] | None

    def __str__(self) -> str:
        """Name and accepted values."""
        if self.accepted is None:
            return f"{self.name}(…)"
        shown = {
            key: values[0] if len(values) == 1 else [*values]
            for key, values in self.accepted.items()
        }
        return f"{self.name}({compact(shown)})"

    def n_right(self, call: Call) -> int:
        """Number of right arguments, and of optional ones that are missing."""
        given = call["arguments"] if isinstance(call["arguments"], Mapping) else {}
        return sum(_is_right(given, key, values) for key, values in self._items())

    def n_arguments(self, call: Call | None) -> int:
        """Number of arguments that are expected or given."""
        given = call["arguments"] if call else {}
        keys = {*given} if isinstance(given, Mapping) else set[str]()
        return len(keys | {key for key, _ in self._items()}) if self.accepted else 0

    def fault(self, call: Call) -> str:
        """Why a call is not this one; empty if it is."""
        given = call["arguments"]
        if not same_name(call["name"], self.name):
            return f"{call['name']} instead of {self.name}"
        if self.accepted is None:
            return ""
        if not isinstance(given, Mapping):
            return f"{self.name}: the arguments are not a JSON object: {given!r:.80}"
        for key in given:
            if key not in self.accepted:
                return f"{self.name}: unexpected argument {key!r}"
        for key, values in self._items():
            if not _is_right(given, key, values):
                was = compact(given[key]) if key in given else "missing"
                wanted = " or ".join(compact(one) for one in values)
                return f"{self.name}: {key} is {was}, expected {wanted}"
        return ""

    def _items(self) -> Sequence[tuple[str, Sequence[Any]]]:
        return [*(self.accepted or {}).items()]


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
            rows then have the functions in a column ``function`` or ``tools``.

    Raises:
        EvalsError: ``rules="bfcl"`` is combined with ``order`` or ``extra``.
    """
    if rules == "bfcl" and (order, extra) != ("any", "forbid"):
        raise EvalsError(f"{name}: rules: bfcl sets the order and extra calls itself")

    def score(response: Response, case: Case) -> Score:
        expected, calls = expected_calls(case.target), response.calls
        if rules == "bfcl":
            fault = _bfcl(calls, expected, case)
        elif order == "strict":
            fault = _in_order(calls, expected, extra)
        else:
            fault = _in_any_order(calls, expected, extra)
        return binary(not fault, fault, _shown(response))

    return _comparing(_scorer(name, score, order=order, extra=extra, rules=rules))


@checked_arguments
def tool_names(
    *, order: Order = "any", extra: Extra = "forbid", name: str = "tool_names"
) -> AnswerScorer:
    """Whether the tools called are those of the target; arguments are not compared.

    Args:
        order: As in :func:`tool_calls`.
        extra: As in :func:`tool_calls`.
    """

    def score(response: Response, case: Case) -> Score:
        expected = [ExpectedCall(one.name, None) for one in expected_calls(case.target)]
        compare = _in_order if order == "strict" else _in_any_order
        fault = compare(response.calls, expected, extra)
        return binary(not fault, fault, _shown(response))

    return _comparing(_scorer(name, score, order=order, extra=extra))


@checked_arguments
def tool_arguments(*, name: str = "tool_arguments") -> AnswerScorer:
    """The share of arguments that are right, of all that are expected or given; calls
    are assigned by name to those of the target, so that as many as possible are right.
    1 without any; further calls count as wrong."""

    def score(response: Response, case: Case) -> Score:
        expected, calls = expected_calls(case.target), [*response.calls]
        pairs = _best_pairs(calls, expected)
        right = sum(one.n_right(call) for one, call in pairs if call)
        total = sum(one.n_arguments(call) for one, call in pairs)
        used = [id(call) for _, call in pairs]
        total += sum(
            max(len(call["arguments"]), 1)
            for call in calls
            if id(call) not in used and isinstance(call["arguments"], Mapping)
        )
        missing = sum(call is None for _, call in pairs)
        value = right / total if total else float(not missing)
        return _share(value, f"{right} of {total} arguments are right", response)

    return _comparing(_scorer(name, score))


@checked_arguments
def tool_f1(*, name: str = "tool_f1") -> AnswerScorer:
    """F1 of the calls: twice the number of right ones over those of answer and target
    together; 1 without any."""

    def score(response: Response, case: Case) -> Score:
        expected, calls = expected_calls(case.target), response.calls
        right = len(_assigned(calls, expected))
        total = len(expected) + len(calls)
        value = 2 * right / total if total else 1.0
        why = f"{right} of {len(expected)} expected calls, {len(calls)} made"
        return _share(value, why, response)

    return _comparing(_scorer(name, score))


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
            arguments = rendered(given, case, f"{name}: {tool}") or {}
            made = [one for one in response.calls if same_name(one["name"], tool)]
            if not any(_has(one["arguments"], arguments) for one in made):
                shown = f"{tool}({compact(arguments)})" if arguments else tool
                others = f"; called {'; '.join(map(call_text, made))}" if made else ""
                return binary(
                    False, f"{shown} was not called{others}", _shown(response)
                )
        return binary(True, "", _shown(response))

    templates = tuple(templates_in(wanted, name))
    return _scorer(name, score, templates=templates, calls=wanted)


@checked_arguments
def not_called(
    calls: Mapping[str, Any] | Sequence[str] | str, *, name: str = "not_called"
) -> AnswerScorer:
    """Whether none of these tools was called, or none with these arguments.

    Args:
        calls: As in :func:`called`.
    """
    wanted = _wanted(calls, name)

    def score(response: Response, case: Case) -> Score:
        for tool, given in wanted.items():
            arguments = rendered(given, case, f"{name}: {tool}") or {}
            for one in response.calls:
                if same_name(one["name"], tool) and _has(one["arguments"], arguments):
                    fault = f"called {call_text(one)}"
                    return binary(False, fault, _shown(response))
        return binary(True, "", _shown(response))

    templates = tuple(templates_in(wanted, name))
    return _scorer(name, score, templates=templates, calls=wanted)


@checked_arguments
def max_calls(most: int, *, name: str = "max_calls") -> AnswerScorer:
    """Whether an answer took at most so many tool calls, failed ones included."""
    if most < 0:
        raise EvalsError(f"{name}: the number of calls is {most}, not 0 or more")

    def score(response: Response, case: Case) -> Score:
        n = len(response.calls)
        return binary(n <= most, f"{n} calls, at most {most}", _shown(response))

    return _scorer(name, score, most=most)


@checked_arguments
def call_order(tools: Sequence[str], *, name: str = "call_order") -> AnswerScorer:
    """Whether these tools were called in this order; others may be in between."""

    def score(response: Response, case: Case) -> Score:
        left = [*tools]
        for call in response.calls:
            if left and same_name(call["name"], left[0]):
                del left[0]
        made = ", ".join(call["name"] for call in response.calls) or "nothing"
        why = f"no {left[0]!r} in its place: called {made}" if left else ""
        return binary(not left, why, _shown(response))

    return _scorer(name, score, tools=[*tools])


def expected_calls(target: Any) -> list[ExpectedCall]:
    """Return the calls of a target; text is read as JSON.

    Raises:
        DocumentError: It is not a list of calls.
    """
    if isinstance(target, str):
        try:
            target = json.loads(target)
        except ValueError:
            raise _no_calls(target) from None
    if isinstance(target, Mapping):
        target = [target]
    if not isinstance(target, list | tuple):
        raise _no_calls(target)
    return [_expected(one) for one in target]


def _expected(given: Any) -> ExpectedCall:
    if isinstance(given, str):
        return ExpectedCall(given, None)
    if not isinstance(given, Mapping):
        raise _no_calls(given)
    if isinstance(given.get("name"), str) and set(given) <= {"name", "arguments"}:
        arguments = given.get("arguments")
        if arguments is None:
            return ExpectedCall(given["name"], None)
        if isinstance(arguments, Mapping):
            plain = {key: [value] for key, value in arguments.items()}
            return ExpectedCall(given["name"], plain)
    if len(given) == 1:
        ((name, accepted),) = given.items()
        if isinstance(accepted, Mapping) and all(
            isinstance(one, list | tuple) for one in accepted.values()
        ):
            return ExpectedCall(str(name), accepted)
    raise _no_calls(given)


def _no_calls(given: Any) -> DocumentError:
    return DocumentError(
        "the target is not a list of tool calls: "
        f"{json.dumps(given, default=repr)[:80]}"
        '\n  fix: [{"name": "pay", "arguments": {"amount": 4}}]; or accepted values: '
        '[{"pay": {"amount": [4, 5], "unit": ["EUR", ""]}}]; [] for no call'
    )


def _is_right(given: Mapping[str, Any], key: str, accepted: Sequence[Any]) -> bool:
    if key not in given:
        return ABSENT in accepted
    return any(_fits(given[key], one) for one in accepted)


def _fits(given: Any, accepted: Any) -> bool:
    return not difference(given, accepted) or _nested(given, accepted)


def _nested(given: Any, accepted: Any) -> bool:
    """Whether a value fits accepted values inside of mappings."""
    if isinstance(given, list | tuple) and isinstance(accepted, list | tuple):
        pairs = zip(given, accepted, strict=False)
        return len(given) == len(accepted) and all(_fits(*pair) for pair in pairs)
    if not isinstance(given, Mapping) or not isinstance(accepted, Mapping):
        return False
    if not all(isinstance(one, list | tuple) for one in accepted.values()):
        return False
    return given.keys() <= accepted.keys() and all(
        _is_right(given, key, values) for key, values in accepted.items()
    )


def _assigned(
    calls: Sequence[Call], expected: Sequence[ExpectedCall]
) -> Mapping[int, int]:
    """Position of a call → that of the expected call that it is assigned to; as many as
    possible (augmenting paths, Kuhn 1955)."""
    fits = [
        [n for n, call in enumerate(calls) if not one.fault(call)] for one in expected
    ]
    found = dict[int, int]()

    def assign(number: int, seen: set[int]) -> bool:
        for n in fits[number]:
            if n not in seen:
                seen.add(n)
                if n not in found or assign(found[n], seen):
                    found[n] = number
                    return True
        return False

    for number in range(len(expected)):
        assign(number, set())
    return found


def _best_pairs(
    calls: Sequence[Call], expected: Sequence[ExpectedCall]
) -> list[tuple[ExpectedCall, Call | None]]:
    """Each expected call and the call of its name that it is assigned to, so that as
    many arguments as possible are right."""
    from scipy.optimize import linear_sum_assignment

    if not calls:
        return [(one, None) for one in expected]
    gain = [
        [
            1 + one.n_right(call) if same_name(one.name, call["name"]) else 0
            for call in calls
        ]
        for one in expected
    ]
    if not gain:
        return []
    rows, columns = linear_sum_assignment(gain, maximize=True)
    found = {int(n): calls[m] for n, m in zip(rows, columns, strict=True) if gain[n][m]}
    return [(one, found.get(n)) for n, one in enumerate(expected)]


def _in_any_order(
    calls: Sequence[Call], expected: Sequence[ExpectedCall], extra: Extra
) -> str:
    found = _assigned(calls, expected)
    missing = [one for n, one in enumerate(expected) if n not in found.values()]
    free = [call for n, call in enumerate(calls) if n not in found]
    if missing:
        near = [one for one in free if same_name(one["name"], missing[0].name)]
        return missing[0].fault(near[0]) if near else f"{missing[0]} was not called"
    if free and extra == "forbid":
        return f"further call {call_text(free[0])}"
    return ""


def _in_order(
    calls: Sequence[Call], expected: Sequence[ExpectedCall], extra: Extra
) -> str:
    if extra == "forbid":
        pairs = zip(expected, calls, strict=False)
        faults = [one.fault(call) for one, call in pairs]
        if fault := next(filter(None, faults), ""):
            return fault
        return _in_any_order(calls, expected, extra)
    left = [*expected]
    for call in calls:
        if left and not left[0].fault(call):
            del left[0]
    return f"{left[0]} was not called in its place" if left else ""


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


def _wanted(given: Any, name: str) -> Mapping[str, Any]:
    if isinstance(given, str):
        given = [given]
    if not isinstance(given, Mapping):
        given = dict.fromkeys(given)
    for tool, arguments in given.items():
        if arguments is not None and not isinstance(arguments, Mapping):
            raise EvalsError(
                f"{name}: the arguments of {tool} are {arguments!r:.40}\n"
                f"  fix: {name}: {{{tool}: {{order_id: A-17}}}}"
            )
    if not given:
        raise EvalsError(f"{name}: no tool is named\n  fix: {name}: refund")
    return {**given}


def _has(given: Any, wanted: Mapping[str, Any]) -> bool:
    """Whether arguments have these values among others; text of a template equals a
    number that is written alike."""
    if not isinstance(given, Mapping):
        return not wanted
    return all(
        key in given
        and (not difference(given[key], one) or _written(given[key]) == one)
        for key, one in wanted.items()
    )


def _written(value: Any) -> Any:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return compact(value) if is_number else value


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
