"""The point rule. Expected verdicts come from counting by hand, from Python's
fractions, and from scipy's binomial distribution."""

from dataclasses import dataclass, replace
from fractions import Fraction
from operator import ge, gt, le, lt
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import betabinom, norm
from statsmodels.stats.proportion import proportion_confint

from pytest_evals.core.doc import Doc
from pytest_evals.core.gate import Outcome
from pytest_evals.core.metric import Estimate, MetricResult
from pytest_evals.core.record import Record, Score
from pytest_evals.core.result import TaskResult
from pytest_evals.core.task import Task
from pytest_evals.errors import Place
from pytest_evals.gates.judge import judge
from pytest_evals.gates.read.entry import read_gate

OPERATORS = {">=": ge, ">": gt, "<=": le, "<": lt}
HERE = Place(Path("arc.yaml"), 1)


@dataclass(frozen=True)
class Names:
    """Rows with ids only."""

    names: tuple[str, ...]
    n_total: int

    def ids(self):
        return self.names

    def indices(self):
        return range(len(self.names))

    def total(self):
        return self.n_total


def gate(entry):
    return read_gate(entry, task="arc", source=HERE)


def result(*metrics, n=200, n_total=None, names=(), records=()):
    task = Task(
        name="arc",
        source=HERE,
        rows=Names(tuple(names), n_total or n),
        ask=lambda index: None,
        score=lambda record: (),
        metrics=(),
    )
    return TaskResult(
        task=task, records=records, metrics=metrics, n_selected=n, n_total=n_total or n
    )


def counted(right, n, name="acc", pipeline="none", **counts):
    """A 0/1 metric with its mean and lm-eval's standard error."""
    share = right / n if n else 0
    stderr = (share * (1 - share) / (n - 1)) ** 0.5 if n > 1 else None
    return MetricResult(
        name=name,
        filter=pipeline,
        estimate=Estimate(share, stderr, "analytic") if n else None,
        n_scored=n,
        total=right if n else None,
        **counts,
    )


def measured(value, stderr=None, n=200, **counts):
    return MetricResult(
        name="ppl",
        filter="none",
        estimate=Estimate(value, stderr),
        n_scored=n,
        **counts,
    )


def verdict(claim, *metrics, **facts):
    return judge(gate(claim), result(*metrics, **facts))


@pytest.mark.parametrize(
    ("claim", "outcome"),
    [
        ("acc >= 0.7", Outcome.PASSED),
        ("acc <= 0.7", Outcome.PASSED),
        ("acc > 0.7", Outcome.FAILED),
        ("acc < 0.7", Outcome.FAILED),
        ("acc >= 70%", Outcome.PASSED),
        ("acc >= 0.7000000000000000000001", Outcome.FAILED),
    ],
)
def test_seven_of_ten_is_exactly_seven_tenths(claim, outcome):
    # 0.7 as a double is a little less than 7/10.
    assert verdict(claim, counted(7, 10), n=10).outcome is outcome


@given(
    st.integers(1, 500).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))),
    st.fractions(0, 1, max_denominator=1000),
    st.sampled_from([">=", ">", "<=", "<"]),
)
def test_counts_are_compared_as_fractions(count, limit, op):
    right, n = count
    shown = f"{int(limit * 10**6) / 10**6:.6f}"
    expected = OPERATORS[op](Fraction(right, n), Fraction(shown))
    found = verdict(f"acc {op} {shown}", counted(right, n), n=n)
    assert found.outcome is (Outcome.PASSED if expected else Outcome.FAILED)


@pytest.mark.parametrize(
    ("value", "claim", "outcome"),
    [
        (sum([0.1] * 7), "ppl >= 0.7", Outcome.PASSED),  # the sum is 0.7 less rounding
        (sum([0.1] * 7), "ppl > 0.7", Outcome.FAILED),
        (0.7, "ppl >= 0.7", Outcome.PASSED),
        (0.69999999, "ppl >= 0.7", Outcome.FAILED),
        (12.3, "ppl <= 12", Outcome.FAILED),
        (-1e-17, "ppl >= 0", Outcome.PASSED),
    ],
)
def test_other_values_forgive_rounding_and_nothing_else(value, claim, outcome):
    assert verdict(claim, measured(value)).outcome is outcome


def test_a_failed_floor_has_its_distance_and_the_documents_short():
    found = verdict("acc >= 0.75", counted(140, 200))
    assert found.outcome is Outcome.FAILED
    assert found.short == pytest.approx(0.05)
    assert found.n_short == 10
    assert found.reason.startswith("0.700 is not >= 0.75 (140 of 200)")


@given(st.integers(1, 300), st.integers(0, 100), st.sampled_from([">=", ">"]))
def test_documents_short_is_the_smallest_number_that_passes(n, percent, op):
    for right in {0, n // 2, n}:
        found = verdict(f"acc {op} {percent}%", counted(right, n), n=n)
        if found.outcome is Outcome.PASSED:
            assert found.n_short is None
            continue
        limit = Fraction(percent, 100)
        passing = [k for k in range(n + 1) if OPERATORS[op](Fraction(k, n), limit)]
        assert found.n_short == (min(passing) - right if passing else None)


def test_documents_short_are_unknown_if_no_answer_would_help():
    assert verdict("acc >= 1.5", counted(200, 200)).n_short is None
    assert verdict("acc <= 0.5", counted(200, 200)).n_short is None
    assert verdict("ppl <= 5", measured(6.0)).n_short is None


def test_documents_short_count_downwards_if_one_means_wrong():
    errors = replace(counted(30, 200), higher_is_better=False)
    assert verdict("acc <= 0.1", errors).n_short == 10


def test_rounding_never_hides_the_side_of_the_threshold():
    found = verdict("acc >= 0.75", counted(74_999, 100_000), n=100_000)
    assert found.reason.startswith("0.74999 is not >= 0.75 (74999 of 100000)")


def test_a_value_within_noise_has_the_probability_of_a_reversal():
    found = verdict("acc >= 0.85", counted(174, 200))
    # Fewer than 170 of 200 correct, by the posterior of a uniform prior.
    percent = round(100 * betabinom.cdf(169, 200, 175, 27))
    low, high = proportion_confint(174, 200, alpha=0.1, method="beta")
    assert found.outcome is Outcome.PASSED
    assert found.reason == (
        f"0.870 >= 0.85 (174 of 200); within noise: 90% CI {low:.3f} to {high:.3f}; "
        f"predicted to fail on {percent}% of new samples of this size"
    )


def test_eight_of_ten_is_reversed_by_45_of_100_new_samples():
    found = verdict("acc > 0.7", counted(8, 10), n=10)
    assert "predicted to fail on 45% of new samples" in found.reason


@pytest.mark.parametrize("op", [">=", ">", "<=", "<"])
@pytest.mark.parametrize("limit", ["0.5", "0.52", "0.475", "0.5101"])
def test_the_reversal_probability_is_binomial(op, limit):
    found = verdict(f"acc {op} {limit}", counted(100, 200))
    ks = range(201)
    holds = [k for k in ks if OPERATORS[op](Fraction(k, 200), Fraction(limit))]
    passes = betabinom.pmf(holds, 200, 101, 101).sum()
    failed = found.outcome is Outcome.FAILED
    percent = round(100 * (passes if failed else 1 - passes))
    assert f"predicted to {'pass' if failed else 'fail'} on {percent}% of new" in (
        found.reason
    )


@pytest.mark.parametrize(("low", "high"), [("0.7", "0.7"), ("0.6", "0.8")])
def test_both_sides_of_a_range_count_in_the_reversal_probability(low, high):
    entry = {"metric": "acc", "min": float(low), "max": float(high)}
    found = verdict(entry, counted(7, 10), n=10)
    ks = [k for k in range(11) if Fraction(low) <= Fraction(k, 10) <= Fraction(high)]
    fails = round(100 * (1 - betabinom.pmf(ks, 10, 8, 4).sum()))
    assert found.outcome is Outcome.PASSED
    assert f"predicted to fail on {fails}% of new samples" in found.reason


def test_both_sides_of_a_range_count_where_values_are_normal():
    entry = {"metric": "ppl", "min": 10, "max": 11.5}
    found = verdict(entry, measured(11.0, stderr=1.0))
    inside = norm.cdf(11.5, 11, 2**0.5) - norm.cdf(10, 11, 2**0.5)
    assert f"predicted to fail on {round(100 * (1 - inside))}% of new" in found.reason


def test_a_verdict_that_cannot_reverse_is_not_within_noise():
    """A proportion of correct answers cannot be below 0, although the limit is
    close."""
    assert verdict("acc >= 0", counted(1, 200)).reason == "0.005 >= 0 (1 of 200)"


def test_other_values_have_a_normal_reversal_probability():
    found = verdict("ppl <= 12", measured(11.0, stderr=1.0))
    # Both this number and the next one vary: 24% are 1 / sqrt(2) deviations away.
    assert found.reason == (
        "11.000 <= 12; within noise: 90% CI 9.355 to 12.645; predicted to fail on 24% "
        "of new samples of this size"
    )


def test_a_value_far_from_the_threshold_has_no_note_on_noise():
    assert (
        verdict("acc >= 0.5", counted(180, 200)).reason == "0.900 >= 0.5 (180 of 200)"
    )


def test_documents_that_were_not_run_make_the_gate_skipped_for_any_value():
    found = verdict("acc >= 0.1", counted(158, 200, n_missing=972), n=1172)
    assert found.outcome is Outcome.SKIPPED
    assert found.reason == "200 of 1,172 documents were run; indicative value 0.790"
    assert found.n_short is None
    found = verdict("acc >= 0.9", counted(0, 0, n_missing=1172), n=1172)
    assert found.outcome is Outcome.SKIPPED
    assert found.reason == "0 of 1,172 documents were run"


def test_a_gate_with_a_limit_is_judged_over_the_selected_documents():
    found = verdict("acc >= 0.5", counted(180, 200), n=200, n_total=1172)
    assert found.outcome is Outcome.PASSED


def test_errors_that_could_reverse_the_verdict_make_it_invalid_with_limits():
    # 195 of 197 right; all three wrong: 0.975, all right: 0.990.
    found = verdict("acc >= 0.98", counted(195, 197, n_errored=2, n_unscored=1))
    assert found.outcome is Outcome.INVALID
    assert found.reason == (
        "3 of 200 documents have no score (2 errored, 1 unscored); "
        "the value is between 0.975 and 0.990, so they decide the gate"
    )


@pytest.mark.parametrize(
    ("claim", "outcome"),
    [
        ("acc >= 0.975", Outcome.PASSED),  # passes even with the three wrong
        ("acc > 0.975", Outcome.INVALID),
        ("acc > 0.99", Outcome.FAILED),  # fails even with the three correct
        ("acc >= 0.99", Outcome.INVALID),
        ("acc <= 0.99", Outcome.PASSED),
        ("acc < 0.975", Outcome.FAILED),
        ({"metric": "acc", "min": 0.9, "max": 0.98}, Outcome.INVALID),
    ],
)
def test_errors_that_cannot_reverse_the_verdict_do_not_change_it(claim, outcome):
    assert verdict(claim, counted(195, 197, n_errored=3)).outcome is outcome


def test_a_verdict_unaffected_by_errors_mentions_them():
    found = verdict("acc >= 0.5", counted(195, 197, n_errored=3))
    assert found.reason == (
        "0.990 >= 0.5 (195 of 197); 3 errored documents cannot change the verdict"
    )
    failed = verdict("acc >= 0.995", counted(195, 197, n_errored=3))
    assert failed.n_short == 4  # 199 of the 200


@given(
    st.integers(1, 60),
    st.integers(1, 20),
    st.integers(0, 100),
    st.sampled_from([">=", ">", "<=", "<"]),
    st.data(),
)
def test_a_verdict_with_errors_is_the_one_that_every_completion_gives(
    n, lacking, percent, op, data
):
    right = data.draw(st.integers(0, n))
    claim = f"acc {op} {percent}%"
    complete = {
        verdict(claim, counted(right + k, n + lacking), n=n + lacking).outcome
        for k in range(lacking + 1)
    }
    found = verdict(claim, counted(right, n, n_errored=lacking), n=n + lacking).outcome
    assert found is (complete.pop() if len(complete) == 1 else Outcome.INVALID)


def test_any_lacking_document_makes_other_metrics_invalid():
    found = verdict("ppl <= 100", measured(5.0, n=199, n_errored=1))
    assert found.outcome is Outcome.INVALID
    assert found.reason == "1 of 200 documents has no score (1 errored)"


def test_a_sum_of_ones_is_not_taken_for_a_mean():
    odd = replace(counted(150, 200), estimate=Estimate(1.0))
    assert verdict("acc >= 0.9", odd).outcome is Outcome.PASSED
    odd = replace(odd, n_errored=1)
    assert verdict("acc >= 0.9", odd).outcome is Outcome.INVALID


@pytest.mark.parametrize("claim", ["acc >= 0", "acc <= 1"])
def test_a_gate_without_scored_documents_never_passes(claim):
    found = verdict(claim, counted(0, 0, n_errored=200))
    assert found.outcome is Outcome.INVALID
    assert found.reason == "no document has a score (200 errored)"
    assert verdict(claim, counted(0, 0), n=0).reason == "no document has a score"


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize("claim", ["ppl >= 0", "ppl <= 1"])
def test_a_value_that_is_not_a_finite_number_is_invalid(value, claim):
    found = verdict(claim, measured(value))
    assert found.outcome is Outcome.INVALID
    assert found.reason == f"the value is {value}, not a finite number"


def test_a_broken_aggregation_is_invalid_with_its_error():
    broken = MetricResult(
        name="f1", filter="none", estimate=None, n_scored=9, error="ValueError: no"
    )
    found = verdict("f1 >= 0", broken)
    assert (found.outcome, found.reason) == (Outcome.INVALID, "ValueError: no")


def test_an_absent_metric_is_invalid_with_a_near_one():
    found = verdict("acc_nrm >= 0", counted(1, 1, "acc_norm"), counted(1, 1, "f1"))
    assert found.outcome is Outcome.INVALID
    assert found.reason == "unknown metric 'acc_nrm'; did you mean 'acc_norm'?"
    assert found.metric is None
    found = verdict("bleu >= 0", counted(1, 1, "acc"), counted(1, 1, "f1"))
    assert found.reason == "unknown metric 'bleu'; known: acc, f1"


def test_a_metric_under_several_filters_must_be_named_with_one():
    both = counted(90, 100, "em", "strict"), counted(10, 100, "em", "flexible")
    found = verdict("em >= 0.5", *both, n=100)
    assert found.outcome is Outcome.INVALID
    assert found.reason == (
        "'em' has 2 filters: name one of 'em,strict', 'em,flexible'"
    )
    assert verdict("em,strict >= 0.5", *both, n=100).outcome is Outcome.PASSED
    assert verdict("em,flexible >= 0.5", *both, n=100).outcome is Outcome.FAILED
    assert verdict("em,strct >= 0.5", *both, n=100).reason == (
        "unknown filter 'strct' of 'em'; did you mean 'strict'?"
    )


# Documents that must pass


def answered(index, correct, error="", unscored=""):
    score = Score(metric="acc", value=correct, correct=correct, unscored=unscored)
    doc = Doc("", [], 0)
    return Record(
        task="arc",
        index=index,
        doc=doc,
        error=error,
        scores=() if error else (score,),
    )


FOUR = (
    answered(0, True),
    answered(1, False),
    answered(2, None, error="timed out"),
    answered(3, None, unscored="no judge"),
)


def listed(*ids, records=FOUR, n_total=None):
    names = ("right", "wrong", "errored", "unscored", "not run")
    facts = result(n=5, n_total=n_total, names=names, records=records)
    return judge(gate({"must_pass": list(ids)}), facts)


def test_right_documents_pass():
    found = listed("right")
    assert (found.outcome, found.reason) == (Outcome.PASSED, "1 document correct")


def test_a_wrong_document_fails_and_is_named_for_any_others():
    found = listed("right", "wrong")
    assert found.outcome is Outcome.FAILED
    assert (found.documents, found.n_short) == (("wrong",), 1)
    assert found.reason == "1 of 2 documents wrong: wrong"
    found = listed("wrong", "errored", "not run", "nobody")
    assert (found.outcome, found.n_short) == (Outcome.FAILED, None)
    assert found.reason == ("1 of 4 documents wrong: wrong; 3 more without a score")


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("errored", "errored errored: timed out"),
        ("unscored", "unscored is unscored: no judge"),
        ("rigth", "unknown document 'rigth'; did you mean 'right'?"),
    ],
)
def test_documents_without_a_score_and_unknown_ids_are_invalid(name, reason):
    found = listed("right", name, "not run")
    assert (found.outcome, found.reason) == (Outcome.INVALID, reason)
    assert found.documents == (name,)


def test_documents_that_were_not_run_are_skipped():
    found = listed("right", "not run")
    assert found.outcome is Outcome.SKIPPED
    assert found.reason == "1 of 2 documents not run: not run"


def test_under_a_limit_an_id_outside_of_it_is_not_called_unknown():
    assert listed("right", "later", n_total=100).outcome is Outcome.SKIPPED
    assert listed("right", "later").outcome is Outcome.INVALID


def test_a_document_without_correctness_is_invalid():
    neither = (Record(task="arc", index=0, doc=Doc("", [], 0)),)
    found = listed("right", records=neither)
    assert found.outcome is Outcome.INVALID
    assert found.reason == (
        "right is neither correct nor wrong: no metric of the task decides that"
    )
