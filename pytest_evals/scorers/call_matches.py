"""Tool calls of a target, compared with those of an answer.

Values are compared as JSON: 4 equals 4.0 and not true, texts are equal in every
character, mappings and lists are equal in all their values.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from pytest_evals.core.returned import call_text, compact
from pytest_evals.errors import DocumentError
from pytest_evals.scorers.bfcl import ABSENT, same_name
from pytest_evals.scorers.values import difference

Call = Mapping[str, Any]
Extra = Literal["forbid", "allow"]


@dataclass(frozen=True, slots=True)
class ExpectedCall:
    """A call of the target."""

    name: str  # name of the tool
    accepted: Mapping[str, Sequence[Any]] | None
    """Argument → its accepted values; ``None`` if any arguments are right."""
    is_plain: bool = False
    """Whether they are values alone: no mark of an optional argument, and nested lists
    are lists."""

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
        return sum(self._is_right(given, key, values) for key, values in self._items())

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
        if not isinstance(given, Mapping):
            return f"{self.name}: the arguments are not a JSON object: {given!r:.80}"
        if self.accepted is None:
            return ""
        for key in given:
            if key not in self.accepted:
                return f"{self.name}: unexpected argument {key!r}"
        for key, values in self._items():
            if not self._is_right(given, key, values):
                was = compact(given[key]) if key in given else "missing"
                accepted = " or ".join(compact(one) for one in values)
                return f"{self.name}: {key} is {was}, expected {accepted}"
        return ""

    def _items(self) -> Sequence[tuple[str, Sequence[Any]]]:
        return [*(self.accepted or {}).items()]

    def _is_right(
        self, given: Mapping[str, Any], key: str, values: Sequence[Any]
    ) -> bool:
        if self.is_plain:
            return key in given and not difference(given[key], values[0])
        return _is_right(given, key, values)


def expected_calls(target: Any) -> list[ExpectedCall]:
    """Return the calls of a target; text is read as JSON. Raises DocumentError if it is
    not a list of calls."""
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
            return ExpectedCall(given["name"], plain, is_plain=True)
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


def assigned(
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


def best_pairs(
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


def fault_in_any_order(
    calls: Sequence[Call], expected: Sequence[ExpectedCall], extra: Extra
) -> str:
    """Return why calls are not the expected ones, in any order; empty if they are."""
    found = assigned(calls, expected)
    missing = [one for n, one in enumerate(expected) if n not in found.values()]
    free = [call for n, call in enumerate(calls) if n not in found]
    if missing:
        near = [one for one in free if same_name(one["name"], missing[0].name)]
        return missing[0].fault(near[0]) if near else f"{missing[0]} was not called"
    if free and extra == "forbid":
        return f"further call {call_text(free[0])}"
    return ""


def fault_in_order(
    calls: Sequence[Call], expected: Sequence[ExpectedCall], extra: Extra
) -> str:
    """Return why calls are not the expected ones in this order; empty if they are."""
    if extra == "forbid":
        pairs = zip(expected, calls, strict=False)
        faults = [one.fault(call) for one, call in pairs]
        if fault := next(filter(None, faults), ""):
            return fault
        return fault_in_any_order(calls, expected, extra)
    left = [*expected]
    for call in calls:
        if left and not left[0].fault(call):
            del left[0]
    return f"{left[0]} was not called in its place" if left else ""


def has_arguments(given: Any, expected: Mapping[str, Sequence[Any]]) -> bool:
    """Whether arguments have these among others: name → its accepted values."""
    if not isinstance(given, Mapping):
        return not expected
    return all(
        key in given and any(not difference(given[key], one) for one in values)
        for key, values in expected.items()
    )
