"""Gates over a whole benchmark of which a sample was run, with a complete baseline."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from pytest_evals.core.reference import Reference
from pytest_evals.core.task import Aggregate, Group
from pytest_evals.errors import Place
from pytest_evals.gates.judge import judge
from pytest_evals.gates.read.entry import read_gate
from pytest_evals.scorers.groups import summarise_group
from pytest_evals.scorers.summary import summarise
from tests.simulations.whole_gates import _result

HERE = Place(Path("quiz.yaml"), 1)


def gate_of(name, task, **keys):
    return read_gate({"metric": name, "over": "run", **keys}, task=task, source=HERE)


def reference(name, old, n):
    """A baseline with these values, the first n of which were sampled."""
    key = f"{name},none"
    known = dict(enumerate(old[:n]))
    rest = {key: old[n:]} if old[n:] else {}
    return Reference(baseline="main", values={key: known}, rest=rest, n=len(old))


def group_verdict(sizes, changes, n_errored=0, **keys):
    """A group of tasks with 60% correct answers in the baseline. ``sizes``: documents
    and sampled documents of each task; ``changes``: share of correct ones now lost;
    ``n_errored``: documents without a score in each."""
    results, references = {}, {}
    for i, ((whole, n), lost) in enumerate(zip(sizes, changes, strict=True)):
        old = [int(k % 5 < 3) for k in range(whole)]
        new = [0 if k < lost * n else value for k, value in enumerate(old[:n])]
        run = _result(f"t{i}", "acc", new)
        records = [
            replace(one, scores=(), error="lost") if k < n_errored else one
            for k, one in enumerate(run.records)
        ]
        results[f"t{i}"] = summarise(run.task, records, n)
        references[f"t{i}"] = reference("acc", old, n)
    tasks = tuple(one.task for one in results.values())
    rules = (Aggregate(metric="acc"),)
    group = Group(name="g", source=HERE, children=tasks, aggregates=rules)
    gate = gate_of("acc", "g", **keys)
    gate = gate if gate.baseline else replace(gate, control="main")
    found = summarise_group(group, results)
    return judge(gate, found, find=lambda _, task: references[task])


SIZES = ((2000, 400), (500, 400), (300, 300))


@pytest.mark.parametrize(
    ("lost", "outcome"), [((0, 0, 0), "passed"), ((0.3, 0.3, 0.3), "failed")]
)
def test_a_group_of_sampled_tasks_is_judged_over_the_whole_benchmark(lost, outcome):
    """A change of every task by the same share is the group's, whatever the share of
    its documents that were run."""
    change = group_verdict(SIZES, lost, baseline="main", max_drop=0.05)
    number = group_verdict(SIZES, lost, min=0.55)
    assert (change.outcome, number.outcome) == (outcome, outcome)
    expected = -0.6 * lost[0]
    assert change.value == pytest.approx(expected, abs=0.003)
    assert number.value == pytest.approx(0.6 + expected, abs=0.003)
    # The table has the number of the whole benchmark, not that of the sample.
    assert change.metric.estimate.value == pytest.approx(number.value)
    assert "1,100 documents asked, 1,700 from the knowledge of main" in change.reason
    assert number.interval.low < number.value < number.interval.high


@pytest.mark.parametrize(
    ("keys", "outcomes"),
    [
        ({"min": 0.5}, ["passed", "passed"]),
        ({"min": 0.595}, ["passed", "invalid"]),
        ({"baseline": "main", "max_drop": 0.05}, ["passed", "passed"]),
    ],
)
def test_a_sampled_group_is_judged_if_errors_cannot_change_the_verdict(keys, outcomes):
    """Of the 8 in each task, most were correct in the baseline."""
    found = [group_verdict(SIZES, (0, 0, 0), n_errored, **keys) for n_errored in (0, 8)]
    assert [one.outcome for one in found] == outcomes


def test_a_sample_counts_by_the_size_of_the_whole_task():
    """A drop in the task with most documents of the benchmark, of which few were run,
    is most of the group's."""
    found = group_verdict(SIZES, (0.5, 0, 0), baseline="main", max_drop=0.05)
    assert found.value == pytest.approx(-0.3 * 2000 / 2800, abs=0.003)


@pytest.mark.parametrize("keys", [{"min": 0.5}, {"baseline": "main", "max_drop": 0.05}])
def test_the_baseline_does_not_complete_a_metric_that_is_not_a_mean(keys):
    """Its limits are those of a sample of documents, and a note says so."""
    rng = np.random.default_rng(1)
    pairs = [(int(a), int(a ^ b)) for a, b in rng.random((900, 2)) < (0.4, 0.1)]
    now, old = _result("t", "f1", pairs[:300]), reference("f1", pairs, 300)
    gate = gate_of("f1", "t", **keys)
    gate = gate if gate.baseline else replace(gate, control="main")
    found = judge(gate, now, find=lambda *_: old)
    assert found.interval is not None
    assert any("does not complete the sample" in note for note in found.notes)
