"""Aggregation of task results to those of a group."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_evals.core.metric import Estimate, MetricResult
from pytest_evals.core.result import TaskResult
from pytest_evals.core.task import Aggregate, Group, Task
from pytest_evals.errors import Place
from pytest_evals.scorers.groups import summarise_group


def result(name, *metrics, n=10, **counts):
    task = Task(
        name=name,
        source=Place(Path(f"{name}.yaml")),
        rows=None,
        ask=None,
        score=None,
        metrics=(),
    )
    return TaskResult(
        task=task, records=(), metrics=metrics, n_selected=n, n_total=n, **counts
    )


def acc(value, stderr=0.1, pipeline="none", n=10, **facts):
    estimate = None if value is None else Estimate(value, stderr)
    return MetricResult(
        name="acc", filter=pipeline, estimate=estimate, n_scored=n, **facts
    )


def summarised(*results, **rule):
    group = Group(
        name="g",
        source=Place(Path("g.yaml")),
        children=tuple(one.task for one in results),
        aggregates=(Aggregate(metric="acc", **rule),),
    )
    return summarise_group(group, {one.task.name: one for one in results})


def test_a_task_counts_as_many_times_as_it_has_documents():
    found = summarised(result("a", acc(0.5, n=30)), result("b", acc(1.0, n=10)))
    assert found.metrics[0].estimate.value == 0.625
    assert found.sample_counts == {"acc,none": 40}
    assert found.sample_len == 40


@pytest.mark.parametrize(
    ("tasks", "own", "found"),
    [
        ([True, True], None, True),
        ([None, None], True, True),
        ([None, None], None, None),
        ([True, False], False, False),
        ([True, False], None, None),
    ],
)
def test_a_group_has_the_direction_of_its_tasks_or_else_its_own(tasks, own, found):
    results = [
        result(name, acc(0.5, higher_is_better=better))
        for name, better in zip("ab", tasks, strict=True)
    ]
    metric = summarised(*results, higher_is_better=own).metrics[0]
    assert metric.higher_is_better is found


def test_without_weights_all_tasks_count_the_same():
    found = summarised(
        result("a", acc(0.5, n=30)), result("b", acc(1.0, n=10)), weighted=False
    )
    assert found.metrics[0].estimate.value == 0.75
    assert found.metrics[0].estimate.stderr == pytest.approx((0.1**2 * 2) ** 0.5 / 2)


def test_the_size_of_a_task_is_that_of_its_fullest_metric():
    """lm-eval 0.4.13, evaluator_utils.py: one size per task, for all its metrics."""
    other = MetricResult(name="f1", filter="none", estimate=Estimate(1.0), n_scored=30)
    found = summarised(result("a", acc(0.5), other, n=30), result("b", acc(1.0)))
    assert found.metrics[0].estimate.value == 0.625


def test_a_task_without_standard_error_leaves_the_group_without_one():
    found = summarised(result("a", acc(0.5)), result("b", acc(1.0, stderr=None)))
    assert found.metrics[0].estimate.stderr is None


def test_filters_are_found_by_themselves_or_listed():
    tasks = [
        result("a", acc(0.5, pipeline="x"), acc(0.1, pipeline="b")),
        result("b", acc(1.0, pipeline="x")),
    ]
    assert [m.key for m in summarised(*tasks).metrics] == ["acc,b", "acc,x"]
    found = summarised(*tasks, filters=("x", "none"))
    assert [m.key for m in found.metrics] == ["acc,x"]
    assert summarised(*tasks, filters=()).metrics == ()


def test_a_task_without_the_metric_is_reported_and_left_out():
    other = MetricResult(name="f1", filter="none", estimate=Estimate(1.0), n_scored=9)
    found = summarised(result("a", acc(0.5)), result("b", other))
    assert found.metrics[0].estimate.value == 0.5
    assert found.notes == ("1 of 2 tasks has no acc,none: b",)


def test_documents_of_a_task_that_has_no_score_at_all_are_lacking():
    """It may have the metric: an error is never ignored."""
    found = summarised(result("a", acc(0.5)), result("b", n=7, n_errored=7))
    assert found.metrics[0].n_errored == 7
    assert found.metrics[0].n_scored == 10


def test_a_weighted_mean_of_accuracies_counts_documents():
    tasks = [result("a", acc(0.7, total=7)), result("b", acc(0.8, total=8))]
    assert summarised(*tasks).metrics[0].total == 15
    assert summarised(*tasks, weighted=False).metrics[0].total is None


def test_a_number_that_could_not_be_computed_leaves_the_group_without_value():
    broken = acc(None, error="ValueError: no", n=10)
    found = summarised(result("a", acc(0.5)), result("b", broken)).metrics[0]
    assert found.estimate is None
    assert found.error == "b: ValueError: no"


def test_directions_that_do_not_agree_are_none():
    up, down = acc(0.5, higher_is_better=True), acc(0.5, higher_is_better=False)
    assert summarised(result("a", up), result("b", up)).metrics[0].higher_is_better
    found = summarised(result("a", up), result("b", down)).metrics[0]
    assert found.higher_is_better is None
