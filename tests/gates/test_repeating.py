"""Tasks that send each document several times. Variances are computed from their
definition; the coverage of treating responses as documents is known from simulation."""

import math
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats

from pytest_evals.core.doc import Doc
from pytest_evals.core.gate import Outcome
from pytest_evals.core.record import Record, Score
from pytest_evals.core.reference import Answers, Reference
from pytest_evals.core.task import Aggregate, Group, Task
from pytest_evals.errors import Place
from pytest_evals.gates.judge import judge
from pytest_evals.gates.read.entry import read_gate
from pytest_evals.scorers.groups import summarise_group
from pytest_evals.scorers.metrics import MetricSpec, metric
from pytest_evals.scorers.summary import summarise

HERE = Place(Path("gsm8k.yaml"), 1)


def task_result(answers, copied=False, lost=(), name="gsm8k"):
    """Documents with these values of their responses; the task's own value is that of
    the first."""
    how = metric(MetricSpec(name="exact_match"), "none", "generate_until", False)
    records = [
        Record(
            task=name,
            index=i,
            doc=Doc("", [], 0, id=f"d{i}"),
            scores=()
            if i in lost
            else (
                Score(
                    metric="exact_match",
                    value=values[0] if values else 0,
                    repeats=tuple(values),
                    repeat_answers=tuple(map(str, values)),
                    is_copied=copied,
                ),
            ),
            error="lost" if i in lost else "",
        )
        for i, values in enumerate(answers)
    ]
    n = len(records)
    rows = SimpleNamespace(total=lambda: n, ids=lambda: range(n))
    task = Task(name=name, source=HERE, rows=rows, ask=None, score=None, metrics=(how,))
    return summarise(task, records, n)


def verdict(answers, copied=False, lost=(), old=(), **keys):
    """A gate over :func:`task_result`."""
    gate = read_gate({"metric": "exact_match", **keys}, task="gsm8k", source=HERE)
    reference = Reference(
        baseline="main",
        values={"exact_match,none": {i: values[0] for i, values in enumerate(old)}},
        repeats={
            "exact_match,none": {
                i: Answers(tuple(values), tuple(map(str, values)))
                for i, values in enumerate(old)
                if len(values) > 1
            }
        },
    )
    return judge(gate, task_result(answers, copied, lost), find=lambda *_: reference)


FOUR = [(1, 1, 0, 1), (0, 0, 0, 0), (1, 1, 1, 1), (0, 1, 0, 0)]


@pytest.mark.parametrize(
    ("reducer", "value"),
    [
        ("mean", (0.75 + 0 + 1 + 0.25) / 4),
        ("max", 0.75),
        ("majority", 0.5),
        ("pass@2", (1 + 0 + 1 + 0.5) / 4),
        ("pass^2", (0.5 + 0 + 1 + 0) / 4),
    ],
)
def test_a_reducer_makes_one_value_of_a_documents_answers(reducer, value):
    found = verdict(FOUR, min=0.1, reducer=reducer)
    assert found.metric.estimate.value == pytest.approx(value)
    assert found.outcome is Outcome.PASSED


def test_counts_stay_exact_where_a_reduced_value_is_right_or_wrong():
    assert verdict(FOUR, min=0.75, reducer="max").outcome is Outcome.PASSED
    assert verdict(FOUR, min=0.5, reducer="majority").outcome is Outcome.PASSED


def drawn(n, k, seed=0):
    generator = np.random.default_rng(seed)
    skill = generator.beta(2, 1, n)
    return (generator.random((n, k)) < skill[:, None]).astype(int).tolist()


def test_over_other_documents_counts_documents_and_not_answers():
    answers = drawn(150, 8)
    means = np.mean(answers, axis=1)
    found = verdict(answers, min=0.1, reducer="mean", over="population")
    reach = stats.t.ppf(0.95, 149) * np.std(means, ddof=1) / math.sqrt(150)
    assert found.interval.method == "Gaffke"
    assert found.interval.low == pytest.approx(means.mean() - reach, abs=0.2 * reach)


def limits_of_reruns(answers):
    """Binomial, with the number of answers that gives the variance within documents and
    of one pseudo-document with the largest variance, with Satterthwaite's degrees of
    freedom; at least the number of answers."""
    n, k = np.shape(answers)
    variances = np.append(np.var(answers, axis=1, ddof=1), 0.25)
    df = (k - 1) * variances.sum() ** 2 / (variances**2).sum()
    stderr = math.sqrt(variances.sum() / k) / n
    stderr *= stats.t.ppf(0.95, df) / stats.norm.ppf(0.95)
    share = np.mean(answers)
    size = max(n * k, share * (1 - share) / stderr**2)
    low = stats.beta.ppf(0.05, share * size, size - share * size + 1)
    return low, stats.beta.ppf(0.95, share * size + 1, size - share * size)


def test_over_another_run_counts_the_variance_between_answers():
    answers = drawn(150, 4)
    found = verdict(answers, min=0.1, reducer="mean", over="benchmark")
    low, high = limits_of_reruns(answers)
    assert found.interval.low == pytest.approx(low)
    assert found.interval.high == pytest.approx(high)
    assert found.interval.method == "4 answers to each document"


def test_copies_of_one_answer_are_not_evidence():
    found = verdict([(1, 1), (0, 0)], copied=True, min=0.1, reducer="mean")
    assert found.outcome is Outcome.INVALID
    assert "so they are copies and not independent" in found.reason


def test_a_task_without_repeated_answers_is_an_error():
    found = verdict([(), ()], min=0.1, reducer="mean")
    assert found.outcome is Outcome.INVALID
    assert "needs the value of each answer, and document 'd0' has none" in found.reason


@pytest.mark.nightly
@pytest.mark.parametrize("k", [2, 8])
def test_intervals_over_documents_with_repeats_have_their_nominal_coverage(k):
    """Two one-sided limits at 0.95 contain the true mean, 2/3, in about 90% of samples;
    treating responses as documents has a coverage of 72% to 85%."""
    held = 0
    for seed in range(400):
        found = verdict(drawn(100, k, seed), min=0, reducer="mean", over="population")
        held += found.interval.low <= 2 / 3 <= found.interval.high
    assert 0.86 <= held / 400 <= 0.94


def test_a_lost_answer_keeps_the_variance_between_repeats():
    """Most documents are correct each time, one has no score: at least 980 of 1001."""
    answers = [(1, 1)] * 981 + [(0, 0)] * 20
    found = verdict(answers, lost={3}, min=0.5, reducer="mean", over="benchmark")
    assert found.outcome is Outcome.PASSED
    close = verdict(answers, lost={3}, min=0.9821, reducer="mean", over="benchmark")
    assert close.outcome is Outcome.INVALID


AGAINST = {"baseline": "main", "max_drop": 0.05}


def test_means_of_answers_are_paired_document_by_document():
    """Close to Student's t of the differences of the documents' means, by scipy, and
    never narrower."""
    old, new = drawn(120, 4, seed=1), drawn(120, 4, seed=2)
    found = verdict(new, old=old, reducer="mean", **AGAINST)
    pairs = stats.ttest_rel(np.mean(new, axis=1), np.mean(old, axis=1))
    known = pairs.confidence_interval(0.9)
    assert found.interval.method == "paired Gaffke"
    assert known.low - 0.015 < found.interval.low < known.low
    assert known.high < found.interval.high < known.high + 0.015


def test_majorities_are_right_or_wrong_and_are_counted():
    old = [(1, 1, 0)] * 30 + [(0, 0, 1)] * 30
    new = [(1, 0, 1)] * 28 + [(0, 0, 1)] * 32
    found = verdict(new, old=old, reducer="majority", **AGAINST)
    assert (found.change.gained, found.change.lost) == (0, 2)
    assert found.interval.method == "paired score test"


def test_a_baseline_without_repeated_answers_is_an_error():
    found = verdict(FOUR, old=[(1,)] * 4, reducer="mean", **AGAINST)
    assert found.outcome is Outcome.INVALID
    assert "'main' has not kept the value of each answer" in found.reason


def test_a_group_counts_the_variance_between_answers_too():
    """Two tasks of equal weight: a quarter of each one's variance."""
    results = [task_result(drawn(150, 4, seed), name=f"t{seed}") for seed in (1, 2)]
    group = Group(
        name="both", source=HERE, children=tuple(one.task for one in results),
        aggregates=(Aggregate(metric="exact_match", weighted=False),),
    )  # fmt: skip
    keys = {"min": 0.1, "reducer": "mean", "over": "benchmark"}
    gate = read_gate({"metric": "exact_match", **keys}, task="both", source=HERE)
    whole = summarise_group(group, {one.task.name: one for one in results})
    found = judge(gate, whole)
    answers = [drawn(150, 4, seed) for seed in (1, 2)]
    within = [np.var(one, axis=1, ddof=1).mean() / (150 * 4) for one in answers]
    reach = stats.norm.ppf(0.95) * math.sqrt(sum(within) / 4)
    own = [judge(replace(gate, task=one.task.name), one) for one in results]
    reaches = [
        np.mean(one) - alone.interval.low
        for one, alone in zip(answers, own, strict=True)
    ]
    # Not narrower than the normal limits, and not wider than the tasks' own combined.
    widest = math.hypot(*reaches) / 2
    assert reach <= np.mean(answers) - found.interval.low <= widest
