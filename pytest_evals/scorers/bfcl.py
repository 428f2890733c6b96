"""The rules of the Berkeley Function Calling Leaderboard for one turn, in Python.

As ``ast_checker`` of bfcl-eval 2026.3.23 decides, with its corners: expected calls take
the first free call that fits, in their order; text is compared without case and some
punctuation; an integer passes for a float only as a whole argument; nested values are
compared to a limited depth. Dots in names equal underscores, because servers accept no
dots.

Where that checker raises an exception (an array without the type of its items, the
types ``number`` and ``object``), schemas are read as JSON Schema.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from pytest_evals.errors import plural

_TYPES: Mapping[str, type] = {
    **dict.fromkeys(("string", "any"), str),
    "integer": int,
    **dict.fromkeys(("float", "number"), float),
    "boolean": bool,
    **dict.fromkeys(("array", "tuple"), list),
    **dict.fromkeys(("dict", "object"), dict),
}
_IGNORED = re.compile(r"[ ,./\-_*^]")
ABSENT = ""  # as an accepted value: the argument may be missing
Expected = Mapping[str, Mapping[str, Sequence[Any]]]
"""Name of a function → name of an argument → its accepted values."""


def bfcl_fault(
    calls: Sequence[tuple[str, Any]],
    expected: Sequence[Expected],
    functions: Sequence[Mapping[str, Any]],
) -> str:
    """Return why calls, each with name and arguments, are wrong; empty if they are
    right. ``expected`` is empty if no call is right. ``functions`` are descriptions:
    ``name``, and ``parameters`` with ``properties`` and ``required``."""
    calls = [one for one in calls if isinstance(one[1], Mapping)]
    if len(calls) != len(expected):
        return f"{plural(len(calls), 'call')} instead of {len(expected)}"
    free = [*calls]
    for one_call in expected:
        ((name, accepted),) = one_call.items()
        found = [one for one in functions if one.get("name") == name] or [{}]
        faults = [_call_fault(one, name, accepted, found[0]) for one in free]
        if "" not in faults:
            return faults[0] if len(faults) == 1 else f"no call fits {name}"
        del free[faults.index("")]
    return ""


def same_name(one: str, other: str) -> bool:
    """Whether two names of functions are equal; a dot equals an underscore."""
    return one.replace(".", "_") == other.replace(".", "_")


def _call_fault(
    call: tuple[str, Any],
    name: str,
    accepted: Mapping[str, Sequence[Any]],
    function: Mapping[str, Any],
) -> str:
    given: Mapping[str, Any] = call[1]
    if not same_name(call[0], name):
        return f"{call[0]} was called instead of {name}"
    schema = function.get("parameters") or {}
    properties = schema.get("properties") or {}
    missing = [one for one in schema.get("required") or () if one not in given]
    for key, value in given.items():
        if missing:
            break
        if key not in properties or key not in accepted:
            return f"{name}: unexpected argument {key!r}"
        if not _is_accepted(value, accepted[key], properties[key]):
            return f"{name}: {key} is {value!r}, expected one of {[*accepted[key]]}"
    missing += [
        key
        for key, values in accepted.items()
        if key not in given and ABSENT not in values
    ]
    return f"{name}: argument {missing[0]!r} is missing" if missing else ""


def _is_accepted(
    value: Any, accepted: Sequence[Any], schema: Mapping[str, Any]
) -> bool:
    kind: Any = _TYPES.get(str(schema.get("type")), str)
    if kind is float and type(value) is int:
        value = float(value)
    items = schema.get("items") if kind is list else None
    item_kind = _TYPES.get(str(items.get("type"))) if items else None
    first = _first_type(accepted)
    if type(value) is not kind:  # accepted values may have another type than the schema
        return type(value) is first and value in accepted
    if item_kind is not None and not _has_items(value, accepted, item_kind):
        return False
    if first in (kind, None):
        return _equals_one(value, accepted, of_mappings=item_kind is dict)
    return value in accepted


def _equals_one(value: Any, accepted: Sequence[Any], *, of_mappings: bool) -> bool:
    if isinstance(value, dict):
        return any(_fits(value, one) for one in accepted if one != ABSENT)
    if isinstance(value, str):
        return _text(value) in [_text(one) for one in accepted if isinstance(one, str)]
    if not isinstance(value, list):
        return value in accepted
    if of_mappings:
        return any(_fit(value, one) for one in accepted)
    lists = [_folded(one) for one in accepted if isinstance(one, list | str)]
    return _folded(value) in lists


def _first_type(accepted: Iterable[Any]) -> type | None:
    return next((type(one) for one in accepted if one != ABSENT), None)


def _has_items(value: Sequence[Any], accepted: Iterable[Any], kind: type) -> bool:
    """Whether the items have the type of the schema, or that of one accepted list."""
    for one in accepted:
        kinds = (kind, _first_type(one)) if isinstance(one, list) else None
        if kinds is None or all(type(item) in kinds for item in value):
            return True
    return False


def _fits(value: Any, accepted: Any) -> bool:
    if not isinstance(value, dict) or not isinstance(accepted, dict):
        return False
    return all(
        key in accepted and _folded_text(one) in map(_folded_text, accepted[key])
        for key, one in value.items()
    ) and all(key in value or ABSENT in values for key, values in accepted.items())


def _fit(value: Sequence[Any], accepted: Any) -> bool:
    if not isinstance(accepted, list | str) or len(value) != len(accepted):
        return False
    return all(map(_fits, value, accepted))


def _folded(values: Iterable[Any]) -> list[Any]:
    return [*map(_folded_text, values)]


def _folded_text(value: Any) -> Any:
    return _text(value) if isinstance(value, str) else value


def _text(text: str) -> str:
    return _IGNORED.sub("", text).lower().replace("'", '"')


def functions_of(given: Iterable[Any]) -> Iterator[Mapping[str, Any]]:
    """Yield descriptions of functions, also those in the form of OpenAI's ``tools``."""
    for one in given:
        if isinstance(one, Mapping):
            inner = one.get("function")
            yield inner if isinstance(inner, Mapping) else one
