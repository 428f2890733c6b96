"""Reducers of several responses, compared with enumerating all draws."""

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_evals.gates.reducers import reduced

RIGHT = st.lists(st.sampled_from([0, 1]), min_size=4, max_size=8)


@given(RIGHT, st.integers(1, 4))
def test_pass_at_k_is_the_proportion_of_draws_with_a_correct_answer(values, k):
    draws = list(combinations(values, k))
    known = sum(any(draw) for draw in draws) / len(draws)
    assert reduced(f"pass@{k}", values) == pytest.approx(known)


@given(RIGHT, st.integers(1, 4))
def test_pass_to_the_k_is_the_proportion_of_draws_that_are_all_correct(values, k):
    draws = list(combinations(values, k))
    known = sum(all(draw) for draw in draws) / len(draws)
    assert reduced(f"pass^{k}", values) == pytest.approx(known)


def test_mean_max_and_majority():
    values, answers = [0.0, 1.0, 1.0, 0.5], ["3", "4", "4", "x"]
    assert reduced("mean", values) == 0.625
    assert reduced("max", values) == 1.0
    assert reduced("majority", values, answers) == 1.0
    assert reduced("majority", [0.0, 1.0], ["3", "4"]) == 0.0  # the earliest


def test_too_few_answers_and_values_other_than_0_and_1_are_errors():
    with pytest.raises(
        ValueError, match="needs 5 answers to a document, and one has 2"
    ):
        reduced("pass@5", [0, 1])
    with pytest.raises(ValueError, match="neither 0 nor 1"):
        reduced("pass@1", [0.5])
