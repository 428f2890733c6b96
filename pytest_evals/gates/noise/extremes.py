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
from pytest_evals.gates.noise.sums import place_bounded
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
    """Limits of a task's proportion or bounded mean; empty if it is neither, or if the
    cluster of a document without a score is not known.

    Args:
        gate: The gate.
        reading: The proportion.
        placed: Its limits without these documents.
        result: The task.
        key: Metric and filter.
    """
    if not reading.n_lacking or not reading.ends:
        return []
    return [*_ends(gate, reading, placed, result, key)]


def _ends(
    gate: Gate, reading: Reading, placed: Placed, result: TaskResult, key: str
) -> Iterator[Placed]:
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
    limits = placed.range if reading.total is None else (0, 1)
    for share, end in zip(reading.ends, limits, strict=True):
        whole_values = [*values.values(), *[end] * reading.n_lacking]
        if gate.flip_rate is not None:
            total = None if reading.total is None else int(share * reading.n)
            whole = replace(reading, value=share, total=total, n_scored=reading.n)
            yield place_between_runs(gate, whole)
        elif isinstance(placed.spread, (Located, Still)):
            yield replace(placed, spread=replace(placed.spread, value=float(share)))
        elif reading.total is None:
            yield place_bounded(whole_values, labels, placed.range)
        else:
            total = int(share * reading.n)
            yield place_share(total, reading.n, whole_values, labels)
