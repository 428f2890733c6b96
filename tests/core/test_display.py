"""Display of a run at a prompt, in a notebook and as a data frame."""

import sys
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pytest

from pytest_evals.core.comparison import Comparison, MetricChange, RunDifference
from pytest_evals.core.doc import Doc
from pytest_evals.core.gate import Bound, Gate, Interval, Outcome, Verdict
from pytest_evals.core.metric import Estimate, MetricResult
from pytest_evals.core.record import Record, Score
from pytest_evals.core.result import RunResult, TaskResult
from pytest_evals.core.task import Task
from pytest_evals.errors import MissingExtraError, OptionError, Place

HOSTILE = "<img src=x onerror=alert(1)>"


@pytest.fixture
def run():
    """A result with two documents, one of them without a score, and a failed gate."""
    score = Score(metric="acc", value=1.0, correct=True, answer=HOSTILE)
    records = (
        Record(task="quiz", index=0, doc=Doc("1+1", ["2"], 0, id="a"), scores=(score,)),
        Record(task="quiz", index=1, doc=Doc("1+2", ["3"], 0, id="b"), error="down"),
    )
    metric = MetricResult(
        name="acc",
        filter="none",
        estimate=Estimate(0.75, 0.25),
        n_scored=1,
        n_errored=1,
    )
    task = Task(
        name="quiz",
        source=Place(Path("quiz.yaml")),
        rows=None,
        ask=lambda index: None,
        score=lambda record: (),
        metrics=(),
    )
    gate = Gate(
        id="acc",
        task="quiz",
        metric="acc",
        bounds=(Bound(">=", Decimal("0.9")),),
        text=f"acc >= 0.9 {HOSTILE}",
        source=Place(Path("quiz.yaml"), 3),
    )
    verdict = Verdict(gate=gate, outcome=Outcome.FAILED, metric=metric, reason="low")
    result = TaskResult(
        task=task,
        records=records,
        metrics=(metric,),
        n_selected=2,
        n_total=2,
        n_errored=1,
    )
    return RunResult(model="hf:acme/llm", tasks=(result,), verdicts=(verdict,))


def test_repr_has_numbers_and_gates(run):
    assert repr(run).splitlines() == [
        "<RunResult of hf:acme/llm: 1 task, 2 documents, 1 of them without a score, "
        "gates: 1 failed>",
        "  quiz  acc,none  0.75",
        f"  failed: quiz: acc >= 0.9 {HOSTILE}",
    ]
    assert repr(run.tasks[0]) == "<TaskResult quiz: 2 documents; acc,none 0.75>"


def test_html_is_escaped(run):
    html = run._repr_html_()
    assert "<img" not in html
    assert "&lt;img src=x onerror=alert(1)&gt;" in html
    assert ">0.75</td>" in html


def test_a_metric_has_its_standard_error_or_the_limits_of_its_gate(run):
    (verdict,) = run.verdicts
    limits = Interval(0.41, 0.94, "Clopper-Pearson")
    judged = replace(run, verdicts=(replace(verdict, interval=limits),))
    assert "acc,none  0.75, 90% CI [0.41, 0.94]\n" in repr(judged)
    assert ">0.75, 90% CI [0.41, 0.94]</td>" in judged._repr_html_()
    assert "acc,none  0.75 ± 0.25" in repr(replace(run, verdicts=()))


def test_frames_have_a_row_for_each_metric_gate_and_document(run):
    pytest.importorskip("pandas")
    (metric,) = run.to_pandas().to_dict("records")
    assert (metric["metric"], metric["value"], metric["n_errored"]) == (
        "acc,none",
        0.75,
        1,
    )
    (gate,) = run.to_pandas("gates").to_dict("records")
    assert (gate["outcome"], gate["is_red"], gate["value"]) == ("failed", True, 0.75)
    documents = run.to_pandas("documents")
    assert list(documents["id"]) == ["a", "b"]
    assert list(documents["status"]) == ["scored", "errored"]
    assert documents["acc,none"].isna().tolist() == [False, True]


def test_a_frame_without_rows_has_its_columns(run):
    pytest.importorskip("pandas")
    columns = ["task", "id", "change", "target", "before", "now"]
    assert [*run.to_pandas("changes").columns] == columns


def test_metrics_have_the_limits_of_a_gate_or_their_own(run):
    pytest.importorskip("pandas")
    (verdict,) = run.verdicts
    limits = Interval(0.41, 0.94, "Clopper-Pearson")
    judged = replace(run, verdicts=(replace(verdict, interval=limits),))
    (one,) = judged.to_pandas().to_dict("records")
    assert (one["low"], one["high"], one["method"]) == (0.41, 0.94, "Clopper-Pearson")
    (one,) = replace(run, verdicts=()).to_pandas().to_dict("records")
    assert one["low"] == pytest.approx(0.75 - 1.645 * 0.25, abs=1e-3)
    assert one["method"] == "normal, standard error"


def test_limits_of_a_proportion_are_those_of_wilson():
    from statsmodels.stats.proportion import proportion_confint

    for count in (0, 7, 20):
        metric = MetricResult(
            name="acc",
            filter="none",
            estimate=Estimate(count / 20, 0.0),
            n_scored=20,
            total=count,
        )
        found = metric.limits()
        expected = proportion_confint(count, 20, alpha=0.1, method="wilson")
        assert found[:2] == pytest.approx(expected, abs=1e-12)


def test_targets_of_choices_are_text(run):
    pytest.importorskip("pandas")
    assert [*run.to_pandas("documents")["target"]] == ["2", "3"]


def test_a_comparison_is_a_table_in_notebooks():
    change = MetricChange(
        task=HOSTILE, key="acc,none", before=0.8, now=0.9, low=-0.01, high=0.21
    )
    found = Comparison(
        name="main",
        metrics=(change,),
        n_paired=10,
        differences=(RunDifference(text="dtype: x (baseline: y)"),),
    )
    html = found._repr_html_()
    assert "<img" not in html
    assert "[-0.01, +0.21]" in html
    assert "differs: dtype: x (baseline: y)" in html
    assert repr(found).splitlines()[:2] == [
        "<Comparison with main>",
        "10 documents: 0 worse, 0 better",
    ]


def test_unknown_rows_are_an_error(run):
    with pytest.raises(OptionError, match="'document'; did you mean 'documents'"):
        run.to_pandas("document")


def test_pandas_is_named_where_it_is_missing(run, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(MissingExtraError) as found:
        run.to_pandas()
    assert str(found.value) == (
        "to_pandas() needs pandas: pip install 'pytest-model-evals[pandas]'"
    )
