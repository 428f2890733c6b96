"""What several models, or one model in several workers, have used: counts, added up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


def with_usage(infos: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    """The first that says something, with the sum of all that is below ``usage``."""
    said = [info for info in infos if info]
    if not said:
        return {}
    used = [u for info in said if isinstance(u := info.get("usage"), Mapping)]
    # The first may have asked nothing, and so have used nothing.
    return {**said[0], "usage": _sum(used)} if used else said[0]


def _sum(parts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Numbers below equal names are added, mappings likewise; of all else the first."""
    total: dict[str, Any] = {}
    for part in parts:
        for name, value in part.items():
            known = total.get(name)
            if known is None:
                total[name] = value
            elif isinstance(value, Mapping) and isinstance(known, Mapping):
                total[name] = _sum([known, value])
            elif _is_number(value) and _is_number(known):
                total[name] = known + value
    return total


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
