"""lighteval's metrics by their names (0.13.0, the enumeration ``Metrics``), and by the
names of earlier releases that task files still use.

Making a metric imports no library; computing it does.
"""

from __future__ import annotations

from collections.abc import Mapping

from pytest_evals.scorers.lighteval.catalogue.bug_compatibility import PUBLISHED_METRICS
from pytest_evals.scorers.lighteval.catalogue.builders import Maker
from pytest_evals.scorers.lighteval.catalogue.choices import CHOICE_METRICS
from pytest_evals.scorers.lighteval.catalogue.corpora import CORPUS_METRICS
from pytest_evals.scorers.lighteval.catalogue.legacy_names import LEGACY_METRICS
from pytest_evals.scorers.lighteval.catalogue.texts import TEXT_METRICS

CATALOGUE: Mapping[str, Maker] = {
    **TEXT_METRICS,
    **CHOICE_METRICS,
    **CORPUS_METRICS,
    **LEGACY_METRICS,
}
"""Name → what makes the metric."""

PUBLISHED: Mapping[str, Maker] = {**CATALOGUE, **PUBLISHED_METRICS}
"""The same, with numbers as lighteval publishes them."""
