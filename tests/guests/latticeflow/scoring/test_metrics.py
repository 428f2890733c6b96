"""Metrics and trials: aggregates of sample values. DOC marks values of LatticeFlow's
documentation; standard errors are compared with statsmodels' and textbook formulas."""

import math

import pytest

from pytest_evals.core.metric import ANYTHING, SHARE
from pytest_evals.errors import DocumentError, EvalsError
from pytest_evals.guests.latticeflow.metrics.measures import (
    column_of,
    mean_measure,
)
from pytest_evals.guests.latticeflow.prompts.output import SampleScore

PYTHON = """
- type: python
  compute_scores_snippet: "def compute_scores(sample): return {}"
"""


def metrics(*entries):
    listed = "".join(f"    - {entry}\n" for entry in entries)
    return f"{PYTHON}  metrics:\n{listed}"


def values(**columns):
    """Samples from columns."""
    names = list(columns)
    rows = zip(*columns.values(), strict=True)
    return [SampleScore(dict(zip(names, row, strict=True))) for row in rows]


def metric_values(found):
    return {name: one.value for name, one in found.items()}


def test_means_and_ends(added_up):
    yaml = metrics(
        "{type: mean, field: x}",
        "{type: mean, field: ok, name: rate}",
        "{type: max, field: x}",
        "{type: min, field: x, name: worst}",
        "{type: std_dev, field: x}",
    )
    found = added_up(yaml, values(x=[1, 2, 6], ok=[True, False, True]))
    assert metric_values(found) == pytest.approx(
        {
            "x_mean": 3,
            "rate": 2 / 3,
            "x_max": 6,
            "worst": 1,
            "x_std_dev": math.sqrt(7),
        }
    )
    # standard deviation of 1, 0, 1 over the root of 3
    assert found["rate"].stderr == pytest.approx(1 / 3)
    assert found["x_max"].stderr is None


def test_a_standard_deviation_is_that_of_a_sample(added_up):
    """DOC: the worked example of the repeatability page."""
    yaml = metrics("{type: std_dev, field: x}")
    found = added_up(yaml, values(x=[0.67, 1, 0.67, 1, 0.67]))
    assert round(found["x_std_dev"].value, 2) == 0.18
    assert added_up(yaml, values(x=[3]))["x_std_dev"].value == 0


def test_samples_without_the_field_are_left_out(added_up):
    samples = [SampleScore({"x": 1}), SampleScore({}), SampleScore({"x": None})]
    yaml = metrics("{type: mean, field: x}", "{type: mean, field: y}")
    found = added_up(yaml, samples)
    assert found["x_mean"].value == 1
    assert found["y_mean"] == "no sample has a score 'y'"


def test_nan_spreads_and_texts_have_no_mean(added_up):
    yaml = metrics("{type: mean, field: x}", "{type: max, field: x}")
    found = added_up(yaml, values(x=[1, math.nan]))
    assert all(math.isnan(one.value) for one in found.values())
    with pytest.raises(
        EvalsError, match="the score 'x' has the value 'red', which is not a number"
    ):
        added_up(yaml, values(x=[1, "red"]))


def test_frequencies_add_up_to_1(added_up):
    yaml = metrics("{type: frequency, field: label}", "{type: frequency, field: valid}")
    found = added_up(yaml, values(label=["A", "B", "A", "A"], valid=[True, True, 0, 3]))
    assert metric_values(found) == {
        "label_A": 0.75,
        "label_B": 0.25,
        "valid_0": 0.25,
        "valid_3": 0.25,
        "valid_True": 0.5,
    }
    # of four samples, three with the label: root of p (1 - p) / (n - 1)
    assert found["label_A"].stderr == pytest.approx(0.25)
    same = added_up(yaml, values(label=["A", "A"], valid=[1, 1]))
    assert (same["label_A"].value, same["label_A"].stderr) == (1, 0)


def test_labels_have_weights(added_up):
    yaml = metrics(
        "{type: weighted_average, field: label, weights: {GOOD: 1.0, BAD: 0, True: 3}}"
    )
    found = added_up(yaml, values(label=["GOOD", "BAD", "GOOD", True]))
    assert metric_values(found) == {"label_weighted_average": 1.25}
    with pytest.raises(EvalsError, match="the label 'UGLY' of 'label' has no weight"):
        added_up(yaml, values(label=["GOOD", "UGLY"]))


COUNTS = (
    "{type: recall, num_true_positives_field: tp, num_false_negatives_field: fn}",
    "{type: precision, num_true_positives_field: tp, num_false_positives_field: fp}",
    "{type: f1_score, num_true_positives_field: tp, num_false_positives_field: fp, "
    "num_false_negatives_field: fn, name: f}",
)


def test_counts_add_up_before_a_ratio_is_made(added_up):
    """By hand: 3 true positives, 1 false negative, 2 false positives in total."""
    samples = values(tp=[2, 1, 0], fn=[0, 1, 0], fp=[1, 0, 1])
    found = added_up(metrics(*COUNTS), samples)
    assert metric_values(found) == pytest.approx(
        {"recall": 3 / 4, "precision": 3 / 5, "f": 6 / 9}
    )
    nothing = added_up(metrics(*COUNTS), values(tp=[0], fn=[0], fp=[0]))
    assert all(math.isnan(one.value) for one in nothing.values())
    lacking = added_up(metrics(COUNTS[0]), values(tp=[1]))
    assert lacking == {"recall": "no sample has the scores 'tp', 'fn'"}


def test_a_ratio_has_the_standard_error_of_a_ratio(added_up):
    """The textbook formula: root of the summed squares of hits - ratio * size, over the
    sum of sizes, times root of n / (n - 1)."""
    hits, misses = [2, 1, 0, 3, 2], [0, 1, 2, 1, 0]
    found = added_up(metrics(COUNTS[0]), values(tp=hits, fn=misses))
    sizes = [h + m for h, m in zip(hits, misses, strict=True)]
    ratio = sum(hits) / sum(sizes)
    squares = sum((h - ratio * s) ** 2 for h, s in zip(hits, sizes, strict=True))
    expected = math.sqrt(squares * 5 / 4) / sum(sizes)
    assert found["recall"].stderr == pytest.approx(expected, rel=1e-6)


BINARY = metrics(
    "{type: binary-classification, field_gt: gt, field_pred: pred, "
    'positive_answer: "1", negative_answer: "0"}'
)


def test_two_answers_are_compared_as_texts_and_others_left_out(added_up):
    """By hand; the sample with "?" does not count (DOC)."""
    found = added_up(BINARY, values(gt=[1, "1", 0, 0, 1], pred=["1", 0, "1", 0, "?"]))
    assert metric_values(found) == {
        "accuracy": 0.5,
        "precision": 0.5,
        "recall": 0.5,
        "f1_score": 0.5,
        "true_positives": 1,
        "false_positives": 1,
        "false_negatives": 1,
        "true_negatives": 1,
    }
    found = added_up(BINARY, values(gt=[0], pred=[0]))
    assert [found[n].value for n in ("precision", "recall", "f1_score")] == [0, 0, 0]


def test_classes_are_those_that_are_named(added_up):
    """As in scikit-learn, with 0 for a division by zero."""
    sklearn = pytest.importorskip("sklearn.metrics")
    gold, predicted = list("aabbc"), list("abbdb")
    yaml = metrics("{type: multiclass-classification, field_gt: g, field_pred: p}")
    found = metric_values(added_up(yaml, values(g=gold, p=predicted)))
    assert found.pop("accuracy") == pytest.approx(0.4)
    precision, recall, f1, _ = sklearn.precision_recall_fscore_support(
        gold, predicted, labels=list("abcd"), zero_division=0
    )
    expected = {"precision": precision, "recall": recall, "f1": f1}
    for key, column in expected.items():
        assert found.pop(f"macro_{key}") == pytest.approx(column.mean())
        for label, number in zip("abcd", column, strict=True):
            assert found.pop(f"{label}_{key}") == pytest.approx(number)
    assert found == {}


CODE = """
    - type: python
      compute_metrics_snippet: |
        async def compute_metrics(scores):
            total = sum(score.values["x"] for score in scores)
            k = len(scores[0].metadata)
            return {"total": total, "second": scores[1]["x"], "k": k}
"""


def test_python_sees_all_scores(added_up):
    samples = [SampleScore({"x": 1}, {"a": 0}), SampleScore({"x": 5})]
    found = added_up(f"{PYTHON}  metrics:{CODE}", samples)
    assert metric_values(found) == {"total": 6, "second": 5, "k": 1}
    bad = CODE.replace('"second": scores[1]["x"]', '"second": "high"')
    with pytest.raises(
        DocumentError, match="must return numbers, not 'second': 'high'"
    ):
        added_up(f"{PYTHON}  metrics:{bad}", samples)


def test_several_rows_of_a_sample_weigh_as_rows(added_up):
    """A sample with two rows and one with a single row: the mean of three."""
    samples = [
        [SampleScore({"x": 1, "l": "a"}), SampleScore({"x": 0, "l": "b"})],
        [SampleScore({"x": 1, "l": "a"})],
        [],
    ]
    yaml = metrics(
        "{type: mean, field: x}", "{type: frequency, field: l}", "{type: max, field: x}"
    )
    found = added_up(yaml, samples)
    assert metric_values(found) == pytest.approx(
        {"x_mean": 2 / 3, "l_a": 2 / 3, "l_b": 1 / 3, "x_max": 1}
    )
    # the textbook's ratio of sums 1, 1 over sizes 2, 1
    assert found["x_mean"].stderr == pytest.approx(math.sqrt(2 * 2 / 9) / 3, rel=1e-6)


@pytest.mark.parametrize(
    ("entry", "names"),
    [
        ('{type: string_equals, ground_truth: "a"}', ["accuracy"]),
        (
            '{type: string_equals_mcqa, ground_truth_choice: "a", choices: "a"}',
            ["accuracy"],
        ),
        ('{type: bleu, ground_truth: "a"}', ["bleu_score"]),
        (
            "{type: model_as_a_judge_classifier, model_key: m, user_prompt: a, "
            "correct_labels: [a], incorrect_labels: []}",
            ["accuracy"],
        ),
        ("{type: labeler_via_model, model_key: m, user_prompt: a}", ["frequency"]),
        ("{type: model_as_a_judge_scorer, model_key: m, user_prompt: a}", ["score"]),
        (
            "{type: rag_checker, judge_model_key: m, scores_to_compute: [recall]}",
            ["recall"],
        ),
        (
            '{type: function_call_coverage, function_calls: "[]"}',
            ["all_required_calls_made", "required_calls_coverage"],
        ),
        (
            "{type: python, compute_scores_snippet: 'def compute_scores(s): pass'}",
            [],
        ),
        ('{type: string_equals, ground_truth: "a", metrics: []}', []),
        ('{type: string_equals, ground_truth: "a", purpose: qa}', []),
    ],
)
def test_scorers_that_say_nothing_of_metrics_have_their_own(read, entry, names):
    scorers, _, problems = read(f"- {entry}")
    assert problems == []
    assert [number.name for number in scorers[0].metric_values] == names


def test_only_metrics_of_correctness_are_marked_as_such(read):
    scorers, _, _ = read(
        '- {type: string_equals, ground_truth: "a"}'
        + metrics("{type: mean, field: is_unique}", "{type: mean, field: is_correct}")
    )
    flags = [number.is_correctness for one in scorers for number in one.metric_values]
    assert flags == [True, False, True]


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        (
            "{type: means, field: x}",
            "unknown metric 'means'; did you mean 'mean'?\n  fix: type: mean",
        ),
        ("{type: mean}", 'field is missing\n  fix: field: "is_correct"'),
        ("{type: mean, field: x, nam: y}", "a metric of type mean has no key 'nam'"),
        (
            "{type: frequency, field: x, name: y}",
            "a metric of type frequency has no key 'name'",
        ),
        (
            "{type: weighted_average, field: x}",
            "weights is missing\n  fix: weights: {GOOD: 1, BAD: 0}",
        ),
        (
            "{type: weighted_average, field: x, weights: {A: high}}",
            "the weight of 'A' must be a number, not 'high'",
        ),
        (
            "{type: binary-classification, field_gt: a, field_pred: b, "
            "positive_answer: x, negative_answer: x}",
            "positive_answer and negative_answer are both 'x'",
        ),
        ("{type: recall, num_true_positives_field: a}", "num_false_negatives_field is"),
        ("{type: python}", "compute_metrics_snippet is missing"),
    ],
)
def test_an_invalid_metric_is_reported_with_its_line(read, entry, message):
    _, _, problems = read(metrics(entry))
    assert problems[0].startswith(f"./t.yaml:6: {message}")


def test_two_metrics_of_a_type_are_distinguished(read):
    yaml = metrics("{type: mean, field: x}", "{type: mean, field: y}")
    (scorer,), warnings, problems = read(yaml)
    assert [number.metric for number in scorer.metric_values] == ["mean", "mean_2"]
    assert "metrics of type mean have no key; this one is named 'mean_2'" in warnings[0]
    assert problems == []
    twice = metrics("{type: mean, field: x, key: a}", "{type: min, field: y, key: a}")
    assert "duplicate metric 'a'" in read(twice)[2][0]


def test_metrics_of_a_check_are_left_out_with_a_warning(read):
    yaml = metrics("{type: mean, field: x}") + "  purpose: qa\n"
    (scorer,), warnings, _ = read(yaml)
    assert scorer.metric_values == ()
    assert warnings[0].endswith("is not aggregated; its metrics are ignored")


TRIALS = """
num_trials: 5
score_aggregators:
  - {score_name: ok, aggregator: {function: pass@k, k: 5}}
  - {score_name: ok, aggregator: {function: pass^k, k: 5, score_name: reliable}}
  - {score_name: x, aggregator: {function: max}}
"""


def test_trials_of_a_sample_become_one_value(trials):
    """DOC: T F T F T gives pass@5 0.98976 and pass^5 0.07776."""
    found, problems = trials(TRIALS)
    assert (found.n, problems) == (5, [])
    goes = [
        SampleScore({"ok": ok, "x": n, "y": n, "label": "a"})
        for n, ok in enumerate([True, False, True, False, True])
    ]
    assert found.aggregate(goes).values == pytest.approx(
        {
            "ok.pass@5": 0.98976,
            "reliable": 0.07776,
            "x.max": 4.0,
            "y.mean": 2.0,
            "ok": 0.6,
            "x": 2.0,
            "y": 2.0,
        }
    )


def test_trials_are_averaged_by_default(trials):
    """DOC: T T F T T has a mean of 0.8."""
    found, _ = trials("num_trials: 5")
    goes = [SampleScore({"ok": ok}) for ok in (True, True, False, True, True)]
    assert found.aggregate(goes).values == {"ok.mean": 0.8, "ok": 0.8}


def test_passing_takes_right_and_wrong(trials):
    found, _ = trials(TRIALS)
    with pytest.raises(
        DocumentError, match=r"pass@k needs values of 0 or 1, but .* is 0\.5"
    ):
        found.aggregate([SampleScore({"ok": 0.5})])


@pytest.mark.parametrize(
    ("yaml", "message"),
    [
        ("{}", "./t.yaml: num_trials is missing\n  fix: num_trials: 3"),
        (
            "num_trials: 1",
            "./t.yaml:1: num_trials must be an integer from 2 to 10,000, not 1",
        ),
        (
            "num_trials: 2\nscore_aggregators: [{score_name: a}]",
            "./t.yaml:2: aggregator is missing\n  fix: aggregator: {function: mean}",
        ),
        (
            "num_trials: 2\nscore_aggregators:\n"
            "  - {score_name: a, aggregator: {function: pass@k}}",
            "./t.yaml:3: pass@k needs k\n  fix: k: 3",
        ),
        (
            "num_trials: 2\nscore_aggregators:\n"
            "  - {score_name: a, aggregator: {function: mean, k: 2}}",
            "./t.yaml:3: k: mean does not use it",
        ),
        (
            "num_trials: 2\nscore_aggregators:\n"
            "  - {score_name: a, aggregator: {function: pass_k, k: 2}}",
            "./t.yaml:3: unknown function 'pass_k'; did you mean 'pass^k'?\n"
            "  fix: function: pass^k",
        ),
    ],
)
def test_invalid_trials_are_reported_with_their_line(trials, yaml, message):
    assert trials(yaml)[1][0] == message


def test_a_mean_can_be_compared_with_a_threshold_and_a_baseline(added_up):
    """Gates need to know that it is a plain mean, and of which values."""
    how = mean_measure("accuracy", column_of("is_correct")).how
    assert (how.is_mean, how.higher_is_better) == (True, True)
    assert how.number([1, 0, 1, 1]) == 0.75
    totals = how.totals([1, 0, (1, 1)])
    assert (list(totals.columns[0]), list(totals.columns[1])) == ([1, 0, 2], [1, 1, 2])


@pytest.mark.parametrize(
    ("text", "spans"),
    [
        ("- {type: string_equals, ground_truth: x}", {"accuracy": SHARE}),
        (
            "- type: bleu\n  ground_truth: x\n"
            "  metrics: [{type: max, field: bleu_score}, {type: mean, field: other}]",
            {"bleu_score_max": SHARE, "other_mean": ANYTHING},
        ),
        (
            "- type: function_call_coverage\n  function_calls: '[]'\n"
            "  metrics:\n"
            "  - {type: min, field: required_calls_coverage}\n"
            "  - {type: mean, field: num_unrequired_calls}",
            {
                "required_calls_coverage_min": SHARE,
                "num_unrequired_calls_mean": ANYTHING,
            },
        ),
        (
            "- type: string_equals\n  ground_truth: x\n"
            "  metrics: [{type: mean, field: is_correct.pass@3}]",
            {"is_correct.pass@3_mean": SHARE},
        ),
        (
            "- type: python\n  metrics: [{type: mean, field: score}]\n"
            "  compute_scores_snippet: |\n    def compute_scores(sample): return {}\n",
            {"score_mean": ANYTHING},
        ),
    ],
)
def test_the_range_of_numbers_of_built_in_scores_is_known(read, text, spans):
    (scorer,), _, problems = read(text)
    assert problems == []
    found = {one.name: one.how.span for one in scorer.metric_values}
    assert found == spans
