"""Type-checked access to a results file, which another program or version may have
written."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def section(results: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """Return a section of the file; empty if it is missing."""
    return mapping(results.get(name))


def mapping(value: Any) -> Mapping[str, Any]:
    """Return the value if it is a mapping, else an empty one."""
    return value if isinstance(value, dict) else {}


def is_number(value: Any) -> bool:
    """Return whether the value is a JSON number."""
    return isinstance(value, int | float) and not isinstance(value, bool)
