"""Where a number could lie, whatever the documents without a score may be worth.

They are counted as wrong and as right in every way, as far as ways are few. Where
documents hang together and ways are many, noise may be more or less than at either end,
so bounds of it are counted too.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import replace
from itertools import product

from pytest_evals.core.gate import Gate
from pytest_evals.core.result import TaskResult
from pytest_evals.gates.evidence.documents import labels_of, values_of
from pytest_evals.gates.evidence.reading import Reading
from pytest_evals.gates.evidence.unsound import UnsoundError
from pytest_evals.gates.noise.placed import Placed, share_of
from pytest_evals.gates.noise.placing import place_between_runs, place_share
from pytest_evals.stats.clusters import stderr_range
from pytest_evals.stats.spread import Located, Share, Still

__all__ = ["at_ends", "ends_of_share", "noisiest", "ways"]

MOST_WAYS = 64
"""Ways to count lost documents that are tried one by one."""


def ways(kinds: Sequence[Hashable]) -> list[list[int]]:
    """Every way in which documents may be wrong (0) or right (1), from all wrong to all
    right; two of one kind are as good as each other. Nothing if there are too many.

    Args:
        kinds: Of each document.
    """
    sizes = Counter(kinds)
    if math.prod(n + 1 for n in sizes.values()) > MOST_WAYS:
        return []
    found = []
    for counts in product(*(range(n + 1) for n in sizes.values())):
        left = dict(zip(sizes, counts, strict=True))
        way = []
        for kind in kinds:
            way.append(int(left[kind] > 0))
            left[kind] -= 1
        found.append(way)
    return found


def at_ends(reading: Reading, placed: Placed) -> list[Placed]:
    """Where a number with normal errors would lie, were none of the documents without a
    score right, or one, and so on; nowhere if they are neither right nor wrong."""
    spread = placed.spread
    if reading.total is None or not isinstance(spread, (Located, Still)):
        return []
    moved = [replace(spread, value=float(share)) for share in reading.wholes]
    return [replace(placed, spread=one) for one in moved]


def ends_of_share(
    gate: Gate, reading: Reading, placed: Placed, result: TaskResult, key: str
) -> list[Placed]:
    """Where a task's share of right answers would lie, were none of the documents
    without a score right, or one, and so on; nowhere if it is no such share.

    Args:
        gate: The gate.
        reading: The share.
        placed: Where it lies without these documents.
        result: The task.
        key: Metric and filter.
    """
    if not reading.n_lacking or reading.total is None:
        return []
    if gate.flip_rate is not None:
        wholes = [
            replace(reading, value=one, total=int(one * reading.n), n_scored=reading.n)
            for one in reading.wholes
        ]
        return [place_between_runs(gate, whole) for whole in wholes]
    if not isinstance(placed.spread, Share):
        return at_ends(reading, placed)
    if gate.cluster:
        return _over_clusters(gate, reading, placed, result, key)
    n = float(reading.n)
    return [replace(placed, spread=Share(float(s), n)) for s in reading.wholes]


def _over_clusters(
    gate: Gate, reading: Reading, placed: Placed, result: TaskResult, key: str
) -> list[Placed]:
    """Nowhere, if nobody knows to which cluster a document belongs."""
    values = values_of(result, key)
    lacking = [
        record.index
        for record in result.records
        if record.index not in values and not record.excluded
    ]
    try:
        labels = labels_of(result, gate.cluster, [*values, *lacking])
    except UnsoundError:
        return []
    assert labels is not None
    known, n = [*values.values()], reading.n
    tried = [[*known, *way] for way in ways(labels[len(known) :])]
    if tried:
        return [place_share(sum(all_) / n, n, all_, labels) for all_ in tried]
    return [
        replace(placed, spread=share_of(float(share), size, len({*labels})))
        for size in _effective_sizes(reading, known, labels)
        for share in reading.wholes
    ]


def _effective_sizes(
    reading: Reading, known: Sequence[float], labels: Sequence[Hashable]
) -> list[float]:
    """The least and the most that all documents may be worth."""
    n, clusters = len(labels), Counter(labels)
    # A cluster whose documents are all alike is worth one of them: Cauchy and Schwarz.
    effect = max(clusters.values()) * len(clusters) / (len(clusters) - 1)
    shares = [float(end) for end in reading.ends]
    variance = min(share * (1 - share) for share in shares) / max(1, n - 1)
    if variance > 0:
        n_loose = n - len(known)
        _, stderr = stderr_range([*known, *[0.5] * n_loose], labels, n_loose=n_loose)
        effect = min(effect, max(1.0, stderr * stderr / variance))
    return [n / effect, float(n)]


def noisiest(ends: Sequence[Placed]) -> list[Placed]:
    """The place of a half, if it lies between these: no share varies more."""
    spreads = [end.spread for end in ends if isinstance(end.spread, Share)]
    if not spreads or not spreads[0].value < 0.5 < spreads[-1].value:
        return []
    size = min(spread.n for spread in spreads)
    return [replace(ends[0], spread=replace(spreads[0], value=0.5, n=size))]
