"""Converts values of a task's configuration to JSON values, for results files."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from functools import lru_cache
from types import FunctionType
from typing import Any


def as_json(value: Any) -> Any:
    """Return the value as JSON value; a function as its source code."""
    if value is None or isinstance(value, str | int | float | bool):
        return value
    if isinstance(value, Mapping):
        return {str(key): as_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [as_json(item) for item in value]
    if isinstance(value, FunctionType):
        return _cached_source(value)
    if callable(value):
        return _source(value)
    return str(value)


@lru_cache(maxsize=1024)
def _cached_source(function: FunctionType) -> str:
    """Return the source of a function; cached, because looking it up is slow and tasks
    share functions."""
    return _source(function)


def _source(function: Any) -> str:
    try:
        return inspect.getsource(function)
    except (TypeError, OSError):
        return str(function)
