"""Gates that are decided early have the verdict of the full run."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_evals.core.doc import Doc
from pytest_evals.core.gate import Outcome
from pytest_evals.core.metric import Estimate, Metric
from pytest_evals.core.record import Record, Score
from pytest_evals.errors import Place
from pytest_evals.gates.early_stopping.steps import expected_share, steps_of
from pytest_evals.gates.early_stopping.watch import (
    Watch,
    in_order,
    reading_order,
    wave_size,
)
from pytest_evals.gates.read.entry import read_gate

ACC = Metric(name="acc", aggregate=lambda values: Estimate(0.0), is_mean=True)
HERE = Place(Path("arc.yaml"), 1)


def record(index, value, error=""):
    scores = () if error else (Score(metric="acc", value=value),)
    doc = Doc("", [], 0)
    return Record(task="arc", index=index, doc=doc, scores=scores, error=error)


def watch_of(n, *, error=0.01, old=None, **keys):
    gate = read_gate({"metric": "acc", **keys}, task="arc", source=HERE)
    steps = steps_of(gate, ACC, n)
    return Watch(gate, steps, n, error=error, old=old), steps


def read_all(watch, records, wave=20):
    """Batches until the gate is decided; returns the number of documents that took."""
    for start in range(0, len(records), wave):
        watch.read("acc,none", records[start : start + wave])
        if watch.outcome:
            return min(len(records), start + wave)
    return len(records)


@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.sampled_from([0, 1, None]), min_size=20, max_size=90),
    st.sampled_from(["min", "max"]),
    st.integers(5, 95),
    st.sampled_from([{}, {"over": "population"}, {"noise": 0.1}]),
)
def test_a_certain_verdict_holds_for_any_remaining_documents(
    values, side, percent, noise
):
    """Early stopping: the steps at both bounds of documents without a score."""
    n = len(values)
    watch, steps = watch_of(n, error=0, **{side: percent / 100}, **noise)
    records = [
        record(i, value, error="" if value is not None else "lost")
        for i, value in enumerate(values)
    ]
    read_all(watch, records)
    right, lost = values.count(1), values.count(None)
    ends = {
        steps.outcomes[
            sum(
                total > cut.target if cut.strict else total >= cut.target
                for cut in steps.cuts
            )
        ]
        for total in range(right, right + lost + 1)
    }
    assert watch.outcome in ({None} if len(ends) > 1 else ends)


def test_far_from_the_threshold_few_documents_run():
    rng = np.random.default_rng(0)
    values = rng.permutation(np.repeat([1, 0], [900, 100]))
    watch, _ = watch_of(1000, min=0.7)
    n = read_all(watch, [record(i, int(v)) for i, v in enumerate(values)])
    assert (watch.outcome, n < 200) == (Outcome.PASSED, True)
    found = watch.verdict(None, 0.99)
    assert found.early
    assert found.reason.startswith(f"holds, decided after {n} of 1,000 documents (")
    assert "with a probability of at least 99%" in found.reason
    assert found.interval.low > 0.7
    assert found.interval.low <= 0.9 <= found.interval.high


@pytest.mark.slow
def test_documents_that_cannot_settle_it_leave_it_open_early():
    """Over other documents, 70 of 100 correct is inconclusive at a threshold of .70."""
    rng = np.random.default_rng(0)
    values = rng.permutation(np.repeat([1, 0], [7000, 3000]))
    watch, _ = watch_of(10_000, error=0.05, min=0.7, over="population")
    n = read_all(watch, [record(i, int(v)) for i, v in enumerate(values)], 500)
    assert watch.outcome is Outcome.INCONCLUSIVE
    assert n < 10_000
    assert watch.verdict(None, 0.99).reason.startswith("is left open by all documents")


@pytest.mark.parametrize(
    ("last", "why"),
    [
        (record(40, 1.5), "a document scored 1.5, which is not from 0 to 1"),
        (record(40, 0, "lost"), "a document has no score, and others are not 0 or 1"),
    ],
)
def test_events_that_invalidate_early_stopping_end_the_watch(last, why):
    watch, _ = watch_of(100, min=0.99)
    watch.read("acc,none", [record(0, 0.5)])
    watch.read("acc,none", [last])
    assert watch.void == why
    read_all(watch, [record(i, 0) for i in range(98)])
    assert watch.outcome is None


def test_order_is_drawn_for_a_commit_and_a_task_or_by_a_seed():
    drawn = reading_order(500, "abc", "arc")
    assert sorted(drawn) == list(range(500))
    assert drawn == reading_order(500, "abc", "arc")
    others = [
        reading_order(500, "abd", "arc"),
        reading_order(500, "abc", "mmlu"),
        reading_order(500, "abc", "arc", seed=1),
    ]
    assert all(other != drawn for other in others)
    assert reading_order(500, "", "arc", 1) == others[2]
    # the order of the data is shuffled
    assert abs(np.corrcoef(drawn, range(500))[0, 1]) < 0.15


def test_waves_fill_a_device_and_are_few():
    assert [wave_size(n) for n in (10, 1000, 10_000)] == [64, 64, 500]


def test_values_of_another_run_are_of_use_only_if_all_are_known():
    assert in_order({0: 1.0, 1: 0.0}, [1, 0]) == [0.0, 1.0]
    assert in_order({0: 1.0}, [1, 0]) is None
    assert in_order({0: 1.0, 1: 7.0}, [1, 0]) is None


@pytest.mark.slow
def test_the_expected_fraction_is_small_far_from_the_threshold_and_1_near_it():
    _, steps = watch_of(1000, min=0.7)
    far = expected_share([(steps, [1.0] * 900 + [0.0] * 100)], 64, 0.01)
    near = expected_share([(steps, [1.0] * 700 + [0.0] * 300)], 64, 0.01)
    assert far < 0.3
    assert near > 0.85
    assert expected_share([(steps, None)], 64, 0.01) is None
