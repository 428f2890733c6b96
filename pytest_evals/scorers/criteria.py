"""Criteria of a rubric, which a judge grades one by one, and the scale of grades."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pytest_evals.core.finite import is_finite
from pytest_evals.errors import EvalsError


@dataclass(frozen=True, slots=True, kw_only=True)
class Criterion:
    """One aspect of a rubric.

    Args:
        name: Its key in the judge's reply.
        text: What a good answer does.
        weight: Weight in the mean; above 0.
    """

    name: str
    text: str
    weight: float = 1.0


def criteria_of(given: Any) -> tuple[Criterion, ...]:
    """The criteria of a judge's arguments. Raises EvalsError if one is invalid."""
    if isinstance(given, Mapping):
        given = [{"name": name, "text": text} for name, text in given.items()]
    if not isinstance(given, list | tuple):  # text is not the list of its characters
        raise EvalsError(f"judge: criteria is {given!r:.60}, not a list or a mapping")
    found = tuple(_criterion(one, number) for number, one in enumerate(given, 1))
    names = [one.name for one in found]
    if len(set(names)) < len(names) or "reason" in names:
        raise EvalsError(
            f"judge: names of criteria are unique, and not 'reason': {names}"
        )
    return found


def _criterion(given: Any, number: int) -> Criterion:
    if isinstance(given, str):
        given = {"name": f"criterion_{number}", "text": given}
    if not isinstance(given, Mapping) or set(given) - {"name", "text", "weight"}:
        raise EvalsError(f"judge: criterion {number} needs name, text and weight")
    weight = given.get("weight", 1.0)
    if not is_finite(weight) or weight <= 0:
        raise EvalsError(f"judge: criterion {number}: weight {weight!r} is not above 0")
    name, text = given.get("name"), given.get("text")
    if not (isinstance(name, str) and name and isinstance(text, str) and text):
        raise EvalsError(f"judge: criterion {number}: name and text are strings")
    return Criterion(name=name, text=text, weight=float(weight))


def scale_of(given: Any) -> tuple[int, int]:
    """The lowest and the highest grade of a judge's arguments. Raises EvalsError if
    they are not two whole numbers in ascending order."""
    bounds = tuple(given) if isinstance(given, list | tuple) else ()
    whole = all(type(one) is int for one in bounds)
    if len(bounds) != 2 or not whole or not 0 < bounds[1] - bounds[0] <= 100:
        raise EvalsError(
            f"judge: scale is two whole numbers, lowest and highest, not {given!r}"
        )
    return bounds
