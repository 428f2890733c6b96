"""From the values of several references or answers to the document's: by name or by a
function of the user's."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pytest_evals.errors import DocumentError, EvalsError, did_you_mean
from pytest_evals.stats import averages

Reduction = Callable[[Any], float]
"""Several numbers to one."""


def mean(values: Sequence[float]) -> float:
    """The mean; NaN of no values, as NumPy's."""
    return averages.mean(values) if len(values) else math.nan


_NAMES: Mapping[str, Reduction] = {"max": max, "mean": mean, "min": min, "sum": sum}


def reduction(given: Reduction | str | None, default: str = "max") -> Reduction:
    """A reduction given as a function or by its name.

    Raises:
        EvalsError: None has that name.
    """
    if given is not None and not isinstance(given, str):
        return given
    name = given or default
    if name not in _NAMES:
        hint = did_you_mean(name, list(_NAMES)) or f"; known: {', '.join(_NAMES)}"
        raise EvalsError(f"no aggregation_function called {name!r}{hint}")
    return _NAMES[name]


def reduce_values(function: Reduction, values: Sequence[float], of: str) -> float:
    """One number of several.

    Args:
        function: How.
        values: The numbers.
        of: What they are of, for messages.

    Raises:
        DocumentError: There is none.
    """
    if not values:
        raise DocumentError(f"there are no {of} to compare")
    return function(values)
