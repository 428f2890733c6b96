"""A run as Markdown for a pull request."""

import re
from dataclasses import replace

import pytest
from markdown_it import MarkdownIt

from pytest_evals.core.comparison import Comparison, DocumentChange
from pytest_evals.core.gate import Interval
from pytest_evals.core.metric import Estimate
from pytest_evals.reports.github.pull_request import run_markdown

HOSTILE = "</details><img src=x onerror=alert(1)> | `x` ![](http://evil.example) @all"


def change(i, now=HOSTILE):
    return DocumentChange(
        task="gsm8k", id=f"q{i}", prompt=HOSTILE, target="18", before="18", now=now
    )


@pytest.fixture
def run(make):
    """A task with a failed, an inconclusive and a passed gate, and a document in
    error."""
    metric = make.metric(0.25, 0.25, n_scored=4, total=1)
    assert metric.estimate == Estimate(0.25, 0.25, "analytic")
    records = [
        make.record(0, True),
        make.record(1, False, prompt=HOSTILE, text=HOSTILE, gold="18"),
        make.record(2, None, error=HOSTILE),
    ]
    task = make.task(ids=("a", "b", "c"))
    result = make.result(
        task, metric, records=records, n=3, n_correct=1, n_wrong=1, n_errored=1
    )
    verdicts = [
        make.verdict(make.gate("acc >= 0.1"), "passed", metric=metric),
        make.verdict(make.gate("acc >= 0.3"), "inconclusive", metric=metric),
        make.verdict(make.gate("acc >= 0.75"), "failed", metric=metric, reason="low"),
    ]
    return make.run(result, verdicts=verdicts)


def test_the_heading_starts_with_the_worst_result(run):
    first = run_markdown(run, 10**6).splitlines()[0]
    assert first == (
        "## ❌ evals: 1 failed, 1 inconclusive, 1 passed of 3 gates; "
        "1 document without a score"
    )


def test_failed_gates_come_first_and_are_expanded(run):
    text = run_markdown(run, 10**6)
    failed, inconclusive = text.index("<details open>"), text.index("<details>\n")
    assert "&#62;= 0.75</b> FAILED" in text[failed:inconclusive]
    assert "&#62;= 0.3</b> inconclusive" in text[inconclusive:]
    assert "| `gsm8k` | 4/3 | `acc` | 0.250 | `>= 0.1` | ✅ passed |" in text


def test_a_gate_is_shown_with_the_limits_that_it_compared(make):
    metric = make.metric(0.75, 0.025)
    limits = Interval(0.70488, 0.79113, "Clopper-Pearson")
    verdict = make.verdict(
        make.gate("acc >= 0.65"), "passed", metric=metric, interval=limits
    )
    run = make.run(make.result(make.task(), metric), verdicts=[verdict])
    row = "| `gsm8k` | 0/200 | `acc` | 0.750 90% CI [0.705, 0.791] |"
    assert row in run_markdown(run, 10**6)


def test_at_most_ten_changed_documents_are_shown(run):
    worse = [change(i) for i in range(12)]
    text = run_markdown(run, 10**6, {("gsm8k", "acc"): worse})
    assert "(10 of 12)" in text
    assert "`gsm8k[q9]`" in text
    assert "gsm8k[q10]" not in text


def test_markup_of_a_model_is_escaped(run):
    found = Comparison(name="main", worse=(change(1),), better=(), n_paired=3)
    text = run_markdown(
        replace(run, comparison=found), 10**6, {("gsm8k", "acc"): [change(0)]}
    )
    html = MarkdownIt("commonmark").enable(["table"]).render(text)
    assert "<img" not in html
    assert html.count("</details>") == html.count("<details")
    # GitHub notifies people by mentions everywhere except in code
    assert "@all" not in re.sub(r"<pre>.*?</pre>", "", html, flags=re.DOTALL)


@pytest.mark.parametrize("most", [1_000, 2_500, 65_000])
def test_the_summary_fits_and_names_omitted_parts(run, most):
    worse = [change(i, "long " * 100) for i in range(100)]
    found = Comparison(name="main", worse=tuple(worse), n_paired=100)
    text = run_markdown(replace(run, comparison=found), most, {("gsm8k", "acc"): worse})
    assert len(text.encode()) <= most
    assert ("did not fit" in text) == (most < 65_000)
    assert text.startswith("## ❌")


def test_of_a_thousand_rows_those_with_gates_are_shown(make):
    tasks = [
        make.result(make.task(f"t{i}"), make.metric(0.5, n_scored=4), n=4)
        for i in range(1000)
    ]
    gate = make.gate("acc >= 0.1", task="t7")
    verdict = make.verdict(gate, "passed", metric=tasks[7].metrics[0])
    text = run_markdown(make.run(*tasks, verdicts=[verdict]), 10**6)
    assert "1,000 rows in all" in text
    assert "`t7`" in text
    assert "`t8`" not in text
