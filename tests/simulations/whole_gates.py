"""Whole gates on drawn documents: from records to the verdict, by ``judge``."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from pytest_evals import judge_gate
from pytest_evals.core.doc import Doc
from pytest_evals.core.record import Record, Score
from pytest_evals.core.reference import ComparedValues, Reference
from pytest_evals.core.result import GroupResult, TaskResult
from pytest_evals.core.task import Aggregate, Group, Task
from pytest_evals.errors import Place
from pytest_evals.gates.judge import judge
from pytest_evals.gates.read.entry import read_gate
from pytest_evals.scorers.groups import summarise_group
from pytest_evals.scorers.metrics import MetricSpec, metric
from pytest_evals.scorers.summary import summarise
from pytest_evals.stats.mean_limits import bounded_mean
from tests.simulations.cells import Cell, Rates, exact, outcome, sampled
from tests.simulations.populations import Draw, Numbers

__all__ = [
    "divergences",
    "groups",
    "labels",
    "outliers",
    "sampled_groups",
    "sampled_runs",
]

HERE = Place(Path("simulated.yaml"), 1)
CAP = math.log(2)


def _exponential(share: float, small: float, large: float) -> tuple[Draw, float]:
    """Exponential divergences, of which a share has a larger mean; and the mean of
    those capped at log 2."""

    def draw(rng: np.random.Generator, n: int) -> Numbers:
        is_large = rng.random(n) < share
        return np.where(is_large, rng.exponential(large, n), rng.exponential(small, n))

    capped = [(1 - math.exp(-CAP / mean)) * mean for mean in (small, large)]
    return draw, (1 - share) * capped[0] + share * capped[1]


DIVERGENCES: dict[str, tuple[Draw, float]] = {
    "3% exp(0.3), else exp(1e-4)": _exponential(0.03, 1e-4, 0.3),
    "1% exp(1), else exp(1e-6)": _exponential(0.01, 1e-6, 1.0),
    "exp(0.01)": _exponential(0.0, 0.01, 0.01),
}


def divergences(sizes: Sequence[int] = (40, 100, 300)) -> Iterator[Cell]:
    """``kl`` of two choices in both runs, through whole gates. A passed gate has shown
    that the mean is at most the threshold."""
    for name, (draw, mean) in DIVERGENCES.items():
        for n in sizes:

            def sample(rng: np.random.Generator, draw=draw, mean=mean, n=n) -> str:
                gate = read_gate(
                    {"metric": "kl", "baseline": "main", "max": repr(mean)},
                    task="t",
                    source=HERE,
                )
                # KL of a fair coin and (q, 1 - q) is x for q (1 - q) = exp(-2 x) / 4.
                q = (1 - np.sqrt(-np.expm1(-2 * draw(rng, n)))) / 2
                pairs = np.log(np.clip(np.stack([q, 1 - q], axis=1), 1e-300, 1))
                coin = ComparedValues({}, (math.log(0.5), math.log(0.5)))
                reference = Reference(
                    baseline="main", compared=dict.fromkeys(range(n), coin)
                )
                now = [ComparedValues({}, tuple(row)) for row in pairs.tolist()]
                result = _result("t", "acc", [0] * n, compared=now)
                found = judge(gate, result, find=lambda *_: reference)
                return str(found.outcome)

            yield sampled("kl", name, n, sample)


WHOLE = 14042


def sampled_runs(sizes: Sequence[int] = (100, 300, 500, 1000, 2000)) -> Iterator[Cell]:
    """The change of a benchmark of 14,042 documents from a random sample and a complete
    baseline, summed over all outcomes. The number is the baseline's plus this change,
    so its rates are the same."""
    for changed in (0.005, 0.026, 0.05, 0.1):
        for share in (0.5, 2 / 3, 1.0):
            for n in sizes:
                lost = round(WHOLE * changed * share)
                moved = (round(WHOLE * changed) - lost, lost)
                name = f"{changed:.1%} change, {share:.0%} lost"
                yield exact(
                    "sample", name, n, lambda moved=moved, n=n: _sampled_rates(n, moved)
                )


def _sampled_rates(n: int, moved: tuple[int, int]) -> Rates:
    """Summed over the numbers of gained and lost documents in a sample."""
    gained, lost = moved
    truth, factor = (gained - lost) / WHOLE, 1 / (1 - n / WHOLE)
    passed = failed = 0.0
    for less, chance in _drawn(WHOLE, lost, n):
        for more, among in _drawn(WHOLE - lost, gained, n - less):
            changes = [-1.0] * less + [1.0] * more + [0.0] * (n - less - more)
            spread = bounded_mean(changes, low=-1, high=1).scaled(factor)
            found = outcome(spread, truth)
            passed += chance * among * (found == "passed")
            failed += chance * among * (found == "failed")
    return Rates(100 * passed, 100 * failed)


def _drawn(whole: int, size: int, n: int) -> Iterator[tuple[int, float]]:
    """The likely numbers of documents in a sample, of so many, and their chances."""
    from scipy.stats import hypergeom

    every = range(int(hypergeom.isf(1e-5, whole, size, n)) + 1)
    for k, chance in zip(every, hypergeom.pmf(every, whole, size, n), strict=True):
        if chance > 1e-7:
            yield k, float(chance)


PARTS = ((2000, 400), (500, 400), (300, 300))
"""Documents and sampled documents of each task."""


def sampled_groups() -> Iterator[Cell]:
    """The change of a group from random samples of its tasks and a complete baseline
    with 60% correct answers; the margin is the true change. Of the changed answers a
    share is lost."""
    for changed in (0.02, 0.05, 0.1):
        for share in (0.5, 1.0):
            tasks = [_moved(whole, changed, share) for whole, _ in PARTS]
            truth = float(np.mean(np.concatenate([new - old for old, new in tasks])))

            def sample(rng: np.random.Generator, tasks=tasks, truth=truth) -> str:
                return _sampled_group(rng, tasks, truth)

            name = f"{changed:.0%} change, {share:.0%} lost"
            yield sampled("sampled group", name, sum(n for _, n in PARTS), sample)


def _moved(whole: int, changed: float, share: float) -> tuple[Numbers, Numbers]:
    """The values of a task's documents in both runs."""
    old = np.repeat([1.0, 0.0], [round(0.6 * whole), whole - round(0.6 * whole)])
    new, lost = old.copy(), round(whole * changed * share)
    new[:lost] = 0
    gained = round(whole * changed) - lost
    new[whole - gained :] = 1
    return old, new


def _sampled_group(
    rng: np.random.Generator, tasks: Sequence[tuple[Numbers, Numbers]], truth: float
) -> str:
    results, references = {}, {}
    for i, ((old, new), (whole, n)) in enumerate(zip(tasks, PARTS, strict=True)):
        at = rng.permutation(whole)
        before = old[at].astype(int).tolist()
        results[f"t{i}"] = _result(f"t{i}", "acc", new[at[:n]].astype(int))
        references[f"t{i}"] = Reference(
            baseline="main",
            values={"acc,none": dict(enumerate(before[:n]))},
            rest={"acc,none": before[n:]} if whole > n else {},
            n=whole,
        )
    gate = read_gate(
        {"metric": "acc", "baseline": "main", "max_drop": repr(-truth), "over": "run"},
        task="g",
        source=HERE,
    )
    found = judge(
        gate,
        _group(results, "acc"),
        find=lambda _, task: references[task],
    )
    return str(found.outcome)


def outliers(sizes: Sequence[int] = (20, 60, 100, 300)) -> Iterator[Cell]:
    """Rare scores that are much larger: ``max`` at the true mean; and rare rises by as
    much: ``max_rise`` at the true change. Most scores are uniform, up to 1 or 0.1. Also
    of groups of two tasks."""
    for share, times, width in (
        (0.01, 20, 1.0),
        (0.02, 20, 1.0),
        (0.05, 20, 1.0),
        (0.03, 50, 0.1),
    ):
        large = times * width
        kind = f"{share:.0%} of {large:g}"
        mean = (1 - share) * width / 2 + share * large
        ranges: dict[str, tuple[float, float] | None] = {"range unknown": None}
        if width < 1:
            ranges[f"range 0 to {large:g}"] = (0, large)
        for text, ends in ranges.items():
            for n in sizes:

                def sample(
                    rng: np.random.Generator,
                    ends=ends,
                    n=n,
                    kind=(share, times * width, width, mean),
                ) -> str:
                    share, large, width, mean = kind
                    usual = width * rng.random(n)
                    scores = np.where(rng.random(n) < share, large, usual)
                    gate = {"max": mean, "over": "population"}
                    return str(judge_gate(gate, scores, range=ends).outcome)

                yield sampled(kind, text, n, sample)
        for n in sizes:

            def change(
                rng: np.random.Generator, n=n, kind=(share, times * width, width)
            ) -> str:
                share, large, width = kind
                old = width * rng.random(n)
                new = np.where(rng.random(n) < share, old + large, old)
                gate = {"max_rise": share * large}
                return str(judge_gate(gate, new, baseline=old, range=None).outcome)

            yield sampled(f"rise, {kind}", "range unknown", n, change)
    yield from _groups_with_outliers(sizes)


def _groups_with_outliers(sizes: Sequence[int]) -> Iterator[Cell]:
    for share in (0.01, 0.05):
        for n in sizes:

            def group(rng: np.random.Generator, share=share, n=n) -> str:
                return _group_with_outliers(rng, share, (n // 2, n - n // 2))

            yield sampled(f"group, {share:.0%} of 20", "range unknown", n, group)


def _group_with_outliers(
    rng: np.random.Generator, share: float, sizes: Sequence[int]
) -> str:
    results = {
        f"t{i}": _result(
            f"t{i}",
            "marks",
            np.where(rng.random(n) < share, 20.0, rng.random(n)),
            spec=MetricSpec(name="marks", aggregation="mean"),
        )
        for i, n in enumerate(sizes)
    }
    mean = (1 - share) / 2 + share * 20
    gate = {"metric": "marks", "max": repr(mean), "over": "population"}
    found = judge(read_gate(gate, task="g", source=HERE), _group(results, "marks"))
    return str(found.outcome)


def labels(
    sizes: Sequence[int] = (50, 100, 200, 500), share: float = 0.5
) -> Iterator[Cell]:
    """F1 and MCC of one run, near 1 and lower."""
    for recall, false in ((0.99, 0.01), (0.98, 0.02), (0.8, 0.2)):
        hit, wrong = share * recall, (1 - share) * false
        missed, rejected = share - hit, 1 - share - wrong
        mcc = (hit * rejected - wrong * missed) / math.sqrt(
            share * (1 - share) * (hit + wrong) * (missed + rejected)
        )
        f1 = 2 * hit / (2 * hit + wrong + missed)
        for name, truth in (("f1", f1), ("mcc", mcc)):
            for n in sizes:

                def sample(
                    rng: np.random.Generator,
                    name=name,
                    truth=truth,
                    n=n,
                    rates=(recall, false),
                ) -> str:
                    gold = rng.random(n) < share
                    given = rng.random(n) < np.where(gold, *rates)
                    pairs = zip(gold.astype(int).tolist(), given.tolist(), strict=True)
                    result = _result("t", name, [(a, int(b)) for a, b in pairs])
                    return _judged(result, name, truth)

                yield sampled(name, f"recall {recall:g}, errors {false:g}", n, sample)


def groups() -> Iterator[Cell]:
    """Groups of tasks with correct and wrong answers, weighted by size."""
    for sizes, rate in (
        ((20, 20), 0.8),
        ((50,) * 5, 0.9),
        ((100,) * 10, 0.7),
        ((250,) * 20, 0.97),
        ((10, 500), 0.9),
    ):

        def sample(rng: np.random.Generator, sizes=sizes, rate=rate) -> str:
            results = {
                f"t{i}": _result(f"t{i}", "acc", (rng.random(n) < rate).astype(int))
                for i, n in enumerate(sizes)
            }
            return _judged(_group(results, "acc"), "acc", rate)

        name = f"{len(sizes)} tasks, {rate:g}"
        yield sampled("group", name, sum(sizes), sample)


def _group(results: dict[str, TaskResult], metric: str) -> GroupResult:
    """A group of these tasks, weighted by size."""
    group = Group(
        name="g",
        source=HERE,
        children=tuple(one.task for one in results.values()),
        aggregates=(Aggregate(metric=metric),),
    )
    return summarise_group(group, results)


def _judged(result: Any, name: str, truth: float) -> str:
    gate = read_gate(
        {"metric": name, "min": repr(truth), "over": "population"},
        task="t",
        source=HERE,
    )
    return str(judge(gate, result).outcome)


def _result(
    task: str,
    name: str,
    values: Sequence[Any],
    compared: Sequence[ComparedValues] = (),
    spec: MetricSpec | None = None,
) -> TaskResult:
    """``spec``: of a metric of generations; by default, one of choices."""
    kind = "generate_until" if spec else "multiple_choice"
    how = metric(spec or MetricSpec(name=name), "none", kind, spec is not None, 0)
    n = len(values)
    records = [
        Record(
            task=task,
            index=i,
            doc=Doc("", [], 0, id=str(i)),
            scores=(Score(metric=name, value=_plain(value)),),
            compared=compared[i] if compared else None,
        )
        for i, value in enumerate(values)
    ]
    rows: Any = SimpleNamespace(total=lambda: n, ids=lambda: range(n))
    ask: Callable[..., Any] = lambda index: None  # noqa: E731
    score: Callable[..., Any] = ask
    found = Task(
        name=task, source=HERE, rows=rows, ask=ask, score=score, metrics=(how,)
    )
    return summarise(found, records, n)


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value
