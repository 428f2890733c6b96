"""Display of a run at a prompt, in a notebook and as a data frame."""

import sys
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pytest

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
