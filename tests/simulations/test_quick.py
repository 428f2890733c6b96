"""A quick, seeded subset of the simulations, and limits from other programs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy import stats
from statsmodels.stats.contingency_tables import mcnemar
from statsmodels.stats.proportion import proportion_confint

from pytest_evals import judge_gate, judge_gates
from pytest_evals.stats.mean_limits import bounded_mean
from tests.simulations import answers, labels, means
from tests.simulations.__main__ import CELLS, ROWS
from tests.simulations.betting import betting_limits
from tests.simulations.cells import Cell, outcome
from tests.simulations.corpus import corpus
from tests.simulations.populations import BOUNDED
from tests.simulations.reruns import false_alarms, floor_failures, point_failures

ROOT = Path(__file__).parents[2]
POPULATION = {"over": "population"}
N_SAMPLES = 100


def named(cell: Cell) -> str:
    return f"{cell.rule}, {cell.population}, {cell.n}"


SIMULATED = [
    *means.means((10, 30, 100)),
    *means.repeats((10, 30)),
    *means.paired((20, 60)),
    *answers.clusters((10, 20)),
    *answers.families(),
]
LABELLED = [
    one for one in labels.judges((30,)) if one.rule.endswith("run") and "0.95" in one[1]
]
SUMMED = [*answers.proportions(), *answers.changes(sizes=(100, 300))]


@pytest.mark.parametrize("cell", [*SIMULATED, *LABELLED], ids=named)
def test_a_gate_on_the_threshold_is_wrong_as_seldom_as_stated(cell):
    rates = cell.measure(N_SAMPLES)
    assert not rates.is_above, rates


@pytest.mark.nightly
@pytest.mark.parametrize("cell", [*corpus((100,))], ids=named)
def test_a_compared_change_is_outside_of_its_interval_as_seldom_as_stated(cell):
    rates = cell.measure(N_SAMPLES)
    assert not rates.is_above, rates


@pytest.mark.nightly
@pytest.mark.parametrize("cell", [*labels.judges((30, 60, 200))], ids=named)
def test_a_gate_on_a_judge_with_labels_is_wrong_as_seldom_as_stated(cell):
    rates = cell.measure(2 * N_SAMPLES)
    assert not rates.is_above, rates


@pytest.mark.nightly
def test_the_normal_interval_of_few_labels_is_too_narrow_and_ours_is_not():
    """At a rate of 95% with 30 labels, whose judge is right in 95%."""
    row = labels.label_row(0.95, "95% right", 30, 200).split()
    ours, normal = row[5], row[9]
    assert max(map(int, ours.split("/"))) <= 9
    assert max(map(int, normal.split("/"))) >= 15


@pytest.mark.parametrize("cell", SUMMED, ids=named)
def test_summed_error_rates_are_as_stated(cell):
    rates = cell.measure(0)
    assert not rates.is_above, rates
    if cell.rule == "proportion":
        assert max(rates.passed, rates.failed) <= 5


@pytest.mark.parametrize("seed", range(6))
def test_judge_gives_the_verdicts_that_the_simulations_count(seed):
    rng = np.random.default_rng(seed)
    scores = rng.beta(0.6, 0.2, 15)
    low = 0.35 + 0.1 * seed
    one = bounded_mean(scores.tolist())
    assert judge_gate({"min": low, **POPULATION}, scores).outcome == outcome(one, low)
    pairs = (np.arange(15) // 2).tolist()
    grouped = bounded_mean(scores.tolist(), clusters=pairs)
    found = judge_gate({"min": low}, scores, clusters=pairs)
    assert found.outcome == outcome(grouped, low)
    later = scores * 0.9
    drop = bounded_mean((later - scores).tolist(), low=-1, high=1)
    margin = 0.1 * seed
    found = judge_gate({"max_drop": margin}, later, baseline=scores)
    assert found.outcome == outcome(drop, -margin)


@pytest.mark.parametrize(("correct", "n"), [(0, 20), (17, 20), (200, 200), (731, 1000)])
def test_limits_of_proportions_are_those_of_statsmodels(correct, n):
    found = judge_gate({"min": 0.7, **POPULATION}, [1] * correct + [0] * (n - correct))
    known = proportion_confint(correct, n, alpha=0.1, method="beta")
    # statsmodels has NaN where all or none are correct
    known = np.where(np.isnan(known), [0, 1], known)
    assert (found.low, found.high) == pytest.approx(tuple(known), abs=1e-9)


def test_p_value_of_a_drop_of_0_is_mcnemars_of_statsmodels():
    new, old = [0] * 21 + [1] * 9 + [1] * 170, [1] * 21 + [0] * 9 + [1] * 170
    found = judge_gate({"max_drop": 0}, new, baseline=old)
    square = mcnemar([[0, 21], [9, 0]], exact=False, correction=False).statistic
    # A true difference of 0 is not skewed.
    assert found.p_value == pytest.approx(stats.norm.sf(square**0.5), abs=1e-9)


def test_limits_of_many_scores_of_unknown_range_contain_students():
    scores = np.random.default_rng(0).normal(3, 2, 2500)
    found = judge_gate({"min": 3, **POPULATION}, scores, range=None)
    known = stats.t.interval(0.9, 2499, scores.mean(), stats.sem(scores))
    assert found.low <= known[0] < known[1] <= found.high


@pytest.mark.parametrize("population", BOUNDED)
def test_limits_are_narrower_than_the_guaranteed_ones_of_betting(population):
    """The betting limits keep their guarantee, so they are a valid oracle."""
    draw, mean = BOUNDED[population]
    rng = np.random.default_rng(1)
    samples = [draw(rng, 40) for _ in range(40)]
    ours = np.array([bounded_mean(one.tolist()).interval(0.95) for one in samples])
    known = np.array([betting_limits(one) for one in samples])
    assert (ours[:, 1] - ours[:, 0]).mean() < (known[:, 1] - known[:, 0]).mean()
    for limits in (ours, known):
        assert (limits[:, 0] > mean).mean() <= 0.15
        assert (limits[:, 1] < mean).mean() <= 0.15


def test_betting_limits_never_leave_the_range():
    for scores in ([0.0] * 10, [1.0] * 10, [0.5]):
        low, high = betting_limits(scores)
        assert 0 <= low < high <= 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("n", "flips", "percent"), [(200, 0.1, 15.7), (500, 0.05, 1.8), (1000, 0.05, 0.2)]
)
def test_point_rule_fails_an_unchanged_model_as_often_as_simulated_before(
    n, flips, percent
):
    """Another simulation, with numpy: margin 2 points."""
    once, many, proven, _ = point_failures(n, flips, 0.02)
    assert once == pytest.approx(percent, abs=0.3)
    assert once < many <= 20 * once
    assert proven <= 0.65


def test_a_point_rule_at_the_mean_fails_half_of_the_runs():
    assert floor_failures(300, 0.035, 0) == pytest.approx((50, 100), abs=0.01)


@pytest.mark.parametrize("k", [2, 10])
def test_limits_of_repeated_runs_need_the_root_of_1_and_1_over_k(k):
    stated, without, corrected = false_alarms(1000, 0.05, k, 300)
    assert corrected == pytest.approx(stated, abs=0.8)
    assert without > stated


def test_more_passing_gates_never_change_a_failure_to_a_pass():
    rng = np.random.default_rng(0)
    gate = {"min": 0.9, **POPULATION}
    for correct in rng.integers(60, 84, 6).tolist():
        scores = [1] * correct + [0] * (100 - correct)
        assert judge_gate(gate, scores).is_red
        for n_more in (1, 4, 40):
            more = {str(i): (gate, [1] * 100) for i in range(n_more)}
            found = judge_gates({"one": (gate, scores)} | more)["one"]
            assert found.is_red or found.fails_alone


@pytest.mark.slow
@pytest.mark.parametrize("name", CELLS)
def test_each_table_has_cells_that_can_be_measured(name):
    first = next(CELLS[name]())
    assert first.n > 0
    assert 0 <= max(first.measure(2)[:2]) <= 100


@pytest.mark.parametrize("name", ROWS)
def test_each_other_table_has_rows(name):
    assert next(ROWS[name](4))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "code", "shown"),
    [
        (["proportions"], 0, "0 cells above the stated rate"),
        (["repeatability", "--samples=20"], 0, "sqrt(1+1/K)"),
        (["proportion"], 2, "no table 'proportion'; tables: proportions, means"),
    ],
)
def test_tables_are_printed_by_name(arguments, code, shown):
    done = subprocess.run(
        [sys.executable, "-m", "tests.simulations", *arguments],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == code
    assert shown in done.stdout + done.stderr
