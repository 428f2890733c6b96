"""User functions that aggregate scores: whether one is the mean is decided by its
results. Expected values are computed by the standard library."""

import functools
import math
import random
import statistics
import time

import numpy as np
import pytest

from pytest_evals.scorers import user_aggregation
from pytest_evals.scorers.aggregations import from_function
from pytest_evals.scorers.user_aggregation import PrefersOnes, estimate_user, is_mean

ONE_RIGHT = [1.0] + [0.0] * 9
HALVES = [True, False] * 40
NUMBERS = [0.25, 0.5, 1.0, 0.125, 0.75]
ALL_RIGHT = [1] * 30


class Average:
    """A callable object without a name."""

    def __call__(self, values):
        return float(np.average(values))


def looped(values):
    total = 0
    for value in values:
        total += value
    return total / len(values)


def trimmed(values):
    cut = len(values) // 10
    return statistics.fmean(sorted(values)[cut : len(values) - cut])


MEANS = {
    "lambda": lambda xs: sum(xs) / len(xs),
    "looped": looped,
    "object": Average(),
    "partial": functools.partial(np.mean, axis=0),
    "fmean": statistics.fmean,
    "fsum": lambda xs: math.fsum(xs) / len(xs),
    "weights": lambda xs: np.average(xs, weights=[2] * len(xs)),
    "share": lambda xs: sum(1 for x in xs if x is True or x == 1) / len(xs),
}
OTHERS = {
    "max": max,
    "median": statistics.median,
    "middle": lambda xs: (min(xs) + max(xs)) / 2,
    "percent": lambda xs: 100 * sum(xs) / len(xs),
    "rounded": lambda xs: round(sum(xs) / len(xs), 2),
    "sum": sum,
    "trimmed": trimmed,
    "first heavier": lambda xs: np.average(xs, weights=[2] + [1] * (len(xs) - 1)),
    "of ten": lambda xs: sum(xs) / 10,
}


def estimated(function, values, iterations=1000, decides=True):
    return estimate_user(from_function(function), "m", decides, iterations, values)


@pytest.mark.parametrize("values", [ONE_RIGHT, HALVES, ALL_RIGHT], ids=str)
@pytest.mark.parametrize("name", MEANS)
def test_a_function_that_computes_the_mean_has_the_means_standard_error(name, values):
    found = estimated(MEANS[name], values)
    stderr = statistics.stdev(map(float, values)) / math.sqrt(len(values))
    assert found.stderr == pytest.approx(stderr, rel=1e-12)
    assert (found.method, found.is_mean) == ("analytic", True)
    assert found.value == pytest.approx(statistics.fmean(values), rel=1e-12)


def test_a_mean_of_other_numbers_than_zeros_and_ones_is_one_too():
    assert estimated(MEANS["lambda"], NUMBERS).is_mean


@pytest.mark.parametrize("values", [ONE_RIGHT, HALVES, ALL_RIGHT, NUMBERS], ids=str)
@pytest.mark.parametrize("name", OTHERS)
def test_a_function_that_agrees_with_the_mean_by_chance_is_none(name, values):
    number = from_function(OTHERS[name]).value
    assert not is_mean(number, values, number(values))


@pytest.mark.parametrize("name", ["max", "percent", "trimmed"])
def test_any_other_function_is_resampled_as_in_lighteval(name):
    """1,000 resamples by ``random.Random(0)``, as in lighteval 0.13.0; but the standard
    error is their deviation, without the division by the root of their number."""
    draw, values = random.Random(0), [*NUMBERS, *ONE_RIGHT]
    drawn = [OTHERS[name](draw.choices(values, k=len(values))) for _ in range(1000)]
    found = estimated(OTHERS[name], values)
    assert found.stderr == pytest.approx(statistics.stdev(drawn), rel=1e-9)
    assert (found.method, found.is_mean) == ("bootstrap", False)
    assert estimated(OTHERS[name], values, iterations=0).stderr is None


def test_values_that_are_no_numbers_are_only_given_to_the_function_in_their_own_form():
    seen = []

    def ratio(pairs):
        seen.extend(pairs)
        return sum(a for a, _ in pairs) / sum(b for _, b in pairs)

    found = estimated(ratio, [(1, 2), (2, 2), (0, 2)], decides=PrefersOnes(ratio))
    assert found.value == 0.5 and found.stderr > 0
    assert all(isinstance(one, tuple) for one in seen)
    assert found.undecided == "no value is 0 or 1"


def test_a_function_that_fails_on_resamples_keeps_its_number_with_a_warning():
    def fussy(values):
        if len(set(values)) < 4:
            raise ValueError("too few labels")
        return float(max(values))

    found = estimated(fussy, [1, 2, 3, 4])
    assert (found.value, found.stderr) == (4.0, None)
    assert found.note == "no standard error: fussy fails on resamples of documents"


def test_a_slow_function_is_not_called_a_thousand_times(monkeypatch):
    monkeypatch.setattr(user_aggregation, "LONGEST_S", 0.5)
    calls = []

    def slow(values):
        calls.append(time.sleep(0.002))
        return max(values)

    found = estimated(slow, NUMBERS)
    assert (found.value, found.stderr) == (1.0, None) and len(calls) < 5
    assert found.note.startswith("no standard error: 1,000 resamples would take ")


def test_calls_with_test_values_print_nothing_and_warn_of_nothing(capsys, recwarn):
    def loud(values):
        print("called")
        np.float64(1) / np.float64(len(values) - len(values))  # a warning
        return max(values)

    estimated(loud, NUMBERS, decides=PrefersOnes(from_function(loud).value))
    assert capsys.readouterr().out == "called\n" and len(recwarn) == 1


@pytest.mark.parametrize(
    ("function", "prefers"),
    [
        (MEANS["lambda"], True),
        (OTHERS["percent"], True),
        (max, True),
        (sum, True),
        (lambda xs: 1 / 0, True),  # it cannot be ruled out
        (len, False),
        (statistics.pstdev, False),
        (lambda xs: 1 - sum(xs) / len(xs), False),
    ],
)
def test_one_is_correct_where_ones_make_a_higher_number_than_zeros(function, prefers):
    assert bool(PrefersOnes(from_function(function).value)) is prefers
