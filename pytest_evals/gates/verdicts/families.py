"""Many gates at once: a failure must be unlikely to come by chance among all gates of
its family.

Only failures are corrected. That all gates must pass needs no correction: each of them
has to prove its own condition.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pytest_evals.core.gate import Gate, Outcome, Verdict
from pytest_evals.gates.wording.figures import figure
from pytest_evals.stats.multiplicity import holm

__all__ = ["corrected", "family_of"]


def family_of(gate: Gate) -> tuple[str, str] | None:
    """The family of a gate: by default its task or group, if named that of the whole
    session; ``None`` if it is in none."""
    if gate.family == "none":
        return None
    return (gate.family, "") if gate.family else ("", gate.task)


def corrected(verdicts: Sequence[Verdict]) -> list[Verdict]:
    """The verdicts in their order, corrected by Holm (1979) within each family.

    A gate that fails alone and not among its family is inconclusive. Gates without a
    p-value stay out: those that count no noise, and those that cannot fail.
    """
    families: dict[tuple[str, str], list[int]] = {}
    for i, verdict in enumerate(verdicts):
        family = family_of(verdict.gate)
        if family is not None and verdict.p_fails is not None:
            families.setdefault(family, []).append(i)
    found = [*verdicts]
    for members in families.values():
        adjusted = holm([verdicts[i].p_fails or 0.0 for i in members])
        for i, p in zip(members, adjusted, strict=True):
            found[i] = _with(verdicts[i], p, len(members))
    return found


def _with(verdict: Verdict, p_adjusted: float, n: int) -> Verdict:
    """The verdict with its corrected p-value. Failed checks of single tasks of a group
    are corrected by themselves."""
    gate, p_value = verdict.gate, verdict.p_fails or 0.0
    changed = replace(verdict, p_adjusted=p_adjusted)
    if verdict.outcome is not Outcome.FAILED or n == 1 or p_value >= 0.5:
        return changed
    among = (
        f"p = {figure(p_value)} alone, {figure(p_adjusted)} after Holm over {n} gates"
    )
    if p_adjusted <= 1 - gate.confidence or verdict.has_alarms:
        return replace(changed, notes=(*verdict.notes, among))
    return replace(
        changed,
        outcome=Outcome.INCONCLUSIVE,
        fails_alone=True,
        short=0.0,
        reason=f"{verdict.reason}; fails alone, not among {n}: {among}",
    )
