"""The ``!function module.name`` tag of YAML files."""

from __future__ import annotations

from dataclasses import dataclass

from pytest_evals.errors import Place


@dataclass(frozen=True, slots=True)
class FunctionRef:
    """A reference to a function; nothing is imported yet.

    Args:
        place: Place of the tag; the folder of its file is searched first.
        dotted: ``module.name`` or ``package.module.name``.
    """

    place: Place
    dotted: str
