"""Correction for multiple testing by Holm (1979): failures among the gates of a family.

Only failures are corrected. Passing needs no correction, because all gates must pass.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pytest_evals.core.gate import Gate, Outcome, Verdict
from pytest_evals.gates.formatting import figure
from pytest_evals.stats.multiplicity import holm


def family_of(gate: Gate) -> tuple[str, str] | None:
    """The family of a gate: by default its task or group, if named the whole session's;
    ``None`` if it has none."""
    if gate.family == "none":
        return None
    return (gate.family, "") if gate.family else ("", gate.task)


def corrected(verdicts: Sequence[Verdict]) -> list[Verdict]:
    """The verdicts in their order, corrected by Holm (1979) within each family.

    A gate that fails on its own but not after the correction is inconclusive. Gates
    without a p-value are not corrected: those that compare the number, and those that
    cannot fail.
    """
    families: dict[tuple[str, str], list[int]] = {}
    for i, verdict in enumerate(verdicts):
        family = family_of(verdict.gate)
        if family is not None and verdict.p_fails is not None:
            families.setdefault(family, []).append(i)
    result = [*verdicts]
    for members in families.values():
        adjusted = holm([verdicts[i].p_fails or 0.0 for i in members])
        for i, p in zip(members, adjusted, strict=True):
            result[i] = _with(verdicts[i], p, len(members))
    return result


def _with(verdict: Verdict, p_adjusted: float, n: int) -> Verdict:
    """The verdict with its corrected p-value."""
    gate, p_value = verdict.gate, verdict.p_fails or 0.0
    changed = replace(verdict, p_adjusted=p_adjusted)
    if verdict.outcome is not Outcome.FAILED or n == 1 or p_value >= 0.5:
        return changed
    among = (
        f"p = {figure(p_value)} alone, {figure(p_adjusted)} after Holm over {n} gates"
    )
    changed = replace(changed, method=f"{verdict.method}; {among}")
    if p_adjusted <= 1 - gate.confidence:
        return changed
    return replace(
        changed,
        outcome=Outcome.INCONCLUSIVE,
        fails_alone=True,
        short=0.0,
        conclusion=f"{verdict.conclusion} alone, not among {n} gates",
    )
