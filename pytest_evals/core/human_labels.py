"""Ratings by people of the answers that a judge rates too."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from pytest_evals.errors import Place

LEAST_LABELS = 30
"""Fewest human labels that a gate may use."""


class HumanLabel(NamedTuple):
    """A person's rating of the answer to one document."""

    value: float  # from 0 to 1, on the scale of the judge's values
    response: str | None  # the rated answer, None if the file does not contain it
    line: int


@dataclass(frozen=True, slots=True, kw_only=True)
class HumanLabels:
    """The human labels of a judge."""

    by_id: Mapping[str, HumanLabel]  # id of a document → its label
    sampled: str  # how the labelled documents were chosen, as the user stated it
    place: Place  # the file
    threshold: float  # an answer passes from this value on
    scale: tuple[int, int] | None = None
    """Lowest and highest grade, if grades are few enough for a table; ``None`` for pass
    or fail."""

    @property
    def is_random(self) -> bool:
        """Whether the labelled documents are stated to be a random sample."""
        return self.sampled == "random"

    def rating(self, id_: str, answer: str) -> float | None:
        """The label of an answer; ``None`` if the document has none, or if another
        answer was labelled."""
        label = self.by_id.get(id_)
        if label is None:
            return None
        if label.response is not None and label.response.strip() != answer.strip():
            return None
        return label.value

    def category(self, value: float) -> str:
        """The row or column of a value in the confusion table."""
        if self.scale is None:
            return "pass" if value >= self.threshold else "fail"
        low, high = self.scale
        return f"{low + value * (high - low):.4g}"
