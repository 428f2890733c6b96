"""What snippets return, as values of JSON: all that lasts beyond the call."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from numbers import Integral, Number
from typing import Any

_LARGEST = 1 << 1024
"""Beyond every float."""


def as_json(value: Any, other: Callable[[Any], Any] | None = None) -> Any:
    """The value with arrays and scalars of NumPy, torch and the like as Python's own,
    and with parts of traces as plain dicts.

    Args:
        value: Whatever was returned.
        other: What stands for things that JSON does not have.

    Raises:
        ValueError: There is such a thing, and nothing stands for it; or the value holds
            itself.
    """
    try:
        return _as_json(value, other)
    except RecursionError:
        raise ValueError("it holds itself, or far too much in each other") from None


def _as_json(value: Any, other: Callable[[Any], Any] | None) -> Any:
    if value is None or type(value) in (bool, float, str):
        return value
    if isinstance(value, Mapping):
        return {str(name): _as_json(one, other) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_as_json(one, other) for one in value]
    if isinstance(value, str | Number):
        return _scalar(value)
    for name in ("to_dict", "tolist"):
        if callable(dump := getattr(value, name, None)):
            return _as_json(dump(), other)
    if other is None:
        raise ValueError(f"{value!r:.80} of type {type(value).__name__}")
    return other(value)


def _scalar(value: Any) -> str | float:
    """A text or a number of a class of somebody's own, or a very large one."""
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, complex):
        raise ValueError(f"{value!r:.80} of type {type(value).__name__}")
    if not isinstance(value, Integral):
        return float(value)
    number = int(value)
    if not -_LARGEST < number < _LARGEST:
        raise ValueError(f"a whole number of {number.bit_length()} bits")
    return number
