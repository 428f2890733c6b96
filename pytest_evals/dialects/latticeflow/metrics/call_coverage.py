"""Which of the functions that should be called were called.

The algorithm is that of ``latticeflow-core`` 3.17.0: one to one, greedily, and those
that name arguments first.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

SCORES = (
    "all_required_calls_made",
    "required_calls_coverage",
    "num_required_calls_made",
    "num_required_calls_not_made",
    "num_unrequired_calls",
    "num_required_calls_total",
)
"""All of them."""


@dataclass(frozen=True, slots=True)
class Call:
    """A call of a function.

    Args:
        name: Of the function.
        arguments: By name; of a required call ``None`` for any, of one that was made
            ``None`` where they are no JSON.
    """

    name: str
    arguments: Any = None

    def to_dict(self) -> dict[str, Any]:
        """As JSON values."""
        if self.arguments is None:
            return {"name": self.name}
        return {"name": self.name, "arguments": self.arguments}


@dataclass(frozen=True, slots=True, kw_only=True)
class Coverage:
    """What was called of what was required."""

    values: Mapping[str, Any]
    metadata: Mapping[str, Any]


def cover(
    required: Sequence[Call], made: Sequence[Call], *, in_order: bool
) -> Coverage:
    """Hold calls that were made against those that are required.

    Args:
        required: One listed twice needs two calls.
        made: In their order.
        in_order: Whether they must come in the required order, with others between; it
            counts for ``all_required_calls_made`` alone.
    """
    free = list(range(len(made)))
    matched: dict[int, int] = {}
    by_arguments = sorted(
        range(len(required)), key=lambda n: required[n].arguments is None
    )
    for n in by_arguments:
        place = next((at for at in free if _fits(required[n], made[at])), None)
        if place is not None:
            matched[n] = place
            free.remove(place)
    total, hits = len(required), len(matched)
    complete = hits == total and (not in_order or _is_subsequence(required, made))
    return Coverage(
        values={
            "all_required_calls_made": complete,
            "required_calls_coverage": hits / total if total else 1.0,
            "num_required_calls_made": hits,
            "num_required_calls_not_made": total - hits,
            "num_unrequired_calls": len(made) - hits,
            "num_required_calls_total": total,
        },
        metadata={
            "required_function_calls": _told(required),
            "called_function_calls": _told(made),
            "matched_required": _told(required[n] for n in sorted(matched)),
            "unmatched_required": _told(
                call for n, call in enumerate(required) if n not in matched
            ),
        },
    )


def _told(calls: Iterable[Call]) -> list[dict[str, Any]]:
    return [call.to_dict() for call in calls]


def _fits(required: Call, made: Call) -> bool:
    if required.name != made.name:
        return False
    return required.arguments is None or required.arguments == made.arguments


def _is_subsequence(required: Sequence[Call], made: Sequence[Call]) -> bool:
    left = iter(made)
    return all(any(_fits(wanted, one) for one in left) for wanted in required)
