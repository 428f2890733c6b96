"""The verdict as a function of a sum equals the verdict of judging. The oracle is
:func:`pytest_evals.gates.judge.judge`, over all documents."""

import math
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import f1_score, precision_score, recall_score

from pytest_evals.core.gate import Margin, Outcome
from pytest_evals.core.metric import Estimate, Metric, MetricResult
from pytest_evals.core.result import TaskResult
from pytest_evals.core.task import TaskOptions
from pytest_evals.dialects.readers import load_file
from pytest_evals.errors import Place
from pytest_evals.gates.early_stopping.steps import steps_of
from pytest_evals.gates.judge import judge
from pytest_evals.gates.read.entry import read_gate
from pytest_evals.guests.latticeflow.metrics.reader import binary
from pytest_evals.scorers.metrics import MetricSpec, metric

HERE = Place(Path("arc.yaml"), 1)
ACC = Metric(name="acc", aggregate=lambda values: Estimate(0.0), is_mean=True)
F1 = metric(MetricSpec(name="f1"), "none", "multiple_choice", declared=False)
BINARY = {one.name: one for one in binary("gold", "pred", positive="1", negative="0")}


def value_in(name):
    """A pair of labels → the value of LatticeFlow's metric of that name."""
    read = BINARY[name].read
    return lambda pair: read({"gold": pair[0], "pred": pair[1]})


RATIOS = {
    "f1": (f1_score, F1, lambda pair: pair),
    "precision": (
        precision_score,
        BINARY["precision"].how,
        value_in("precision"),
    ),
    "recall": (recall_score, BINARY["recall"].how, value_in("recall")),
}
"""sklearn's score, our metric, and its value for a pair of labels."""


def gate_of(name="acc", **keys):
    return read_gate({"metric": name, **keys}, task="arc", source=HERE)


def no_worse(**changes):
    """A gate on a drop of at most 2 points since a baseline."""
    margin = Margin(key="max_drop", value=Decimal("0.02"))
    changes = {"baseline": "main", "margin": margin, **changes}
    return replace(gate_of(min=0), bounds=(), **changes)


def judged(gate, total, n):
    share = total / n
    stderr = math.sqrt(share * (1 - share) / max(1, n - 1))
    result = MetricResult(
        name="acc",
        filter="none",
        estimate=Estimate(share, stderr, "analytic"),
        n_scored=n,
        total=total,
    )
    task = SimpleNamespace(name="arc")
    whole = TaskResult(
        task=task, records=(), metrics=(result,), n_selected=n, n_total=n
    )
    return judge(gate, whole).outcome


def at(steps, total):
    """The outcome of the steps at a sum."""
    above = [
        total > cut.target + 1e-9 if cut.strict else total >= cut.target - 1e-9
        for cut in steps.cuts
    ]
    return steps.outcomes[sum(above)]


BARS = st.integers(0, 100).map(lambda percent: percent / 100)
NOISE = st.sampled_from(
    [
        {},
        {"over": "population"},
        {"over": "population", "confidence": 0.8},
        {"noise": 0.05},
        {"over": "benchmark"},
    ]
)


@pytest.mark.slow
@settings(deadline=None, max_examples=50)
@given(st.integers(2, 60), BARS, BARS, st.sampled_from(["min", "max", "both"]), NOISE)
def test_steps_agree_with_the_verdict_for_each_number_of_correct_answers(
    n, one, other, sides, noise
):
    low, high = sorted([one, other])
    bounds = {"min": {"min": one}, "max": {"max": one}}
    keys = bounds.get(sides, {"min": low, "max": high})
    gate = gate_of(**keys, **noise)
    steps = steps_of(gate, ACC, n)
    assert [at(steps, total) for total in range(n + 1)] == [
        judged(gate, total, n) for total in range(n + 1)
    ]


@pytest.mark.slow
@given(
    st.lists(st.tuples(st.integers(0, 1), st.integers(0, 1)), min_size=5, max_size=40),
    st.integers(1, 99),
    st.sampled_from(["f1", "precision", "recall"]),
)
def test_a_ratio_meets_the_threshold_exactly_if_the_sum_is_at_least_zero(
    labels, percent, name
):
    """Compared with sklearn's F1, precision and recall."""
    score, metric_, value_of = RATIOS[name]
    golds, predicted = zip(*labels, strict=True)
    value = score(golds, predicted, zero_division=math.nan)
    if math.isnan(value):
        return
    bar = percent / 100
    steps = steps_of(gate_of(name, min=bar), metric_, len(labels))
    shares = [steps.share(value_of(pair)) for pair in labels]
    if not math.isclose(value, bar, abs_tol=1e-9):
        assert (at(steps, sum(shares)) is Outcome.PASSED) == (value >= bar)
    assert all(0 <= share <= 1 for share in shares)


def test_a_document_of_several_rows_may_exceed_the_declared_range():
    _, precision, value_of = RATIOS["precision"]
    steps = steps_of(gate_of("precision", min=0.5), precision, 10)
    with pytest.raises(ValueError, match="to the counts of precision"):
        steps.share((value_of((1, 1)), value_of((0, 1))))


@pytest.mark.parametrize(
    ("metric_", "keys", "why"),
    [
        (None, {"min": 0.5}, "its metric is unknown before the results are complete"),
        (
            Metric(name="rouge", aggregate=len, is_mean=True),
            {"min": 0.5},
            "the range of rouge is unknown",
        ),
        (Metric(name="bleu", aggregate=len), {"min": 30}, "bleu is not a sum"),
        (Metric(name="mcc", aggregate=len), {"min": 0.5}, "mcc is not a sum"),
        (F1, {"min": 0.5, "over": "population"}, "the confidence interval of f1"),
        (F1, {"min": 0.5, "max": 0.9}, "f1 needs one threshold between 0 and 1"),
    ],
)
def test_gates_that_do_not_depend_on_one_sum_have_a_reason(metric_, keys, why):
    name = metric_.name if metric_ else "length"
    assert why in steps_of(gate_of(name, **keys), metric_, 100)


def test_paired_tests_and_clusters_do_not_depend_on_one_sum():
    paired = steps_of(no_worse(over="population"), ACC, 100)
    assert paired == "a paired test over population does not depend on one sum alone"
    gate = replace(gate_of(min=0.5, over="population"), cluster="passage")
    assert "clustered" in steps_of(gate, ACC, 100)


def steps_of_score(folder, score, **keys):
    text = f"prompt: x\ntarget: a\nrows: [{{a: []}}]\nscore: {score}\n"
    (folder / "sums.yaml").write_text(text)
    (task,) = load_file(folder / "sums.yaml", TaskOptions())
    (metric_,) = task.metrics
    return steps_of(gate_of(score, **keys), metric_, 10)


@pytest.mark.parametrize("score", ["exact", "tool_f1"])
def test_a_threshold_on_own_scorers_is_a_sum(tmp_path, score):
    steps = steps_of_score(tmp_path, score, min=0.5)
    assert at(steps, 5) is Outcome.PASSED
    assert at(steps, 4) is Outcome.FAILED


def test_limits_are_known_before_the_end_only_for_scores_of_0_or_1(tmp_path):
    """The exact 95% lower limit of 9 of 10 is 0.606, and that of 8 of 10 is 0.493."""
    keys = {"min": 0.5, "over": "population"}
    steps = steps_of_score(tmp_path, "exact", **keys)
    assert at(steps, 9) is Outcome.PASSED
    assert at(steps, 8) is Outcome.INCONCLUSIVE
    found = steps_of_score(tmp_path, "tool_f1", **keys)
    assert found == "scores of tool_f1 may lie between 0 and 1"


def test_a_range_that_the_gate_sets_is_the_range_of_a_score(tmp_path):
    found = steps_of_score(tmp_path, "exact", min=0.5, range=[0, 2])
    assert found == "exact ranges from 0 to 2, not from 0 to 1"


def test_gates_on_documents_have_no_sum():
    gate = read_gate({"must_pass": ["a"]}, task="arc", source=HERE)
    assert steps_of(gate, None, 100) == "it is about single documents"


def test_a_drop_since_a_baseline_is_a_threshold_below_its_value():
    """150 of 200 correct before, and at most 2 points fewer: 146 or more."""
    gate = no_worse()
    old = {i: float(i < 150) for i in range(200)}
    steps = steps_of(gate, ACC, 200, old)
    assert at(steps, 146) is Outcome.PASSED
    assert at(steps, 145) is Outcome.FAILED
    assert "no right and wrong" in steps_of(gate, ACC, 200, {0: 1.0})


def test_a_score_outside_of_the_range_is_an_error():
    steps = steps_of(gate_of(min=0.5), ACC, 100)
    with pytest.raises(ValueError, match=r"scored 1\.5, which is not from 0 to 1"):
        steps.share(1.5)
    steps = steps_of(gate_of(min=0.5, over="population"), ACC, 100)
    with pytest.raises(ValueError, match=r"scored 0\.5, which is neither 0 nor 1"):
        steps.share(0.5)
