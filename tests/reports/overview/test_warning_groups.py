"""Warnings and notes with one cause are one line."""

from pytest_evals.reports.overview.remarks import grouped


def test_equal_causes_are_one_line_with_a_count():
    texts = [f"t{i}::acc: few documents" for i in range(5)]
    assert grouped([*texts, "t9: slow"]) == [
        "t0::acc, t1::acc and 3 more: few documents",
        "t9: slow",
    ]


def test_the_outcome_of_gates_is_named_once():
    texts = [f"t{i}::acc inconclusive: the limits differ" for i in range(3)]
    assert grouped(texts) == [
        "t0::acc, t1::acc and 1 more inconclusive: the limits differ"
    ]
    assert grouped(texts[:1]) == texts[:1]


def test_causes_that_differ_in_numbers_have_those_of_the_first():
    texts = ["a: 3 of 10 are empty", "b: 4 of 12 are empty", "no subject"]
    assert grouped(texts) == [
        "a, b (numbers of a): 3 of 10 are empty",
        "no subject",
    ]


def test_a_cause_that_names_its_own_task_is_the_same_for_other_tasks():
    texts = [f"{name}: no task {name!r} in main" for name in ("a", "b")]
    assert len(grouped(texts)) == 1
