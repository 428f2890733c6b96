"""Gates that can never fail or never pass, for any responses of the model."""

import math
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_evals.core.metric import ANYTHING, POSITIVE, SHARE, Span
from pytest_evals.errors import Place
from pytest_evals.gates.check import span_fault
from pytest_evals.gates.read.entry import read_gate
from pytest_evals.gates.terms import Condition

CORRELATION, PERCENT = Span(-1.0, 1.0), Span(0.0, 100.0)
SOURCE = Place(Path("gates.yaml"), 1)


def fault(entry, span):
    return span_fault(read_gate(entry, task="t", source=SOURCE), span)


def versus(**keys):
    return {"metric": "acc", "baseline": "main", **keys}


@pytest.mark.parametrize(
    ("entry", "scale", "message"),
    [
        ("score >= 7", Span(0, 10), "from 0 to 10 are stored in that range, did you"),
        ("score >= 7", Span(0, 10), "did you mean >= 0.7?"),
        ("score > 3", Span(1, 5), "did you mean > 0.5?"),
        ("score <= 3", Span(1, 5), "always holds; values from 1 to 5"),
        ("score >= 0", Span(0, 10), "always holds; choose a limit inside that range"),
        ("score >= 70", Span(0, 10), "never holds; did you mean >= 70%?"),
        ("score >= 7", SHARE, "never holds; did you mean >= 7%?"),
        ("score >= 0.7", Span(0, 10), ""),
    ],
)
def test_a_limit_on_the_scale_before_a_conversion_is_converted(entry, scale, message):
    gate = read_gate(entry, task="t", source=SOURCE)
    found = span_fault(gate, SHARE, scale)
    assert message in found
    assert bool(found) == bool(message)


@pytest.mark.parametrize(
    ("entry", "span", "message"),
    [
        ("acc >= 0", SHARE, "acc is between 0 and 1, so >= 0 always holds"),
        ("acc > -0.1", SHARE, "so > -0.1 always holds"),
        ("acc <= 1", SHARE, "so <= 1 always holds"),
        ("acc < 1.5", SHARE, "so < 1.5 always holds"),
        ("acc <= 100%", SHARE, "so <= 1.00 always holds"),
        ("acc > 1", SHARE, "so > 1 never holds"),
        ("acc < 0", SHARE, "so < 0 never holds"),
        ("acc >= 75", SHARE, "never holds; did you mean >= 75%?"),
        ("acc <= 75", SHARE, "always holds"),
        ("mcc >= -1", CORRELATION, "mcc is between -1 and 1"),
        ("mcc > 1", CORRELATION, "never holds"),
        ("bleu >= 0", PERCENT, "bleu is between 0 and 100"),
        ("bleu >= 101", PERCENT, "never holds"),
        ("ter >= 0", Span(low=0.0), "ter is 0 or more"),
        ("ppl > 0", POSITIVE, "ppl is above 0, so > 0 always holds"),
        ("ppl <= 0", POSITIVE, "never holds"),
        ("bypass >= 1000", Span(999.0, 999.0), "bypass is always 999"),
        ({"metric": "acc", "min": 0, "max": 1}, SHARE, "so >= 0 and <= 1 always hold"),
        ({"metric": "acc", "min": 2, "max": 3}, SHARE, "never holds"),
        ({"metric": "acc", "min": 0, "over": "population"}, SHARE, "always holds"),
        (versus(max_drop=2), SHARE, "so drop <= 2 always holds; did you mean max_drop"),
        (versus(max_drop=1), SHARE, "always holds"),
        (versus(max_drop="100%"), SHARE, "always holds"),
        (versus(max_rise=1), SHARE, "always holds"),
    ],
)
def test_a_gate_that_always_or_never_holds_is_explained(entry, span, message):
    assert message in fault(entry, span)


@pytest.mark.parametrize(
    ("entry", "span"),
    [
        ("acc >= 1", SHARE),
        ("acc > 0", SHARE),
        ("acc <= 0", SHARE),
        ("acc < 1", SHARE),
        ("acc >= 75%", SHARE),
        ("bleu >= 75", PERCENT),
        ("bleu >= 0.5", PERCENT),
        ("mcc >= 0", CORRELATION),
        ("ppl <= 1000000", POSITIVE),
        ("mark >= 0", ANYTHING),
        ("mark > 1000", ANYTHING),
        ({"metric": "acc", "min": 0, "max": 0.9}, SHARE),
        ({"metric": "acc", "min": 0.5, "max": 1}, SHARE),
        (versus(max_drop=0.99), SHARE),
        (versus(max_drop="99%"), SHARE),
        (versus(max_drop="100%"), CORRELATION),
        (versus(max_drop=2), PERCENT),
        (versus(max_rise="100%"), SHARE),
        (versus(recovery=1), SHARE),
        (versus(max_drop=5), ANYTHING),
    ],
)
def test_a_gate_that_can_fail_and_pass_has_no_fault(entry, span):
    assert fault(entry, span) == ""


@given(
    st.sampled_from([">=", ">", "<=", "<"]),
    st.decimals(-3, 3, places=2),
    st.sampled_from([SHARE, CORRELATION, Span(0.0, 2.0), Span(1.0)]),
)
def test_it_is_a_fault_exactly_if_all_values_have_the_same_outcome(op, limit, span):
    """Expected from values over the whole span, including its ends and the limit's
    neighbours."""
    gate = read_gate(f"acc {op} {limit}", task="t", source=SOURCE)
    (bound,) = gate.bounds
    near = float(bound.value)
    values = [span.low, min(span.high, 1e9), near, near - 0.001, near + 0.001]
    inside = [value for value in values if span.low <= value <= span.high]
    condition = Condition(bound.op, Fraction(bound.value), str(bound))
    outcomes = {condition.holds(value) for value in inside}
    assert bool(span_fault(gate, span)) == (len(outcomes) == 1)


def test_the_values_of_several_tasks_lie_in_a_span_around_all():
    assert SHARE.around(CORRELATION) == CORRELATION
    assert SHARE.around(ANYTHING) == ANYTHING
    assert Span(low=1.0).around(SHARE) == Span(0.0, math.inf)
