"""Bars that noise allows: chances from scipy's normal distribution."""

import pytest
from scipy.stats import norm

from pytest_evals.gates.calibrating import calibrate


def test_bars_lie_two_and_three_deviations_below_and_know_their_risk():
    right = dict.fromkeys(range(900), 1.0) | dict.fromkeys(range(900, 1000), 0.0)
    other = right | dict.fromkeys(range(20), 0.0) | dict.fromkeys(range(900, 920), 1.0)
    found = calibrate("arc", "acc,none", [right, other])
    assert (found.n, found.n_runs, found.mean) == (1000, 2, 0.9)
    assert found.flip_rate == pytest.approx(0.04)
    stderr = (0.04 / 2000) ** 0.5
    assert found.stderr == pytest.approx(stderr)
    assert found.sampling == pytest.approx((0.09 / 1000) ** 0.5)
    assert [bar.value for bar in found.bars] == [0.891, 0.886]
    tight = found.bars[0]
    assert tight.false_alarm == pytest.approx(norm.cdf((0.891 - 0.9) / stderr))
    assert tight.catches[1][0] == 0.02
    assert tight.catches[1][1] == pytest.approx(norm.cdf((0.891 - 0.88) / stderr))


def test_no_bar_is_proposed_where_nothing_has_turned():
    found = calibrate("arc", "acc", [{0: 1, 1: 0}, {0: 1, 1: 0}])
    assert (found.flip_rate, found.stderr, found.bars) == (0, 0, ())


def test_documents_without_a_value_in_each_run_are_left_out():
    found = calibrate("arc", "acc", [{0: 1, 1: 0, 2: 1}, {1: 1, 2: 1}])
    assert (found.n, found.flip_rate) == (2, 0.5)


@pytest.mark.parametrize("runs", [[{0: 0.5}, {0: 1}], [{0: 1}, {1: 1}], [{}, {}]])
def test_what_is_no_share_of_right_answers_is_not_calibrated(runs):
    assert calibrate("arc", "f1", runs) is None
