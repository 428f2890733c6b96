"""Where a number could lie, whatever the documents without a score may be worth.

They are counted as all wrong and as all right. Between both, where documents hang
together, noise may be more or less than at either, so bounds of it are counted too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from pytest_evals.core.gate import Gate
from pytest_evals.core.result import TaskResult
from pytest_evals.gates.evidence.documents import labels_of, values_of
from pytest_evals.gates.evidence.reading import Reading
from pytest_evals.gates.evidence.unsound import UnsoundError
from pytest_evals.gates.noise.placed import Placed
from pytest_evals.gates.noise.placing import place_between_runs
from pytest_evals.stats.clusters import largest_stderr
from pytest_evals.stats.spread import Located, Share, Still

__all__ = ["at_ends", "ends_of_share", "noisiest"]


def at_ends(reading: Reading, placed: Placed) -> list[Placed]:
    """Where a number with normal errors would lie, were all documents without a score
    wrong, or right; nowhere if they are neither."""
    spread = placed.spread
    if not isinstance(spread, (Located, Still)):
        return []
    moved = [replace(spread, value=float(end)) for end in reading.ends]
    return [replace(placed, spread=one) for one in moved]


def ends_of_share(
    gate: Gate, reading: Reading, placed: Placed, result: TaskResult, key: str
) -> list[Placed]:
    """Where a task's share of right answers would lie, were all documents without a
    score wrong, or right; nowhere if it is no such share.

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
            replace(reading, value=end, total=int(end * reading.n), n_scored=reading.n)
            for end in reading.ends
        ]
        return [place_between_runs(gate, whole) for whole in wholes]
    if not isinstance(placed.spread, Share):
        return at_ends(reading, placed)
    sizes = [float(reading.n)]
    if gate.cluster:
        sizes = _effective_sizes(gate, reading, result, key)
    shares = [Share(float(end), size) for size in sizes for end in reading.ends]
    return [replace(placed, spread=share) for share in shares]


def _effective_sizes(
    gate: Gate, reading: Reading, result: TaskResult, key: str
) -> list[float]:
    """The least and the most that all documents may be worth; nothing if nobody knows
    to which cluster one belongs."""
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
    n, clusters = len(labels), Counter(labels)
    # A cluster whose documents are all alike is worth one of them: Cauchy and Schwarz.
    effect = max(clusters.values()) * len(clusters) / (len(clusters) - 1)
    shares = [float(end) for end in reading.ends]
    variance = min(share * (1 - share) for share in shares) / max(1, n - 1)
    if variance > 0:
        halves = [0.5] * len(lacking)
        stderr = largest_stderr(
            [*values.values(), *halves], labels, n_loose=len(lacking)
        )
        effect = min(effect, max(1.0, stderr * stderr / variance))
    return [n / effect, float(n)]


def noisiest(ends: Sequence[Placed]) -> list[Placed]:
    """The place of a half, if it lies between these: no share varies more."""
    spreads = [end.spread for end in ends if isinstance(end.spread, Share)]
    if not spreads or not spreads[0].value < 0.5 < spreads[-1].value:
        return []
    size = min(spread.n for spread in spreads)
    return [replace(ends[0], spread=Share(0.5, size))]
