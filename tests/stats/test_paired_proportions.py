"""Tango's interval compared with its definition (the score test under the constrained
maximum of the likelihood, found by scipy's optimiser), with McNemar's test of
statsmodels, and with its nominal coverage, by summing over all outcomes."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from scipy.optimize import brentq, minimize_scalar
from statsmodels.stats.contingency_tables import mcnemar

from pytest_evals.stats.paired_proportions import PairedProportions


@st.composite
def tables(draw):
    n = draw(st.integers(1, 400))
    gained = draw(st.integers(0, n))
    return PairedProportions(gained, draw(st.integers(0, n - gained)), n)


def score_by_definition(pair, difference):
    """(w - l - n d) over the root of n (2 q + d (1 - d)), where q is the most likely
    proportion of lost documents among the tables with difference d."""
    same = pair.n - pair.gained - pair.lost

    def minus_log_likelihood(q):
        terms = [(pair.gained, q + difference), (pair.lost, q)]
        terms.append((same, 1 - 2 * q - difference))
        return -sum(k * math.log(p) if k else 0.0 for k, p in terms if k)

    low, high = max(0.0, -difference), (1 - difference) / 2
    found = minimize_scalar(
        minus_log_likelihood, bounds=(low, high), method="bounded",
        options={"xatol": 1e-12},
    )  # fmt: skip
    variance = pair.n * (2 * found.x + difference * (1 - difference))
    return (pair.gained - pair.lost - pair.n * difference) / math.sqrt(variance)


@pytest.mark.parametrize("counts", [(29, 22, 1319), (21, 91, 1319), (4, 7, 200)])
@pytest.mark.parametrize("difference", [-0.05, -0.02, 0.01, 0.04])
def test_score_is_that_of_the_constrained_maximum(counts, difference):
    pair = PairedProportions(*counts)
    known = score_by_definition(pair, difference)
    assert pair.scores(difference)[0] == pytest.approx(known, abs=1e-3)


@given(tables())
def test_score_at_no_difference_is_mcnemars(pair):
    if pair.gained + pair.lost == 0:
        assert pair.scores(0)[0] == 0
        return
    table = [[0, pair.lost], [pair.gained, 0]]
    known = mcnemar(table, exact=False, correction=False).statistic
    assert pair.scores(0)[0] ** 2 == pytest.approx(known, abs=1e-9)


@given(tables(), st.sampled_from([0.8, 0.9, 0.95, 0.99]))
def test_limits_are_where_the_p_value_is_alpha_and_never_inside_of_tangos(
    pair, confidence
):
    z = stats.norm.ppf(confidence)
    low, high = pair.interval(confidence)
    assert -1 <= low <= pair.value + 1e-12
    assert pair.value - 1e-12 <= high <= 1
    if low > -1:
        assert pair.scores(low)[0] >= z - 1e-6
        assert pair.p_greater(low) == pytest.approx(1 - confidence, abs=1e-6)
    if high < 1:
        assert pair.scores(high)[0] <= -z + 1e-6
        assert pair.p_less(high) == pytest.approx(1 - confidence, abs=1e-6)


def test_limits_are_tangos_where_changes_are_not_skewed():
    """The score's limits, found by scipy's root finder."""
    pair = PairedProportions(400, 410, 10_000)
    z = stats.norm.ppf(0.95)
    known = [
        brentq(lambda d, at=at: pair.scores(d)[0] - at, -0.1, 0.1) for at in (z, -z)
    ]
    assert pair.interval(0.95) == pytest.approx(tuple(known), abs=1e-5)


@given(tables(), st.floats(-0.99, 0.99))
def test_swapping_the_systems_mirrors_everything(pair, difference):
    other = PairedProportions(pair.lost, pair.gained, pair.n)
    low, high = pair.interval(0.95)
    assert other.interval(0.95) == pytest.approx((-high, -low), abs=1e-9)
    mirrored = other.p_greater(-difference)
    assert pair.p_less(difference) == pytest.approx(mirrored, abs=1e-9)


def test_no_answer_that_differs_still_leaves_doubt():
    """None of n documents differs: z squared over n + z squared, on both sides."""
    z = stats.norm.ppf(0.95)
    edge = z * z / (200 + z * z)
    assert PairedProportions(0, 0, 200).interval(0.95) == pytest.approx((-edge, edge))


@pytest.mark.parametrize(
    ("n", "changed", "drop"), [(200, 0.05, 0.02), (200, 0.1, 0.02), (200, 0.2, 0.0)]
)
def test_the_error_rate_at_the_margin_is_about_the_nominal_one(n, changed, drop):
    """The probability over all tables of n documents, of which a proportion is gained
    and lost so that the true difference is the margin."""
    gained, lost = (changed - drop) / 2, (changed + drop) / 2
    red = [
        (w, k, n - w - k)
        for w in range(min(n, int(n * gained) + 30))
        for k in range(min(n - w, int(n * lost) + 30))
        if PairedProportions(w, k, n).p_less(-drop) < 0.05
    ]
    shares = [gained, lost, 1 - changed]
    assert 0.03 < stats.multinomial.pmf(red, n, shares).sum() < 0.065


def chance_of_red(n, flips, drop, fails):
    """The probability that the gate fails on the true drop, summed over all tables with
    flip rate ``flips`` and net loss ``drop``."""
    turned = stats.binom(n, flips)
    lost_share = (flips + drop) / 2 / flips
    chance = 0.0
    for k in range(int(turned.ppf(1 - 1e-9)) + 1):
        red = [
            lost for lost in range(k + 1) if fails(PairedProportions(k - lost, lost, n))
        ]
        if red:
            chance += turned.pmf(k) * stats.binom.pmf(red, k, lost_share).sum()
    return chance


@pytest.mark.parametrize(
    ("n", "flips", "chance"),
    [(200, 0.05, 0.061), (200, 0.10, 0.053), (300, 0.02, 0.082), (1000, 0.05, 0.051)],
)
def test_the_error_rate_of_tangos_score_test_agrees_with_another_program(
    n, flips, chance
):
    """Computed by another program, from Tango's formula over the trinomial distribution
    of gained, lost and other documents."""
    z = stats.norm.ppf(0.95)
    found = chance_of_red(n, flips, 0.02, lambda pair: pair.scores(-0.02)[0] < -z)
    assert found == pytest.approx(chance, abs=5e-4)


@pytest.mark.parametrize(
    ("n", "flips", "drop"),
    [(100, 0.04, 0.03), (300, 0.01, 0.01), (300, 0.012, 0.01), (300, 0.02, 0.02)],
)
def test_few_and_rare_losses_do_not_fail_a_model_on_its_margin(n, flips, drop):
    """By Tango's score alone these fail in 8.2 to 8.8% of samples instead of 5%."""
    found = chance_of_red(n, flips, drop, lambda pair: pair.p_less(-drop) <= 0.05)
    assert found < 0.05
