"""Alarms on the tasks of a group: any one of them that is proven worse than its own
margin makes the group's gate fail.

A task by itself has too few documents to be proven good, so there are alarms only. They
are corrected for their number.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pytest_evals.core.gate import Outcome, Verdict
from pytest_evals.gates.baseline.moving import Moved
from pytest_evals.gates.baseline.versus import decide
from pytest_evals.gates.wording.changes import shown_bar, shown_change, suffix
from pytest_evals.stats.multiplicity import holm

__all__ = ["with_alarms"]

_SHOWN = 3
"""Tasks that a reason lists before it counts the others."""


def with_alarms(verdict: Verdict, tasks: Sequence[tuple[str, Moved]]) -> Verdict:
    """The verdict of a group, failed if a task is proven worse than ``each`` allows.

    Args:
        verdict: What becomes of the group's own number.
        tasks: Name of each task, and how far it has moved.
    """
    gate = verdict.gate
    assert gate.each is not None
    own = replace(gate, margin=gate.each, over="population", each=None)
    decided = [decide(own, found) for _, found in tasks]
    adjusted = holm([one.p_value or 0.0 for one in decided])
    level = 1 - gate.confidence
    said = [
        f"{name} {shown_change(one.change.difference, one.change.unit)}"
        f"{suffix(one.change.unit)} is not {shown_bar(one.change)}"
        for (name, _), one, p in zip(tasks, decided, adjusted, strict=True)
        if one.outcome is Outcome.FAILED and p <= level
    ]
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
