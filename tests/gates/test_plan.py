"""Power of gates, compared with simulation and the tables of the reference page of
gates (§3.1, §3.5, §6), which were simulated with numpy."""

import math
import re
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import yaml
from scipy.stats import binom
from statsmodels.stats.proportion import proportion_confint

from pytest_evals import judge_gate
from pytest_evals.core.gate import Margin
from pytest_evals.errors import Place
from pytest_evals.gates.early_stopping.steps import USUAL_FLIPS
from pytest_evals.gates.plan import Known, forecast, weakness
from pytest_evals.gates.power import Stratum, rule_of, strata_of
from pytest_evals.gates.read.entry import read_gate
from pytest_evals.stats.independent import stratified_counts
from pytest_evals.stats.mean_limits import bounded_mean
from pytest_evals.stats.paired_proportions import PairedProportions

HERE = Place(Path("arc.yaml"), 1)


def floor(**keys):
    return read_gate({"metric": "acc", **keys}, task="arc", source=HERE)


def no_worse(over, drop="0.02"):
    margin = Margin(key="max_drop", value=Decimal(drop))
    return replace(floor(min=0), bounds=(), baseline="main", margin=margin, over=over)


@pytest.mark.parametrize(
    ("n", "flips", "point", "proven"),
    [(200, 0.10, 15.7, 0.6), (500, 0.05, 1.8, 0.0), (1000, 0.05, 0.2, 0.0)],
)
def test_an_unchanged_model_fails_as_often_as_in_the_table(n, flips, point, proven):
    """§3.5, drop 0. With a continuity correction of half a document of 200, the normal
    approximation of the point rule is a few points above the exact value."""
    found = forecast(no_worse("run"), n, None, flips)
    assert 100 * found.false_positive_rate == pytest.approx(point, abs=3)
    found = forecast(no_worse("population"), n, None, flips)
    assert 100 * found.false_positive_rate == pytest.approx(proven, abs=0.5)


@pytest.mark.parametrize(
    ("n", "flips", "points"), [(200, 0.10, 5.6), (1000, 0.05, 1.8), (2000, 0.02, 0.8)]
)
def test_smallest_drop_is_that_of_the_table_beyond_the_margin(n, flips, points):
    """§6, where the margin is 0 and the flip rate does not grow with the drop."""
    found = forecast(no_worse("population"), n, None, flips)
    assert 100 * found.detects == pytest.approx(2 + points, abs=0.6)


PUBLISHED = {"metric": "acc", "reference": 0.742, "max_drop": 0.03}


def published_outcomes(gate, n, share, runs):
    """Proportions of simulated runs that fail and that pass, by the verdicts
    themselves."""
    rng = np.random.default_rng(n)
    scores = (rng.random((runs, n)) < share).tolist()
    found = [judge_gate(gate, one).outcome for one in scores]
    return found.count("failed") / runs, found.count("passed") / runs


@pytest.mark.nightly
def test_a_published_number_is_planned_by_the_rule_that_decides():
    """The reference has 1,319 documents; simulated with 300 runs, whose standard error
    is at most 2.9 points."""
    entry = {**PUBLISHED, "reference_n": 1319}
    found = forecast(read_gate(entry, task="arc", source=HERE), 500, 0.75)
    share, _ = published_outcomes(entry, 500, 0.75 - found.detects, 300)
    assert share == pytest.approx(0.8, abs=0.08)
    assert found.false_positive_rate < 0.001
    _, share = published_outcomes(entry, found.n_needed, 0.75, 300)
    assert share == pytest.approx(0.8, abs=0.08)
    known = forecast(read_gate(PUBLISHED, task="arc", source=HERE), 500, 0.75)
    assert known.detects < found.detects and known.n_needed < found.n_needed


@pytest.mark.parametrize(
    ("entry", "why"),
    [
        ({"metric": "kl", "baseline": "main", "max": 0.1}, "depends on both runs"),
        ({"metric": "truncated", "max": 0.02}, "run metrics are unknown"),
        ({"metric": "bleu", "min": 20}, "only proportions"),
        ({"metric": "acc", "min": 0.2, "max": 0.9}, "it has two thresholds"),
        ({"metric": "acc", "min": 0.5, "cluster": "page"}, "effect of clusters"),
        ({"metric": "acc", "min": 0.5, "over": "population"}, "no earlier number"),
        ({**PUBLISHED, "over": "run"}, "without its sampling error"),
    ],
)
def test_a_gate_without_numbers_has_a_reason(entry, why):
    known = Known(is_share=entry["metric"] != "bleu")
    gate = read_gate(entry, task="arc", source=HERE)
    found = forecast(gate, 500, None, known=known)
    assert (found.detects, found.false_positive_rate) == (None, None)
    assert why in found.why


def fails(gate, n, drop, flips, runs=400):
    """Proportion of simulated comparisons that fail, by the verdicts themselves."""
    rng = np.random.default_rng(n)
    changed = max(flips, drop)
    shares = [(changed - drop) / 2, (changed + drop) / 2, 1 - changed]
    failed = 0
    for gained, lost, _ in rng.multinomial(n, shares, size=runs):
        limits = PairedProportions(int(gained), int(lost), n).interval(gate.confidence)
        failed += limits.high < -float(gate.margin.value)
    return failed / runs


@pytest.mark.parametrize(("n", "flips"), [(200, 0.10), (1000, 0.05), (2000, 0.02)])
def test_the_smallest_drop_is_detected_in_80_of_100_simulated_runs(n, flips):
    gate = no_worse("population")
    found = forecast(gate, n, None, flips)
    assert fails(gate, n, found.detects, flips) == pytest.approx(0.8, abs=0.07)


def test_needed_documents_prove_an_unchanged_model_in_80_of_100_simulated_runs():
    """The normal approximation of §6 needs 773 for a margin of 2 points."""
    gate = no_worse("population")
    n = forecast(gate, 100, None, 0.05).n_needed
    assert 773 <= n < 850
    rng = np.random.default_rng(0)
    passed = 0
    for gained, lost, _ in rng.multinomial(n, [0.025, 0.025, 0.95], size=400):
        limits = PairedProportions(int(gained), int(lost), n).interval(gate.confidence)
        passed += limits.low >= -0.02
    assert passed / 400 == pytest.approx(0.8, abs=0.06)


@pytest.mark.parametrize(
    ("keys", "last", "n"),
    [({"min": 0.7}, 0.76, 400), ({"max": 0.3}, 0.25, 300), ({"min": 0.97}, 0.99, 100)],
)
def test_thresholds_count_the_distance_from_the_last_number(keys, last, n):
    """Exact, by the binomial distribution and the limits of statsmodels."""
    gate = floor(**keys, over="population")
    found = forecast(gate, n, last)
    sign = 1 if "min" in keys else -1

    def share_of(kind, documents, truth):
        total = 0.0
        for k in range(documents + 1):
            low, high = proportion_confint(k, documents, alpha=0.1, method="beta")
            low, high = (low, high) if sign > 0 else (1 - high, 1 - low)
            edge = keys.get("min", 1 - keys.get("max", 0))
            outcome = "fail" if high < edge else "pass" if low >= edge else ""
            total += binom.pmf(k, documents, truth) if outcome == kind else 0.0
        return total

    assert share_of("fail", n, last - sign * found.detects) == pytest.approx(
        0.8, abs=1e-3
    )
    assert found.false_positive_rate == pytest.approx(
        share_of("fail", n, last), abs=1e-6
    )
    assert share_of("pass", found.n_needed, last) >= 0.8


@pytest.mark.parametrize(("n", "warns"), [(164, True), (1000, False)])
def test_gate_that_misses_three_times_its_margin_is_decoration(n, warns):
    found = forecast(no_worse("population", "0.01"), n, None, 0.05)
    assert bool(found.warning) == warns
    if warns:
        assert "detect a drop of 3 points in " in found.warning
        assert "if 5% of answers flip between runs (assumed)" in found.warning


def test_floor_fails_by_chance_as_often_as_another_run_does():
    """Simulated: 5% of 400 answers flip, half of them each way."""
    rng = np.random.default_rng(0)
    gate = floor(min=0.83)
    found = forecast(gate, 400, 0.85, 0.05)
    lost = rng.binomial(340, 0.025 / 0.85 / 2, size=(20_000,))
    gained = rng.binomial(60, 0.025 / 0.15 / 2, size=(20_000,))
    reds = np.mean((340 - lost + gained) / 400 < 0.83)
    assert found.false_positive_rate == pytest.approx(reds, abs=0.02)


def test_floor_over_other_documents_counts_them():
    """The exact test: P(at most k correct of 400 | .9) <= 5% up to k = 349."""
    found = forecast(floor(min=0.9, over="population"), 400, 0.85)
    assert binom.cdf(349, 400, 0.9) < 0.05 < binom.cdf(350, 400, 0.9)
    assert found.false_positive_rate == pytest.approx(binom.cdf(349, 400, 0.85))


def test_a_threshold_near_the_last_number_is_a_warning():
    """At most 337 of 400, half a document below 338: norm.cdf(-2.5 / 3.16) is 21%."""
    near = forecast(floor(min=0.845), 400, 0.85)
    assert near.warning.startswith("the threshold 0.845 is near the last number, 0.850")
    assert near.warning.endswith("an unchanged model fails it in 21% of runs")
    assert forecast(floor(min=0.7), 400, 0.85).warning == ""
    below = forecast(floor(min=0.86), 400, 0.85)
    assert "% of runs of such a model" in below.warning


@pytest.mark.parametrize(
    "gate",
    [
        floor(min=0.5, max=0.9, over="population"),
        replace(floor(min=3), metric="bleu"),
    ],
)
def test_no_power_is_computed_for_unknown_variances(gate):
    known = Known(is_share=gate.metric == "acc")
    found = forecast(gate, 100, 0.6, known=known)
    assert (found.detects, found.false_positive_rate, found.warning) == (None, None, "")


def test_a_floor_without_an_earlier_run_has_a_detectable_effect():
    """Half a document beyond the normal quantile."""
    assert forecast(floor(min=0.5), 1000, None, 0.05).detects == pytest.approx(
        0.8416 * (0.05 / 2000) ** 0.5 + 0.5 / 1000, rel=1e-3
    )


@pytest.mark.parametrize("bar", ["0.02", "0.5", "0.9", "0.98"])
@pytest.mark.parametrize("key", ["min", "max"])
def test_a_gate_that_can_never_pass_or_fail_names_the_documents_needed(key, bar):
    """Compared with statsmodels' exact interval, two one-sided 5%."""

    def decides(n):
        low = proportion_confint(n, n, alpha=0.1, method="beta")[0]
        high = proportion_confint(0, n, alpha=0.1, method="beta")[1]
        return low >= float(bar) and high <= float(bar)

    gate = floor(**{key: float(bar)}, over="population")
    needed = next(n for n in range(1, 1000) if decides(n))
    assert weakness(gate, needed) == ""
    if needed > 1:
        assert weakness(gate, needed - 1).endswith(f"that needs {needed:,} documents")


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"min": 0.9}, "not even 10 correct answers would make it pass"),
        ({"min": 0.1}, "not even 10 wrong answers would make it fail"),
        ({"max": 0.9}, "not even 10 correct answers would make it fail"),
        ({"min": 1}, "nor any number of them"),
    ],
)
def test_a_gate_that_can_never_be_decided_names_the_direction(keys, message):
    assert message in weakness(floor(**keys, over="population"), 10)


def test_one_answer_is_not_called_answers():
    text = weakness(floor(min=0.9, over="population"), 1)
    assert text.startswith("not even 1 correct answer would make it pass")


def test_a_bare_threshold_has_no_power_warning():
    assert weakness(floor(min=0.99), 1) == ""


@pytest.mark.parametrize(
    ("keys", "limits", "n"),
    [
        ({"metric": "kl", "baseline": "main", "max": 0.01}, (0, np.log(2)), 207),
        ({"metric": "agreement", "baseline": "main", "min": 0.98}, (0, 1), 149),
        ({"metric": "marks", "baseline": "main", "max_drop": 0.01}, (0, 1), 299),
        ({"metric": "marks", "baseline": "main", "max_drop": 0.2}, (0, 10), 149),
        ({"metric": "marks", "min": 9, "over": "population"}, (0, 10), 29),
    ],
)
def test_a_gate_that_no_answers_can_pass_says_so_before_the_run(keys, limits, n):
    """(1 - share)^n <= 0.05."""
    gate = read_gate(keys, task="arc", source=HERE)
    known = Known(limits, is_share=False)
    assert f"only from {n} documents on" in weakness(gate, n - 1, known)
    assert weakness(gate, n, known) == ""
    assert forecast(gate, n, None, known=known).n_needed == n


@pytest.mark.parametrize(
    ("scores", "n", "named"),
    [
        ([0.3, 0.5, 0.7], 149, "only from 149 documents on"),
        ([0, 1, 1], 133, "819 would make it 80%, if 5% of answers flip"),
    ],
)
def test_plan_and_verdict_name_as_many_documents(scores, n, named):
    is_share = n == 133
    keys = {"metric": "acc", "baseline": "main", "max_drop": 0.02}
    gate = read_gate(keys, task="arc", source=HERE)
    planned = forecast(gate, n - 1, None, known=Known((0, 1), is_share=is_share))
    assert f"{planned.n_needed} " in f"{named} ".replace(",", " ")
    for size, outcome in ((n - 1, "inconclusive"), (n, "passed")):
        values = [scores[i % 3] for i in range(size)]
        found = judge_gate({"max_drop": 0.02}, values, baseline=values)
        assert found.outcome == outcome
        notes = [note for note in found.notes if named in note]
        assert bool(notes) == (outcome == "inconclusive")


def test_a_group_needs_as_many_documents_in_its_verdict_as_in_its_plan():
    """The strata of the plan are those of the judged group, in any order."""
    strata = (Stratum(100, 0.4), Stratum(150, 0.6))
    counts = [{-1.0: 4.0, 0.0: 92.0, 1.0: 4.0}, {-1.0: 6.0, 0.0: 138.0, 1.0: 6.0}]
    judged = stratified_counts(counts, [one.weight for one in strata])
    assert [one[:2] for one in strata_of(judged)] == [one[:2] for one in strata]


@pytest.mark.slow
def test_a_group_whose_documents_are_not_a_multiple_of_a_step_is_planned():
    """A drop of 1 makes every document flip, and no more flips than documents exist."""
    strata = (Stratum(151, 0.4), Stratum(152, 0.6))
    found = forecast(
        no_worse("population", "0.02"), 303, None, known=Known((0, 1), True, strata)
    )
    assert 0.02 < found.detects < 0.1


def test_a_relative_margin_is_planned_from_the_value_in_the_baseline():
    keys = {"metric": "acc", "baseline": "main", "recovery": 0.95}
    gate = read_gate(keys, task="arc", source=HERE)
    assert weakness(gate, 60) == ""
    assert "a drop of 7.5 points" in weakness(gate, 60, last=0.5)


def group_outcomes(gate, strata, truth, runs=1500):
    """Proportions of simulated groups that fail and that pass. ``truth``: maps a
    random generator and a number of documents to counts of values."""
    rng = np.random.default_rng(3)
    bar = -float(gate.margin.value) if gate.margin else float(gate.bounds[0].value)
    found = []
    for _ in range(runs):
        counts = [truth(rng, one) for one in strata]
        spread = stratified_counts(counts, [one.weight for one in strata])
        found.append((spread.p_less(bar) < 0.05, spread.p_greater(bar) <= 0.05))
    return np.mean(found, axis=0)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sizes", "drop"),
    [
        ((100,) * 5, 0.0),
        ((40, 60, 300), 0.05),
        pytest.param((250,) * 8, 0.03, marks=pytest.mark.nightly),
    ],
)
def test_a_group_of_changes_is_planned_by_the_rule_of_its_strata(sizes, drop):
    strata = [Stratum(n, n / sum(sizes)) for n in sizes]
    gate, flips = no_worse("population"), 0.06

    def change(rng, one):
        shares = [(flips - drop) / 2, (flips + drop) / 2, 1 - flips]
        gained, lost, same = rng.multinomial(one.n, shares).tolist()
        return {-1.0: lost, 0.0: same, 1.0: gained}

    planned = rule_of(gate, None, flips, strata)(sum(sizes), drop)
    simulated = group_outcomes(gate, strata, change)
    assert list(planned) == pytest.approx(
        list(simulated), abs=0.025
    )  # 2 standard errors


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sizes", "rates"),
    [
        ((100,) * 5, (0.8,) * 5),
        pytest.param((50, 300, 900), (0.95, 0.7, 0.5), marks=pytest.mark.nightly),
        ((20, 20), (0.8, 0.8)),
    ],
)
def test_a_group_of_shares_is_planned_by_the_rule_of_its_strata(sizes, rates):
    pairs = zip(sizes, rates, strict=True)
    strata = [Stratum(n, n / sum(sizes), rate) for n, rate in pairs]
    mean = sum(one.weight * one.last for one in strata)

    def shares(rng, one):
        right = int(rng.binomial(one.n, one.last))
        return {0.0: one.n - right, 1.0: right}

    for bar in (mean - 0.05, mean + 0.03):
        gate = floor(min=round(bar, 4), over="population")
        planned = rule_of(gate, mean, 0.05, strata)(sum(sizes), 0.0)
        simulated = group_outcomes(gate, strata, shares)
        assert list(planned) == pytest.approx(
            list(simulated), abs=0.025
        )  # 2 standard errors


@pytest.mark.slow
def test_a_sampled_run_is_planned_with_the_knowledge_of_the_baseline():
    """Compared with gates on drawn samples of a benchmark of 5,000 documents, of which
    2% are lost and 2% gained."""
    n, whole, gate = 400, 5000, no_worse("run", "0.02")
    found = forecast(gate, n, 0.7, 0.04, Known(n_whole=whole))
    rng = np.random.default_rng(0)
    change = np.repeat([-1, 1, 0], [100, 100, 4800])
    passed = 0
    for _ in range(300):
        drawn = rng.permutation(change)[:n].tolist()
        sample = bounded_mean(drawn, low=-1, high=1).scaled(1 / (1 - n / whole))
        passed += sample.interval(0.95).low >= -0.02
    (planned,) = re.findall(r"points passes in (\d+)%", found.about)
    assert int(planned) == pytest.approx(100 * passed / 300, abs=8)  # 3 standard errors
    assert found.false_positive_rate < 0.001 and found.n_needed < whole


def test_a_group_of_two_tasks_is_planned_from_one_document_on():
    strata = [Stratum(150, 0.5, 0.6), Stratum(150, 0.5, 0.97)]
    gate = floor(max=0.99, over="population")
    found = forecast(gate, 300, 0.785, known=Known(strata=strata))
    rule = rule_of(gate, 0.785, USUAL_FLIPS, strata)
    assert rule(found.n_needed, 0.0)[1] >= 0.8 > rule(found.n_needed - 1, 0.0)[1]
    # The lower limit of 300 correct answers is above 0.99, and that of 299 is not.
    assert 0.05 ** (1 / 300) > 0.99
    assert found.detects == pytest.approx(1 - 0.785)


VLLM = {"value": 0.92, "tolerance": 0.08}
ASCEND = {"value": 0.765, "tolerance": {"below": 0.0364, "above": 0.0403}}


def reruns(gate, n, mean, flips, runs=200_000):
    """The proportion of simulated runs within the bounds of a gate: a share of twice
    the flip rate of the documents is answered by chance."""
    rng = np.random.default_rng(n)
    unstable = round(2 * flips * n)
    correct = round(mean * n - unstable / 2) + rng.binomial(unstable, 0.5, runs)
    within = np.ones(runs, dtype=bool)
    for bound in gate.bounds:
        edge = Fraction(bound.value) * n
        first = math.ceil(edge) if bound.is_lower else math.floor(edge)
        within &= correct >= first if bound.is_lower else correct <= first
    return within.mean()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("keys", "n", "flips"),
    [(VLLM, 1319, 0.035), (VLLM, 200, 0.05), (ASCEND, 1319, 0.05), (ASCEND, 250, 0.1)],
)
def test_the_audit_of_a_tolerance_equals_simulated_reruns(keys, n, flips):
    gate, value = floor(**keys), keys["value"]
    found = forecast(gate, n, None, flips)
    rule = rule_of(gate, value, flips, ())
    unstable = round(2 * flips * n)
    for k in range(round((value - 0.12) * n), round(value * n) + 1, 3):
        mean = (round(k - unstable / 2) + unstable / 2) / n
        passes = reruns(gate, n, mean, flips)
        assert rule(n, value - mean)[1] == pytest.approx(passes, abs=0.01)
    shown = [int(share) for share in re.findall(r"(\d+)%", found.about)]
    planned = [100 * rule(n, drop)[1] for drop in (0.01, 0.03, 0.05)]
    assert shown == pytest.approx(planned, abs=0.5)
    assert found.false_positive_rate == rule(n, 0.0)[0]
    assert rule(n, found.detects)[0] == pytest.approx(0.8, abs=1e-6)


@pytest.mark.slow
def test_the_cheaper_gate_detects_the_drop_and_passes_an_unchanged_model():
    """Simulated by the verdicts of paired gates; 20,000 runs."""
    found = forecast(floor(**VLLM), 1319, None, 0.05)
    paired = read_gate(yaml.safe_load(found.cheaper), task="arc", source=HERE)
    margin, n = float(paired.margin.value), found.n_cheaper
    assert n < 1319 / 3
    rng = np.random.default_rng(1)

    @cache
    def limits(gained, lost):
        return PairedProportions(gained, lost, n).interval(0.95)

    for drop, flips in ((0.0, 0.05), (found.detects, found.detects)):
        shares = [(flips - drop) / 2, (flips + drop) / 2, 1 - flips]
        every = [
            limits(int(gained), int(lost))
            for gained, lost, _ in rng.multinomial(n, shares, 20_000)
        ]
        decided = [one.high < -margin if drop else one.low >= -margin for one in every]
        assert np.mean(decided) >= 0.79
