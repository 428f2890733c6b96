"""The path of models to which a position means something else in a long sequence.

Rotary positions of two kinds are scaled by the longest sequence of a pass ("longrope",
as in Phi-3, and "dynamic"), so that a batch of mixed lengths has other numbers than its
sequences by themselves. Up to a length all is as usual; longer sequences share a pass
with their equals only.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from pytest_evals.models.hf.batches import Budget
from pytest_evals.models.hf.scoring.lines import Done, Line, Path

__all__ = ["ByLength", "usual_length"]

SCALED = ("dynamic", "longrope")


def usual_length(config: Any) -> int:
    """Tokens up to which sequences may be mixed; 0 for any number."""
    inner = getattr(config, "text_config", None) or config
    found = getattr(inner, "rope_parameters", None)
    found = found or getattr(inner, "rope_scaling", None) or {}
    # One kind of rope, or one for each kind of layer.
    ropes = [found, *(rope for rope in found.values() if isinstance(rope, dict))]
    lengths = []
    for rope in ropes:
        if rope.get("rope_type", rope.get("type")) in SCALED:
            length = rope.get("original_max_position_embeddings")
            length = length or getattr(inner, "original_max_position_embeddings", None)
            lengths.append(int(length or inner.max_position_embeddings))
    return min(lengths, default=0)


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
