"""lighteval's metrics by name (0.13.0, the enumeration ``Metrics``), including names of
earlier releases that task files still use.

Libraries are imported when a metric is computed, not when it is created.
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
"""Name → factory."""

PUBLISHED: Mapping[str, Maker] = {**CATALOGUE, **PUBLISHED_METRICS}
"""The same, with lighteval's bugs."""
