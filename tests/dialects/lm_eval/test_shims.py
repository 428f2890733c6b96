"""The shims for lm-eval's names, compared with lm-eval 0.4.13 itself."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_evals.dialects.lm_eval.shims.names import NAMES

UTILS = NAMES["lm_eval.utils"]
MESSY = st.text(alphabet=" nt'\"().,a\n", max_size=20)


@pytest.mark.slow
@settings(deadline=None)  # the first call imports lm-eval
@given(MESSY)
def test_detokenized_text_is_lm_evals(text):
    from lm_eval.utils import general_detokenize

    assert UTILS["general_detokenize"](text) == general_detokenize(text)


@pytest.mark.slow
@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=2))
def test_weighted_f1_is_lm_evals(pairs):
    import warnings

    from lm_eval.utils import weighted_f1_score

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # labels that were never predicted
        assert UTILS["weighted_f1_score"](pairs) == weighted_f1_score(pairs)


@settings(deadline=None)
@given(
    st.lists(st.lists(st.text(alphabet="a1 #.,", max_size=8), max_size=2), max_size=3)
)
def test_the_regex_filter_gives_lm_evals_result(responses):
    from lm_eval.filters.extraction import RegexFilter

    ours = NAMES["lm_eval.filters.extraction"]["RegexFilter"]
    pattern = r"(a)?(\d)|#"
    theirs = RegexFilter(pattern, -1, "none").apply(responses, [])
    assert ours(pattern, -1, "none").apply(responses, []) == theirs


def test_an_instance_has_the_fields_of_lm_evals():
    from lm_eval.api.instance import Instance

    given = {"request_type": "generate_until", "doc": {}, "arguments": "x", "idx": 2}
    ours = NAMES["lm_eval.api.instance"]["Instance"](**given, metadata=("t", 3, 4))
    theirs = Instance(**given, metadata=("t", 3, 4))
    assert vars(ours) == vars(theirs)
    assert ours.args == theirs.args == ("x",)


def test_values_that_json_does_not_know_become_lm_evals():
    from lm_eval.utils import handle_non_serializable

    ours = UTILS["handle_non_serializable"]
    values = [np.int64(3), np.float32(0.5), np.bool_(True), {1}, 1j]
    for value in values:
        assert json.dumps(ours(value)) == json.dumps(handle_non_serializable(value))


def test_the_mean_of_a_task_module_has_the_standard_error_of_a_mean():
    from pytest_evals.scorers.aggregations import AGGREGATIONS, from_function

    assert from_function(NAMES["lm_eval.api.metrics"]["mean"]) is AGGREGATIONS["mean"]


def test_the_best_value_over_all_right_answers_counts():
    best = NAMES["lm_eval.api.metrics"]["metric_max_over_ground_truths"]
    assert (
        best(lambda predicted, right: len(right) - len(predicted), "ab", ["a", "abcd"])
        == 2
    )


def test_a_table_has_a_row_a_metric():
    results = {
        "results": {"t": {"alias": "t", "acc,none": 0.5, "acc_stderr,none": 0.25}},
        "versions": {"t": 1},
        "n-shot": {"t": 2},
    }
    assert UTILS["make_table"](results).splitlines() == [
        "|Tasks|Version|Filter|n-shot|Metric|Value|Stderr|",
        "|---|---|---|---|---|---|---|",
        "|t|1|none|2|acc|0.5000|0.2500|",
    ]
