"""Aggregation of scored documents to a task's numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from pytest_evals.core.doc import Doc
from pytest_evals.core.metric import Estimate, Metric
from pytest_evals.core.record import Record, Score, slim
from pytest_evals.core.task import Asked, Task
from pytest_evals.errors import DocumentError, Place
from pytest_evals.plugin.workers.serialization import pack, unpack
from pytest_evals.reports.files.samples import Sample
from pytest_evals.run.flow import score
from pytest_evals.scorers.metrics import MetricSpec, metric
from pytest_evals.scorers.summary import summarise

MEAN = metric(MetricSpec(name="acc"), "none", "generate_until", declared=True)


def shares(values: Sequence[Any]) -> Mapping[str, Estimate]:
    counts = Counter(values)
    return {f"{word}": Estimate(n / len(values)) for word, n in counts.items()}


class Rows:
    def ids(self) -> Sequence[str]:
        return ["0", "1", "2", "3"]

    def indices(self) -> Sequence[int]:
        return range(4)

    def total(self) -> int:
        return 4


def never(values: Sequence[Any]) -> Estimate:
    raise AssertionError(values)


LABEL = Metric(name="label", aggregate=never, several=shares)


def task(metrics: Sequence[Metric], words: Sequence[str], **more: Any) -> Task:
    """Documents that are correct if their word is ``yes``."""

    def scores(record: Record) -> tuple[Score, ...]:
        word = words[record.index]
        is_right = word == "yes"
        both = (
            Score(metric="acc", value=float(is_right), correct=is_right),
            Score(metric="label", value=word),
        )
        names = {one.name for one in metrics}
        return tuple(one for one in both if one.metric in names)

    return Task(
        name="words",
        source=Place(Path("words.yaml")),
        rows=Rows(),
        ask=lambda index: Asked(Doc("", [], 0, id=str(index)), ()),
        score=scores,
        metrics=tuple(metrics),
        **more,
    )


def run(one: Task) -> list[Record]:
    records = [
        Record(task=one.name, index=i, doc=one.ask(i).doc) for i in one.rows.indices()
    ]
    return [slim(score(record, one)) for record in records]


def test_a_metric_may_give_several_numbers_whose_names_are_known_only_then() -> None:
    one = task([MEAN, LABEL], ["yes", "no", "yes", "maybe"])
    result = summarise(one, run(one), 4)
    numbers = {m.name: m.estimate.value for m in result.metrics if m.estimate}
    assert numbers == {"acc": 0.5, "yes": 0.5, "no": 0.25, "maybe": 0.25}


def test_names_that_are_taken_get_that_of_their_metric_in_front() -> None:
    one = task([MEAN, LABEL], ["acc", "no", "no", "no"])
    result = summarise(one, run(one), 4)
    assert [m.name for m in result.metrics] == ["acc", "label_acc", "label_no"]


def test_without_scores_a_metric_of_several_numbers_has_none() -> None:
    one = task([LABEL], ["yes"] * 4)
    lost = [
        Record(task="words", index=i, doc=Doc("", [], 0), error="x") for i in range(4)
    ]
    (only,) = summarise(one, lost, 4).metrics
    assert (only.name, only.estimate, only.n_errored) == ("label", None, 4)


def test_a_document_that_is_excluded_is_scored_and_counts_nowhere() -> None:
    def exclude(record: Record) -> str:
        return "skip-no" if record.index == 1 else ""

    one = task([MEAN], ["yes", "no", "yes", "yes"], exclude=exclude)
    records = run(one)
    arrived = unpack(pack(records[1], Sample([], ""))).record
    assert (arrived.excluded, arrived.scores) == ("skip-no", records[1].scores)
    result = summarise(one, records, 4)
    (acc,) = result.metrics
    assert acc.estimate is not None and acc.estimate.value == 1.0
    assert (acc.n_scored, acc.n_lacking, acc.total) == (3, 0, 3)
    assert (result.n_correct, result.n_wrong, result.n_excluded) == (3, 0, 1)
    counted = [one for one in result.records if not one.excluded]
    assert {one.index: one.scores[0].value for one in counted if one.scores} == {
        0: 1.0,
        2: 1.0,
        3: 1.0,
    }


def test_where_exclusion_fails_the_document_is_an_error_and_its_score_counts():
    def exclude(record: Record) -> str:
        if record.index == 1:
            raise DocumentError("no such score")
        return ""

    one = task([MEAN], ["yes", "no", "yes", "yes"], exclude=exclude)
    result = summarise(one, run(one), 4)
    (acc,) = result.metrics
    assert acc.estimate is not None and acc.estimate.value == 0.75
    assert (acc.n_scored, acc.n_errored) == (4, 1)
    assert result.records[1].error == "no such score"


def test_a_number_that_must_exist_and_does_not_is_a_fault() -> None:
    """If it were omitted silently, a gate on it would look like a typo."""
    lost = Metric(name="lost", aggregate=never, lacking="no sample has it")
    one = task([MEAN], ["yes"] * 4)
    (acc, other) = summarise(replace(one, metrics=(MEAN, lost)), run(one), 4).metrics
    assert acc.estimate is not None
    assert (other.name, other.estimate, other.error) == (
        "lost",
        None,
        "no sample has it",
    )


def test_a_score_may_be_kept_without_adding_up_to_anything() -> None:
    one = task([MEAN, LABEL], ["yes"] * 4)
    kept = replace(one, metrics=(MEAN,), metric_for=lambda name, filter_: None)
    assert [m.name for m in summarise(kept, run(one), 4).metrics] == ["acc"]
