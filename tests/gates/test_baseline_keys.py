"""Keys of a gate about its baseline, its sample and its family."""

from decimal import Decimal
from pathlib import Path

import pytest

from pytest_evals.core.gate import Margin
from pytest_evals.errors import Place, TaskFileError
from pytest_evals.gates.read.entry import read_gate

HERE = Place(Path("arc.yaml"), 7)


def read(**keys):
    return read_gate({"metric": "acc", **keys}, task="arc", source=HERE)


def problem(**keys):
    with pytest.raises(TaskFileError) as caught:
        read(**keys)
    return str(caught.value)


@pytest.mark.parametrize(
    ("keys", "margin", "shown"),
    [
        ({"max_drop": 0.02}, Margin("max_drop", Decimal("0.02")), "drop <= 0.02"),
        ({"max_drop": "2%"}, Margin("max_drop", Decimal("0.02"), True), "drop <= 2%"),
        ({"max_rise": "1%"}, Margin("max_rise", Decimal("0.01"), True), "rise <= 1%"),
        (
            {"recovery": 0.95},
            Margin("recovery", Decimal("0.95"), True),
            "recovery >= 95%",
        ),
    ],
)
def test_a_margin_is_absolute_or_relative_to_the_baseline(keys, margin, shown):
    gate = read(baseline="main", **keys)
    assert gate.margin == margin
    assert str(gate.margin) == shown


@pytest.mark.parametrize(
    ("margin", "allowed"),
    [
        (Margin("max_drop", Decimal("0.02")), 0.02),
        (Margin("max_drop", Decimal("0.02"), True), 0.01),
        (Margin("recovery", Decimal("0.9"), True), 0.05),
    ],
)
def test_the_allowed_change_for_a_baseline_of_one_half(margin, allowed):
    assert margin.allowed(0.5) == pytest.approx(allowed)


def test_a_baseline_gate_is_a_paired_test_over_the_population_by_default():
    gate = read(baseline="main", max_drop=0.02)
    assert (gate.over, gate.confidence, gate.bounds) == ("population", 0.95, ())
    assert read(baseline="main", max_drop=0, over="run").over == "run"
    assert read(baseline="main", max_drop=0, noise=0.03).over == "benchmark"
    assert read(baseline="main", max_drop=0, confidence=0.9).over == "population"


def test_its_id_names_the_baseline_and_never_the_limit():
    assert read(baseline="main", max_drop=0.02).id == "acc-vs-main"
    gate = read(metric="acc,none", baseline=".evals/runs/x y", max_drop=0)
    assert gate.id == "acc,none-vs-x-y"
    assert read(baseline="main", max_drop=0, id="mine").id == "mine"


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"max_drop": 0.1}, "max_drop compares with a baseline: name one"),
        ({"baseline": "main"}, "one of max_drop, max_rise, recovery; this has none"),
        (
            {"baseline": "main", "max_drop": 0, "recovery": 1},
            "this has max_drop and recovery",
        ),
        (
            {"baseline": "main", "max_drop": 0.1, "min": 0.5},
            "a baseline gate limits a change, and min the number itself",
        ),
        ({"baseline": "main", "max_drop": -0.1}, "max_drop must be 0 or more"),
        ({"baseline": "main", "recovery": 1.2}, "share of the baseline's value"),
        ({"baseline": "", "max_drop": 0}, "name of a stored run, not ''"),
        ({"baseline": "main", "max_drop": "x"}, "max_drop must be a finite number"),
        (
            {"baseline": "main", "max_drop": 0, "anchor": "v1"},
            "no key 'anchor'\n  fix: write a second gate, {metric: acc, baseline: v1, ",
        ),
        (
            {"baseline": "main", "max_drop": 0, "each": {"max_drop": 1}},
            "no key 'each'\n  fix: write one gate for each task: {task: algebra, ",
        ),
        (
            {"min": 0.5, "weights": "size"},
            "no key 'weights'\n  fix: set weight_by_size in the aggregate_metric_list",
        ),
        (
            {"min": 0.5, "group": "mmlu"},
            "no key 'group'\n  fix: task: mmlu (a task or a group)",
        ),
        (
            {"reference": 0.5, "max_drop": 0, "reference_protocol": {}},
            "'reference_protocol'\n  fix: reference: {value: 0.742, num_fewshot: 5}",
        ),
        ({"min": 0.5, "cluster": "p", "over": "run"}, "cluster has no effect"),
        ({"min": 0.5, "reducer": "maen"}, "did you mean 'mean'"),
    ],
)  # fmt: skip
def test_meaningless_keys_are_refused(keys, message):
    assert message in problem(**keys)


def test_cluster_and_family_are_parsed():
    keys = {"baseline": "main", "max_drop": 0.01, "cluster": "passage"}
    gate = read(**keys, family="none")
    assert (gate.cluster, gate.family) == ("passage", "none")


def test_a_cluster_alone_implies_the_population():
    assert read(min=0.5, cluster="passage").over == "population"
    assert read(min=0.5, cluster="none").over == "run"


def test_defaults_apply_to_gates_with_an_inference_target_that_do_not_set_the_key():
    def with_defaults(**keys):
        return read_gate(
            {"metric": "acc", **keys},
            task="arc",
            source=HERE,
            defaults={"confidence": 0.9, "inconclusive": "fail"},
        )

    assert with_defaults(min=0.5).confidence == 0.95
    noisy = with_defaults(min=0.5, over="population")
    assert (noisy.confidence, noisy.inconclusive) == (0.9, "fail")
    own = with_defaults(min=0.5, over="population", confidence=0.99)
    assert own.confidence == 0.99
