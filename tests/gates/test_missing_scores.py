"""Documents without a score. A verdict that is reported despite them must be the
verdict for every possible response: all combinations are tried."""

import itertools
import math
from fractions import Fraction
from functools import partial
from pathlib import Path
from random import Random
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_evals.core.doc import Doc
from pytest_evals.core.gate import Outcome
from pytest_evals.core.record import Record, Score
from pytest_evals.core.reference import Reference
from pytest_evals.core.task import Aggregate, Group, Task
from pytest_evals.errors import Place
from pytest_evals.gates.early_stopping.steps import steps_of
from pytest_evals.gates.early_stopping.watch import Watch
from pytest_evals.gates.judge import judge
from pytest_evals.gates.read.entry import read_gate
from pytest_evals.gates.terms import Condition
from pytest_evals.scorers.groups import summarise_group
from pytest_evals.scorers.metrics import MetricSpec, metric
from pytest_evals.scorers.summary import summarise

HERE = Place(Path("arc.yaml"), 1)
LOST = None


def result(name, values, labels=None):
    """A task whose documents have these values; :data:`LOST` ones have no score."""
    n = len(values)
    rows = SimpleNamespace(total=lambda: n, ids=lambda: range(n))
    how = metric(MetricSpec(name="acc"), "none", "multiple_choice", declared=False)
    task = Task(name=name, source=HERE, rows=rows, ask=None, score=None, metrics=(how,))
    records = [
        Record(
            task=name,
            index=i,
            doc=Doc("", [], 0, id=f"{name}{i}"),
            scores=() if value is LOST else (Score(metric="acc", value=value),),
            error="lost" if value is LOST else "",
            labels={} if labels is None else {"passage": labels[i]},
        )
        for i, value in enumerate(values)
    ]
    return summarise(task, records, n)


def verdict(values, keys, *, labels=None, old=()):
    gate = read_gate({"metric": "acc", **keys}, task="arc", source=HERE)
    known = Reference(baseline="main", values={"acc,none": dict(enumerate(old))})
    find = partial(lambda given, *_: given, known)
    return judge(gate, result("arc", values, labels), "warn", find)


def of_group(tasks, keys, *, labels=None, old=(), weighted=True):
    """A verdict on two tasks or more; labels and old values are by their names."""
    gate = read_gate({"metric": "acc", **keys}, task="mmlu", source=HERE)
    found = {
        name: result(name, values, labels and labels[name])
        for name, values in tasks.items()
    }
    group = Group(
        name="mmlu",
        source=HERE,
        children=tuple(one.task for one in found.values()),
        aggregates=(Aggregate(metric="acc", weighted=weighted),),
    )

    def find(_, task):
        before = {"acc,none": dict(enumerate(old[task]))}
        return Reference(baseline="main", values=before)

    return judge(gate, summarise_group(group, found), "warn", find)


def ways(values):
    """The values with the lost ones wrong or correct, in every combination."""
    lost = [i for i, value in enumerate(values) if value is LOST]
    for answers in itertools.product((0, 1), repeat=len(lost)):
        whole = list(values)
        for i, answer in zip(lost, answers, strict=True):
            whole[i] = answer
        yield whole


@st.composite
def documents(draw, most_lost=2, sizes=(2, 3, 5, 20, 80)):
    """Values of a task, the last ones of which are lost; not all."""
    n = draw(st.sampled_from(sizes))
    share = draw(st.sampled_from([0, 5, 10, 18, 20]))
    values = draw(
        st.lists(st.integers(0, 19).map(lambda one: int(one < share)), min_size=n,
                 max_size=n)
    )  # fmt: skip
    n_lost = draw(st.integers(1, min(most_lost, n - 1)))
    return values[:-n_lost] + [LOST] * n_lost


SHARES = st.sampled_from([0.1, 0.3, 0.5, 0.8, 0.95])
FLOORS = st.one_of(
    st.fixed_dictionaries({"min": SHARES}),
    st.fixed_dictionaries({"min": SHARES, "over": st.just("population")}),
    st.fixed_dictionaries({"max": SHARES, "over": st.just("population")}),
    st.fixed_dictionaries({"min": SHARES, "noise": st.sampled_from([0, 0.05, 0.4])}),
    st.fixed_dictionaries(
        {"min": st.just(0.2), "max": SHARES.filter(lambda one: one > 0.2),
         "over": st.just("population")}
    ),
)  # fmt: skip


@settings(max_examples=30, deadline=None)
@given(documents(), FLOORS)
def test_a_floor_decided_without_documents_has_the_same_verdict_with_them(values, keys):
    found = verdict(values, keys).outcome
    if found is not Outcome.INVALID:
        assert {verdict(whole, keys).outcome for whole in ways(values)} == {found}


@pytest.mark.slow
@settings(max_examples=20, deadline=None)
@given(documents(), SHARES, st.sampled_from(["min", "max"]), st.data())
def test_a_clustered_floor_decided_without_documents_has_the_same_verdict_with_them(
    values, bar, side, data
):
    label = st.sampled_from(["a", "b", "c", "d"])
    labels = data.draw(st.lists(label, min_size=len(values), max_size=len(values)))
    keys = {side: bar, "over": "population", "cluster": "passage"}
    found = verdict(values, keys, labels=labels).outcome
    if found is not Outcome.INVALID:
        outcomes = {verdict(whole, keys, labels=labels).outcome
                    for whole in ways(values)}  # fmt: skip
        assert outcomes == {found}


MARGINS = st.one_of(
    st.fixed_dictionaries({"max_drop": st.sampled_from([0, 0.05, 0.3, "10%"])}),
    st.fixed_dictionaries({"recovery": st.sampled_from([0.5, 0.9])}),
    st.fixed_dictionaries({"max_drop": SHARES, "over": st.just("run")}),
    st.fixed_dictionaries({"max_drop": SHARES, "noise": st.just(0.1)}),
)


@pytest.mark.slow
@settings(max_examples=30, deadline=None)
@given(documents(), MARGINS, st.data())
def test_a_change_decided_without_documents_has_the_same_verdict_with_them(
    values, keys, data
):
    answers = st.lists(st.integers(0, 1), min_size=len(values), max_size=len(values))
    old = data.draw(answers)
    keys = {**keys, "baseline": "main"}
    found = verdict(values, keys, old=old).outcome
    if found is not Outcome.INVALID:
        outcomes = {verdict(whole, keys, old=old).outcome for whole in ways(values)}
        assert outcomes == {found}


@pytest.mark.nightly
@settings(max_examples=30, deadline=None)
@given(documents(most_lost=4), st.sampled_from([0.02, 0.1, 0.5]),
       st.sampled_from([2, 3, 7]), st.data())  # fmt: skip
def test_a_clustered_change_decided_without_documents_has_the_same_verdict_with_them(
    values, margin, n_clusters, data
):
    n = len(values)
    old = data.draw(st.lists(st.integers(0, 1), min_size=n, max_size=n))
    labels = [str(i % n_clusters) for i in range(n)]
    keys = {"max_drop": margin, "baseline": "main", "cluster": "passage"}
    found = verdict(values, keys, old=old, labels=labels).outcome
    if found is not Outcome.INVALID:
        outcomes = {verdict(whole, keys, old=old, labels=labels).outcome
                    for whole in ways(values)}  # fmt: skip
        assert outcomes == {found}


@pytest.mark.parametrize(
    ("margin", "expected"),
    [(0.5, Outcome.PASSED), (0.1, Outcome.FAILED), (0.3, Outcome.INCONCLUSIVE)],
)
def test_so_does_one_with_more_ways_than_are_tried(margin, expected):
    """A lost document in each of seven clusters of 49: 128 combinations, some of which
    are tried here. Of 140 other documents, all correct before, about three in ten are
    wrong now."""
    random = Random(1)
    values = [int(random.random() < 0.7) for _ in range(140)] + [LOST] * 7
    labels = [str(i % 49) for i in range(147)]
    keys = {"max_drop": margin, "baseline": "main", "cluster": "passage"}
    known = {"old": [1] * 147, "labels": labels}
    assert verdict(values, keys, **known).outcome is expected
    first, *between, last = ways(values)
    for whole in (first, last, *random.sample(between, 10)):
        assert verdict(whole, keys, **known).outcome is expected


def test_a_clustered_change_is_decided_if_a_lost_document_cannot_reverse_it():
    labels = [str(i // 2) for i in range(400)]
    keys = {"max_drop": 0.05, "baseline": "main", "cluster": "passage"}
    found = verdict([1] * 399 + [LOST], keys, old=[1] * 400, labels=labels)
    assert found.outcome is Outcome.PASSED
    assert found.reason.endswith("1 errored document cannot change the verdict")
    many = verdict([1] * 340 + [LOST] * 60, keys, old=[1] * 400, labels=labels)
    assert many.outcome is Outcome.INVALID


@pytest.mark.parametrize(
    "keys",
    [
        {"min": 0.5, "over": "population", "cluster": "passage"},
        {"max_drop": 0.3, "baseline": "main", "cluster": "passage"},
    ],
)
def test_a_lost_document_of_an_unknown_cluster_makes_a_gate_invalid(keys):
    """For example it could not be rendered, so nothing is known about it."""
    labels = [str(i // 2) for i in range(100)]
    known = {"old": [1] * 100, "labels": labels}
    assert verdict([1] * 99 + [LOST], keys, **known).outcome is Outcome.PASSED
    gate = read_gate({"metric": "acc", **keys}, task="arc", source=HERE)
    run = result("arc", [1] * 99 + [LOST], labels)
    *others, last = run.records
    last = Record(task="arc", index=99, doc=last.doc, error="lost")
    run = summarise(run.task, [*others, last], 100)
    reference = Reference(
        baseline="main", values={"acc,none": dict.fromkeys(range(100), 1)}
    )
    assert judge(gate, run, "warn", lambda *_: reference).outcome is Outcome.INVALID


@pytest.mark.slow
@settings(max_examples=20, deadline=None)
@given(documents(), documents(), FLOORS,
       st.booleans())  # fmt: skip
def test_a_group_decided_without_documents_has_the_same_verdict_with_them(
    one, two, keys, weighted
):
    found = of_group({"algebra": one, "logic": two}, keys, weighted=weighted).outcome
    if found is Outcome.INVALID:
        return
    for first, second in itertools.product(ways(one), ways(two)):
        tasks = {"algebra": first, "logic": second}
        assert of_group(tasks, keys, weighted=weighted).outcome is found


@pytest.mark.nightly
@settings(max_examples=20, deadline=None)
@given(documents(sizes=(3, 8, 30)), documents(sizes=(3, 8, 30)),
       st.sampled_from([{}, {"cluster": "passage"}]),
       MARGINS.filter(lambda keys: "over" not in keys and "noise" not in keys),
       st.data())  # fmt: skip
def test_a_change_of_a_group_decided_without_documents_has_the_same_verdict_with_them(
    one, two, more, keys, data
):
    tasks = {"algebra": one, "logic": two}
    keys = {**keys, **more, "baseline": "main"}
    known = {"labels": {}, "old": {}}
    for name, values in tasks.items():
        n = len(values)
        answers = st.lists(st.integers(0, 1), min_size=n, max_size=n)
        known["old"][name] = data.draw(answers)
        known["labels"][name] = [str(i % 3) for i in range(n)]
    found = of_group(tasks, keys, **known).outcome
    if found is not Outcome.INVALID:
        for first, second in itertools.product(ways(one), ways(two)):
            whole = {"algebra": first, "logic": second}
            assert of_group(whole, keys, **known).outcome is found


COMPLETIONS_BETWEEN = [
    # Documents gained and lost in different clusters narrow the limits.
    (
        {"algebra": [1] * 8, "logic": [1] * 28 + [LOST] * 2},
        {"algebra": [1] * 8, "logic": [1] * 28 + [0, 1]},
        {"max_drop": 0.3, "baseline": "main", "cluster": "passage"},
    ),
    # One wrong answer widens both limits of a task that is always correct.
    (
        {"algebra": [1] * 60 + [LOST], "logic": [0] * 25 + [1] * 3 + [LOST] * 2},
        {},
        {"min": 0.2, "max": 0.8, "over": "population", "cluster": "passage"},
    ),
]


@pytest.mark.slow
@pytest.mark.parametrize(("tasks", "old", "keys"), COMPLETIONS_BETWEEN)
def test_a_group_is_invalid_if_any_completion_has_another_verdict(tasks, old, keys):
    """Also one between the extremes, at which both verdicts are the same."""
    sizes = {name: len(values) for name, values in tasks.items()}
    labels = {name: [str(i % 3) for i in range(n)] for name, n in sizes.items()}
    known = {
        "labels": labels,
        "old": old or {name: [0] * n for name, n in sizes.items()},
    }
    found = of_group(tasks, keys, **known).outcome
    every = itertools.product(*map(ways, tasks.values()))
    outcomes = {
        of_group(dict(zip(tasks, one, strict=True)), keys, **known).outcome
        for one in every
    }
    assert found is Outcome.INVALID or outcomes == {found}


def test_a_large_group_with_lost_documents_is_decided_far_from_the_threshold():
    """One of 60 in each of 12 tasks: 4096 combinations, some of which are tried."""
    random = Random(3)
    tasks = {
        f"t{k}": [int(random.random() < 0.8) for _ in range(59)] + [LOST]
        for k in range(12)
    }
    for bar, expected in ((0.7, Outcome.PASSED), (0.9, Outcome.FAILED)):
        keys = {"min": bar, "over": "population"}
        assert of_group(tasks, keys).outcome is expected
        for _ in range(4):
            whole = {
                name: [*values[:-1], random.randint(0, 1)]
                for name, values in tasks.items()
            }
            assert of_group(whole, keys).outcome is expected
    near = {"min": round(sum(sum(one[:-1]) for one in tasks.values()) / 708, 3) - 0.026,
            "over": "population"}  # fmt: skip
    assert of_group(tasks, near).outcome is Outcome.INVALID


@pytest.mark.slow
@pytest.mark.parametrize(("bar", "expected"), [(0.88, "passed"), (0.92, "invalid")])
def test_a_group_without_documents_is_compared_with_a_published_number(bar, expected):
    keys = {"reference": bar, "reference_n": 5000, "max_drop": 0.05}
    tasks = {"algebra": [1] * 90 + [0] * 5 + [LOST] * 5, "logic": [1] * 90 + [0] * 10}
    assert of_group(tasks, keys).outcome == expected


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(documents(), FLOORS)
def test_early_stopping_treats_lost_documents_like_the_full_run(values, keys):
    """With early stopping over all documents a verdict is that of the full run; if none
    is certain, the full run's is invalid. Two bounds are not decided early."""
    gate = read_gate({"metric": "acc", **keys}, task="arc", source=HERE)
    run = result("arc", values)
    watch = Watch(gate, steps_of(gate, run.task.metrics[0], len(values)), len(values),
                  error=0)  # fmt: skip
    watch.read("acc,none", run.records)
    found = verdict(values, keys).outcome
    if len(gate.bounds) > 1 and None in values:
        assert watch.outcome is None
    else:
        assert (watch.outcome or Outcome.INVALID) is found


@pytest.mark.parametrize(
    ("value", "threshold", "expected"),
    [
        (0.5, Fraction(10**400), math.inf),
        (1.7e308, Fraction(-(10**308)), math.inf),
        (math.nan, Fraction(1, 2), math.inf),
        (-math.inf, Fraction(1, 2), math.inf),
        (0.5, Fraction(3, 4), 0.25),
    ],
)
def test_the_distance_from_a_threshold_is_a_number_for_any_value(
    value, threshold, expected
):
    assert Condition(">=", threshold, "").distance(value) == expected
