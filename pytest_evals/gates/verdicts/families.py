"""Many gates at once: a red verdict must be one that hardly comes by chance among all
gates of its family.

Only red verdicts are corrected. That all gates must pass needs no correction: each of
them has to prove its own claim.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pytest_evals.core.gate import Outcome, Verdict
from pytest_evals.gates.wording.figures import figure
from pytest_evals.stats.multiplicity import holm

__all__ = ["corrected"]


def corrected(verdicts: Sequence[Verdict]) -> list[Verdict]:
    """The verdicts in their order, corrected by Holm within each family.

    A gate that fails by itself and not among all of its family is inconclusive.
    """
    families: dict[str, list[int]] = {}
    for i, verdict in enumerate(verdicts):
        if verdict.gate.family and verdict.p_value is not None:
            families.setdefault(verdict.gate.family, []).append(i)
    found = [*verdicts]
    for members in families.values():
        adjusted = holm([verdicts[i].p_value or 0.0 for i in members])
        for i, p in zip(members, adjusted, strict=True):
            found[i] = _with(verdicts[i], p, len(members))
    return found


def _with(verdict: Verdict, p_adjusted: float, n: int) -> Verdict:
    """The verdict with its corrected p-value; alarms of tasks are corrected by
    themselves."""
    gate, p_value = verdict.gate, verdict.p_value or 0.0
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
        short=0.0,
        reason=f"{verdict.reason}, but not for sure among so many gates: {among}",
    )
