"""Metrics by name: known names, aggregations, standard errors."""

import json
import math
from pathlib import Path

import pytest

from pytest_evals.core.metric import Estimate
from pytest_evals.core.registry import UnknownNameError
from pytest_evals.errors import EvalsError
from pytest_evals.scorers.choices import CHOICE_METRICS
from pytest_evals.scorers.metrics import (
    METRICS,
    MetricSpec,
    default_metrics,
    known_metrics,
    metric,
)
from pytest_evals.scorers.perplexity import CONTINUATION_METRICS, ROLLING_METRICS
from pytest_evals.scorers.text import TEXT_METRICS

STATS = Path(__file__).parent.parent / "stats"
RECORDED = json.loads((STATS / "lm_eval_aggregations.json").read_text())
BOOTSTRAPPED = {"median", "nanmean", "perplexity", "f1", "matthews_corrcoef"}


def named(name, output_type="multiple_choice", **fields):
    spec = MetricSpec(name=name, **fields)
    return metric(spec, "none", output_type, declared=False, iterations=1000)


@pytest.mark.parametrize("case", RECORDED["cases"], ids=lambda c: c["aggregation"])
def test_each_aggregation_gives_lm_evals_value_and_error(case):
    name = case["aggregation"]
    spec = MetricSpec(name="any", aggregation=name)
    made = metric(spec, "none", "generate_until", True, case["iterations"])
    values = [math.nan if v is None else v for v in case["values"]]
    found = made.aggregate(values)
    assert found.value == pytest.approx(case["value"], rel=1e-12)
    if case["stderr"] is None:
        assert (found.stderr, found.method) == (None, "")
    else:
        assert found.stderr == pytest.approx(case["stderr"], rel=1e-9)
        assert found.method == ("bootstrap" if name in BOOTSTRAPPED else "analytic")


def test_defaults_are_those_of_the_output_types():
    """The list is in lm-eval 0.4.13, DEFAULT_METRIC_REGISTRY."""
    names = {
        kind: [spec.name for spec in default_metrics(kind)]
        for kind in (
            "loglikelihood",
            "loglikelihood_rolling",
            "multiple_choice",
            "generate_until",
        )
    }
    assert names == {
        "loglikelihood": ["perplexity", "acc"],
        "loglikelihood_rolling": [
            "word_perplexity",
            "byte_perplexity",
            "bits_per_byte",
        ],
        "multiple_choice": ["acc", "acc_norm"],
        "generate_until": ["exact_match"],
    }


@pytest.mark.parametrize(
    ("output_type", "table"),
    [
        ("multiple_choice", CHOICE_METRICS),
        ("loglikelihood", CONTINUATION_METRICS),
        ("loglikelihood_rolling", ROLLING_METRICS),
        ("generate_until", TEXT_METRICS),
    ],
)
def test_every_known_metric_can_be_measured_and_added_up(output_type, table):
    assert list(known_metrics(output_type)) == sorted(table)
    for name in table:
        if output_type not in METRICS[name].pairs_in:
            assert named(name, output_type).name == name


def test_an_unknown_metric_is_told_with_a_near_one():
    with pytest.raises(UnknownNameError) as caught:
        named("acc_nrom")
    assert str(caught.value) == (
        "no metric of output_type multiple_choice called 'acc_nrom'; "
        "did you mean 'acc_norm'?"
    )


def test_a_metric_of_another_output_type_is_unknown():
    with pytest.raises(UnknownNameError, match="output_type multiple_choice called"):
        named("word_perplexity")


def test_an_unknown_output_type_is_told():
    with pytest.raises(UnknownNameError, match="did you mean 'multiple_choice'"):
        default_metrics("multiple_choise")


def test_an_unknown_aggregation_is_told():
    with pytest.raises(UnknownNameError, match="no aggregation called 'maen'; did you"):
        named("acc", aggregation="maen")


def test_any_name_goes_with_process_results_and_is_averaged():
    spec = MetricSpec(name="4096")
    made = metric(spec, "none", "generate_until", declared=True)
    found = made.aggregate([0, 1, 1, 0])
    assert made.is_mean
    assert made.higher_is_better is None
    # Sample deviation of 0, 1, 1, 0 is sqrt(1/3); over the root of 4 documents.
    assert found == Estimate(0.5, pytest.approx(math.sqrt(1 / 3) / 2), "analytic")


def test_one_document_has_no_standard_error():
    assert named("acc").aggregate([1.0]) == Estimate(1.0)
    assert named("perplexity", "loglikelihood").aggregate([-1.0]).stderr is None


def test_no_iterations_means_no_standard_error_at_all():
    spec = MetricSpec(name="acc")
    made = metric(spec, "none", "multiple_choice", declared=False, iterations=0)
    assert made.aggregate([1.0, 0.0]) == Estimate(0.5)


def test_a_tasks_own_aggregation_has_no_standard_error():
    made = named("acc", aggregation=lambda items: sum(items) * 10)
    assert made.aggregate([1, 1]) == Estimate(20.0)
    assert not made.is_mean


def test_a_fault_in_a_tasks_own_aggregation_names_exception_and_line():
    def broken(items):
        return items["x"]

    line = broken.__code__.co_firstlineno + 1
    with pytest.raises(EvalsError) as caught:
        named("f1", aggregation=broken).aggregate([(0, 1)])
    assert str(caught.value).startswith("aggregation 'broken' of 'f1': TypeError: list")
    assert str(caught.value).endswith(f"test_metrics.py:{line})")


def test_values_that_the_aggregation_does_not_take_are_told():
    spec = MetricSpec(name="score")
    made = metric(spec, "none", "generate_until", declared=True)
    with pytest.raises(EvalsError) as caught:
        made.aggregate([1.0, (0, 1)])
    assert str(caught.value) == (
        "aggregation 'mean' of 'score': it adds up numbers, and value 1 is (0, 1); "
        "name an aggregation that takes such values"
    )


@pytest.mark.parametrize(
    ("name", "output_type"), [("acc", "generate_until"), ("f1", "multiple_choice")]
)
def test_pairs_cannot_be_averaged(name, output_type):
    with pytest.raises(EvalsError, match="gives pairs, which the aggregation 'mean'"):
        named(name, output_type, aggregation="mean")


def test_directions_are_the_metrics_own_unless_the_file_says_otherwise():
    assert named("acc").higher_is_better is True
    assert named("perplexity", "loglikelihood").higher_is_better is False
    assert named("acc", higher_is_better=False).higher_is_better is False


def test_a_perplexity_beyond_the_largest_float_is_infinite():
    found = named("perplexity", "loglikelihood").aggregate([-2000.0, -2000.0])
    assert found == Estimate(math.inf)


def test_brier_score_refuses_a_right_answer_outside_the_choices():
    with pytest.raises(EvalsError, match="value 0 is -100, which is none of its 2"):
        named("brier_score").aggregate([(-100, [0.5, 0.5])])
