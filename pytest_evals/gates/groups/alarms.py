"""Alarms on the tasks of a group: any one of them that is proven worse than its own
margin makes the group's gate fail.

A task by itself has too few documents to be proven good, so there are alarms only. They
are corrected for their number.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pytest_evals.core.gate import Gate, Outcome, Verdict
from pytest_evals.gates.baseline.moving import Moved
from pytest_evals.gates.baseline.versus import Decided, decide
from pytest_evals.gates.wording.changes import shown_bar, shown_change, suffix
from pytest_evals.stats.multiplicity import holm

__all__ = ["alarm", "alarms", "with_alarms"]

_SHOWN = 3
"""Tasks that a reason lists before it counts the others."""


def alarm(gate: Gate, found: Moved) -> Decided:
    """What becomes of a task by itself, held against the margin of ``each``."""
    assert gate.each is not None
    own = replace(gate, margin=gate.each, over="population", each=None)
    return decide(own, found)


def alarms(gate: Gate, tasks: Sequence[tuple[str, Moved]]) -> list[str]:
    """What is said of each task that is proven worse than ``each`` allows.

    Args:
        gate: The group's gate.
        tasks: Name of each task, and how far it has moved.
    """
    decided = [alarm(gate, found) for _, found in tasks]
    adjusted = holm([one.p_fails or 0.0 for one in decided])
    return [
        f"{name} {shown_change(one.change.difference, one.change.unit)}"
        f"{suffix(one.change.unit)} is not {shown_bar(one.change)}"
        for (name, _), one, p in zip(tasks, decided, adjusted, strict=True)
        if one.outcome is Outcome.FAILED and p <= 1 - gate.confidence
    ]


def with_alarms(verdict: Verdict, tasks: Sequence[tuple[str, Moved]]) -> Verdict:
    """The verdict of a group, failed if a task is proven worse than ``each`` allows.

    Args:
        verdict: What becomes of the group's own number.
        tasks: Name of each task, and how far it has moved.
    """
    said = alarms(verdict.gate, tasks)
    if not said:
        return verdict
    more = f" and {len(said) - _SHOWN} more" if len(said) > _SHOWN else ""
    count = f"after Holm over {len(tasks)} tasks"
    alarm = f"alarm: {'; '.join(said[:_SHOWN])}{more} ({count})"
    return replace(
        verdict,
        outcome=Outcome.FAILED,
        reason=f"{verdict.reason}; {alarm}",
        has_alarms=True,
    )
