"""Converts return values of snippets to JSON values, the only form that is kept."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from numbers import Integral, Number
from typing import Any

_LARGEST = 1 << 1024
"""Larger than every float."""


def to_json(value: Any, other: Callable[[Any], Any] | None = None) -> Any:
    """Return the value with arrays and scalars of NumPy, torch and similar libraries as
    Python values, and parts of traces as plain dicts.

    Args:
        other: Converts values that JSON cannot represent.

    Raises:
        ValueError: A value cannot be converted, or the value contains itself.
    """
    try:
        return _to_json(value, other)
    except RecursionError:
        raise ValueError(
            "a value that contains itself or is nested too deeply"
        ) from None


def _to_json(value: Any, other: Callable[[Any], Any] | None) -> Any:
    if value is None or type(value) in (bool, float, str):
        return value
    if isinstance(value, Mapping):
        return {str(name): _to_json(one, other) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_to_json(one, other) for one in value]
    if isinstance(value, str | Number):
        return _scalar(value)
    for name in ("to_dict", "tolist"):
        if callable(dump := getattr(value, name, None)):
            return _to_json(dump(), other)
    if other is None:
        raise ValueError(f"{value!r:.80} of type {type(value).__name__}")
    return other(value)


def _scalar(value: Any) -> str | float:
    """Return an instance of a string or number subclass, or a large integer, as a JSON
    value."""
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, complex):
        raise ValueError(f"{value!r:.80} of type {type(value).__name__}")
    if not isinstance(value, Integral):
        return float(value)
    number = int(value)
    if not -_LARGEST < number < _LARGEST:
        raise ValueError(f"an integer of {number.bit_length()} bits")
    return number
