"""The grammar of gates. Expected texts are the rules of the documentation, written by
hand; percentages are checked with Python's fractions."""

from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_evals.core.gate import Bound
from pytest_evals.errors import OptionError, Place, TaskFileError
from pytest_evals.gates.read.entry import read_expression, read_gate

HERE = Place(Path("evals/arc.yaml"), 12)


def read(entry, task="arc"):
    return read_gate(entry, task=task, source=HERE)


def problems(entry, task="arc"):
    with pytest.raises(TaskFileError) as caught:
        read(entry, task)
    return str(caught.value)


def test_the_short_form_gives_metric_bound_text_and_place():
    gate = read(" acc >= 0.75 ")
    assert (gate.id, gate.task, gate.metric, gate.filter) == ("acc", "arc", "acc", "")
    assert gate.bounds == (Bound(">=", Decimal("0.75")),)
    assert (gate.text, gate.source) == ("acc >= 0.75", HERE)


@pytest.mark.parametrize("op", [">=", ">", "<=", "<"])
@pytest.mark.parametrize("space", ["", " ", "  "])
def test_every_operator_reads_with_and_without_spaces(op, space):
    bound = read(f"acc{space}{op}{space}.5").bounds[0]
    assert (bound.op, bound.value) == (op, Decimal("0.5"))


@pytest.mark.parametrize(
    ("text", "metric", "pipeline"),
    [
        ("exact_match,strict-match >= 0.5", "exact_match", "strict-match"),
        ("pass@1 >= 0.5", "pass@1", ""),
        ("pass@k:k=1&n=4 >= 0.5", "pass@k:k=1&n=4", ""),
        ("chrf++ >= 40", "chrf++", ""),
        ("4096 >= 0.9", "4096", ""),
        ("F1-Radgraph >= 0.5", "F1-Radgraph", ""),
    ],
)
def test_names_of_metrics_and_filters_may_contain_special_characters(
    text, metric, pipeline
):
    gate = read(text)
    assert (gate.metric, gate.filter) == (metric, pipeline)
    assert gate.id == (f"{metric},{pipeline}" if pipeline else metric)


@pytest.mark.parametrize(
    ("number", "exactly"),
    [
        ("75%", Fraction(3, 4)),
        ("0.1%", Fraction(1, 1000)),
        ("33.333333333333333333333333333333333%", None),
        ("-0.5", Fraction(-1, 2)),
        ("+1e-3", Fraction(1, 1000)),
        ("2.", Fraction(2)),
    ],
)
def test_numbers_and_percentages_are_kept_exactly(number, exactly):
    value = Fraction(read(f"acc >= {number}").bounds[0].value)
    assert value == (exactly or Fraction(number[:-1]) / 100)


@given(st.decimals(min_value=-1000, max_value=1000, places=6))
def test_a_number_means_the_same_in_text_and_in_a_mapping(number):
    short = read(f"acc <= {number}").bounds
    assert read({"metric": "acc", "max": str(number)}).bounds == short
    assert Fraction(read({"metric": "acc", "max": float(number)}).bounds[0].value) == (
        Fraction(repr(float(number)))
    )


def test_a_prefix_names_the_task():
    assert read("arc/acc >= 0.5").task == "arc"
    assert read("gsm8k/exact_match,strict-match >= 0.5", task="").task == "gsm8k"
    assert read({"metric": "gsm8k/acc", "min": 0.5}, task="").task == "gsm8k"
    assert read({"task": "gsm8k", "metric": "acc", "min": 0.5}, task="").task == "gsm8k"


def test_a_task_may_have_a_slash_in_its_name():
    gate = read("org/arc/acc >= 0.5", task="org/arc")
    assert (gate.task, gate.metric) == ("org/arc", "acc")
    gate = read({"task": "t", "metric": "f1/macro", "min": 0.5}, task="")
    assert (gate.task, gate.metric) == ("t", "f1/macro")


def test_a_mapping_may_bound_both_sides_and_have_its_own_id():
    gate = read({"metric": "acc,none", "min": "60%", "max": 0.9, "id": "sane"})
    assert [str(bound) for bound in gate.bounds] == [">= 0.60", "<= 0.9"]
    assert (gate.id, gate.metric, gate.filter) == ("sane", "acc", "none")
    assert gate.text == "{metric: acc,none, min: 60%, max: 0.9, id: sane}"


def test_must_pass_takes_ids_and_row_numbers_once_each():
    gate = read({"must_pass": ["Mercury_7175875", 417, "417"]})
    assert gate.must_pass == ("Mercury_7175875", "417")
    assert (gate.id, gate.metric, gate.bounds) == ("must-pass", "", ())


def test_a_wrong_operator_is_shown_with_a_caret_and_mended():
    assert problems("acc => 0.75") == (
        "evals/arc.yaml:12: gate 'acc => 0.75', column 5: unknown operator '=>'; "
        "did you mean '>='?\n"
        "    acc => 0.75\n"
        "        ^\n"
        "  fix: acc >= 0.75"
    )


@pytest.mark.parametrize(
    ("text", "column", "what"),
    [
        ("", 1, "the metric's name is missing"),
        (">= 0.75", 1, "the metric's name is missing"),
        ("acc", 4, "expected one of >=, >, <=, <"),
        ("acc 0.75", 5, "expected one of >=, >, <=, <"),
        ("acc=>0.75", 4, "unknown operator '=>'; did you mean '>='?"),
        ("acc ≥ 0.75", 5, "unknown operator '≥'; did you mean '>='?"),
        ("acc==0.75", 4, "a gate is a threshold; equality is not supported"),
        ("acc >=", 7, "the number is missing"),
        ("acc >= high", 8, "expected a finite number, not 'high'"),
        ("acc >= nan", 8, "expected a finite number, not 'nan'"),
        ("acc >= inf", 8, "expected a finite number, not 'inf'"),
        ("0.7 <= acc", 8, "expected a finite number, not 'acc'"),
        ("acc >= 0.7 or f1 >= 1", 12, "unexpected 'or f1 >= 1' after the number"),
        ("acc >= 1e999", 12, "unexpected '9' after the number"),
        ("acc >= 1_000", 9, "unexpected '_000' after the number"),
    ],
)
def test_a_faulty_text_is_pointed_at(text, column, what):
    start = f"evals/arc.yaml:12: gate {text!r}, column {column}: {what}\n"
    assert problems(text).startswith(start)


def test_a_hostile_text_is_quoted_and_not_shown_as_it_is():
    message = problems("acc\x1b[2J >> 1")
    assert "\x1b" not in message
    assert "'acc\\x1b[2J >> 1'" in message


@pytest.mark.parametrize("text", ["arc/ >= 1", "/acc >= 1", "acc, >= 1", ",none >= 1"])
def test_empty_parts_are_refused(text):
    assert "has an empty part; it is read as [TASK/]METRIC[,FILTER]" in problems(text)


def test_a_prefix_must_agree_with_the_task():
    assert problems("gsm8k/acc >= 0.5") == (
        "evals/arc.yaml:12: the gate names task 'gsm8k' but belongs to task 'arc'\n"
        "  fix: leave 'gsm8k/' out"
    )
    assert problems({"task": "gsm8k", "metric": "acc", "min": 0}).startswith(
        "evals/arc.yaml:12: the gate names task 'gsm8k' but belongs to task 'arc'"
    )


def test_outside_of_a_task_the_gate_must_name_its_task():
    assert problems("acc >= 0.5", task="") == (
        "evals/arc.yaml:12: gate 'acc >= 0.5' does not name its task\n"
        "  fix: gsm8k/acc >= 0.5"
    )
    assert "does not name its task" in problems({"must_pass": ["a"]}, task="")


def test_all_problems_of_a_mapping_are_reported_at_once():
    entry = {"metrik": "acc", "min": "high", "id": "a b", "cluster": "text"}
    assert problems(entry).splitlines() == [
        "evals/arc.yaml:12: a gate has no key 'metrik'; did you mean 'metric'?",
        "evals/arc.yaml:12: min must be a finite number or a percentage, not 'high'",
        "  fix: min: 0.75",
        "evals/arc.yaml:12: id 'a b' has '::', a bracket, white space or a control "
        "character",
        "  fix: id: a-b",
    ]


@pytest.mark.parametrize(
    ("entry", "what"),
    [
        (0.75, "a gate must be text such as 'acc >= 0.75' or a mapping, not 0.75"),
        (None, "a gate must be text such as 'acc >= 0.75' or a mapping, not None"),
        ({"metric": "acc"}, "the gate has no condition: neither min nor max"),
        ({"metric": "acc", "min": 1, "max": 0}, "no number is both >= 1 and <= 0"),
        ({"metric": "acc", "min": None}, "min must be a finite number"),
        ({"metric": "acc", "min": True}, "min must be a finite number"),
        ({"metric": "acc", "min": float("nan")}, "min must be a finite number"),
        ({"metric": "acc", "max": float("inf")}, "max must be a finite number"),
        ({"metric": "acc", "min": 10**400}, "min is out of range: about 2**1328"),
        ({"metric": "acc", "max": -(10**5000)}, "max is out of range: about 2**16609"),
        ({"metric": "acc", "min": "1e400"}, "min must be a finite number"),
        ({"metric": ["acc"], "min": 1}, "metric must be text, not ['acc']"),
        ({"must_pass": "a"}, "must_pass must be a list of document ids, not 'a'"),
        ({"must_pass": []}, "must_pass must be a list of document ids, not []"),
        ({"must_pass": [1.5]}, "1.5 in must_pass is not a document id"),
        ({"must_pass": ["a"], "min": 1}, "must_pass cannot be combined with other"),
        ({"metric": "acc", "min": 1, "id": "a::b"}, "id 'a::b' has '::'"),
        ({"metric": "acc", "min": 1, "id": "a[0]"}, "id 'a[0]' has '::', a bracket"),
        ({"metric": "acc", "min": 1, "id": ""}, "id is empty"),
        ({"metric": "acc", "min": 1, 7: 1}, "a gate has no key '7'; known: metric"),
        (
            {"metric": "acc", "min": 1, "over": "all"},
            "over cannot be 'all'; known: run",
        ),
        ({"metric": "acc", "min": 1, "over": "runs"}, "did you mean 'run'?"),
        ({"metric": "acc", "min": 1, "over": None}, "over cannot be None"),
        (
            {"metric": "acc", "min": 1, "over": "run", "confidence": 0.9},
            "confidence has no effect with over: run",
        ),
        (
            {"metric": "acc", "min": 1, "inconclusive": "fail"},
            "inconclusive has no effect with over: run",
        ),
        (
            {"metric": "acc", "min": 1, "confidence": 95},
            "confidence must be between 0.5 and 1, not 95",
        ),
        (
            {"metric": "acc", "min": 1, "confidence": True},
            "confidence must be a finite",
        ),
        (
            {"metric": "acc", "min": 1, "over": "population", "noise": 0.1},
            "noise is that of another run",
        ),
        ({"metric": "acc", "min": 1, "noise": 3}, "noise must be a share of documents"),
        (
            {"metric": "acc", "min": 1, "over": "benchmark", "inconclusive": "warm"},
            "inconclusive cannot be 'warm'; did you mean 'warn'?",
        ),
        (
            {"must_pass": ["a"], "over": "run"},
            "must_pass cannot be combined with other",
        ),
    ],
)
def test_a_meaningless_entry_is_refused(entry, what):
    assert what in problems(entry)


def test_an_expression_without_a_task_is_for_every_task_that_has_the_metric():
    gate = read_expression("acc >= 0.75")
    assert (gate.task, gate.metric, str(gate.source)) == ("", "acc", "--evals-gate")
    assert read_expression("arc/acc >= 0.75").task == "arc"


def test_a_faulty_expression_is_an_option_error():
    with pytest.raises(OptionError) as caught:
        read_expression("acc >> .75")
    assert str(caught.value) == (
        "--evals-gate: gate 'acc >> .75', column 5: unknown operator '>>'; "
        "did you mean '>'?\n"
        "    acc >> .75\n"
        "        ^\n"
        "  fix: acc > .75"
    )


@pytest.mark.parametrize(
    ("keys", "over", "confidence", "flip_rate"),
    [
        ({}, "run", 0.95, None),
        ({"over": "population"}, "population", 0.95, None),
        ({"confidence": 0.9}, "benchmark", 0.9, None),
        ({"confidence": "99%", "over": "population"}, "population", 0.99, None),
        ({"noise": 0.035}, "benchmark", 0.95, 0.035),
        ({"noise": "3.5%"}, "benchmark", 0.95, 0.035),
        ({"over": "benchmark", "noise": "auto"}, "benchmark", 0.95, None),
    ],
)
def test_keys_of_noise_imply_each_other(keys, over, confidence, flip_rate):
    found = read_gate({"metric": "acc", "min": 0.5, **keys}, task="arc", source=HERE)
    assert (found.over, found.flip_rate) == (over, flip_rate)
    assert found.confidence == pytest.approx(confidence)
