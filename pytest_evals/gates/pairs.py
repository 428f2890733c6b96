"""The documents of a baseline gate that both runs have, in pairs."""

from __future__ import annotations

from collections.abc import Sequence

from pytest_evals.core.gate import Gate
from pytest_evals.errors import suggestion
from pytest_evals.gates.observations import Observations
from pytest_evals.gates.reducers import reduced_reference
from pytest_evals.gates.terms import InvalidGateError, Pairs


def pairs_of(gate: Gate, seen: Observations) -> Pairs:
    """The values of both runs, paired.

    Raises:
        InvalidGateError: Their documents differ, or the list is empty.
    """
    reference, metric = seen.reference, seen.metric
    assert reference is not None
    name, old = reference.baseline, reference.values.get(metric.key)
    if old is not None and gate.reducer:
        old = reduced_reference(gate, metric, reference)
    if old is None:
        hint = suggestion(metric.key, reference.values)
        raise InvalidGateError(f"baseline {name!r} has no {metric.key}{hint}")
    new = dict(zip(seen.positions, seen.values, strict=True))
    lost, absent = seen.lost, seen.absent
    if gate.allows_missing:
        new = {index: value for index, value in new.items() if index in old}
        lost, absent = [one for one in lost if one in old], ()
    if not new or metric.how is None:
        raise InvalidGateError(
            f"{metric.key} has no value per document, so nothing can be paired"
        )
    unknown = sorted(one for one in (*new, *lost, *absent) if one not in old)
    if unknown:
        raise InvalidGateError(
            f"{_shown(unknown, seen)} had no score in baseline {name!r}; save it again "
            "from a run without errors"
        )
    excluded = [one for one in seen.excluded if one in old]
    if excluded:
        why = f"{_shown(excluded, seen)} counted in baseline {name!r} but not now"
        raise InvalidGateError(why)
    left = {one: old[one] for one in sorted((*lost, *absent))}
    return Pairs([*new], [old[i] for i in new], [*new.values()], left)


def _shown(positions: Sequence[int], seen: Observations) -> str:
    n, ids = len(positions), seen.ids
    listed = ", ".join(ids[one] for one in positions[:3]) + ", …" * (n > 3)
    return f"{n} document{'s' * (n > 1)} ({listed})"
