"""Parsers of the values of single gate keys.

``value: 0.765, tolerance: 8%`` is an expected value, and how far from it the measured
one may be: such a gate has the bounds that they mean, computed exactly.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from numbers import Integral
from typing import Any, Literal, NamedTuple, cast

from pytest_evals.core.gate import Bound, Every, Margin, Published
from pytest_evals.errors import suggestion, unknown_name
from pytest_evals.gates.check import CONDITIONS
from pytest_evals.gates.read.text import (
    ConditionError,
    MissingKeyError,
    fit_for_id,
    read_number,
)
from pytest_evals.gates.reducers import REDUCERS, is_reducer

Parser = Callable[[str, object], Any]
"""Takes a key and its value and returns the parsed value, or raises
:class:`~pytest_evals.gates.read.text.ConditionError`."""
PROTOCOL_KEYS = (
    "num_fewshot",
    "limit",
    "chat_template",
    "template",
    "filter",
    "choices",
)
"""Keys of ``reference``: how a published number was measured."""
_REFERENCE = "reference: {value: 0.742, num_fewshot: 5}"
_IDS, _EVERY = "[Mercury_7175875, 417]", "8 of 10"
SIDES: Mapping[str, tuple[Literal[">=", "<="], int]] = {
    "below": (">=", -1),
    "above": ("<=", 1),
}
"""Keys of ``tolerance`` → the operator and the sign of their bounds."""
_OF_POINTS = re.compile(r"(\S+)\s*(?:points?|pts?|pp)", re.IGNORECASE)
_VALUE = "{metric: acc, value: 0.765, tolerance: 8%}"
_BOTH = "tolerance: {below: 4%, above: 10%}"
_WHEN = "{dtype: bfloat16, device: cuda}"
_MOST_DOCUMENTS = 2**53
_OF = re.compile(r"(\d{1,6}) of (\d{1,6})", re.ASCII)


def _invalid(key: str, value: object, expected: str, example: str) -> ConditionError:
    return ConditionError(
        f"{key} must be {expected}, not {value!r}", f"{key}: {example}"
    )


def text(key: str, value: object) -> str:
    """A string; YAML parses a metric called 4096 as a number."""
    if not _is_text(value):
        raise _invalid(key, value, "text", '"…"')
    return str(value).strip()


def _is_text(value: object) -> bool:
    return isinstance(value, (str, int)) and not isinstance(value, bool)


def name(example: str) -> Parser:
    """A name; empty for ``none``."""

    def parse(key: str, value: object) -> str:
        if value is None or value == "none":
            return ""
        if not _is_text(value) or value == "":
            raise _invalid(key, value, "a name", example)
        return str(value)

    return parse


def baseline(key: str, value: object) -> str:
    """The name of a stored run; it may be ``none``."""
    if not _is_text(value) or value == "":
        raise _invalid(key, value, "the name of a stored run", "main")
    return str(value)


def reducer(key: str, value: object) -> str:
    """The name of a reducer."""
    named: str = name("mean")(key, value)
    if named and not is_reducer(named):
        fix = "reducer: pass@4" if named.startswith("pass") else "reducer: mean"
        raise ConditionError(unknown_name("reducer", named, REDUCERS), fix)
    return named


def gate_id(key: str, value: object) -> str:
    """The last part of a node id."""
    name = text(key, value)
    if not name:
        raise ConditionError("id is empty", "id: acc-floor")
    if (fit := fit_for_id(name)) != name:
        message = f"id {name!r} has '::', a bracket, white space or a control character"
        raise ConditionError(message, f"id: {fit}")
    return name


def one_of(names: tuple[str, ...]) -> Parser:
    """One of these words."""

    def parse(key: str, value: object) -> str:
        if value in names:
            return str(value)
        hint = suggestion(str(value), names)
        message = f"{key} cannot be {value!r}{hint}"
        raise ConditionError(message, f"{key}: {names[-1]}")

    return parse


def flag(key: str, value: object) -> bool:
    """True or false."""
    if not isinstance(value, bool):
        raise _invalid(key, value, "true or false", "true")
    return value


def number(holds: Callable[[float], bool], expected: str, example: str) -> Parser:
    """A number. ``expected``: which ones are valid."""

    def parse(key: str, value: object) -> float:
        found = float(read_number(value, key))
        if not holds(found):
            raise _invalid(key, value, expected, example)
        return found

    return parse


def bound(op: Literal[">=", "<="]) -> Parser:
    """A threshold."""
    return lambda key, value: Bound(op, read_number(value, key))


_documents = number(
    lambda one: 0 <= one <= 1, "a share of documents from 0 to 1", "0.035"
)


def flip_rate(key: str, value: object) -> float | Literal["auto", "none"]:
    """The fraction of documents that flip between two runs."""
    if value in ("auto", "none", None):
        return "auto" if value == "auto" else "none"
    rate: float = _documents(key, value)
    return rate


def margin(key: str, value: object) -> Margin:
    """The largest allowed change."""
    allowed = read_number(value, key)
    kind = cast("Literal['max_drop', 'max_rise', 'recovery']", key)
    if key == "recovery":
        if not 0 < allowed <= 1:
            message = "above 0 and at most 1, a share of the baseline's value"
            raise _invalid(key, value, message, "0.95")
        return Margin(kind, allowed, relative=True)
    if allowed < 0:
        message = f"{key} must be 0 or more, not {value!r}: it is the largest "
        message += f"{key.removeprefix('max_')} allowed"
        raise ConditionError(message, f"{key}: {-allowed}")
    percent = isinstance(value, str) and value.strip().endswith("%")
    return Margin(kind, allowed, relative=percent)


def score_range(key: str, value: object) -> tuple[float, float]:
    """The smallest and the largest possible score of a document."""
    if not isinstance(value, (list, tuple)) or len(value) != 2:
        raise _invalid(key, value, "the lowest and the highest score", "[0, 10]")
    low, high = (float(read_number(one, key)) for one in value)
    if not low < high:
        message = f"{key} must ascend, and {value!r} does not"
        raise ConditionError(message, f"{key}: [0, 10]")
    return low, high


def reference(key: str, value: object) -> Published:
    """A published number, or a mapping with its ``value`` and how it was measured."""
    if not isinstance(value, Mapping):
        return Published(read_number(value, key))
    for name in value:
        if name not in ("value", *PROTOCOL_KEYS):
            hint = suggestion(str(name), ("value", *PROTOCOL_KEYS))
            raise ConditionError(f"{key} has no key {name!r}{hint}", _REFERENCE)
    if "value" not in value:
        raise ConditionError(f"{key} has no value", _REFERENCE)
    protocol = tuple((str(k), one) for k, one in value.items() if k != "value")
    return Published(read_number(value["value"], "value"), protocol=protocol)


def reference_n(key: str, value: object) -> int:
    """The number of documents behind a published number."""
    if isinstance(value, bool) or not isinstance(value, Integral) or int(value) < 1:
        raise _invalid(key, value, "the number of documents behind reference", "1319")
    if int(value) > _MOST_DOCUMENTS:
        message = f"{key} is larger than 2**53: no data set has so many documents"
        raise ConditionError(message, f"{key}: 1319")
    return int(value)


def must_pass(key: str, value: object) -> tuple[str, ...]:
    """Ids of documents."""
    if isinstance(value, Mapping) and "share" in value:
        message = "must_pass has no key 'share'"
        raise ConditionError(message, "must_pass: [417], every: 8 of 10")
    if not isinstance(value, (list, tuple)) or not value:
        raise _invalid(key, value, "a list of document ids", _IDS)
    for one in value:
        if not _is_text(one) or one == "":
            fix = f"quote it: {str(one)!r}" if one else f"{key}: {_IDS}"
            raise ConditionError(f"{one!r} in {key} is not a document id", fix)
    return tuple(dict.fromkeys(map(str, value)))


def every(key: str, value: object) -> Every:
    """``8 of 10``: the required number of correct answers, and that of answers."""
    match = _OF.fullmatch(value.strip()) if isinstance(value, str) else None
    if match is None:
        raise _invalid(key, value, f"text such as {_EVERY}", _EVERY)
    least, n = int(match[1]), int(match[2])
    if not 0 < least <= n:
        message = (
            f"{key}: {least} of {n} is not possible: expected 1 of {n} to {n} of {n}"
        )
        raise ConditionError(message, f"{key}: {_EVERY}")
    return Every(least, n)


def when(key: str, value: object) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """The patterns of each condition, one of which must match."""
    if not isinstance(value, Mapping) or not value:
        raise _invalid(key, value, "a mapping of conditions", _WHEN)
    for name in value:
        if name not in CONDITIONS:
            hint = suggestion(name, CONDITIONS)
            message = f"{key} has no condition {name!r}{hint}"
            raise ConditionError(message, f"{key}: {_WHEN}")
    return tuple((str(name), _patterns(name, one)) for name, one in value.items())


def model(key: str, value: object) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """The condition on the model, or on the variant."""
    return when("when", {key: value})


def _patterns(condition: object, value: object) -> tuple[str, ...]:
    found = value if isinstance(value, (list, tuple)) else [value]
    texts = [one.strip() for one in found if isinstance(one, str)]
    if not found or len(texts) < len(found) or not all(texts):
        message = (
            f"when.{condition} must be a string or a list of strings, not {value!r}"
        )
        fix = 'gpu: "*H100*"' if condition == "gpu" else f"when: {_WHEN}"
        raise ConditionError(message, fix)
    return tuple(texts)


class Tolerance(NamedTuple):
    """An allowed distance; ``relative`` if it is a share of the expected value."""

    distance: Decimal
    relative: bool


def bounds_of(
    entry: Mapping[str, Any], excluded: Iterable[str]
) -> tuple[Bound, ...] | None:
    """The bounds of an entry with ``value`` and ``tolerance``; ``None`` if it has
    neither, or if one is invalid. Raises ``ConditionError`` if one is missing, or a key
    of ``excluded`` is given too."""
    keys = [key for key in ("value", "tolerance") if key in entry]
    other = next((key for key in excluded if key in entry), None)
    if keys and other:
        raise ConditionError(f"{keys[0]} cannot be combined with {other}", _VALUE)
    if len(keys) == 1:
        missing = "tolerance" if keys == ["value"] else "value"
        fix = f"{_VALUE}, or a threshold: min: 0.7" if "value" in keys else _VALUE
        raise MissingKeyError(f"{keys[0]} needs {missing}", fix, [missing])
    value, tolerance = entry.get("value"), entry.get("tolerance")
    if value is None or tolerance is None:  # reported by its parser
        return None
    return _bounds_around(value, tolerance)


def read_tolerance(key: str, value: object) -> Mapping[str, Tolerance]:
    """The allowed distance on each side; a number is a distance below."""
    sides = value if isinstance(value, Mapping) else {"below": value}
    for side in sides:
        if side not in SIDES:
            hint = suggestion(str(side), SIDES)
            raise ConditionError(f"{key} has no side {side!r}{hint}", _BOTH)
    if not sides:
        raise ConditionError(f"{key} has no side: below or above", _BOTH)
    return {str(side): _distance(key, one) for side, one in sides.items()}


def _bounds_around(
    value: Decimal, tolerance: Mapping[str, Tolerance]
) -> tuple[Bound, ...]:
    """The smallest and the largest value within a tolerance.

    Raises:
        ConditionError: The tolerance reaches below 0 from a positive value, as 8 for 8%
            does.
    """
    bounds = []
    for side, (op, sign) in SIDES.items():
        if side in tolerance:
            distance, is_relative = tolerance[side]
            edge = value + sign * distance * (abs(value) if is_relative else 1)
            bounds.append(Bound(op, Decimal(f"{edge.normalize():f}")))
    if value > 0 >= bounds[0].value:
        distance = tolerance["below"].distance
        shown = (
            f"{float(distance * 100):g}%"
            if tolerance["below"].relative
            else f"{distance}"
        )
        message = f"a tolerance of {shown} below {value} allows every positive value"
        fix = "8%" if distance >= 100 or tolerance["below"].relative else f"{distance}%"
        raise ConditionError(message, f"tolerance: {fix}")
    return tuple(bounds)


def _distance(key: str, value: object) -> Tolerance:
    shown = value.strip() if isinstance(value, str) else value
    points = _OF_POINTS.fullmatch(shown) if isinstance(shown, str) else None
    try:
        allowed = read_number(f"{points[1]}%" if points else shown, key)
    except ConditionError:
        message = (
            f"{key} must be a share (8%), a distance (0.08) or points (8 points), "
        )
        raise ConditionError(f"{message}not {value!r:.80}", f"{key}: 8%") from None
    if allowed < 0:
        message = f"{key} must be 0 or more, not {value!r}: it is a distance"
        raise ConditionError(message, f"{key}: {str(shown).lstrip('-')}")
    is_share = isinstance(shown, str) and shown.endswith("%")
    return Tolerance(allowed, is_share)
