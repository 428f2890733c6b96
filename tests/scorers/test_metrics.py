"""Metrics by name: known names, aggregations, standard errors."""

import json
import math
import statistics
from pathlib import Path

import numpy as np
import pytest

from pytest_evals.core.metric import Estimate
from pytest_evals.core.registry import UnknownNameError
from pytest_evals.errors import EvalsError
from pytest_evals.scorers.aggregations import AGGREGATIONS
from pytest_evals.scorers.choices import (
    CHOICE_METRICS,
    CONTINUATION_METRICS,
    ROLLING_METRICS,
)
from pytest_evals.scorers.metrics import (
    METRICS,
    MetricSpec,
    default_metrics,
    is_measured,
    known_metrics,
    metric,
)
from pytest_evals.scorers.text import TEXT_METRICS

RECORDED = json.loads((Path(__file__).parent / "lm_eval_aggregations.json").read_text())
BOOTSTRAPPED = {"median", "nanmean", "perplexity", "f1", "matthews_corrcoef"}
CORPUS = ("bleu", "chrf", "chrf++", "ter")
NAMED = [case for case in RECORDED["cases"] if case["aggregation"] != "acc_all"]


def named(name, output_type="multiple_choice", iterations=1000, **fields):
    spec = MetricSpec(name=name, **fields)
    return metric(spec, "none", output_type, declared=False, iterations=iterations)


@pytest.mark.slow
@pytest.mark.parametrize("case", NAMED, ids=lambda c: c["aggregation"])
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
        resampled = name in BOOTSTRAPPED or name in CORPUS
        assert found.method == ("bootstrap" if resampled else "analytic")


@pytest.mark.parametrize("name", CORPUS)
def test_a_metric_of_a_corpus_has_at_most_a_hundred_replicates(name):
    """By the metric's name, not by the aggregation's: lm-eval 0.4.13,
    ``evaluator_utils._compute_task_aggregations``."""
    cases = [case for case in NAMED if case["aggregation"] == name]
    few = next(c for c in cases if c["iterations"] == 100 and len(c["values"]) > 50)
    many = next(c for c in cases if c["iterations"] == 2000)
    capped = named(name, "generate_until", iterations=100_000)
    assert capped.aggregate(few["values"]).stderr == pytest.approx(few["stderr"])
    other = MetricSpec(name="other", aggregation=name)
    free = metric(other, "none", "generate_until", True, iterations=2000)
    assert free.aggregate(many["values"]).stderr == pytest.approx(many["stderr"])


def lm_evals(name):
    """A stand-in for a function of lm-eval's, as a task module imports it."""

    def function(values):
        raise AssertionError("ours is taken")

    function.__module__, function.__name__ = "lm_eval.api.metrics", name
    return function


@pytest.mark.parametrize(
    ("function", "name"),
    [("mean", "mean"), ("f1_score", "f1"), ("chrfpp", "chrf++"), ("ter", "ter")],
)
def test_a_function_of_lm_evals_own_is_the_aggregation_of_that_name(function, name):
    case = next(case for case in NAMED if case["aggregation"] == name)
    spec = MetricSpec(name="any", aggregation=lm_evals(function))
    made = metric(spec, "none", "generate_until", True, case["iterations"])
    found = made.aggregate(case["values"])
    assert found.value == pytest.approx(case["value"])
    assert found.stderr == pytest.approx(case["stderr"])
    assert made.is_mean is (name == "mean")


def test_acc_all_counts_questions_whose_answers_are_all_right():
    (case,) = [case for case in RECORDED["cases"] if case["aggregation"] == "acc_all"]
    spec = MetricSpec(name="any", aggregation=lm_evals("acc_all"))
    found = metric(spec, "none", "loglikelihood", True).aggregate(case["values"])
    assert found == Estimate(
        pytest.approx(case["value"]), pytest.approx(case["stderr"]), "analytic"
    )


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
        if output_type in METRICS[name].numbers_in:
            assert named(name, output_type).name == name


# Printed by lm-eval 0.4.13: name, higher_is_better and the aggregation function, from
# its metric_registry, higher_is_better_registry and metric_agg_registry.
REGISTERED = """
acc True mean
acc_all True mean
acc_bytes True mean
acc_mutual_info True mean
acc_norm True mean
bits_per_byte False bits_per_byte
bleu True bleu
brier_score False brier_score
bypass True bypass_agg
byte_perplexity False weighted_perplexity
chrf True chrf
chrf++ True chrfpp
exact_match True mean
f1 True f1_score
likelihood True mean
mcc True matthews_corrcoef
perplexity False perplexity
ter False ter
word_perplexity False weighted_perplexity
"""


def test_names_directions_and_aggregations_are_those_that_lm_eval_registers():
    own = {"bypass": "bypass_agg", "chrf++": "chrfpp", "f1": "f1_score"}
    lines = [
        f"{name} {known.higher_is_better} {own.get(name, known.aggregation)}"
        for name, known in METRICS.items()
    ]
    assert sorted(lines) == sorted(REGISTERED.split("\n")[1:-1])


def test_aggregations_are_those_that_lm_eval_registers():
    """Its ``aggregation_registry``, 0.4.13."""
    assert list(AGGREGATIONS) == [
        *("bits_per_byte", "bleu", "brier_score", "bypass", "chrf", "chrf++", "f1"),
        *("matthews_corrcoef", "mean", "median", "nanmean", "perplexity", "ter"),
        "weighted_perplexity",
    ]


def test_an_unknown_metric_is_reported_with_a_near_one():
    with pytest.raises(UnknownNameError) as caught:
        named("acc_nrom")
    assert str(caught.value) == (
        "unknown multiple_choice metric 'acc_nrom'; did you mean 'acc_norm'?"
    )


@pytest.mark.parametrize(
    ("name", "output_type", "measured"),
    [
        ("acc", "multiple_choice", True),
        ("bleu", "multiple_choice", False),
        ("acc_all", "multiple_choice", False),
        ("acc_norm", "loglikelihood", False),
        ("bypass", "multiple_choice", False),
    ],
)
def test_names_that_are_measured_elsewhere_give_no_value(name, output_type, measured):
    """lm-eval 0.4.13 silently omits the others (``process_results``)."""
    assert is_measured(name, output_type) is measured


@pytest.mark.parametrize(
    ("name", "hint"),
    [("acc_nrom", "did you mean 'acc_norm'"), ("whatever", "known: acc, ")],
)
def test_an_unknown_name_is_an_error(name, hint):
    with pytest.raises(UnknownNameError, match=hint):
        is_measured(name, "multiple_choice")


def test_a_metric_of_another_output_type_is_unknown():
    with pytest.raises(UnknownNameError, match="unknown multiple_choice metric"):
        named("word_perplexity")


def test_an_unknown_output_type_is_reported():
    with pytest.raises(UnknownNameError, match="did you mean 'multiple_choice'"):
        default_metrics("multiple_choise")


def test_an_unknown_aggregation_is_reported():
    with pytest.raises(UnknownNameError, match="unknown aggregation 'maen'; did you"):
        named("acc", aggregation="maen")


def test_any_name_goes_with_process_results_and_is_averaged():
    spec = MetricSpec(name="4096")
    made = metric(spec, "none", "generate_until", declared=True)
    found = made.aggregate([0, 1, 1, 0])
    assert made.is_mean
    assert made.higher_is_better is None
    # standard deviation of 0, 1, 1, 0 is sqrt(1/3); over the root of 4 documents
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


def test_values_that_the_aggregation_does_not_take_are_reported():
    spec = MetricSpec(name="score")
    made = metric(spec, "none", "generate_until", declared=True)
    with pytest.raises(EvalsError) as caught:
        made.aggregate([1.0, (0, 1)])
    assert str(caught.value) == (
        "aggregation 'mean' of 'score': it requires numbers, but value 1 is (0, 1); "
        "set an aggregation that accepts such values"
    )


@pytest.mark.parametrize(
    ("name", "output_type"), [("acc", "generate_until"), ("f1", "multiple_choice")]
)
@pytest.mark.parametrize("aggregation", ["mean", "median", "perplexity"])
def test_pairs_cannot_be_averaged(name, output_type, aggregation):
    message = f"returns pairs, which the aggregation '{aggregation}'"
    with pytest.raises(EvalsError, match=message):
        named(name, output_type, aggregation=aggregation)


def test_numbers_are_not_pairs():
    with pytest.raises(
        EvalsError, match="returns numbers, which the aggregation 'bleu'"
    ):
        named("exact_match", "generate_until", aggregation="bleu")


def test_directions_are_the_metrics_own_unless_the_file_overrides_them():
    assert named("acc").higher_is_better is True
    assert named("perplexity", "loglikelihood").higher_is_better is False
    assert named("acc", higher_is_better=False).higher_is_better is False


def test_a_perplexity_beyond_the_largest_float_is_infinite():
    found = named("perplexity", "loglikelihood").aggregate([-2000.0, -2000.0])
    assert found == Estimate(math.inf)


def test_brier_score_refuses_a_right_answer_outside_the_choices():
    with pytest.raises(EvalsError, match="value 0 is -100, but it has 2"):
        named("brier_score").aggregate([(-100, [0.5, 0.5])])


@pytest.mark.parametrize("name", ["f1", "mcc"])
def test_a_right_answer_alone_in_a_list_is_that_answer(name):
    """As in lm-eval 0.4.13, whose scikit-learn interprets such lists as a column."""
    pairs = [(1, 1), (0, 1), (1, 1), (0, 0)]
    how = metric(MetricSpec(name=name), "none", "multiple_choice", False, 100)
    assert how.aggregate(
        [([gold], predicted) for gold, predicted in pairs]
    ) == how.aggregate(pairs)


@pytest.mark.parametrize("case", NAMED, ids=lambda c: c["aggregation"])
def test_values_that_lm_eval_computes_lie_in_the_range_of_their_aggregation(case):
    """For any values of the documents, so for user functions too."""
    made = metric(
        MetricSpec(name="any", aggregation=case["aggregation"]),
        "none",
        "generate_until",
        True,
        0,
    )
    assert made.span.low <= case["value"] * (1 + 1e-12)
    assert case["value"] <= made.span.high * (1 + 1e-12)


@pytest.mark.parametrize(
    ("name", "output_type", "span"),
    [
        ("acc", "multiple_choice", (0, 1)),
        ("acc", "loglikelihood", (0, 1)),
        ("acc_norm", "multiple_choice", (0, 1)),
        ("exact_match", "generate_until", (0, 1)),
        ("brier_score", "multiple_choice", (0, 2)),
        ("mcc", "multiple_choice", (-1, 1)),
        ("f1", "multiple_choice", (0, 1)),
        ("perplexity", "loglikelihood", (1, math.inf)),
        ("word_perplexity", "loglikelihood_rolling", (1, math.inf)),
        ("bits_per_byte", "loglikelihood_rolling", (0, math.inf)),
        ("bleu", "generate_until", (0, 100)),
        ("ter", "generate_until", (0, math.inf)),
    ],
)
def test_the_range_of_a_metric_that_is_measured_here_is_known(name, output_type, span):
    assert named(name, output_type).span == span


def test_nothing_is_known_of_the_range_of_a_users_numbers():
    own = [
        MetricSpec(name="acc", function=lambda items: 7),
        MetricSpec(name="acc", aggregation=lambda values: 7),
    ]
    made = [metric(spec, "none", "multiple_choice", False) for spec in own]
    made.append(metric(MetricSpec(name="acc"), "none", "multiple_choice", True))
    assert {one.span for one in made} == {(-math.inf, math.inf)}
    assert not any(one.closed for one in made)
    assert named("acc").closed


def test_an_accuracy_by_its_median_is_a_proportion_and_by_its_perplexity_not():
    assert named("acc", aggregation="median").span == (0, 1)
    low, high = named("acc", aggregation="perplexity").span
    assert (0 < low < 1e-300, high) == (True, math.inf)


@pytest.mark.parametrize("n", [1, 2, 9, 40])
def test_medians_of_many_resamples_are_those_of_each(n):
    values = [float(value * value % 7) for value in range(n)]
    spec = MetricSpec(name="any", aggregation="median")
    median = metric(spec, "none", "generate_until", declared=True)
    at = np.random.default_rng(0).integers(0, n, (20, n))
    expected = [statistics.median_high([values[i] for i in row]) for row in at]
    counts = np.array([np.bincount(row, minlength=n) for row in at])
    assert median.statistic(values)(counts).tolist() == expected
