"""Baseline gates of a task. Expected intervals come from scipy and statsmodels, from
counting by hand, or from the definition of Tango's interval (see
tests/stats/test_paired_proportions.py)."""

import math
import re
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats

from pytest_evals.core.doc import Doc
from pytest_evals.core.gate import Outcome
from pytest_evals.core.record import Record, Score
from pytest_evals.core.reference import Reference
from pytest_evals.errors import Place
from pytest_evals.gates.judge import judge
from pytest_evals.gates.plan import forecast
from pytest_evals.gates.read.entry import read_gate
from pytest_evals.scorers.metrics import MetricSpec, metric
from pytest_evals.scorers.summary import summarise

PASSED, FAILED, OPEN = Outcome.PASSED, Outcome.FAILED, Outcome.INCONCLUSIVE
INVALID, SKIPPED = Outcome.INVALID, Outcome.SKIPPED
HERE = Place(Path("arc.yaml"), 1)
TYPES = {"word_perplexity": "loglikelihood_rolling", "perplexity": "loglikelihood"}


def result(name, values, errors=(), labels=None, lower=False):
    """A task whose documents have these values, except those in ``errors``."""
    spec = MetricSpec(name=name, higher_is_better=False if lower else None)
    how = metric(spec, "none", TYPES.get(name, "multiple_choice"), declared=lower)
    records = [
        Record(
            task="arc",
            index=i,
            doc=Doc("", [], 0, id=f"d{i}"),
            scores=() if i in errors else (Score(metric=name, value=value),),
            error="lost" if i in errors else "",
            labels={} if labels is None else {"passage": str(labels[i])},
        )
        for i, value in enumerate(values)
    ]
    n = len(values)
    rows = SimpleNamespace(
        total=lambda: n, ids=lambda: range(n), indices=lambda: range(n)
    )
    task = SimpleNamespace(
        name="arc", metrics=(how,), metric_for=None, rows=rows, output_type=""
    )
    return summarise(task, records, n)


def verdict(old, new, name="acc", *, reference=None, **more):
    """A verdict; keywords of :func:`result` are passed to it, all others to the
    gate."""
    facts = {k: more.pop(k) for k in ("errors", "labels", "lower") if k in more}
    return judged(old, result(name, new, **facts), name, reference, more)


def judged(old, found, name, reference, keys):
    gate = read_gate(
        {"metric": name, "baseline": "main", **keys}, task="arc", source=HERE
    )
    known = Reference(baseline="main", values={f"{name},none": dict(enumerate(old))})
    find = partial(lambda given, *_: given, reference or known)
    return judge(gate, found, "warn", find)


def flips(n, gained, lost, right=0.8):
    """Values of two runs with these numbers of gained and lost documents."""
    rest = n - gained - lost
    both = [1] * round(rest * right) + [0] * (rest - round(rest * right))
    return [0] * gained + [1] * lost + both, [1] * gained + [0] * lost + both


@pytest.mark.parametrize(
    ("counts", "outcome"),
    [((1319, 29, 22), PASSED), ((1319, 21, 91), FAILED), ((200, 4, 4), OPEN)],
)
def test_paired_score_test_decides(counts, outcome):
    old, new = flips(*counts)
    assert verdict(old, new, max_drop=0.02).outcome is outcome


def test_message_has_change_limits_threshold_documents_and_the_fix():
    found = verdict(*flips(200, 4, 4), max_drop=0.02)
    assert found.reason == (
        "0.790 vs main 0.790: +0.00, 90% CI [-2.66, +2.66] contains -2.00 points "
        "(200 documents, 4 gained / 4 lost)"
    )
    assert found.conclusion == "not enough documents to tell"
    assert found.method == (
        "over: population, paired score test; 90% CI: both one-sided limits at 95%"
    )
    # 4% flipped, the plan assumes 5%: SE = sqrt(.05 / 200); with four answers half of
    # it: Phi(.04 / SE - 1.645) = 81%.
    gate = read_gate(
        {"metric": "acc", "baseline": "main", "max_drop": 0.02}, task="arc", source=HERE
    )
    needed = forecast(gate, 200, None).n_needed
    assert needed == pytest.approx(0.05 * (2.486 / 0.02) ** 2, rel=0.1)
    assert found.notes == (
        "low power: an unchanged model passes in 32% of runs with 200 documents; "
        f"{needed} would make it 80%, if 5% of answers flip between runs (assumed); if "
        "answers are sampled and flip by chance, 4 answers to each document in both "
        "runs (repeats: 4, reducer: mean) make it up to 81%",
    )


def test_power_counts_more_flips_than_the_plan_assumed():
    """12% flipped: SE = sqrt(.12 / 500); 500 ((1.645 + .842) SE / .02)^2 = 1854."""
    (note,) = verdict(*flips(500, 30, 30), max_drop=0.02).notes
    assert "if 12% of answers flip between runs, as here" in note
    needed = int(re.search(r"([\d,]+) would make it 80%", note)[1].replace(",", ""))
    assert needed == pytest.approx(1854, rel=0.05)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("counts", "keys"),
    [((200, 0, 1), {}), ((100, 4, 4), {}), ((200, 4, 4), {"max_drop": 0.01})],
)
def test_answers_are_not_recommended_if_nothing_flips_by_chance_or_n_is_too_small(
    counts, keys
):
    found = verdict(*flips(*counts), **{"max_drop": 0.02, **keys})
    assert not any("repeats" in note for note in found.notes)


def test_verdict_has_the_change_and_the_documents_that_got_worse():
    old, new = flips(1319, 21, 91)
    found = verdict(old, new, max_drop=0.02)
    change = found.change
    assert (change.n, change.gained, change.lost, change.unit) == (
        1319,
        21,
        91,
        "points",
    )
    assert change.difference == pytest.approx(-70 / 1319)
    assert (change.op, change.bar) == (">=", -0.02)
    assert found.short == pytest.approx(70 / 1319 - 0.02)
    assert found.documents == tuple(f"d{i}" for i in range(21, 112))
    assert found.p_value < 1e-4


def test_a_relative_margin_and_recovery_are_equivalent():
    old, new = flips(1000, 5, 45)
    one = verdict(old, new, max_drop="5%").change
    other = verdict(old, new, recovery=0.95).change
    assert one.bar == pytest.approx(-0.05 * sum(old) / 1000)
    assert other == one


def test_over_run_compares_the_difference_exactly():
    old, new = flips(50, 0, 1)
    assert verdict(old, new, max_drop=0.02, over="run").outcome is PASSED
    assert verdict(old, new, max_drop=0.0199, over="run").outcome is FAILED
    found = verdict(*flips(1000, 0, 100), max_drop="10%", over="run")
    # 820 of 1000 were correct: 82 may be lost, and 100 are
    assert found.outcome is FAILED
    assert found.p_value is None


def test_a_point_rule_within_noise_has_the_probability_of_a_reversal():
    found = verdict(*flips(200, 10, 10), max_drop=0.02, over="run")
    # the next change varies as much as this one
    chance = stats.norm.cdf(-0.02 / math.sqrt(2 * 0.1 / 200))
    assert found.outcome is PASSED
    assert f"predicted to fail on {round(100 * chance)}% of new" in found.notes[0]


def test_over_benchmark_uses_the_flip_rate_between_two_runs():
    """The difference of two single runs has the variance of both: psi / N."""
    old, new = flips(1000, 10, 20)
    found = verdict(old, new, max_drop=0.02, noise=0.035)
    reach = stats.norm.ppf(0.95) * math.sqrt(0.035 / 1000)
    assert found.interval.low == pytest.approx(-0.01 - reach)
    unknown = verdict(old, new, max_drop=0.02, over="benchmark")
    assert (unknown.outcome, unknown.interval) == (PASSED, None)
    assert "the noise between runs is unknown" in unknown.reason


@pytest.mark.slow
def test_other_scores_between_0_and_1_have_the_limits_of_bounded_changes():
    """Changes are between -1 and 1. Simulated: the values and one pseudo-value at the
    end of the range weigh as much as exponential draws."""
    generator = np.random.default_rng(4)
    old = generator.uniform(0, 1, 120)
    new = np.clip(old + generator.normal(-0.01, 0.1, 120), 0, 1)
    found = verdict(old.tolist(), new.tolist(), name="exact_match", max_drop=0.02)
    weights = generator.dirichlet(np.ones(121), 100_000)
    low = np.quantile(weights @ np.append(new - old, -1), 0.05)
    high = np.quantile(weights @ np.append(new - old, 1), 0.95)
    assert found.interval.low == pytest.approx(low, abs=5e-4)
    assert found.interval.high == pytest.approx(high, abs=5e-4)
    assert found.interval.method == "paired Gaffke"


@pytest.mark.parametrize(("n", "spread"), [(60, 0.03), (60, 0.3), (200, 0.03), (20, 0)])
def test_knowing_the_range_of_scores_never_makes_a_gate_decide_less(n, spread):
    generator = np.random.default_rng(n)
    old = generator.beta(2, 5, n)
    new = np.clip(old + generator.normal(0, spread, n), 0, 1)
    runs, keys = (old.tolist(), new.tolist()), {"name": "bits", "lower": True}
    unknown = verdict(*runs, **keys, max_rise=0.02)
    known = verdict(*runs, **keys, max_rise=0.02, range=[0, 1])
    assert unknown.interval.low <= known.interval.low
    assert unknown.interval.high >= known.interval.high
    assert unknown.notes[0].startswith("the range of the scores is unknown")
    assert not any("range" in note for note in known.notes)


def test_unchanged_scores_prove_no_more_than_their_number_allows():
    """The probability that none of 60 documents shows a change of which a share d has
    the largest: (1 - d)^60, which is 0.05 at 4.87%."""
    old = np.random.default_rng(1).uniform(0, 1, 60).tolist()
    found = verdict(old, old, name="exact_match", max_drop=0.049)
    assert found.outcome is PASSED
    reach = 1 - 0.05 ** (1 / 60)
    assert found.interval.low == pytest.approx(-reach)
    assert verdict(old, old, name="exact_match", max_drop=0.048).outcome is OPEN


def rolling(n, seed, rise=0.0):
    generator = np.random.default_rng(seed)
    words = generator.integers(20, 200, n)
    losses = words * (3 + generator.normal(0, 0.3, n))
    noise = words * generator.normal(rise, 0.01, n)
    return (
        [(-float(loss), int(w)) for loss, w in zip(losses, words, strict=True)],
        [(-float(a + b), int(w)) for a, b, w in zip(losses, noise, words, strict=True)],
    )


def test_perplexity_is_compared_on_the_log_scale():
    """The threshold of 1% is log(1.01); the ratio of sums has its textbook error
    (Cochran 1977, 6.13), of paired differences since the lengths are the same."""
    old, new = rolling(80, seed=2, rise=0.02)
    found = verdict(old, new, name="word_perplexity", max_rise="1%")
    words = np.array([w for _, w in old])
    differences = np.array([a[0] - b[0] for a, b in zip(old, new, strict=True)])
    log_ratio = differences.sum() / words.sum()
    residuals = differences - log_ratio * words
    stderr = math.sqrt((residuals**2).sum() / 79 / 80) / words.mean()
    reach = stats.t.ppf(0.95, 79) * stderr
    assert found.interval.method == "paired bootstrap-t"
    low, high = math.expm1(log_ratio - reach), math.expm1(log_ratio + reach)
    assert found.interval.low == pytest.approx(low, abs=0.1 * reach)
    assert found.interval.high == pytest.approx(high, abs=0.1 * reach)
    assert found.outcome is FAILED
    assert (found.change.op, found.change.unit) == ("<=", "percent")
    assert found.change.bar == pytest.approx(0.01)
    assert "is not <= +1.00%" in found.reason


def test_absolute_rise_of_a_perplexity_is_that_many_units():
    old, new = rolling(80, seed=3)
    found = verdict(old, new, name="word_perplexity", max_rise=0.5)
    assert found.outcome is PASSED
    assert found.change.bar == pytest.approx(0.5 / found.change.before)


def labelled(n, seed, shift):
    generator = np.random.default_rng(seed)
    golds = generator.integers(0, 2, n)
    old = np.where(generator.random(n) < 0.85, golds, 1 - golds)
    new = np.where(generator.random(n) < shift, 1 - old, old)
    return (
        [(int(g), int(p)) for g, p in zip(golds, old, strict=True)],
        [(int(g), int(p)) for g, p in zip(golds, new, strict=True)],
    )


@pytest.mark.slow
@pytest.mark.parametrize("n", [400, 80])
def test_corpus_metrics_are_compared_document_by_document(n):
    """F1 of the same documents, as in scikit-learn: close to scipy's paired bootstrap
    of its difference."""
    from scipy.stats import bootstrap
    from sklearn.metrics import f1_score

    old, new = labelled(n, 8, 0.03)
    found = verdict(old, new, name="f1", max_drop=0.03)
    golds, before = np.array(old).T
    now = np.array(new)[:, 1]

    def f1(golds, predicted, axis=-1):
        return (
            2 * (golds & predicted).sum(axis) / (golds.sum(axis) + predicted.sum(axis))
        )

    known = bootstrap(
        (golds, before, now),
        lambda golds, before, now, axis: f1(golds, now, axis) - f1(golds, before, axis),
        paired=True, vectorized=True, n_resamples=4000, confidence_level=0.9,
        method="BCa", rng=2,
    ).confidence_interval  # fmt: skip
    assert found.interval.method == "paired delta method"
    assert found.change.difference == pytest.approx(
        f1_score(golds, now) - f1_score(golds, before)
    )
    # Wider than the bootstrap: one more document may change by the most.
    low, high = found.interval.low, found.interval.high
    assert low < known.low + 0.01
    assert high > known.high - 0.01
    assert high - low < (1 + 80 / n) * (known.high - known.low)


def test_too_few_documents_of_a_corpus_metric_are_refused():
    found = verdict(*labelled(29, 1, 0.1), name="f1", max_drop=0.03)
    assert found.outcome is INVALID
    assert found.reason == ("f1,none cannot be compared: it needs 30 documents, not 29")


def test_documents_of_a_cluster_count_together():
    """All ten documents of two passages are lost at once. Simulated: passages, and one
    more that is lost or gained, weigh as much as exponential draws."""
    labels = np.repeat(np.arange(30), 10)
    old = np.ones(300, dtype=int)
    new = np.where(labels < 2, 0, 1)
    found = verdict(
        old.tolist(), new.tolist(), labels=labels, max_drop=0.05, cluster="passage"
    )
    weights = np.random.default_rng(0).dirichlet(np.ones(31), 100_000)
    changes = np.repeat([-1.0, 0.0], [2, 28])
    low = np.quantile(weights @ np.append(changes, -1), 0.05)
    high = np.quantile(weights @ np.append(changes, 1), 0.95)
    assert found.interval.low == pytest.approx(low, abs=2e-3)
    assert found.interval.high == pytest.approx(high, abs=2e-3)
    assert found.outcome is OPEN
    assert "design effect 10" in found.method
    alone = verdict(old.tolist(), new.tolist(), max_drop=0.05)
    assert alone.p_value < found.p_value


def test_clusters_of_one_document_do_not_narrow_the_interval():
    old, new = flips(200, 0, 4)
    alone = verdict(old, new, max_drop=0.05)
    found = verdict(old, new, max_drop=0.05, labels=range(200), cluster="passage")
    assert found.interval.low <= alone.interval.low
    assert found.interval.high >= alone.interval.high


@pytest.mark.parametrize(
    ("new", "low", "high"),
    [
        ([0, 0], -1, -1 + 2 * (1 - 0.05 ** (1 / 80))),
        ([1, 1], -(1 - 0.05 ** (1 / 80)), 1 - 0.05 ** (1 / 80)),
    ],
    ids=["all lost", "none lost"],
)
def test_clusters_that_move_alike_are_worth_a_document_each(new, low, high):
    """The closed form for values that are all alike, for 80 of them."""
    labels = np.repeat(np.arange(80), 2)
    found = verdict([1] * 160, new * 80, labels=labels, max_drop=0.1, cluster="passage")
    assert found.interval.low == pytest.approx(low, abs=1e-6)
    assert found.interval.high == pytest.approx(high, abs=1e-6)


def test_changes_that_cancel_out_in_each_cluster_count_as_unchanged():
    old, new = [0.5, 0.6] * 40, [0.6, 0.5] * 40
    labels = np.repeat(np.arange(40), 2)
    keys = {"labels": labels, "cluster": "passage"}
    assert verdict(old, new, max_drop=0.1, **keys).outcome is PASSED
    # 0.05 ** (1 / 40) = 0.928: 40 clusters exclude a drop of 7.2 points, not of 7.
    assert verdict(old, new, max_drop=0.07, **keys).outcome is OPEN


@pytest.mark.parametrize(
    ("name", "old", "new", "difference"),
    [
        ("acc", [0.5], [0.4], -0.1),
        ("acc", [0.5] * 40, [0.4] * 40, -0.1),
        # Both documents are predicted now, and one is a false positive: F1 is 2 / 3;
        # it was 0.5 before.
        ("f1", [(0, 1), (1, 1), (1, 0)], [(1, 1), (1, 1), (0, 1)], None),
    ],
)
def test_over_run_needs_no_noise_so_few_documents_will_do(name, old, new, difference):
    found = verdict(old, new, name=name, max_drop=0.2, over="run")
    assert found.outcome is PASSED
    assert found.notes == ()
    if difference is not None:
        assert found.change.difference == pytest.approx(difference)


def test_over_run_compares_a_perplexity_of_one_text():
    keys = {"name": "word_perplexity", "over": "run"}
    found = verdict([(-10.0, 5)], [(-11.0, 5)], max_rise="25%", **keys)
    assert found.change.difference == pytest.approx(math.exp(0.2) - 1)
    assert found.outcome is PASSED
    stricter = verdict([(-10.0, 5)], [(-11.0, 5)], max_rise="20%", **keys)
    assert stricter.outcome is FAILED


def test_a_baseline_value_that_is_not_a_number_is_an_error():
    found = verdict([0.5, math.nan], [0.5, 0.4], max_drop=0.2, over="run")
    assert found.outcome is INVALID
    assert found.reason == "acc,none cannot be compared: it was nan and is 0.45"


def test_rounding_errors_are_not_differences_between_documents():
    """0.45 - 0.5 and similar differences are not equal to the last digit: the limits
    are those of equal changes, with one more document at -30: thirty times the largest
    possible change, which is at least 1."""
    old = [0.1 * (i % 7) + 0.1 for i in range(40)]
    new = [one - 0.05 for one in old]
    found = verdict(old, new, name="bits", lower=True, max_rise=0.2)
    lowest = -30 + 29.95 * 0.05 ** (1 / 40)
    assert found.interval.low == pytest.approx(lowest)


def test_a_missing_field_of_documents_is_an_error():
    found = verdict([1, 0], [1, 0], max_drop=0.1, cluster="passage")
    assert found.reason == "document 'd0' has no field 'passage' to cluster by"


@pytest.mark.parametrize(
    ("name", "keys", "message"),
    [
        ("acc", {"max_rise": 0.1}, "higher is better for acc: use max_drop"),
        (
            "perplexity",
            {"recovery": 0.9},
            "lower is better for perplexity: use max_rise, not recovery",
        ),
    ],
)
def test_a_margin_on_the_wrong_side_is_invalid(name, keys, message):
    found = verdict([-1.0, -2.0], [-1.0, -2.0], name=name, **keys)
    assert found.outcome is INVALID
    assert message in found.reason


@pytest.mark.parametrize("is_replaced", [False, True])
def test_a_change_that_cannot_be_computed_is_invalid_or_skipped_if_replaced(
    is_replaced,
):
    refused = Reference(baseline="main", fault="other prompts", is_replaced=is_replaced)
    found = verdict([1], [1], max_drop=0, reference=refused)
    assert found.outcome is (SKIPPED if is_replaced else INVALID)
    assert "other prompts" in found.reason


def test_a_metric_missing_in_the_baseline_is_an_error_that_lists_its_metrics():
    known = Reference(baseline="main", values={"acc_norm,none": {0: 1}})
    found = verdict([1], [1], max_drop=0, reference=known)
    assert found.outcome is INVALID
    assert "baseline 'main' has no acc,none" in found.reason


def test_documents_without_a_score_matter_if_they_could_reverse_the_verdict():
    old, new = flips(1000, 10, 10)
    kept = verdict(old, new, errors={500}, max_drop=0.05)
    assert kept.outcome is PASSED
    assert "1 errored document cannot change the verdict" in kept.reason
    hangs = verdict(old, new, errors=set(range(300, 360)), max_drop=0.05)
    assert hangs.outcome is INVALID
    assert hangs.reason == (
        "60 of 1,000 documents have no score (60 errored); the change depends on them"
    )


def test_a_document_without_a_score_in_the_baseline_is_refused():
    known = Reference(baseline="main", values={"acc,none": {0: 1}})
    found = verdict([], [1, 1], max_drop=0, reference=known)
    assert "1 document (d1) had no score in baseline 'main'" in found.reason


def test_a_mistake_rate_gains_where_it_falls():
    """Ones are mistakes: a document that flips to 0 is gained."""
    old, new = flips(400, 3, 30)
    keys = {"name": "mistakes", "lower": True, "range": [0, 1]}
    found = verdict(old, new, **keys, max_rise=0.01)
    assert (found.change.gained, found.change.lost) == (30, 3)
    assert found.outcome is PASSED
    assert verdict(new, old, **keys, max_rise=0).outcome is FAILED


def test_a_flip_rate_does_not_apply_to_other_values():
    old = [0.3 + i / 1000 for i in range(80)]
    found = verdict(old, old, max_drop=0.02, over="benchmark", noise=0.05)
    assert found.outcome is Outcome.INVALID
    assert "flip rates are only defined for metrics with correct" in found.reason


def test_the_measured_mean_square_of_changes_is_the_variance_of_other_values():
    """Each mean has a variance of half the mean square over n; their difference, of the
    whole."""
    old = [0.3 + i / 1000 for i in range(80)]
    new = [value - 0.01 for value in old]
    keys = {"metric": "acc", "baseline": "main", "max_drop": 0.02, "over": "benchmark"}
    gate = replace(read_gate(keys, task="arc", source=HERE), flip_rate=0.0016)
    known = Reference(baseline="main", values={"acc,none": dict(enumerate(old))})
    found = judge(gate, result("acc", new), "warn", lambda *_: known)
    reach = stats.norm.ppf(0.95) * math.sqrt(0.0016 / 80)
    assert found.interval.low == pytest.approx(-0.01 - reach)
    assert found.interval.high == pytest.approx(-0.01 + reach)
    assert found.interval.method == "documents change by 0.04 between runs"


def test_documents_that_count_in_neither_run_are_no_lack():
    """As LatticeFlow's rules exclude them: from metrics and from gates, in both
    runs."""
    old, new = flips(400, 2, 2)
    run = excluding(result("acc", new), {7, 8})
    known = {i: value for i, value in enumerate(old) if i not in (7, 8)}
    found = judged_by(run, known)
    assert (found.outcome, found.change.n) == (PASSED, 398)
    found = judged_by(run, dict(enumerate(old)))
    assert found.outcome is Outcome.INVALID
    assert found.reason == "2 documents (d7, d8) counted in baseline 'main' but not now"


def excluding(run, positions):
    records = [
        replace(one, excluded="a rule") if one.index in positions else one
        for one in run.records
    ]
    return summarise(run.task, records, len(records))


def judged_by(run, values):
    known = Reference(baseline="main", values={"acc,none": values})
    return judged([], run, "acc", known, {"max_drop": 0.05})


def test_a_perplexity_far_beyond_a_double_has_an_open_bound():
    """Two documents leave Student's t with one degree of freedom: at 0.999 the
    confidence limit of the logarithm is 318 standard errors away."""
    old = [(-10.0, 1), (-12.0, 1)]
    new = [(-10.0, 1), (-20.0, 1)]
    found = verdict(old, new, "word_perplexity", max_rise="1%", confidence=0.9999)
    assert found.outcome in (Outcome.INCONCLUSIVE, Outcome.INVALID)


def test_the_same_change_in_few_documents_leaves_the_doubt_of_few():
    found = verdict([0.5] * 3, [0.4] * 3, max_drop=0.02)
    assert found.outcome is OPEN
    run = verdict([0.5] * 3, [0.4] * 3, max_drop=0.02, over="run")
    assert run.outcome is Outcome.FAILED
