"""The sum of the usage of several models, or of one model in several workers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


def with_usage(infos: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    """The first non-empty description, with the sum of all counts below ``usage``."""
    described = [info for info in infos if info]
    if not described:
        return {}
    used = [u for info in described if isinstance(u := info.get("usage"), Mapping)]
    # The first may be empty, if it was not used.
    return {**described[0], "usage": _sum(used)} if used else described[0]


def _sum(parts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Add numbers with equal names, recursively; of other values keep the first."""
    total: dict[str, Any] = {}
    for part in parts:
        for name, value in part.items():
            previous = total.get(name)
            if previous is None:
                total[name] = value
            elif isinstance(value, Mapping) and isinstance(previous, Mapping):
                total[name] = _sum([previous, value])
            elif _is_number(value) and _is_number(previous):
                total[name] = previous + value
    return total


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
