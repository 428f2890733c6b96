"""An expected value with a tolerance is the threshold that projects compute from it."""

import random
from fractions import Fraction
from pathlib import Path

import pytest

from pytest_evals import judge_gate
from pytest_evals.errors import Place, TaskFileError
from pytest_evals.gates.check import direction_fault
from pytest_evals.gates.read.entry import read_gate

PLACE = Place(Path("quiz.yaml"), 1)


def bounds(**keys):
    gate = read_gate({"metric": "acc", **keys}, task="quiz", source=PLACE)
    return [(bound.op, float(bound.value)) for bound in gate.bounds]


def test_the_tolerance_is_a_share_a_distance_or_points_below_the_value():
    assert bounds(value=0.75, tolerance="8%") == [(">=", 0.69)]
    assert bounds(value=0.92, tolerance=0.08) == [(">=", 0.84)]
    assert bounds(value="96%", tolerance="10 points") == [(">=", 0.86)]
    assert bounds(value=10, tolerance={"above": "1%"}) == [("<=", 10.1)]
    both = {"below": "4%", "above": "10%"}
    assert bounds(value=0.5, tolerance=both) == [(">=", 0.48), ("<=", 0.55)]
    assert bounds(value=-2, tolerance="10%") == [(">=", -2.2)]


def test_scores_on_the_threshold_pass_for_every_number_of_documents():
    """Exact fractions decide, where floating-point products are a little off."""
    rng = random.Random(3)
    for _ in range(300):
        n, percent, share = rng.randint(1, 300), rng.randint(1, 99), rng.randint(1, 30)
        correct = rng.randint(0, n)
        gate = {"value": f"{percent}%", "tolerance": f"{share}%"}
        found = judge_gate(gate, [1] * correct + [0] * (n - correct))
        edge = Fraction(percent, 100) * (1 - Fraction(share, 100))
        assert (found.outcome == "passed") == (Fraction(correct, n) >= edge)


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"value": 0.9}, "value needs tolerance"),
        ({"tolerance": 0.1}, "tolerance needs value"),
        ({"value": 0.9, "tolerance": 8}, "a tolerance of 8 below 0.9 allows every"),
        (
            {"value": 0.9, "tolerance": "8%", "min": 0.5},
            "value cannot be combined with",
        ),
        ({"value": 0.9, "tolerance": -0.1}, "must be 0 or more, not -0.1"),
        ({"value": 0.9, "tolerance": {"belov": 1}}, "did you mean 'below'?"),
        ({"value": 0.9, "tolerance": "some"}, "must be a share (8%), a distance"),
        ({"value": 0.9, "tolerances": "8%"}, "did you mean 'tolerance'?"),
    ],
)
def test_a_wrong_form_is_explained_once(keys, message):
    with pytest.raises(TaskFileError) as caught:
        read_gate({"metric": "acc", **keys}, task="quiz", source=PLACE)
    assert message in str(caught.value)
    assert len(caught.value.problems) == 1


def test_a_floor_on_a_metric_whose_lower_values_are_better_is_a_fault():
    entry = {"metric": "ppl", "value": 10, "tolerance": "1%"}
    gate = read_gate(entry, task="quiz", source=PLACE)
    fault = direction_fault(gate, higher_is_better=False)
    assert fault == "lower is better for ppl: use tolerance: {above: …}"
    assert not direction_fault(gate, higher_is_better=True)
