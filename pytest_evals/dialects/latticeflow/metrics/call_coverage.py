"""Coverage of required function calls.

The algorithm is that of ``latticeflow-core`` 3.17.0: greedy one-to-one matching,
starting with required calls that specify arguments.
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
"""Names of all scores."""


@dataclass(frozen=True, slots=True)
class Call:
    """A function call.

    Args:
        name: Name of the function.
        arguments: Arguments by name. ``None`` matches any arguments in a required call,
            and marks invalid JSON in an actual call.
    """

    name: str
    arguments: Any = None

    def to_dict(self) -> dict[str, Any]:
        """Return the call as JSON values."""
        if self.arguments is None:
            return {"name": self.name}
        return {"name": self.name, "arguments": self.arguments}


@dataclass(frozen=True, slots=True, kw_only=True)
class Coverage:
    """Scores and metadata of the matched calls."""

    values: Mapping[str, Any]
    metadata: Mapping[str, Any]


def cover(
    required: Sequence[Call], made: Sequence[Call], *, in_order: bool
) -> Coverage:
    """Match actual calls with required ones.

    Args:
        required: Required calls; one that is listed twice needs two calls.
        in_order: Whether the required order matters (other calls may be in between);
            affects ``all_required_calls_made`` only.
    """
    free = list(range(len(made)))
    matched: dict[int, int] = {}
    by_arguments = sorted(
        range(len(required)), key=lambda n: required[n].arguments is None
    )
    for n in by_arguments:
        position = next((at for at in free if _matches(required[n], made[at])), None)
        if position is not None:
            matched[n] = position
            free.remove(position)
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
            "required_function_calls": _to_dicts(required),
            "called_function_calls": _to_dicts(made),
            "matched_required": _to_dicts(required[n] for n in sorted(matched)),
            "unmatched_required": _to_dicts(
                call for n, call in enumerate(required) if n not in matched
            ),
        },
    )


def _to_dicts(calls: Iterable[Call]) -> list[dict[str, Any]]:
    return [call.to_dict() for call in calls]


def _matches(required: Call, made: Call) -> bool:
    if required.name != made.name:
        return False
    return required.arguments is None or required.arguments == made.arguments


def _is_subsequence(required: Sequence[Call], made: Sequence[Call]) -> bool:
    left = iter(made)
    return all(any(_matches(expected, one) for one in left) for expected in required)
