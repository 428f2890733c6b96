"""Early decision of a gate, before all documents are run.

An early verdict predicts the verdict of the full run, not that on other documents:
documents run in a random order, in waves, and after each wave the gate may be decided
with a probability of at most ``error`` that the full run would differ. Documents must
be evaluated in this order; completion order, or order by length, is biased.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import sha256

import numpy as np
from numpy.typing import NDArray

from pytest_evals.core.gate import Gate, Interval, Outcome, Verdict
from pytest_evals.core.metric import MetricResult
from pytest_evals.core.record import Record
from pytest_evals.gates.early_stopping.steps import Steps
from pytest_evals.gates.terms import figure
from pytest_evals.stats.sequential import sum_bounds

LEAST_WAVE = 64  # smallest wave: enough documents to fill the batches of a device
WAVES = 20
BOUND_ERROR = 0.05  # error probability of each shown confidence limit


def wave_size(n: int) -> int:
    """Number of documents in a wave, for ``n`` in all."""
    return max(LEAST_WAVE, -(-n // WAVES))


def reading_order(n: int, commit: str, task: str, seed: int | None = None) -> list[int]:
    """The random order of ``n`` documents: it depends on commit and task only, so that
    repeated runs cannot select a favorable verdict. ``commit``: commit of the suite,
    empty if it has none."""
    words = f"{commit if seed is None else seed}\0{task}".encode()
    drawn = int.from_bytes(sha256(words).digest()[:8], "big")
    order: list[int] = np.random.default_rng(drawn).permutation(n).tolist()
    return order


class Watch:
    """One gate over the documents of one task, wave by wave."""

    def __init__(
        self,
        gate: Gate,
        steps: Steps,
        n: int,
        *,
        error: float,
        old: Sequence[float] | None = None,
    ) -> None:
        """Create a watch before the first wave.

        Args:
            steps: Its verdict as a function of a sum.
            error: Probability that the verdict differs from the full run's; 0 for
                certain verdicts only.
            old: Contributions of the documents in another run, in random order.
        """
        self.gate, self._steps, self._n, self._error = gate, steps, n, error
        self._old = None if old is None else np.array(old, dtype=float)
        guess = None if self._old is None or not n else float(self._old.mean())
        self._urns = steps.urns(n, error, self._old, guess)
        self._low: list[float] = []
        self._high: list[float] = []
        self.outcome: Outcome | None = None
        """The verdict, which further documents cannot change; ``None`` if undecided."""
        self.void = ""  # why it can no longer be decided early

    def give_up(self, why: str) -> None:
        """Decide nothing early any more, and withdraw a decision."""
        self.outcome, self.void = None, why

    def read(self, key: str, records: Sequence[Record]) -> None:
        """Add the next wave, and decide if possible."""
        if self.outcome or self.void:
            return
        try:
            added = [self._added(key, record) for record in records]
        except ValueError as error:
            self.void = str(error)
            return
        low, high = (np.array(side, dtype=float) for side in zip(*added, strict=True))
        self._low += low.tolist()
        self._high += high.tolist()
        self._decide(low, high)

    def _added(self, key: str, record: Record) -> tuple[float, float]:
        """The smallest and the largest possible contribution of a document."""
        is_scored = not (record.error or record.excluded)
        if is_scored and all(score.key != key for score in record.scores):
            raise ValueError("a scored document lacks the metric")
        value = value_of(record, key)
        if value is not None:
            share = self._steps.share(value)
            return share, share
        if not self._steps.may_lack:
            raise ValueError("a document has no score")
        if any(one not in (0, 1) for one in self._low):
            raise ValueError("a document has no score, and others are not 0 or 1")
        return 0.0, 1.0

    def _decide(self, low: NDArray[np.float64], high: NDArray[np.float64]) -> None:
        answers = [urn.read(low, high) for urn in self._urns]
        yes = [i + 1 for i, answer in enumerate(answers) if answer is True]
        no = [i for i, answer in enumerate(answers) if answer is False]
        above, below = max(yes, default=0), min(no, default=len(answers))
        # The sum certainly exceeds the first cuts, and may exceed the next ones.
        possible = {*self._steps.outcomes[above : max(above, below) + 1]}
        if len(possible) == 1 and above <= below:
            (self.outcome,) = possible

    def verdict(self, metric: MetricResult | None, promise: float) -> Verdict:
        """The verdict of a gate that is decided. ``promise``: probability that the
        full run has the same verdict."""
        assert self.outcome is not None
        n_read, interval = len(self._low), self._interval()
        sure = "the others cannot change it"
        if self._error:
            likely = f"with a probability of at least {100 * promise:g}%"
            sure = f"the full run would agree {likely}"
        reason = (
            f"{_SAID[self.outcome]}, decided after {n_read:,} of {self._n:,} documents "
            f"({100 * n_read / self._n:.0f}%): {sure}"
        )
        if interval is not None:
            low, high = figure(interval.low), figure(interval.high)
            reason += f"; its number is in [{low}, {high}]: no benchmark score, and no "
            reason += "baseline"
        return Verdict(
            gate=self.gate,
            outcome=self.outcome,
            metric=metric,
            reason=reason,
            interval=interval,
            early=True,
        )

    def _interval(self) -> Interval | None:
        """Confidence limits of the full run's number, each at 95%."""
        unit = self._steps.unit
        if not unit:
            return None
        low, high = np.array(self._low), np.array(self._high)
        interval = sum_bounds(low, high, self._n, BOUND_ERROR, self._old)
        return Interval(unit * interval.low, unit * interval.high, "of the full run")


_SAID = {
    Outcome.PASSED: "holds",
    Outcome.FAILED: "does not hold",
    Outcome.INCONCLUSIVE: "is left open by all documents too",
}


def value_of(record: Record, key: str) -> object:
    """A document's value of a metric, ``None`` if it has none."""
    if record.error or record.excluded:
        return None
    found = (one for one in record.scores if one.key == key and not one.unscored)
    return next((one.value for one in found), None)


def in_order(old: Mapping[int, float], positions: Sequence[int]) -> list[float] | None:
    """The values of another run in random order, ``None`` if some are unknown or not
    from 0 to 1."""
    values = [old.get(position) for position in positions]
    kept = [value for value in values if value is not None and 0 <= value <= 1]
    return kept if len(kept) == len(positions) else None
