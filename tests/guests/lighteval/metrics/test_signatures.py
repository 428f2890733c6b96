"""Calling conventions of lighteval's metrics: with document and response, and with the
arguments of its earlier releases. The values follow from the definitions."""

import pytest

from pytest_evals.core.doc import Doc
from pytest_evals.errors import DocumentError
from pytest_evals.guests.lighteval.metrics.choices import (
    MRR,
    AccGoldLikelihood,
    LoglikelihoodAcc,
    NormalizedMultiChoiceProbability,
    Probability,
    Recall,
)
from pytest_evals.guests.lighteval.metrics.extractive_match import (
    MultilingualExtractiveMatchMetric,
)
from pytest_evals.guests.lighteval.metrics.matches import (
    ExactMatches,
    F1_score,
    StringDistance,
)
from pytest_evals.guests.lighteval.metrics.neural import BLEURT, BertScore
from pytest_evals.guests.lighteval.metrics.preparators import (
    GenerativePreparator,
)
from pytest_evals.guests.lighteval.metrics.repeats import (
    AvgAtN,
    GPassAtK,
    MajAtN,
    PassAtK,
)
from pytest_evals.guests.lighteval.metrics.rouge import BLEU, ROUGE, Extractiveness
from pytest_evals.guests.lighteval.metrics_enum import MajAtK
from pytest_evals.scorers.custom_metrics.metric import (
    Metric,
    SampleLevelComputation,
    SamplingMethod,
)
from pytest_evals.scorers.custom_metrics.response import ModelResponse

TEXTS = {"golds": ["the cat"], "predictions": ["the dog"]}
CHOICES = {"choices_logprob": [-1.0, -2.0], "gold_ixs": [1]}
TWO = Doc("?", ["aaaa", "b"], 0)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("metric", "arguments", "value"),
    [
        (ExactMatches(), TEXTS, 0),
        (ExactMatches(type_exact_match="prefix"), {**TEXTS, "golds": ["the"]}, 1),
        (F1_score(), {**TEXTS, "formatted_doc": TWO}, 0.5),
        (ROUGE("rouge1"), TEXTS, 0.5),
        (BLEU(1), TEXTS, 0.5),
        (StringDistance("edit_similarity"), TEXTS, {"edit_similarity": 0.5}),
        (MajAtK(2), {"golds": ["a"], "predictions": ["a", "a", "b"]}, 1),
        (Recall(1), CHOICES, 0),
        (Recall(2), CHOICES, 1),
        (MRR(), {**CHOICES, "formatted_doc": TWO}, 0.5),
        (LoglikelihoodAcc(), {**CHOICES, "formatted_doc": TWO}, 0),
        (LoglikelihoodAcc("char"), {**CHOICES, "formatted_doc": TWO}, 0),
        (
            LoglikelihoodAcc("pmi"),
            {**CHOICES, "unconditioned_logprob": [-1.0, -9.0], "formatted_doc": TWO},
            1,
        ),
        (
            LoglikelihoodAcc("token"),
            {**CHOICES, "choices_tokens": [[1], [1, 2, 3]], "formatted_doc": TWO},
            1,
        ),
        (
            NormalizedMultiChoiceProbability(),
            {**CHOICES, "choices_logprob": [-1.0, -1.0], "formatted_doc": TWO},
            0.5,
        ),
        (Probability(), {"logprobs": [0.0], "target_tokens": [[1]]}, 1),
        (AccGoldLikelihood(), {"argmax_logits_eq_gold_list": [False, True]}, 1),
        (
            Extractiveness(),
            {
                "predictions": ["a b"],
                "formatted_doc": Doc("?", [], [], specific={"text": "a b c d"}),
            },
            {
                "summarization_coverage": 1.0,
                "summarization_density": 2.0,
                "summarization_compression": 2.0,
            },
        ),
    ],
)
def test_a_metric_takes_the_arguments_of_earlier_releases(metric, arguments, value):
    assert metric.compute(**arguments) == value
    assert metric.compute(**arguments, anything_else=3) == value


def test_references_and_predictions_may_come_without_their_names():
    assert ExactMatches().compute(["a"], ["a"]) == 1
    assert ExactMatches().compute_one_item("a", "b") == 0


class Stripping(ExactMatches):
    """A class of an earlier release."""

    def compute(self, golds, predictions, **more):
        stripped = [one.strip() for one in predictions]
        return super().compute(golds=golds, predictions=stripped)


class Equal:
    """A scoring function of an earlier release."""

    def compute(self, golds, predictions):
        return float(golds == predictions)


def test_a_class_of_an_earlier_release_may_call_its_base_class():
    assert Stripping().compute(golds=["a"], predictions=[" a "]) == 1
    scored = PassAtK(k=1, sample_scoring_function=Equal())
    assert scored.compute(Doc("?", ["a"], 0), ModelResponse(text=["b", "a"])) == 0.5


@pytest.mark.parametrize(
    ("function", "value"),
    [
        (lambda predictions, **more: len(predictions[0]), 3),
        (lambda predictions, formatted_doc, **more: formatted_doc.query, "?"),
        (lambda golds, predictions, **more: golds, DocumentError),
    ],
)
def test_a_function_of_an_earlier_release_needs_no_references_that_it_ignores(
    function, value
):
    metric = Metric("m", True, SamplingMethod.GENERATIVE, function, max)
    arguments = (Doc("?", [], 0), ModelResponse(text=["abc"]))
    if value is DocumentError:
        with pytest.raises(DocumentError, match="the document has no choices"):
            metric.compute_sample(*arguments)
    else:
        assert metric.compute_sample(*arguments) == {"m": value}


def test_arguments_that_describe_nothing_are_distinguished():
    with pytest.raises(TypeError, match="golds and predictions, not gold, preds"):
        ExactMatches().compute(gold=["a"], preds=["a"])
    with pytest.raises(NotImplementedError):
        SampleLevelComputation().compute(golds=["a"], predictions=["a"])


REFERENCE_METRICS = [
    ExactMatches(),
    F1_score(),
    ROUGE("rouge1"),
    BLEU(1),
    BertScore(),
    BLEURT(),
    StringDistance("edit_distance"),
    MultilingualExtractiveMatchMetric(),
    AvgAtN(n=1),
    MajAtN(n=1),
    MajAtK(k=1),
    PassAtK(k=1),
    GPassAtK(k=1),
]


@pytest.mark.parametrize("metric", REFERENCE_METRICS, ids=lambda m: type(m).__name__)
@pytest.mark.parametrize(
    ("choices", "gold_index", "what"),
    [
        ([], 0, "the document has no references: choices is empty"),
        ([], [], "the document has no references: choices is empty"),
        (["a"], [], "the document has no references: gold_index is empty"),
        (["a"], 1, "gold_index is 1, and the document has 1 choices"),
        ([3], 0, "a reference must be a string, not 3"),
    ],
)
def test_a_document_without_references_is_an_error_with_a_message(
    metric, choices, gold_index, what
):
    with pytest.raises(DocumentError, match=what):
        metric.compute(Doc("?", choices, gold_index), ModelResponse(text=["a"]))


def test_corpus_metrics_of_texts_need_references_too():
    with pytest.raises(DocumentError, match="the document has no references"):
        GenerativePreparator().prepare(Doc("?", [], 0), ModelResponse(text=["a"]))
