"""Reductions of the values of several references or answers to one value."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pytest_evals.core.doc import Doc
from pytest_evals.errors import DocumentError, EvalsError, unknown_name
from pytest_evals.scorers.custom_metrics.aggregation import mean

Reduction = Callable[[Any], float]


_NAMES: Mapping[str, Reduction] = {"max": max, "mean": mean, "min": min, "sum": sum}


def reduction(given: Reduction | str | None, default: str = "max") -> Reduction:
    """Return a reduction given as a function or by name."""
    if given is not None and not isinstance(given, str):
        return given
    name = given or default
    if name not in _NAMES:
        raise EvalsError(unknown_name("aggregation_function", name, list(_NAMES)))
    return _NAMES[name]


def reduce_values(function: Reduction, values: Sequence[float], of: str) -> float:
    """Reduce values to one number. ``of``: noun for the error message, such as
    ``answers``.

    Raises:
        DocumentError: The list of values is empty.
    """
    if not values:
        raise DocumentError(f"the document has no {of}")
    return function(values)


def references(doc: Doc) -> list[str]:
    """Return the references of a document, at least one.

    Raises:
        DocumentError: References are missing, or not strings.
    """
    if not doc.choices:
        raise DocumentError("the document has no references: choices is empty")
    golds = doc.get_golds()
    if not golds:
        raise DocumentError("the document has no references: gold_index is empty")
    for gold in golds:
        if not isinstance(gold, str):
            raise DocumentError(f"a reference must be a string, not {gold!r:.80}")
    return golds
