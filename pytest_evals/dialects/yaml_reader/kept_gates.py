"""Gates of metadata that other metadata replaces: metadata without gates keeps them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

GATES = "gates"
METADATA = "metadata"


def with_gates_of(lower: Any, upper: Any) -> Any:
    """Return metadata with the gates of the metadata that it replaces, unless it has
    gates itself."""
    if not isinstance(lower, Mapping) or GATES not in lower:
        return upper
    if isinstance(upper, Mapping) and GATES in upper:
        return upper
    if not isinstance(upper, Mapping):
        upper = {} if upper is None else {"_metadata": upper}
    return {**upper, GATES: lower[GATES]}


def has_other_gates(lower: Any, upper: Any, steps: tuple[str, ...]) -> bool:
    """Whether both mappings have a value there, and the upper one lacks gates of the
    lower one."""
    for step in steps:
        if not (isinstance(lower, Mapping) and step in lower):
            return False
        if not (isinstance(upper, Mapping) and step in upper):
            return False
        lower, upper = lower[step], upper[step]
    if not isinstance(lower, list) or not isinstance(upper, list):
        return bool(lower) and lower != upper
    return any(gate not in upper for gate in lower)
