"""Confidence limits if all documents without a score were wrong, and if all were right.

P-values of proportions and bounded means are monotone in each document's value, so the
two extremes say what any other values of these documents could do.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from pytest_evals.core.gate import Gate
from pytest_evals.core.result import TaskResult
from pytest_evals.gates.evidence.documents import labels_of, values_of
from pytest_evals.gates.evidence.reading import Reading
from pytest_evals.gates.evidence.unsound import UnsoundError
from pytest_evals.gates.noise.placed import Placed
from pytest_evals.gates.noise.placing import place_between_runs, place_share
from pytest_evals.stats.spread import Located, Still

__all__ = ["at_ends", "ends_of_share"]


def at_ends(reading: Reading, placed: Placed) -> list[Placed]:
    """Limits of a number with normal errors; empty if it is not a proportion."""
    spread = placed.spread
    if reading.total is None or not isinstance(spread, (Located, Still)):
        return []
    moved = [replace(spread, value=float(share)) for share in reading.ends]
    return [replace(placed, spread=one) for one in moved]


def ends_of_share(
    gate: Gate, reading: Reading, placed: Placed, result: TaskResult, key: str
) -> list[Placed]:
    """Limits of a task's proportion; empty if it is not one, or if the cluster of a
    document without a score is not known.

    Args:
        gate: The gate.
        reading: The proportion.
        placed: Its limits without these documents.
        result: The task.
        key: Metric and filter.
    """
    if not reading.n_lacking or reading.total is None:
        return []
    return [*_ends(gate, reading, placed, result, key)]


def _ends(
    gate: Gate, reading: Reading, placed: Placed, result: TaskResult, key: str
) -> Iterator[Placed]:
    assert reading.total is not None
    values = values_of(result, key)
    lacking = [
        record.index
        for record in result.records
        if record.index not in values and not record.excluded
    ]
    labels = None
    if gate.cluster and gate.flip_rate is None:
        try:
            labels = labels_of(result, gate.cluster, [*values, *lacking])
        except UnsoundError:
            return
    for share in reading.ends:
        total = int(share * reading.n)
        if gate.flip_rate is not None:
            whole = replace(reading, value=share, total=total, n_scored=reading.n)
            yield place_between_runs(gate, whole)
        elif isinstance(placed.spread, (Located, Still)):
            yield replace(placed, spread=replace(placed.spread, value=float(share)))
        else:
            rest = [int(total > reading.total)] * reading.n_lacking
            yield place_share(total, reading.n, [*values.values(), *rest], labels)
