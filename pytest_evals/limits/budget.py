"""Remaining budget of one template rendering, counted per thread, and the sizes of
results that are subtracted from it.

Only operations that can enlarge their operands have a size that is predicted; others
are counted after they ran.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from time import monotonic
from typing import Any

from jinja2 import TemplateRuntimeError

from pytest_evals.errors import DocumentError

LARGEST = 2**25
"""Maximum characters of a string that a template creates; a list item counts as
eight."""
_IN_ALL = 2**28  # maximum characters of all strings that one rendering creates
MOST_STEPS = 2_000_000  # maximum loop iterations; a call counts as ten
SECONDS = 5.0  # time limit, for work that is not counted
_SHORT = 16  # iterations of a loop that are counted when it starts
_MOST_PARTS = 1_000_000  # maximum number of values inside one value


class TemplateLimitError(DocumentError, TemplateRuntimeError):
    """A template exceeds the time limit or creates too long a string."""

    @property
    def message(self) -> str:
        """Return the message, as Jinja's errors do."""
        return str(self)


class _Budget(threading.local):
    size = _IN_ALL
    steps = MOST_STEPS
    deadline = float("inf")


_NOW = _Budget()


def begin() -> None:
    """Start a rendering, or a compilation, which renders constant expressions."""
    _NOW.size, _NOW.steps = _IN_ALL, MOST_STEPS
    _NOW.deadline = monotonic() + SECONDS


def spend(size: int) -> None:
    """Subtract the characters of a string that is created. Raises TemplateLimitError if
    the budget is exceeded."""
    _NOW.size = left = _NOW.size - size
    if left < 0 or size > LARGEST:
        raise TemplateLimitError(
            f"the template makes more than {LARGEST:,} characters, or more than "
            f"{_IN_ALL:,} on the way"
        )


def step(n: int = 1) -> None:
    """Subtract loop iterations. Raises TemplateLimitError if the budget or the time
    limit is exceeded."""
    _NOW.steps = left = _NOW.steps - n
    if left < 0:
        raise TemplateLimitError(
            f"the template takes more than {MOST_STEPS:,} rounds of loops"
        )
    if monotonic() > _NOW.deadline:
        raise TemplateLimitError(f"the template takes longer than {SECONDS:g} s")


def counted(items: Iterable[Any]) -> Iterable[Any]:
    """Return an iterable that counts each iteration of a loop."""
    if isinstance(items, list | tuple | dict | range) and len(items) <= _SHORT:
        step(len(items) + 1)
        return items
    return _rounds(items)


def _rounds(items: Iterable[Any]) -> Iterator[Any]:
    for item in items:
        step()
        yield item


def weight(value: Any) -> int:
    """Return the approximate number of characters of a value with its contents; a large
    number for one with too many parts to count."""
    if isinstance(value, str | bytes):
        return len(value)
    total, n, waiting = 0, 0, [value]
    while waiting:
        one = waiting.pop()
        n += 1
        if isinstance(one, str | bytes):
            total += len(one)
        elif isinstance(one, dict):
            waiting += one
            waiting += one.values()
        elif isinstance(one, list | tuple | set | frozenset):
            waiting += one
        if n > _MOST_PARTS or len(waiting) > _MOST_PARTS:
            return _IN_ALL
    return total + 2 * n


_MOST_BITS = 100_000
"""Maximum bits of an integer: more digits than Python converts to a string."""
_TOO_LARGE = LARGEST + 1
_ENTRY = 8
_PERCENT = re.compile(r"%(?:\([^()]*\))?[#0\- +]*(\d+|\*)?(?:\.(\d+|\*))?")
_BRACES = re.compile(r"\{[^{}]*+(\{?)")


def size_of_result(value: Any) -> int:
    """Return the number of characters and items of a result."""
    if isinstance(value, str | bytes):
        return len(value)
    if isinstance(value, list | tuple | dict | set):
        return _ENTRY * len(value)
    return 0


def size_inside(value: Any) -> int:
    """Return the size of the contents of a list or mapping, which may contain a value
    many times."""
    return weight(value) if isinstance(value, list | tuple | dict | set) else 0


def size_of_binary(operator: str, left: Any, right: Any) -> int:
    """Return the size of ``left * right`` and other binary operations."""
    if operator == "%":
        if isinstance(left, str | bytes):
            return _formatted(left, right, _percent)
        return 0
    if isinstance(left, int) and isinstance(right, int):
        return _number(operator, left, right)
    if operator == "+":
        return size_of_result(left) + size_of_result(right)
    if operator == "*":
        if isinstance(left, int):
            left, right = right, left
        return size_of_result(left) * max(right, 0) if isinstance(right, int) else 0
    return 0


def _number(operator: str, left: int, right: int) -> int:
    bits = left.bit_length()
    if operator == "**":
        bits = bits * right if right > 0 and bits > 1 else 0
    elif operator == "*":
        bits += right.bit_length()
    return _TOO_LARGE if bits > _MOST_BITS else 0


def size_of_call(function: Any, arguments: tuple[Any, ...], named: Any) -> int:
    """Return the size of a call of a built-in method, or of ``lipsum``."""
    function = getattr(function, "__wrapped__", function)  # Jinja's around str.format
    owner = getattr(function, "__self__", None)
    name = getattr(function, "__name__", "")
    if isinstance(owner, str | bytes):
        sized = _TEXT_METHODS.get(name)
        return sized(owner, (*arguments, *named.values())) if sized else 0
    if isinstance(owner, int) and name == "to_bytes":
        return _greatest((*arguments, *named.values()))
    if name == "generate_lorem_ipsum":
        given = [*arguments, *named.values(), 5, 100]
        return 20 * _product([one for one in given if type(one) is int])
    return sum(map(size_inside, (*arguments, *named.values())))


def _product(numbers: list[int]) -> int:
    total = 1
    for number in numbers:
        total = min(total * max(number, 1), _TOO_LARGE)
    return total


def _numbers(arguments: tuple[Any, ...]) -> list[int]:
    return [one for one in arguments if isinstance(one, int)]


def _greatest(arguments: tuple[Any, ...]) -> int:
    return max(_numbers(arguments), default=0)


def _replaced(text: Any, arguments: tuple[Any, ...]) -> int:
    if len(arguments) < 2 or not all(isinstance(a, type(text)) for a in arguments[:2]):
        return 0
    old, new = arguments[:2]
    n: int = text.count(old)
    return len(text) + n * max(len(new) - len(old), 0)


def _joined(text: Any, arguments: tuple[Any, ...]) -> int:
    if not arguments or not isinstance(arguments[0], list | tuple | dict | str):
        return 0
    parts = arguments[0]
    return weight(list(parts)) + len(text) * len(parts)


def _translated(text: Any, arguments: tuple[Any, ...]) -> int:
    table = arguments[0] if arguments else None
    if not isinstance(table, dict):
        return len(text)
    return len(text) * max((weight(one) for one in table.values()), default=1)


def _formatted(
    text: Any, given: Any, widths: Callable[[str], tuple[int, int, bool]]
) -> int:
    """Return an upper bound: a field is as wide as its format or longest value."""
    form = text if isinstance(text, str) else text.decode("latin1")
    holes, wide, asked = widths(form)
    values = given if isinstance(given, tuple) else (given,)
    if asked:
        wide += holes * max(map(abs, _numbers(values)), default=0)
    return len(text) + wide + holes * max(map(weight, values), default=0)


def _percent(text: str) -> tuple[int, int, bool]:
    found = _PERCENT.findall(text)
    return len(found), _sum(part for one in found for part in one), "*" in text


def _braces(text: str) -> tuple[int, int, bool]:
    found = list(_BRACES.finditer(text))
    specs = [match[0].partition(":")[2] for match in found]
    numbers = (number for spec in specs for number in re.findall(r"\d+", spec))
    return len(found), _sum(numbers), any(match[1] for match in found)


def _sum(numbers: Any) -> int:
    """Return the total length of strings; values that are not numbers count as zero."""
    return sum(
        int(one) if len(one) < 10 else _TOO_LARGE for one in numbers if one.isdigit()
    )


_TEXT_METHODS: Mapping[str, Callable[[Any, tuple[Any, ...]], int]] = {
    **dict.fromkeys(
        ("center", "ljust", "rjust", "zfill"),
        lambda text, given: max(len(text), _greatest(given)),
    ),
    "expandtabs": lambda text, given: (
        len(text)
        + text.count("\t" if isinstance(text, str) else b"\t") * _greatest(given)
    ),
    "format": lambda text, given: _formatted(text, given, _braces),
    "format_map": lambda text, given: _formatted(text, given, _braces),
    "join": _joined,
    "replace": _replaced,
    "translate": _translated,
}


def size_of_filter(name: str, arguments: tuple[Any, ...], named: Any) -> int:
    """Return the size of a filter's result; without arguments that Jinja prepends."""
    given = (*arguments, *named.values())
    if name in _BY_PARTS or not given:
        return 0
    sized = _FILTERS.get(name)
    return sum(map(weight, given)) if sized is None else sized(given[0], given[1:])


def _indented(value: Any, rest: tuple[Any, ...]) -> int:
    """Return the size of the indentation of each line, or of each JSON value."""
    signs = weight([one for one in rest if isinstance(one, str)])
    return (1 + weight(value)) * max(_greatest(rest), signs, 1)


def _added(value: Any, rest: tuple[Any, ...]) -> int:
    """Return the size of lists that are concatenated one by one."""
    lists = any(isinstance(one, list | tuple) for one in rest)
    return weight(value) ** 2 // 2 if lists else 0


def _with_sign(value: Any, rest: tuple[Any, ...]) -> int:
    if not isinstance(value, list | tuple | dict | str):
        return 0
    return weight(value) + len(value) * (weight(rest[0]) if rest else 0)


_FILTERS: Mapping[str, Callable[[Any, tuple[Any, ...]], int]] = {
    "batch": lambda value, rest: weight(value) + _ENTRY * _greatest(rest),
    "center": lambda value, rest: weight(value) + _greatest(rest),
    "format": lambda value, rest: _formatted(str(value), rest, _percent),
    "indent": _indented,
    "join": _with_sign,
    "replace": lambda value, rest: _replaced(str(value), rest),
    "round": lambda _value, rest: 2**15 * max(map(abs, _numbers(rest)), default=0),
    "slice": lambda value, rest: weight(value) + _ENTRY**2 * _greatest(rest),
    "sum": _added,
    "tojson": _indented,
    "wordwrap": lambda value, rest: weight(value) * max(map(weight, (*rest, ""))),
}
_BY_PARTS = frozenset(
    (
        *("abs", "attr", "count", "d", "default", "dictsort", "first", "float", "int"),
        *("items", "last", "length", "list", "map", "max", "min", "random", "reject"),
        *("rejectattr", "reverse", "select", "selectattr", "sort", "unique"),
    )
)
"""Filters that yield parts of a value and create no string."""
