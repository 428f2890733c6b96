"""Gates on the responses of two runs: agreement, flips and divergence."""

import json
import math
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.special import rel_entr, softmax
from scipy.stats import binomtest
from statsmodels.stats.proportion import proportion_confint

from pytest_evals.core.doc import Doc
from pytest_evals.core.metric import Metric
from pytest_evals.core.record import Record, Score
from pytest_evals.core.reference import ComparedValues, Reference
from pytest_evals.core.result import TaskResult
from pytest_evals.errors import Place, TaskFileError
from pytest_evals.gates.judge import judge
from pytest_evals.gates.read.entry import read_gate

HERE = Place(Path("arc.yaml"), 7)


def run(answers, logprobs=None, correct=None, lost=(), tops=None):
    """A run in which documents have these responses."""
    n = len(answers)
    right = correct or [True] * n
    records = tuple(
        Record(
            task="arc",
            index=i,
            doc=Doc("", ["a", "b"], 0, id=f"d{i}"),
            scores=(Score(metric="acc", value=float(right[i]), correct=right[i]),),
            compared=ComparedValues(
                {"none": answers[i]},
                tuple(logprobs[i] if logprobs else ()),
                json.dumps(tops[i]) if tops else "",
            ),
            error="lost" if i in lost else "",
        )
        for i in range(n)
    )
    task = SimpleNamespace(name="arc", metrics=(Metric(name="acc", aggregate=None),))
    return TaskResult(task=task, records=records, metrics=(), n_selected=n, n_total=n)


def baseline(result):
    """The baseline that a run would be."""
    known = {one.index: one for one in result.records}
    return Reference(
        baseline="main",
        values={"acc,none": {i: one.scores[0].value for i, one in known.items()}},
        compared={i: one.compared for i, one in known.items()},
    )


def verdict(old, new, **keys):
    gate = read_gate({"baseline": "main", **keys}, task="arc", source=HERE)
    return judge(gate, new, find=lambda *_: baseline(old))


def test_agreement_is_the_proportion_of_equal_answers_with_exact_limits():
    old, new = run(["a"] * 400), run(["a"] * 396 + ["b"] * 4)
    found = verdict(old, new, metric="agreement", min=0.97)
    low, high = proportion_confint(396, 400, alpha=0.1, method="beta")
    assert (found.outcome, found.value) == ("passed", 0.99)
    assert (found.low, found.high) == pytest.approx((low, high))
    assert verdict(old, new, metric="agreement", min=0.999).outcome == "failed"
    assert verdict(old, new, metric="agreement", min=0.985).outcome == "inconclusive"
    assert (
        verdict(old, new, metric="agreement", min=0.99, over="run").outcome == "passed"
    )


def test_flips_count_both_ways():
    old = run(["a"] * 100, correct=[True] * 97 + [False] * 3)
    new = run(["a"] * 100, correct=[False] * 2 + [True] * 98)
    found = verdict(old, new, metric="flips", max="10%")
    assert found.value == 0.05
    exact = binomtest(5, 100).proportion_ci(0.9, "exact").high
    assert found.high == pytest.approx(exact)
    assert exact > 0.1
    assert found.outcome == "inconclusive"
    assert verdict(old, new, metric="flips", max="4%", over="run").outcome == "failed"


def test_divergence_is_scipys_of_the_softmax_over_choices():
    generator = np.random.default_rng(0)
    old = generator.normal(-20, 3, (60, 4))
    new = old + generator.normal(0, 0.3, (60, 4))
    found = verdict(
        run(["a"] * 60, old.tolist()),
        run(["a"] * 60, new.tolist()),
        metric="kl",
        max=0.5,
    )
    each = rel_entr(softmax(old, axis=1), softmax(new, axis=1)).sum(axis=1)
    assert found.value == pytest.approx(each.mean())
    assert found.low < each.mean() < found.high
    assert found.outcome == "passed"


def test_a_run_is_equal_to_itself():
    same = run(["a"] * 50, [[-1.0, -2.0]] * 50)
    assert verdict(same, same, metric="agreement", min=0.9).outcome == "passed"
    found = verdict(same, same, metric="kl", max=0.05)
    assert (found.value, found.outcome) == (0, "passed")
    # 50 equal documents leave log 2 * (1 - 0.05 ** (1 / 50)) = 0.04 nats possible.
    assert found.high == pytest.approx(np.log(2) * (1 - 0.05 ** (1 / 50)))
    assert verdict(same, same, metric="kl", max=0.001).outcome == "inconclusive"


def test_documents_without_an_answer_count_as_both():
    old = run(["a"] * 100)
    few = run(["a"] * 100, lost={1})
    many = run(["a"] * 100, lost={*range(20)})
    assert verdict(old, few, metric="agreement", min=0.9).outcome == "passed"
    found = verdict(old, many, metric="agreement", min=0.9)
    assert found.outcome == "invalid"
    assert "20 of 100 documents have no score" in found.reason


def token(name, **p):
    """One generated token with the probabilities of the most likely ones."""
    return [name, {one: math.log(value) for one, value in p.items()}]


def test_generated_answers_diverge_up_to_the_first_token_that_differs():
    """By hand, of full distributions: the third token follows different texts."""
    old = [token("a", a=0.8, b=0.2), token("b", a=0.3, b=0.7), token("x", x=1)]
    new = [token("a", a=0.7, b=0.3), token("a", a=0.6, b=0.4), token("y", y=1)]
    first = 0.8 * math.log(0.8 / 0.7) + 0.2 * math.log(0.2 / 0.3)
    second = 0.3 * math.log(0.3 / 0.6) + 0.7 * math.log(0.7 / 0.4)
    before, now = run(["b"] * 40, tops=[old] * 40), run(["a"] * 40, tops=[new] * 40)
    found = verdict(before, now, metric="kl", max=0.5)
    assert found.value == pytest.approx((first + second) / 2, abs=1e-5)
    assert found.outcome == "passed"
    assert found.low < found.value < found.high  # although all documents are alike
    assert found.notes[0].startswith("a lower bound of kl: the top 5 tokens")
    point = verdict(before, now, metric="kl", max=0.5, over="run")
    assert point.notes == found.notes[:1]
    same = verdict(before, before, metric="kl", max=0.1)
    assert (same.value, same.outcome) == (0, "passed")
    assert verdict(before, now, metric="kl", max=0.01).outcome == "failed"


def test_a_token_without_a_name_ends_the_comparison():
    """The texts after it may differ."""
    old = [token("", a=0.5, b=0.5), token("a", a=0.99, b=0.01)]
    new = [token("", a=0.5, b=0.5), token("a", a=0.01, b=0.99)]
    before, now = run(["a"] * 40, tops=[old] * 40), run(["a"] * 40, tops=[new] * 40)
    assert verdict(before, now, metric="kl", max=0.1).value == 0


def test_tokens_of_another_vocabulary_are_not_compared():
    old = run(["a"] * 10, tops=[[token("5:a", **{"5:a": 0.9})]] * 10)
    new = run(["a"] * 10, tops=[[token("a", a=0.9)]] * 10)
    found = verdict(old, new, metric="kl", max=0.1)
    assert found.outcome == "invalid"
    assert "needs the same kind of model and the same tokenizer" in found.reason


def test_generated_answers_without_top_log_probabilities_have_no_divergence():
    bare, full = run(["a"] * 10), run(["a"] * 10, tops=[[token("a", a=0.9)]] * 10)
    found = verdict(full, bare, metric="kl", max=0.1)
    assert found.outcome == "invalid"
    assert found.reason.startswith("the model returns no top log-probabilities")
    found = verdict(bare, full, metric="kl", max=0.1)
    assert found.outcome == "invalid"
    assert "'main' has no top log-probabilities" in found.reason
    assert found.reason.endswith("--evals-save-baseline=main")


def test_runs_that_are_not_comparable_are_invalid():
    new = run(["a"] * 10)
    entry = {"metric": "agreement", "baseline": "main", "min": 0.9}
    gate = read_gate(entry, task="arc", source=HERE)
    fault = replace(baseline(new), fault="baseline 'main' is not comparable: shots")
    found = judge(gate, new, find=lambda *_: fault)
    assert (found.outcome, found.reason) == ("invalid", fault.fault)


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"metric": "agreement"}, "compares two runs: set min or max"),
        ({"metric": "kl", "max_drop": 0.1}, "compares two runs: set min or max"),
        ({"metric": "acc", "min": 0.1}, "a baseline gate limits a change"),
    ],
)
def test_invalid_entries_are_refused(keys, message):
    with pytest.raises(TaskFileError, match=message):
        read_gate({"baseline": "main", **keys}, task="arc", source=HERE)


def with_divergences(values):
    """Documents with KL(baseline || run) of these values: of a fair coin and of one
    with q (1 - q) = exp(-2 x) / 4."""
    q = (1 - np.sqrt(-np.expm1(-2 * np.array(values)))) / 2
    now = [(math.log(one), math.log(1 - one)) for one in q]
    answers = ["a"] * len(values)
    return run(answers, [(math.log(0.5),) * 2] * len(values)), run(answers, now)


def test_a_small_sample_without_divergence_does_not_prove_a_small_mean():
    """1 - 0.05^(1/n) of the documents may diverge by log 2: below 0.01 from 207 on."""
    for n, outcome in ((206, "inconclusive"), (207, "passed")):
        found = verdict(*with_divergences([0.0] * n), metric="kl", max=0.01)
        assert found.outcome == outcome
        highest = math.log(2) * (1 - 0.05 ** (1 / n))
        assert found.high == pytest.approx(highest, rel=1e-5)


def test_a_divergence_counts_up_to_log_2_over_a_population_only():
    pair = with_divergences([0.0] * 299 + [3.0])
    found = verdict(*pair, metric="kl", max=0.02)
    assert found.value == pytest.approx(math.log(2) / 300)
    assert "1 of 300 are above it, the uncapped mean is 0.010" in found.notes[0]
    assert verdict(*pair, metric="kl", max=0.02, over="run").value == pytest.approx(
        0.01
    )


def test_documents_without_a_divergence_can_decide_a_gate():
    old, new = with_divergences([0.0] * 300)
    kept = replace(new, records=tuple(
        replace(one, error="lost") if one.index < 9 else one for one in new.records
    ))  # fmt: skip
    assert verdict(old, kept, metric="kl", max=0.01).outcome == "invalid"
    assert verdict(old, kept, metric="kl", max=0.1).outcome == "passed"
