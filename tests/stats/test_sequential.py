"""Early stopping keeps its error rate, and reads the expected number of documents.

Independent sources: enumeration of all orders of small urns; Hoeffding's and plain
arithmetic bounds; and the proportions of documents read by another implementation of
the same bets (simulated with numpy for the reference page of gates, §5.2 to §5.4).
"""

import math
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_evals.stats.sequential import Evidence, Urn, sum_bounds

URNS = [
    (0, 0, 1, 1, 1, 0),
    (0, 0, 0, 0, 0, 1),
    (1, 1, 1, 1, 1, 0),
    (0.2, 0.9, 0.4, 0.0, 1.0, 0.5),
]


def wealth(order, target, guess):
    """Wealth after each number of an order."""
    evidence = Evidence(len(order), target, guess)
    found = []
    for value in order:
        evidence.read(np.array([value], dtype=float))
        found.append(math.exp(evidence.log_wealth))
    return found


@pytest.mark.slow
@pytest.mark.parametrize("urn", URNS)
@pytest.mark.parametrize("above", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("guess", [0.1, 0.9])
def test_wealth_wins_nothing_on_average_over_all_orders_under_the_null(
    urn, above, guess
):
    """Enumeration of all orders: the mean is at most 1 at each step, and so by Markov's
    inequality at any stopping time."""
    target = sum(urn) + above
    paths = [wealth(order, target, guess) for order in set(permutations(urn))]
    means = np.mean(paths, axis=0)
    assert np.all(means <= 1 + 1e-9)
    assert means[0] <= 1 + 1e-9


@pytest.mark.slow
@pytest.mark.parametrize("urn", URNS)
@pytest.mark.parametrize("error", [0.05, 0.3])
def test_no_more_orders_than_the_error_mislead(urn, error):
    """Enumeration of all orders, with a check after every number."""
    for target in (0.5, 1.5, 2.5, sum(urn), sum(urn) + 0.25):
        truth = sum(urn) >= target - 1e-9
        orders = list(permutations(urn))
        wrong = 0
        for order in orders[::7]:
            reading = Urn(len(urn), target, error=error)
            answers = [reading.read(np.array([x], dtype=float)) for x in order]
            first = next(answer for answer in answers if answer is not None)
            wrong += first != truth
        assert wrong / len(orders[::7]) <= error + 0.02


@given(
    st.lists(st.integers(0, 1), min_size=1, max_size=40),
    st.integers(0, 40),
    st.booleans(),
    st.data(),
)
def test_without_error_an_answer_comes_exactly_when_it_is_certain(
    values, target, strict, data
):
    """By arithmetic: each remaining number can add 0 to 1."""
    cut = data.draw(st.integers(0, len(values)))
    urn = Urn(len(values), target, error=0, strict=strict)
    answer = urn.read(np.array(values[:cut], dtype=float))
    least, most = sum(values[:cut]), sum(values[:cut]) + len(values) - cut
    if strict:
        expected = True if least > target else False if most <= target else None
    else:
        expected = True if least >= target else False if most < target else None
    assert answer is expected


@given(st.lists(st.floats(0, 1), min_size=2, max_size=60), st.data())
def test_waves_of_any_size_give_the_same_wealth(values, data):
    cut = data.draw(st.integers(0, len(values)))
    numbers = np.array(values)
    whole, parts = (Evidence(len(values), 0.6 * len(values), 0.5) for _ in range(2))
    whole.read(numbers)
    parts.read(numbers[:cut])
    parts.read(numbers[cut:])
    assert parts.log_wealth == pytest.approx(whole.log_wealth, abs=1e-9)


def test_number_outside_of_the_range_is_refused():
    with pytest.raises(ValueError, match="from 0 to 1"):
        Urn(10, 5, error=0.1).read(np.array([0.5, 1.5]))
    with pytest.raises(ValueError, match="more than 2 numbers"):
        Urn(2, 1, error=0.1).read(np.zeros(3))


def test_unknown_numbers_count_against_each_answer():
    known, unknown = np.ones(60), np.ones(60)
    low = np.where(np.arange(60) < 20, 0.0, 1.0)
    assert Urn(100, 50, error=0.01).read(known) is True
    assert Urn(100, 50, error=0.01).read(low, unknown) is None


@pytest.mark.slow
@settings(max_examples=40)
@given(st.integers(0, 2**32 - 1), st.floats(0.2, 0.8))
def test_bounds_contain_read_and_possible_values(seed, share):
    rng = np.random.default_rng(seed)
    values = (rng.random(200) < share).astype(float)
    part = values[:120]
    bounds = sum_bounds(part, part, 200, 0.05)
    assert part.sum() - 1e-6 <= bounds.low <= bounds.high <= part.sum() + 80 + 1e-6
    # far inside the certain range, and around the estimate of the rest
    assert bounds.low <= part.mean() * 200 <= bounds.high


def test_bounds_are_the_last_targets_that_are_decided():
    """At the bounds an urn with that target is still certain, and one a thousandth of a
    document further is not."""
    part = (np.arange(120) % 10 < 7).astype(float)
    low, high = sum_bounds(part, part, 200, 0.05)
    answers = [
        Urn(200, target, error=0.05).read(part)
        for target in (low - 1e-3, low + 1e-3, high - 1e-3, high + 1e-3)
    ]
    assert answers == [True, None, None, False]


def order_of(n, k, rng):
    return rng.permutation(np.repeat([1.0, 0.0], [k, n - k]))


def read_until_decided(values, target, error, step, old=None):
    """The decision, and the proportion that was read."""
    n = len(values)
    urn = Urn(n, target, error=error, old=old)
    for start in range(0, n, step):
        answer = urn.read(values[start : start + step])
        if answer is not None:
            return answer, min(n, start + step) / n
    raise AssertionError("all numbers leave nothing open")


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("n", "gap", "share"),
    [
        (200, 0.02, 93),
        (200, 0.05, 75),
        (1000, 0.01, 92),
        (1000, 0.02, 78),
        (1000, -0.05, 40),
        (10_000, 0.02, 28),
        (10_000, -0.05, 7),
    ],
)
def test_documents_are_read_as_in_the_tables(n, gap, share):
    """§5.3, scores of 0 and 1, threshold .70, error .05, a check every n/200."""
    rng = np.random.default_rng(n)
    right = round(n * (0.7 + gap))
    found = [
        read_until_decided(order_of(n, right, rng), 0.7 * n, 0.05, max(1, n // 200))
        for _ in range(40 if n <= 1000 else 30)
    ]
    assert 100 * np.mean([read for _, read in found]) == pytest.approx(share, abs=5)


@pytest.mark.nightly
@pytest.mark.parametrize(("n", "runs"), [(200, 250), (1000, 100), (10_000, 40)])
@pytest.mark.parametrize("short", [0, 1])
def test_few_verdicts_differ_from_the_full_run_at_the_threshold(n, runs, short):
    """The worst urns: exactly at the threshold, and one document below."""
    rng = np.random.default_rng(n + short)
    right = round(0.7 * n) - short
    wrong = 0
    for _ in range(runs):
        values = order_of(n, right, rng)
        answer, _ = read_until_decided(values, right + short, 0.05, n // 20)
        wrong += answer != (short == 0)
    # three standard errors of 5% above the nominal rate
    assert wrong / runs <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / runs)


@pytest.mark.nightly
def test_old_scores_save_documents_and_cannot_mislead():
    """§5.4 (ii): n = 1,000, threshold .70, both runs .72, 5% of answers flip: 79% of
    the documents without, 56% with the scores of the other run. Unrelated scores cost
    little."""
    rng = np.random.default_rng(1)
    shares: dict[str, list[float]] = {"none": [], "same": [], "noise": []}
    wrong = 0
    for _ in range(40):
        old = order_of(1000, 720, rng)
        new = old.copy()
        new[rng.choice(np.flatnonzero(old == 1), 25, replace=False)] = 0
        new[rng.choice(np.flatnonzero(old == 0), 25, replace=False)] = 1
        others = {"none": None, "same": old, "noise": rng.permutation(old)}
        for name, known in others.items():
            answer, read = read_until_decided(new, 700, 0.05, 5, known)
            wrong += not answer
            shares[name].append(100 * read)
    assert wrong <= 6  # of 120, with a nominal rate of 5% each
    assert np.mean(shares["none"]) == pytest.approx(79, abs=5)
    assert np.mean(shares["same"]) == pytest.approx(56, abs=5)
    assert np.mean(shares["noise"]) <= np.mean(shares["none"]) + 5


def test_order_by_length_misleads():
    """§5.5: the reason for shuffling documents. Long ones are harder, and come
    first."""
    rng = np.random.default_rng(5)
    wrong = 0
    for _ in range(20):
        length = np.sort(rng.normal(size=2000))[::-1]
        chance = 1 / (1 + np.exp(-(0.95 - 0.6 * length)))
        values = (rng.random(2000) < chance).astype(float)
        bar = values.sum() - 40  # 2 points below
        wrong += not read_until_decided(values, bar, 0.05, 10)[0]
    assert wrong == 20
