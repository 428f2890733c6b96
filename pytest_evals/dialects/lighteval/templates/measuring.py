"""Which of a task's metrics fit a formulation, and names of its subsets (lighteval
0.13.0, ``tasks/multilingual/utils/task_utils.py``)."""

from __future__ import annotations

from collections.abc import Sequence

from pytest_evals.dialects.lighteval.templates.formulation import (
    Formulation,
    MCFFormulation,
)
from pytest_evals.scorers.lighteval.dynamic import LogLikelihoodAccMetric
from pytest_evals.scorers.lighteval.metric import Metric

__all__ = ["get_metrics_for_formulation", "normalize_subset"]


def get_metrics_for_formulation(
    formulation: Formulation, metrics: Sequence[Metric]
) -> list[Metric]:
    """The metrics; of answers that are letters only the plain accuracy, since all of
    them are as long."""
    is_listed = isinstance(formulation, MCFFormulation)
    if is_listed and getattr(formulation, "choice_prefix", "") == "Letters":
        return [LogLikelihoodAccMetric(normalization=None)]
    return list(metrics)


def normalize_subset(subset: str) -> str:
    """A name without spaces and brackets, in lower case."""
    return subset.replace(" ", "_").replace("(", "").replace(")", "").lower()
