"""Parts of a results file, as far as they are what they should be: another program, or
another version of this one, may have written it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def section(results: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """A section of the file; empty if there is none."""
    return mapping(results.get(name))


def mapping(value: Any) -> Mapping[str, Any]:
    """The value if it is a mapping, else an empty one."""
    return value if isinstance(value, dict) else {}


def is_number(value: Any) -> bool:
    """Whether JSON has it as a number."""
    return isinstance(value, int | float) and not isinstance(value, bool)
