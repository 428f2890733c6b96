"""Base class of metrics with normalizers."""

from __future__ import annotations

from pytest_evals.guests.lighteval.metrics.text.normalizers import (
    Normalizer,
    resolve_normalizer,
)
from pytest_evals.scorers.custom_metrics.metric import SampleLevelComputation


class NormalizedMetric(SampleLevelComputation):
    """Base class of metrics with ``normalize_gold`` and ``normalize_pred``."""

    normalize_gold: Normalizer | str | None
    normalize_pred: Normalizer | str | None

    def check_names(self) -> None:
        """Validate the names of normalizers."""
        resolve_normalizer(self.normalize_gold)
        resolve_normalizer(self.normalize_pred)

    def gold(self, text: str) -> str:
        """Normalize a reference."""
        normalize = resolve_normalizer(self.normalize_gold)
        return normalize(text) if normalize else text

    def pred(self, text: str) -> str:
        """Normalize an answer."""
        normalize = resolve_normalizer(self.normalize_pred)
        return normalize(text) if normalize else text
