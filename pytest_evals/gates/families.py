"""Correction for multiple testing by Holm (1979): failures among the gates of a family,
and among the tasks of a group (``each``).

Only failures are corrected. Passing needs no correction, because all gates must pass.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

from pytest_evals.core.gate import Gate, Margin, Outcome, Verdict
from pytest_evals.gates.decide import decide, margin_condition
from pytest_evals.gates.documents import InvalidGateError
from pytest_evals.gates.estimate.estimate import ChangeEstimate
from pytest_evals.gates.formatting import figure, shown_change, suffix
from pytest_evals.stats.multiplicity import holm

_SHOWN = 3
"""Number of tasks listed in a reason."""


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
    """The verdict with its corrected p-value. Failed tasks of a group have their own
    correction."""
    gate, p_value = verdict.gate, verdict.p_fails or 0.0
    changed = replace(verdict, p_adjusted=p_adjusted)
    if verdict.outcome is not Outcome.FAILED or n == 1 or p_value >= 0.5:
        return changed
    among = (
        f"p = {figure(p_value)} alone, {figure(p_adjusted)} after Holm over {n} gates"
    )
    changed = replace(changed, method=f"{verdict.method}; {among}")
    if p_adjusted <= 1 - gate.confidence or verdict.fails_member_checks:
        return changed
    return replace(
        changed,
        outcome=Outcome.INCONCLUSIVE,
        fails_alone=True,
        short=0.0,
        conclusion=f"{verdict.conclusion} alone, not among {n} gates",
    )


class MemberCheck(NamedTuple):
    """A task of a group with its change."""

    name: str
    change: ChangeEstimate


def with_member_checks(
    verdict: Verdict, margin: Margin, checks: Sequence[MemberCheck]
) -> Verdict:
    """The verdict of a group; failed if a task is proven worse than ``each`` allows.

    A single task has too few documents to prove equivalence, so this can only fail the
    gate.
    """
    gate = verdict.gate
    failed = _failed_members(gate, margin, checks)
    for extreme in (min, max):
        worst = [_at_extreme(gate, margin, one, extreme) for one in checks]
        if bool(_failed_members(gate, margin, worst)) != bool(failed):
            what = "documents without a score decide whether a task is worse than each "
            raise InvalidGateError(f"{what}allows")
    if not failed:
        return verdict
    more = f" and {len(failed) - _SHOWN} more" if len(failed) > _SHOWN else ""
    text = f"worse than each allows: {'; '.join(failed[:_SHOWN])}{more}"
    return replace(
        verdict,
        outcome=Outcome.FAILED,
        reason=f"{verdict.reason}; {text} (after Holm over {len(checks)} tasks)",
        fails_member_checks=True,
    )


def _at_extreme(
    gate: Gate,
    margin: Margin,
    check: MemberCheck,
    extreme: Callable[..., ChangeEstimate],
) -> MemberCheck:
    """The task with unscored documents at the extreme with the largest p-value."""
    possible = [
        one for one in check.change.missing or () if isinstance(one, ChangeEstimate)
    ]
    if not check.change.n_missing or not possible:
        return check

    def p_fails(change: ChangeEstimate) -> float:
        decision = decide([margin_condition(margin, change)], change, gate.confidence)
        return 1.0 if decision.p_fails is None else decision.p_fails

    return check._replace(change=extreme(possible, key=p_fails))


def _failed_members(
    gate: Gate, margin: Margin, checks: Sequence[MemberCheck]
) -> list[str]:
    conditions = [margin_condition(margin, one.change) for one in checks]
    decided = [
        decide([condition], one.change, gate.confidence)
        for condition, one in zip(conditions, checks, strict=True)
    ]
    # A condition that cannot fail has no p-value.
    adjusted = holm([1.0 if d.p_fails is None else d.p_fails for d in decided])
    return [
        f"{name} {shown_change(float(change.value), change.unit)}{suffix(change.unit)} "
        f"is not {condition.op} "
        f"{shown_change(float(condition.threshold), change.unit)}{suffix(change.unit)}"
        for (name, change), condition, one, p in zip(
            checks, conditions, decided, adjusted, strict=True
        )
        if one.outcome is Outcome.FAILED and p <= 1 - gate.confidence
    ]
