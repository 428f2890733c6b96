"""Clustered standard errors against statsmodels' regression on a constant."""

import numpy as np
import pytest
import statsmodels.api as sm
from hypothesis import given
from hypothesis import strategies as st

from pytest_evals.stats.averages import clustered_stderr


@given(st.integers(2, 12), st.integers(1, 9), st.integers(0, 10_000))
def test_stderr_is_statsmodels(n_clusters, size, seed):
    generator = np.random.default_rng(seed)
    labels = np.repeat(
        np.arange(n_clusters), generator.integers(1, size + 1, n_clusters)
    )
    values = generator.normal(size=len(labels)) + labels % 3
    fit = sm.OLS(values, np.ones(len(values))).fit(
        cov_type="cluster", cov_kwds={"groups": labels, "use_correction": True}
    )
    found = clustered_stderr((values - values.mean()).tolist(), labels.tolist())
    assert found.stderr == pytest.approx(float(fit.bse[0]), rel=1e-9, abs=1e-12)
    assert found.n_clusters == n_clusters


def test_clusters_of_one_document_change_nothing():
    values = [0.0, 1.0, 1.0, 0.5, 0.25]
    mean = sum(values) / 5
    found = clustered_stderr([v - mean for v in values], range(5))
    assert found.stderr == pytest.approx(np.std(values, ddof=1) / 5**0.5)
    assert found.design_effect == pytest.approx(1)


def test_copies_of_a_document_count_once():
    """Twenty documents, each four times: the variance is that of twenty."""
    values = np.random.default_rng(1).normal(size=20)
    once = (values - values.mean()).tolist()
    found = clustered_stderr(once * 4, [*range(20)] * 4)
    assert found.stderr == pytest.approx(np.std(values, ddof=1) / 20**0.5)
    assert found.design_effect == pytest.approx(4 * 79 / 76)


def test_one_cluster_has_no_limits():
    with pytest.raises(ValueError, match="single cluster"):
        clustered_stderr([0.5, -0.5], ["a", "a"])
