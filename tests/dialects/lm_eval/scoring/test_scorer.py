"""Scores of whole documents, against lm-eval's and by hand.

``lm_eval_scores.json`` contains lm-eval 0.4.13's scores of fixed and random documents;
its ``source`` describes how they were recorded. Nothing in it comes from this package.
"""

import json
from pathlib import Path

import numpy as np
import pytest

from pytest_evals.core.doc import Doc
from pytest_evals.core.record import Record
from pytest_evals.core.registry import UnknownNameError
from pytest_evals.core.request import Response
from pytest_evals.dialects.lm_eval.scoring.scorer import Scorer
from pytest_evals.errors import DocumentError, EvalsError
from pytest_evals.scorers.filters import FilterStep, pipeline
from pytest_evals.scorers.metrics import MetricSpec

RECORDED = json.loads((Path(__file__).parent / "lm_eval_scores.json").read_text())


def scorer(output_type, *metrics, **fields):
    specs = tuple(MetricSpec(name=m) if isinstance(m, str) else m for m in metrics)
    return Scorer(output_type=output_type, metrics=specs, **fields)


def record(doc, *responses):
    return Record(task="t", index=0, doc=doc, responses=tuple(responses))


def doc(choices=("a",), gold=0, row=None, target=None, query="q"):
    if target is None:
        target = "".join(choices) if isinstance(gold, int) else list(choices)
    return Doc(query, list(choices), gold, row=row or {}, target=target)


def lls(*values):
    return [Response(logprob=value, greedy=False) for value in values]


def texts(*values):
    return [Response(text=value) for value in values]


def response(result):
    if isinstance(result, str):
        return Response(text=result)
    if isinstance(result, list):
        return Response(logprob=result[0], greedy=result[1])
    return Response(logprob=result)


def scored(case):
    """The recorded document's values by metric."""
    arguments = case["args"]
    specs = [
        MetricSpec(name=name, arguments=arguments, aggregation=lambda values: 0)
        for name in case["metrics"]
    ]
    results, keep = case["results"], ()
    if case["kind"] == "generate_until" and isinstance(results[0], list):
        # a list of responses that no filter has reduced to one
        same = FilterStep(function="custom", arguments={"filter_fn": lambda r, d: r})
        keep = (pipeline("none", [same]),)
        results = results[0]
    score = scorer(
        case["kind"],
        *specs,
        repeats=len(results) if keep else 1,
        **({"pipelines": keep} if keep else {}),
    )
    document = doc(case["choices"], case["gold"], case["row"], query=case["query"])
    return {s.metric: s.value for s in score(record(document, *map(response, results)))}


def lists(value):
    return [lists(v) for v in value] if isinstance(value, (list, tuple)) else value


def test_every_recorded_document_has_the_values_of_lm_eval():
    assert len(RECORDED["cases"]) > 150
    for case in RECORDED["cases"]:
        values, expected = scored(case), case["out"]
        brier = values.pop("brier_score", None)
        if brier is not None:
            gold, probabilities = expected["brier_score"]
            assert lists(brier[0]) == gold
            assert brier[1] == pytest.approx(probabilities, rel=1e-12)
        expected_values = {k: v for k, v in expected.items() if k != "brier_score"}
        assert {k: lists(v) for k, v in values.items()} == expected_values, case


def test_acc_norm_divides_by_characters_and_acc_bytes_by_bytes():
    choice = scorer("multiple_choice", "acc", "acc_norm", "acc_bytes")
    one = doc(["ab", "éééé"], 1)
    acc, norm, in_bytes = choice(record(one, *lls(-2.0, -3.2)))
    assert (acc.value, acc.correct, acc.answer) == (0.0, False, "ab")
    # Per character: -1.0 and -0.8; per byte: -1.0 and -0.4.
    assert (norm.value, norm.correct, norm.answer) == (1.0, True, "éééé")
    assert in_bytes.value == 1.0
    assert acc.filtered == ((-2.0, False), (-3.2, False))
    assert acc.key == "acc,none"


def test_the_first_of_equal_choices_is_chosen():
    (acc,) = scorer("multiple_choice", "acc")(record(doc("ab", 0), *lls(-1.0, -1.0)))
    assert acc.correct is True


@pytest.mark.parametrize("gold", [-100, 2, [2], [-100]])
def test_a_right_answer_outside_the_choices_scores_0_with_a_warning(gold):
    one = doc(["a", "b"], gold, target="z")
    (acc,) = scorer("multiple_choice", "acc")(record(one, *lls(-1.0, -2.0)))
    assert acc.value == 0.0
    assert acc.explanation == f"the correct answer {gold!r} is not among the choices"


def test_acc_mutual_info_subtracts_the_probability_without_the_question():
    both = scorer("multiple_choice", "acc", "acc_mutual_info")
    acc, pmi = both(record(doc("ab", 1), *lls(-1.0, -2.0, -1.0, -5.0)))
    assert (acc.correct, pmi.correct) == (False, True)
    assert pmi.answer == "b"


def test_acc_mutual_info_without_second_requests_is_an_error():
    with pytest.raises(DocumentError, match="needs the log-probability of each choice"):
        scorer("multiple_choice", "acc_mutual_info")(record(doc("ab"), *lls(-1, -2)))


def test_metrics_that_are_not_right_or_wrong_leave_correct_open():
    score = scorer("loglikelihood", "perplexity", "acc")
    perplexity, acc = score(record(doc(["x"]), Response(logprob=0.0, greedy=True)))
    assert (perplexity.value, perplexity.correct) == (0.0, None)
    assert (acc.value, acc.correct, acc.answer) == (1, True, "x")


def test_repeats_are_grouped_by_request():
    twice = scorer("multiple_choice", "acc", repeats=2)
    (acc,) = twice(record(doc("ab", 1), *lls(-2.0, -9.0, -1.0, -9.0)))
    assert acc.filtered == ((-2.0, False), (-1.0, False))
    assert acc.correct is True


def test_each_pipeline_scores_the_same_responses():
    strict = pipeline("strict", [FilterStep(function="take_first")])
    number = FilterStep(function="regex", arguments={"regex_pattern": r"(\d+)"})
    loose = pipeline("loose", [number, FilterStep(function="take_first")])
    score = scorer("generate_until", "exact_match", pipelines=(strict, loose))
    scores = score(record(doc(["7"]), *texts("it is 7")))
    assert [(s.key, s.value, s.answer) for s in scores] == [
        ("exact_match,strict", 0.0, "it is 7"),
        ("exact_match,loose", 1.0, "7"),
    ]


def test_majority_of_repeats_may_end_in_a_list():
    vote = pipeline("maj", [FilterStep(function="majority_vote")])
    score = scorer("generate_until", "exact_match", repeats=3, pipelines=(vote,))
    (match,) = score(record(doc(["b"]), *texts("a", "b", "b")))
    assert (match.value, match.answer) == (1.0, "b")


@pytest.mark.parametrize(
    ("references", "answers", "value"),
    [
        (["a", "b"], ["x", "b"], 1.0),
        (["a", "b"], ["b", "a"], 0.0),
        (["a"], ["x", "a", "y"], 1.0),
        (["a", "b", "c"], ["c"], 1.0),
    ],
)
def test_a_list_of_answers_meets_several_references_by_numpys_rule(
    references, answers, value
):
    """lm-eval 0.4.13 compares ``np.asarray([answers] * len(references))`` with
    ``np.asarray(references)``: position by position, or one with all."""
    rows = np.asarray([answers] * len(references)) == np.asarray(references)
    assert float(np.mean(rows) > 0) == value
    everything = pipeline("all", [])
    score = scorer(
        "generate_until", "exact_match", repeats=len(answers), pipelines=(everything,)
    )
    document = doc(references, list(range(len(references))))
    (match,) = score(record(document, *texts(*answers)))
    assert match.value == value


def test_as_many_answers_as_no_reference_can_meet_are_an_error():
    everything = pipeline("all", [])
    score = scorer("generate_until", "exact_match", repeats=3, pipelines=(everything,))
    with pytest.raises(DocumentError, match="one response with several references"):
        score(record(doc(["a", "b"], [0, 1]), *texts("a", "b", "c")))


def test_a_mapped_number_is_compared_with_the_target_as_number():
    table = {"mapping_dict": {"one": 1, "two": 2}}
    steps = [
        FilterStep(function="map", arguments=table),
        FilterStep(function="take_first"),
    ]
    score = scorer("generate_until", "exact_match", pipelines=(pipeline("m", steps),))
    (match,) = score(record(doc(["2"], target=2), *texts("two")))
    assert match.value == 1.0
    with pytest.raises(DocumentError, match=r"returned no answer \(None\)"):
        score(record(doc(["2"], target=2), *texts("three")))


def test_unknown_arguments_of_exact_match_are_reported():
    spec = MetricSpec(name="exact_match", arguments={"ignore_cases": True})
    with pytest.raises(EvalsError) as caught:
        scorer("generate_until", spec)
    assert str(caught.value) == (
        "metric 'exact_match': unknown argument 'ignore_cases'; "
        "did you mean 'ignore_case'?"
    )


def own(function, **fields):
    return MetricSpec(name=function.__name__, function=function, **fields)


def test_a_function_of_references_and_predictions_is_called_by_keyword():
    def overlap(references, predictions, scale=1):
        return scale * len(set(references[0]) & set(predictions[0]))

    score = scorer("generate_until", own(overlap, arguments={"scale": 2}))
    (value,) = score(record(doc(["abc"]), *texts("cab")))
    assert (value.metric, value.value, value.correct) == ("overlap", 6, None)


def test_a_function_of_one_list_gets_reference_and_response():
    def rouge(items):
        return items

    (value,) = scorer("generate_until", own(rouge, aggregation=len))(
        record(doc(["ref"]), *texts("response"))
    )
    assert value.value == ["ref", "response"]


def test_a_function_is_not_called_again_when_it_raises_type_error():
    calls = []

    def broken(references, predictions):
        calls.append(1)
        return len(5)

    line = broken.__code__.co_firstlineno + 2
    with pytest.raises(DocumentError) as caught:
        scorer("generate_until", own(broken))(record(doc(), *texts("x")))
    assert calls == [1]
    assert "metric 'broken': TypeError: object of type 'int' has no" in str(
        caught.value
    )
    assert str(caught.value).endswith(f"test_scorer.py:{line})")


def test_a_function_that_does_not_take_the_arguments_is_refused():
    def exact(references, predictions):
        return 1

    with pytest.raises(EvalsError) as caught:
        scorer("generate_until", own(exact, arguments={"ignore_case": True}))
    assert str(caught.value) == (
        "metric 'exact': got an unexpected keyword argument 'ignore_case'"
    )


def test_a_mapping_gives_a_score_for_each_name():
    def pass_at_k(references, predictions, k):
        return {f"pass@{n}": np.float64(1.0) for n in k}

    score = scorer("generate_until", own(pass_at_k, arguments={"k": [1, 10]}))
    scores = score(record(doc(), *texts("x")))
    assert [(s.metric, s.value, s.correct, s.lender) for s in scores] == [
        ("pass@1", 1.0, True, "pass_at_k"),
        ("pass@10", 1.0, True, "pass_at_k"),
    ]
    assert type(scores[0].value) is float


def test_with_several_references_a_function_counts_if_any_is_not_0():
    def same(references, predictions):
        return {"same": 0.25 if references == predictions else 0, "other": 1}

    score = scorer("generate_until", own(same))
    (hit,) = score(record(doc(["a", "b"], [0, 1]), *texts("b")))
    (miss,) = score(record(doc(["a", "b"], [0, 1]), *texts("c")))
    assert (hit.value, miss.value) == (1.0, 0.0)


def test_a_list_of_responses_meets_the_target_as_the_row_has_it():
    def seen(references, predictions):
        return [references, predictions]

    same = FilterStep(function="custom", arguments={"filter_fn": lambda r, d: r})
    score = scorer(
        "generate_until",
        own(seen),
        repeats=2,
        pipelines=(pipeline("none", [same]),),
    )
    target = {"tests": [1]}
    (value,) = score(record(doc([str(target)], target=target), *texts("a", "b")))
    assert value.value == [[target], [["a", "b"]]]


def test_acc_on_generated_text_hands_pairs_to_the_tasks_aggregation():
    spec = MetricSpec(name="acc", aggregation=len)
    (pair,) = scorer("generate_until", spec)(record(doc(["a"]), *texts("b")))
    assert (pair.value, pair.correct) == (["a", "b"], None)
    (any_,) = scorer("generate_until", spec)(record(doc(["a"], [0]), *texts("b")))
    assert any_.value == 1.0  # as recorded: tests/parity, gen_any
    with pytest.raises(DocumentError, match="not defined for several references"):
        scorer("generate_until", "acc")(record(doc(["a"], [0]), *texts("b")))


def test_process_results_gets_a_copy_of_the_row_and_one_value_a_request():
    seen = []

    def process(row, results):
        seen.append((dict(row), results))
        row["q"] = "changed"
        return {"right": np.bool_(True), "pair": (np.int64(1), np.float32(0.5))}

    one = doc(["a", "b"], 1, row={"q": 1})
    score = scorer("multiple_choice", "right", process_results=process)
    right, pair = score(record(one, *lls(-1.0, -2.0)))
    assert seen == [({"q": 1}, [(-1.0, False), (-2.0, False)])]
    assert one.row == {"q": 1}
    assert (right.value, right.correct, right.answer) == (True, True, "a")
    assert pair.value == (1, 0.5)
    assert [type(v) for v in pair.value] == [int, float]


def test_process_results_of_rolling_text_gets_the_bare_log_probability():
    score = scorer(
        "loglikelihood_rolling",
        "n",
        process_results=lambda row, results: {"n": results},
    )
    (value,) = score(record(doc(), Response(logprob=-3.5)))
    assert value.value == [-3.5]


def test_a_lower_is_better_value_of_process_results_is_not_right_or_wrong():
    spec = MetricSpec(name="cost", aggregation="mean", higher_is_better=False)
    score = scorer("generate_until", spec, process_results=lambda r, x: {"cost": 1})
    assert score(record(doc(), *texts("x")))[0].correct is None


def _counted(values):
    return float(len(values))


@pytest.mark.parametrize(
    ("how", "better", "correct"),
    [
        (lambda xs: sum(xs) / len(xs), None, True),
        (lambda xs: 100 * sum(xs) / len(xs), True, True),
        (lambda xs: sum(xs) / len(xs), False, None),
        (_counted, True, None),
    ],
)
def test_a_value_of_one_is_right_for_any_function_of_the_task_that_averages_it(
    how, better, correct
):
    spec = MetricSpec(name="own", aggregation=how, higher_is_better=better)
    score = scorer("generate_until", spec, process_results=lambda r, x: {"own": 1})
    assert score(record(doc(), *texts("x")))[0].correct is correct


def test_a_fault_in_process_results_names_exception_and_line():
    def process(row, results):
        return {"acc": row["label"]}

    line = process.__code__.co_firstlineno + 1
    score = scorer("generate_until", "acc", process_results=process)
    with pytest.raises(DocumentError) as caught:
        score(record(doc(), *texts("x")))
    assert str(caught.value).startswith("process_results: KeyError: 'label' (")
    assert str(caught.value).endswith(f"test_scorer.py:{line})")


def test_process_results_must_return_a_mapping():
    score = scorer("generate_until", "acc", process_results=lambda row, x: 1.0)
    with pytest.raises(DocumentError, match=r"must return a mapping, not 1\.0"):
        score(record(doc(), *texts("x")))


def test_metrics_of_process_results_that_the_list_lacks_are_averaged():
    spec = MetricSpec(name="a", aggregation="median", higher_is_better=False)
    score = scorer("generate_until", spec, process_results=lambda r, x: {"a": 1})
    extra = score.metric_for("b", "none")
    assert (extra.is_mean, extra.higher_is_better) == (True, None)
    assert score.metric_for("a", "none").higher_is_better is False


@pytest.mark.parametrize(
    ("kind", "responses", "message"),
    [
        ("multiple_choice", lls(-1.0), "2 choices, but 1 results"),
        ("multiple_choice", lls(-1.0, float("nan")), "log-probability was expected"),
        ("multiple_choice", texts("a", "b"), "the model returned no log-probability"),
        ("loglikelihood", lls(-1.0, -2.0), "one result was expected, got 2"),
        ("generate_until", [], "0 responses is not a multiple of repeats"),
        ("generate_until", [Response(error="timed out")], "timed out"),
    ],
)
def test_responses_that_do_not_fit_are_an_error_never_a_wrong_answer(
    kind, responses, message
):
    metric = "exact_match" if kind == "generate_until" else "acc"
    with pytest.raises(DocumentError, match=message):
        scorer(kind, metric)(record(doc(["a", "b"]), *responses))


def test_a_metric_that_is_measured_nowhere_gives_no_score():
    """lm-eval 0.4.13: process_results returns no value of that name."""
    choice = scorer("multiple_choice", "bleu", "acc", "bypass")
    assert [s.metric for s in choice(record(doc("ab"), *lls(-1.0, -2.0)))] == ["acc"]


def test_any_pass_through_metric_hands_on_reference_and_text():
    score = scorer("generate_until", "mcc", "bleu", MetricSpec(name="ter"))
    scores = score(record(doc(["a b"]), *texts("a c")))
    assert [(s.metric, s.value, s.correct) for s in scores] == [
        ("mcc", ["a b", "a c"], None),
        ("bleu", ["a b", "a c"], None),
        ("ter", ["a b", "a c"], None),
    ]


def test_names_are_checked_when_the_scorer_is_made():
    with pytest.raises(UnknownNameError, match="unknown output_type 'rolling'"):
        scorer("rolling", "acc")
    with pytest.raises(UnknownNameError, match="unknown multiple_choice metric 'accc'"):
        scorer("multiple_choice", "accc")
    with pytest.raises(UnknownNameError, match="generate_until metric 'exact_macth'"):
        scorer("generate_until", "exact_macth")
    with pytest.raises(EvalsError, match="two metrics are named 'acc'"):
        scorer("multiple_choice", "acc", "acc")
    with pytest.raises(EvalsError, match="two filter pipelines are named 'x'"):
        scorer(
            "multiple_choice", "acc", pipelines=(pipeline("x", []), pipeline("x", []))
        )


class Longest:
    """A filter that replaces each text by whether it is the longest of all texts."""

    def apply(self, responses, rows):
        texts = [group[0] for group in responses]
        return [[str(len(text) == max(map(len, texts)))] for text in texts]


class Quoted:
    """A filter that reads its own document only."""

    def apply(self, responses, rows):
        return [[f"{row['q']}: {g[0]}"] for g, row in zip(responses, rows, strict=True)]


@pytest.mark.parametrize(("own", "n"), [(Longest, 1), (Quoted, 0)])
def test_a_filter_that_looks_beyond_its_document_is_found_and_reported(own, n):
    """lm-eval 0.4.13 passes all documents at once (``api/filter.py``)."""
    steps = [FilterStep(function=own), FilterStep(function="take_first")]
    scorer = Scorer(
        output_type="generate_until",
        metrics=(MetricSpec(name="exact_match"),),
        pipelines=(pipeline("own", steps),),
    )
    for index, text in enumerate(["a", "bb", "ccc"]):
        doc = Doc("", ["x"], 0, row={"q": f"q{index}"})
        responses = (Response(text=text),)
        scorer(Record(task="t", index=index, doc=doc, responses=responses))
    assert len(scorer.warnings) == n
    assert all("'own'" in warning for warning in scorer.warnings)
