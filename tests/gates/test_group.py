"""Gates of groups. With many documents, limits are near those of the normal
distribution: the variances of independent tasks, weighted by the squares of their
weights."""

import math
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats

from pytest_evals.core.doc import Doc
from pytest_evals.core.gate import Outcome
from pytest_evals.core.record import Record, Score
from pytest_evals.core.reference import Reference
from pytest_evals.core.task import Aggregate, Group, Task
from pytest_evals.errors import Place
from pytest_evals.gates.judge import judge
from pytest_evals.gates.read.entry import read_gate
from pytest_evals.scorers.groups import summarise_group
from pytest_evals.scorers.metrics import MetricSpec, metric
from pytest_evals.scorers.summary import summarise
from pytest_evals.stats.mean_limits import bounded_mean

PASSED, FAILED, OPEN = Outcome.PASSED, Outcome.FAILED, Outcome.INCONCLUSIVE
HERE = Place(Path("mmlu.yaml"), 1)
Z = stats.norm.ppf(0.95)


def task(name, n):
    rows = SimpleNamespace(total=lambda: n, ids=lambda: range(n))
    how = metric(MetricSpec(name="acc"), "none", "multiple_choice", declared=False)
    return Task(name=name, source=HERE, rows=rows, ask=None, score=None, metrics=(how,))


def done(name, values, errors=()):
    records = [
        Record(
            task=name,
            index=i,
            doc=Doc("", [], 0, id=f"{name}{i}"),
            scores=() if i in errors else (Score(metric="acc", value=value),),
            error="lost" if i in errors else "",
        )
        for i, value in enumerate(values)
    ]
    return summarise(task(name, len(values)), records, len(values))


def verdict(tasks, old=(), *, weighted=True, errors=(), lost="", **keys):
    """A gate of a group of tasks: name → values now, and in the baseline."""
    gate = read_gate({"metric": "acc", **keys}, task="mmlu", source=HERE)
    results = {
        name: done(name, values, range(len(values)) if name == lost else errors)
        for name, values in tasks.items()
    }
    group = Group(
        name="mmlu",
        source=HERE,
        children=tuple(one.task for one in results.values()),
        aggregates=(Aggregate(metric="acc", weighted=weighted),),
    )
    known = {
        name: Reference(baseline="main", values={"acc,none": dict(enumerate(values))})
        for name, values in dict(old).items()
    }
    find = partial(lambda found, _, name: found[name], known)
    return judge(gate, summarise_group(group, results), "warn", find)


def counted(right, n):
    return [1] * right + [0] * (n - right)


TWO = {"algebra": counted(160, 200), "logic": counted(30, 50)}


def stderr(weights, shares):
    terms = zip(weights, shares, strict=True)
    return math.sqrt(sum(w * w * p * (1 - p) / n for w, (p, n) in terms))


@pytest.mark.parametrize(
    ("keys", "weights"),
    [
        ({}, (0.8, 0.2)),
        ({"weighted": False}, (0.5, 0.5)),
    ],
)
def test_weighted_mean_and_its_error_over_other_documents(keys, weights):
    found = verdict(TWO, min=0.7, over="population", **keys)
    value = weights[0] * 0.8 + weights[1] * 0.6
    reach = Z * stderr(weights, [(0.8, 200), (0.6, 50)])
    assert found.interval.low == pytest.approx(value - reach, abs=0.15 * reach)
    assert found.interval.high == pytest.approx(value + reach, abs=0.15 * reach)


@pytest.mark.parametrize("right", [0, 3, 17, 20])
def test_a_group_of_one_task_has_its_exact_limits(right):
    found = verdict({"one": counted(right, 20)}, min=0.5, over="population")
    known = stats.binomtest(right, 20).proportion_ci(0.9, "exact")
    limits = (found.interval.low, found.interval.high)
    assert limits == pytest.approx((known.low, known.high), abs=1e-6)


def test_parts_of_a_task_have_nearly_the_limits_of_the_whole():
    parts = {f"t{i}": counted(19, 20) for i in range(4)}
    found = verdict(parts, min=0.5, over="population")
    known = stats.binomtest(76, 80).proportion_ci(0.9, "exact")
    assert found.interval.low == pytest.approx(known.low, abs=0.003)
    assert found.interval.high == pytest.approx(known.high, abs=0.003)


def test_weights_apply_to_a_gate_with_a_threshold_only_too():
    assert verdict(TWO, min=0.76).outcome is PASSED  # 190 of 250
    assert verdict(TWO, min=0.76, weighted=False).outcome is FAILED
    assert verdict(TWO, min=0.7, weighted=False).outcome is PASSED  # exactly 0.7


def test_a_task_with_all_answers_right_still_leaves_doubt():
    found = verdict(
        {"easy": counted(12, 12), "logic": counted(30, 50)},
        min=0.5, over="population", weighted=False,
    )  # fmt: skip
    exact = stats.binomtest(12, 12).proportion_ci(0.9, "exact").low
    assert found.interval.low < (exact + 0.6) / 2


def moved(gained, lost, right, n):
    wrong = n - right - gained - lost
    old = [0] * gained + [1] * lost + [1] * right + [0] * wrong
    new = [1] * gained + [0] * lost + [1] * right + [0] * wrong
    return old, new


def pairs(*names, gained, lost, right, n):
    old, new = moved(gained, lost, right, n)
    return dict.fromkeys(names, new), dict.fromkeys(names, old)


@pytest.mark.slow
def test_tasks_that_are_inconclusive_alone_are_decided_as_a_group():
    """Twenty tasks of 250 documents: 8% of answers flip, without a change of the
    mean."""
    names = [f"t{i}" for i in range(20)]
    new, old = pairs(*names, gained=10, lost=10, right=180, n=250)
    found = verdict(new, old, baseline="main", max_drop=0.01)
    assert found.outcome is PASSED
    assert (found.change.n, found.change.gained, found.change.lost) == (5000, 200, 200)
    one = verdict({"t0": new["t0"]}, old, baseline="main", max_drop=0.01)
    assert one.outcome is OPEN
    reach = math.sqrt(0.08 / 250 / 20)
    assert found.interval.low == pytest.approx(-Z * reach, rel=0.05)


def test_documents_without_a_score_matter_if_they_could_reverse_the_verdict():
    names = ["a", "b"]
    new, old = pairs(*names, gained=10, lost=10, right=900, n=1000)
    keys = {"baseline": "main", "max_drop": 0.05}
    assert verdict(new, old, errors={500}, **keys).outcome is PASSED
    hangs = verdict(new, old, errors=set(range(300, 400)), **keys)
    assert hangs.outcome is Outcome.INVALID
    kept = verdict(new, errors={500}, min=0.5, over="population")
    assert kept.outcome is PASSED


def test_means_of_other_numbers_are_combined_too():
    generator = np.random.default_rng(1)
    old = {name: generator.uniform(0, 1, 100).tolist() for name in "ab"}
    new = {
        name: np.clip(np.array(values) + generator.normal(0, 0.05, 100), 0, 1).tolist()
        for name, values in old.items()
    }
    found = verdict(new, old, baseline="main", max_drop=0.05, weighted=False)
    changes = np.concatenate([np.array(new[k]) - np.array(old[k]) for k in "ab"])
    known = bounded_mean(changes.tolist(), low=-1, high=1).interval(0.95)
    assert found.outcome is PASSED
    limits = (found.interval.low, found.interval.high)
    assert limits == pytest.approx(tuple(known), abs=1e-4)


def test_a_task_without_a_score_makes_the_group_invalid():
    """Otherwise the group's number would be that of the other tasks."""
    tasks = {"algebra": counted(190, 200), "logic": [1]}
    for keys in ({"over": "population"}, {"weighted": False}):
        rows = verdict(tasks, min=0.5, **keys, lost="logic")
        assert rows.outcome is Outcome.INVALID
        assert rows.reason == "logic: no document has a score (1 errored)"
    old = {"algebra": counted(190, 200), "logic": [1]}
    found = verdict(tasks, old, baseline="main", max_drop=0.1, lost="logic")
    assert found.outcome is Outcome.INVALID


def test_weights_apply_to_the_variance_between_runs_too():
    """The change is -10 points in one of two tasks of equal weight: -5, with a variance
    of a quarter of each task's flip rate over its documents."""
    same, (old, new) = moved(0, 0, 720, 900), moved(0, 10, 70, 100)
    found = verdict(
        {"a": same[1], "b": new}, {"a": same[0], "b": old},
        baseline="main", max_drop=0.02, over="benchmark", noise=0.04, weighted=False,
    )  # fmt: skip
    reach = Z * math.sqrt(0.25 * 0.04 / 900 + 0.25 * 0.04 / 100)
    assert found.change.difference == pytest.approx(-0.05)
    assert found.interval.low == pytest.approx(-0.05 - reach)
    assert found.interval.high == pytest.approx(-0.05 + reach)


@pytest.mark.parametrize(
    ("n_lost", "outcome"), [(2, PASSED), (20, PASSED), (60, Outcome.INVALID)]
)
def test_weighted_accuracies_have_missing_data_bounds(n_lost, outcome):
    """190 of 200 and 30 of 40: with all lost documents of both tasks wrong, 0.8 of 2
    and 2, 0.74 of 20 and 20, 0.48 of 60 and 40."""
    tasks = {"a": counted(200, 200), "b": counted(40, 50)}
    lost = set(range(n_lost)) | ({45} if n_lost < 60 else set())
    found = verdict(tasks, min=0.55, weighted=False, errors=lost)
    assert found.outcome is outcome


def test_tasks_of_unknown_range_are_judged_over_the_widest_range_that_is_assumed():
    """Thirty times the largest score: 4 and 5."""
    tasks = {"algebra": [2, 4] * 40, "logic": [1, 5] * 30}
    keys = {"max": 4, "over": "population"}
    found = verdict(tasks, **keys)
    declared = verdict(tasks, range=[0, 150], **keys)
    assert found.outcome is declared.outcome is OPEN
    assert found.low == pytest.approx(declared.low)
    assert found.high == pytest.approx(declared.high)
    assert [note.partition(" assume")[2] for note in found.notes] == [
        " scores from 0 to 120; range: [lowest, highest] in the gate narrows them",
        " scores from 0 to 150; range: [lowest, highest] in the gate narrows them",
    ]
