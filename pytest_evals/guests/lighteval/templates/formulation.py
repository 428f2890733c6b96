"""Formulations: whether choices are listed, and whether answers are labels or texts;
and the metrics that fit (lighteval 0.13.0, ``tasks/templates/utils/formulation.py`` and
``tasks/multilingual/utils/task_utils.py``). Task names contain their names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from pytest_evals.guests.lighteval.metrics_enum import LogLikelihoodAccMetric
from pytest_evals.scorers.custom_metrics.metric import Metric

__all__ = [
    "CFFormulation",
    "ChoicePrefix",
    "Formulation",
    "HybridFormulation",
    "MCFFormulation",
    "get_metrics_for_formulation",
    "normalize_subset",
]

ChoicePrefix = Literal["Letters", "NativeLetters", "Numbers"]
"""Style of the labels of listed choices."""


@dataclass(frozen=True)
class MCFFormulation:
    """Choices are listed; the answer is the label of one."""

    choice_prefix: ChoicePrefix = "Letters"
    name: str = "MCF"


@dataclass(frozen=True)
class HybridFormulation:
    """Choices are listed; the answer is the text of one."""

    choice_prefix: ChoicePrefix = "Letters"
    name: str = "Hybrid"


@dataclass(frozen=True)
class CFFormulation:
    """Choices are not listed; the answer is the text of one."""

    name: str = "CF"


Formulation = MCFFormulation | HybridFormulation | CFFormulation


def get_metrics_for_formulation(
    formulation: Formulation, metrics: Sequence[Metric]
) -> list[Metric]:
    """The metrics that fit the formulation.

    For letters only unnormalized accuracy remains, because all answers have one length.
    """
    is_listed = isinstance(formulation, MCFFormulation)
    if is_listed and getattr(formulation, "choice_prefix", "") == "Letters":
        return [LogLikelihoodAccMetric(normalization=None)]
    return list(metrics)


def normalize_subset(subset: str) -> str:
    """Lower-case name without spaces and brackets."""
    return subset.replace(" ", "_").replace("(", "").replace(")", "").lower()
