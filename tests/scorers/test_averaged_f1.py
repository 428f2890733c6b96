"""F1 of several labels, against scikit-learn."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import f1_score

from pytest_evals.scorers.agreement import averaged_f1, f1_by_label

labels = st.integers(0, 3)
pairs = st.lists(st.tuples(labels, labels), min_size=1, max_size=30)


@pytest.mark.slow
@given(pairs, st.sampled_from(["macro", "micro", "weighted"]))
def test_averages_equal_scikit_learns(pairs, average):
    golds, predicted = zip(*pairs, strict=True)
    expected = f1_score(golds, predicted, average=average, zero_division=0)
    assert averaged_f1(Counter(pairs), average) == pytest.approx(expected)


@pytest.mark.slow
@given(pairs)
def test_f1_of_each_label_equals_scikit_learns(pairs):
    golds, predicted = zip(*pairs, strict=True)
    found = f1_by_label(Counter(pairs))
    names = sorted(found)
    expected = f1_score(golds, predicted, labels=names, average=None, zero_division=0)
    assert [found[name] for name in names] == pytest.approx(list(expected))
