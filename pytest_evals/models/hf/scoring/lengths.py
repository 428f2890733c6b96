"""The path of models to which a position means something else in a long sequence
(see ``scaling``): long sequences share a pass with their equals only."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pytest_evals.models.hf.batches import Budget
from pytest_evals.models.hf.scoring.lines import Done, Line, Path

__all__ = ["ByLength"]


class ByLength:
    """A fast path for all sequences up to a length, and the plain one for longer
    ones."""

    def __init__(self, path: Path, plain: Path, length: int) -> None:
        """``length`` is the number of tokens up to which sequences may be mixed."""
        self.name = path.name
        self._path = path
        self._plain = plain
        self._length = length

    def score(self, lines: Sequence[Line], budget: Budget) -> Iterator[Done]:
        """All lines, as batches finish."""
        by_length: dict[int, list[int]] = {}
        for i, line in enumerate(lines):
            length = len(line.tokens) - 1
            by_length.setdefault(max(length, self._length), []).append(i)
        # Upwards, for a scale that has grown stays until a short sequence comes.
        for length, numbers in sorted(by_length.items()):
            path = self._path if length == self._length else self._plain
            for done in path.score([lines[i] for i in numbers], budget):
                scored = {numbers[i]: one for i, one in done.scored.items()}
                yield Done(scored, done.elapsed_s)

    def forget(self) -> None:
        """Give the memory of the kept prefix back."""
        self._path.forget()
