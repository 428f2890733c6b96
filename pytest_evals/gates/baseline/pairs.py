"""The documents of a baseline gate as pairs of values, and those that this run lacks.

A verdict stands only where it makes no difference what the documents without a score
are worth.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import product
from typing import Any, NamedTuple

from pytest_evals.core.gate import Gate
from pytest_evals.core.metric import MetricResult
from pytest_evals.core.reference import Reference
from pytest_evals.core.result import TaskResult
from pytest_evals.errors import did_you_mean
from pytest_evals.gates.baseline.moving import Moved, between_runs, moved
from pytest_evals.gates.evidence.documents import labels_of, values_of
from pytest_evals.gates.evidence.reading import shortfall
from pytest_evals.gates.evidence.repeating import reduced_reference
from pytest_evals.gates.evidence.unsound import UnsoundError
from pytest_evals.stats.paired import PairedShares

__all__ = ["Pairs", "ends_of", "lacking_text", "pairs_of"]


class Pairs(NamedTuple):
    """The documents that both runs have scored, and those that this one lacks.

    Args:
        positions: Of documents with a score.
        old: Their values in the baseline.
        new: Their values now.
        lacking: Position of each document without a score now to its value in the
            baseline.
    """

    positions: list[int]
    old: list[Any]
    new: list[Any]
    lacking: dict[int, Any]


def pairs_of(
    gate: Gate, metric: MetricResult, result: TaskResult, reference: Reference
) -> Pairs:
    """The values of both runs, paired.

    Raises:
        UnsoundError: They are not of the same documents, or there are none.
    """
    name = reference.baseline
    old = reference.values.get(metric.key)
    if old is not None and gate.reducer:
        old = reduced_reference(gate, metric, reference)
    if old is None:
        hint = did_you_mean(metric.key, [*reference.values])
        known = hint or f"; it has {', '.join(reference.values) or 'none'}"
        raise UnsoundError(f"baseline {name!r} has no {metric.key}{known}")
    new = values_of(result, metric.key)
    if not new or metric.how is None:
        raise UnsoundError(
            f"{metric.key} has no value in each document, so nothing can be paired"
        )
    counted = [record for record in result.records if not record.excluded]
    absent = [record.doc.id for record in counted if record.index not in old]
    if absent:
        raise UnsoundError(
            f"{_named(absent)} had no score in baseline {name!r}; save it again from a "
            "run without errors"
        )
    left_out = [r.doc.id for r in result.records if r.excluded and r.index in old]
    if left_out:
        why = f"{_named(left_out)} counted in baseline {name!r} but not now"
        raise UnsoundError(why)
    lacking = {r.index: old[r.index] for r in counted if r.index not in new}
    return Pairs([*new], [old[i] for i in new], [*new.values()], lacking)


def _named(ids: Sequence[str]) -> str:
    n = len(ids)
    listed = ", ".join(ids[:3]) + ", …" * (n > 3)
    return f"{n} document{'s' * (n > 1)} ({listed})"


def lacking_text(metric: MetricResult) -> str:
    """Why documents without a score make a verdict on a change impossible."""
    n = metric.n_errored + metric.n_unscored
    have = "has" if n == 1 else "have"
    counts = shortfall(metric.n_errored, metric.n_unscored)
    what = f"{n} of {metric.n_scored + n} documents {have} no score{counts}"
    return f"{what}; the change hangs on them"


def ends_of(
    gate: Gate, metric: MetricResult, result: TaskResult, pairs: Pairs, found: Moved
) -> list[Moved]:
    """The change, whatever the documents without a score are worth: first with all of
    them wrong, last with all of them right. Nothing where that cannot be told.

    Args:
        gate: The claim.
        metric: What it is about.
        result: The task.
        pairs: Its documents.
        found: The change over the documents with a score.
    """
    if not pairs.lacking:
        return [found]
    if found.shares is None:
        return []
    if gate.cluster:
        return _clustered_ends(gate, metric, result, pairs)
    return _ends(gate, found, found.shares, [*pairs.lacking.values()])


def _ends(
    gate: Gate, found: Moved, shares: PairedShares, lacking: Sequence[Any]
) -> list[Moved]:
    were_right = sum(map(bool, lacking))
    were_wrong = len(lacking) - were_right
    n = found.n + len(lacking)
    before = Fraction(round(found.before * found.n) + were_right, n)
    ends = []
    # Noise is least or most where none of them turns, one does, or all do.
    turned = product(
        {0, min(1, were_wrong), were_wrong}, {0, min(1, were_right), were_right}
    )
    for gained, lost in sorted(turned, key=lambda both: both[0] - both[1]):
        end = PairedShares(shares.gained + gained, shares.lost + lost, n)
        whole = replace(
            found,
            n=n,
            before=before,
            now=before + Fraction(end.gained - end.lost, n),
            shares=end,
            placed=replace(found.placed, spread=end),
        )
        ends.append(between_runs(gate, whole))
    return ends


def _clustered_ends(
    gate: Gate, metric: MetricResult, result: TaskResult, pairs: Pairs
) -> list[Moved]:
    """With all of them wrong, and with all of them right."""
    assert metric.how is not None
    try:
        labels = labels_of(result, gate.cluster, [*pairs.positions, *pairs.lacking])
    except UnsoundError:  # nobody knows where a lost document belongs
        return []
    old, n = [*pairs.old, *pairs.lacking.values()], len(pairs.lacking)
    return [
        moved(metric.how, old, [*pairs.new, *[value] * n], labels) for value in (0, 1)
    ]
