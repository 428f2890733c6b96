"""The known ranges of lighteval's metrics."""

import math

import pytest

from pytest_evals.guests.lighteval.metrics.catalogue import CATALOGUE
from pytest_evals.guests.lighteval.metrics.matches import ExactMatches
from pytest_evals.scorers.custom_metrics.metric import SampleLevelMetric, SamplingMethod
from pytest_evals.scorers.custom_metrics.task_metric import TaskMetric
from pytest_evals.stats.averages import mean

ANYTHING = (-math.inf, math.inf)


def spans(made):
    return {tuple(metric.span) for metric in TaskMetric(made).metrics("none")}


@pytest.mark.parametrize(
    ("name", "span"),
    [
        ("exact_match", (0, 1)),
        ("loglikelihood_acc", (0, 1)),
        ("f1_score", (0, 1)),
        ("rougeL", (0, 1)),
        ("mrr", (0, 1)),
        ("mcc", (-1, 1)),
        ("bleu", (0, 100)),
        ("f1_score_macro", (0, 1)),
        ("ter", (0, math.inf)),
        ("rouge_t5", ANYTHING),  # in percent
        ("bert_score", ANYTHING),
        ("copyright", ANYTHING),
    ],
)
def test_the_range_of_a_metric_of_the_catalogue(name, span):
    assert spans(CATALOGUE[name]()) == {span}


class Hundred(ExactMatches):
    """A custom metric, in percent."""

    def compute(self, doc, model_response, **more):
        return 100.0


@pytest.mark.parametrize(
    "computation",
    [Hundred(), ExactMatches(aggregation_function=sum), lambda doc, response: 7],
)
def test_nothing_is_known_of_a_users_own_computation(computation):
    made = SampleLevelMetric("em", True, SamplingMethod.GENERATIVE, computation, mean)
    assert spans(made) == {ANYTHING}


def test_a_metric_of_several_answers_needs_the_libraries_of_its_scoring_function():
    needed = CATALOGUE["pass_at_k_math"]().sample_level_fn.libraries
    assert needed == (("math_verify", "math-verify", "metrics"),)
    assert CATALOGUE["pass_at_k"]().sample_level_fn.libraries == ()
