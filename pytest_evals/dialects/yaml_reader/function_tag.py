"""``!function module.name`` in a YAML file."""

from __future__ import annotations

from dataclasses import dataclass

from pytest_evals.errors import Place


@dataclass(frozen=True, slots=True)
class FunctionRef:
    """A function as a task file names it; nothing is imported yet.

    Args:
        place: Where the tag stands; its file's folder is searched first.
        dotted: ``module.name`` or ``package.module.name``.
    """

    place: Place
    dotted: str
