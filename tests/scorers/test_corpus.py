"""Corpus metrics: sacrebleu's numbers, on the corpus and on every resample.

lm-eval's own values are in ``tests/scorers/lm_eval_aggregations.json`` and are compared
in ``test_metrics.py``; here the counts are compared with sacrebleu's public functions.
"""

import re

import numpy as np
import pytest
import sacrebleu
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_evals.errors import EvalsError, MissingExtraError
from pytest_evals.scorers import corpus
from pytest_evals.scorers.bootstrap import resamples
from pytest_evals.scorers.corpus import CORPUS_METRICS, Corpus
from pytest_evals.scorers.metrics import MetricSpec, metric

PLAIN = {
    "bleu": sacrebleu.corpus_bleu,
    "chrf": sacrebleu.corpus_chrf,
    "chrf++": lambda texts, refs: sacrebleu.corpus_chrf(texts, refs, word_order=2),
    "ter": sacrebleu.corpus_ter,
}
TEXT = st.lists(
    st.sampled_from(
        ["the", "cat", "sat", "on", "it's", ",", "3.5", "Élan", "猫", "a-b"]
    ),
    max_size=8,
).map(" ".join)


def plain(name, values):
    """sacrebleu over these values, with as many references as all of them have."""
    listed = [[r] if isinstance(r, str) else r for r, _ in values]
    fewest = min(map(len, listed))
    streams = [[references[i] for references in listed] for i in range(fewest)]
    return PLAIN[name]([text for _, text in values], streams).score


def check(name, values):
    made = Corpus(name, values)
    assert made.score() == pytest.approx(plain(name, values), rel=1e-12)
    counts = next(resamples(3, np.arange(len(values)), len(values), 6))
    for row, score in zip(counts.tolist(), made.resampled()(counts), strict=True):
        times = map(int, row)
        drawn = [v for v, n in zip(values, times, strict=True) for _ in range(n)]
        expected = plain(name, drawn)
        assert score == pytest.approx(expected, rel=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("name", CORPUS_METRICS)
@given(values=st.lists(st.tuples(TEXT, TEXT), min_size=1, max_size=6))
@settings(max_examples=25, deadline=None)
def test_scores_of_counts_equal_those_of_texts(name, values):
    check(name, values)


@pytest.mark.parametrize("name", CORPUS_METRICS)
@given(
    values=st.lists(
        st.tuples(st.lists(TEXT, min_size=1, max_size=3), TEXT), min_size=1, max_size=6
    )
)
@settings(max_examples=25, deadline=None)
def test_a_resample_uses_as_many_references_as_all_of_its_documents_have(name, values):
    check(name, values)


def test_a_list_of_one_text_is_that_text():
    listed = Corpus("bleu", [("a b c d", ["a b c d"]), ("e f g h", ["e f g"])])
    bare = Corpus("bleu", [("a b c d", "a b c d"), ("e f g h", "e f g")])
    assert listed.score() == bare.score() > 50


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (
            [("a", 3)],
            "it compares a string with one or several strings, but value 0 is",
        ),
        ([("a", ["b", "c"])], "it compares a string with one or several strings"),
        ([([], "b")], "it compares a string with one or several strings"),
        ([(None, "b")], "it compares a string with one or several strings"),
        ([0.5], "it requires pairs of reference and text, but value 0 is 0.5"),
        ([("a", "b"), (["a"], "b")], "must be all strings or all lists"),
        (
            [("a", "b"), ("a", ["b"])],
            "value 1 is ('a', ['b']), unlike the earlier ones",
        ),
    ],
)
def test_values_that_cannot_be_compared_are_reported(values, message):
    with pytest.raises(EvalsError, match=re.escape(message)):
        Corpus("chrf", values)


def test_a_missing_library_is_reported_when_the_metric_is_made(monkeypatch):
    monkeypatch.setattr(corpus, "find_spec", lambda name: None)
    with pytest.raises(MissingExtraError) as caught:
        metric(MetricSpec(name="bleu"), "none", "generate_until", declared=False)
    assert str(caught.value) == (
        "aggregation 'bleu' needs sacrebleu: pip install 'pytest-model-evals[metrics]'"
    )
