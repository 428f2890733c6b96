"""References and answers, each as they are compared."""

from __future__ import annotations

from pytest_evals.scorers.lighteval.metric import SampleLevelComputation
from pytest_evals.scorers.lighteval.text.normalizers import (
    Normalizer,
    resolve_normalizer,
)


class NormalizedMetric(SampleLevelComputation):
    """What metrics with ``normalize_gold`` and ``normalize_pred`` share."""

    normalize_gold: Normalizer | str | None
    normalize_pred: Normalizer | str | None

    def look_up(self) -> None:
        """Look at what is given by name.

        Raises:
            EvalsError: There is nothing of that name.
        """
        resolve_normalizer(self.normalize_gold)
        resolve_normalizer(self.normalize_pred)

    def gold(self, text: str) -> str:
        """A reference as it is compared."""
        normalize = resolve_normalizer(self.normalize_gold)
        return normalize(text) if normalize else text

    def pred(self, text: str) -> str:
        """An answer as it is compared."""
        normalize = resolve_normalizer(self.normalize_pred)
        return normalize(text) if normalize else text
