"""What one metric says of one document, before it is a score of some filter."""

from __future__ import annotations

from typing import Any, NamedTuple

__all__ = ["Measured"]


class Measured(NamedTuple):
    """A metric's value, with what a person would want to see beside it."""

    metric: str
    value: Any
    answer: str = ""
    explanation: str = ""
