"""Batching: windows, and models that work ahead."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_evals.core.doc import Doc
from pytest_evals.core.model import Model as BaseModel
from pytest_evals.core.record import Record
from pytest_evals.core.request import LEADING_IMAGES, Generate, Request, Response
from pytest_evals.core.task import Asked, Task
from pytest_evals.data.images import RowImage
from pytest_evals.errors import DocumentError, ModelError, Place
from pytest_evals.run import batches as batching
from pytest_evals.run.batches import Batches, Job

N = 10


class Rows:
    def ids(self) -> Sequence[str]:
        return [str(i) for i in range(N)]

    def indices(self) -> Sequence[int]:
        return range(N)

    def total(self) -> int:
        return N


def task_of(events: list[str]) -> Task:
    """Ten documents; the fourth cannot be rendered."""

    def ask(index: int) -> Asked:
        events.append(f"render {index}")
        if index == 3:
            raise DocumentError("no such document")
        text = f"question {index}"
        return Asked(Doc(text, [], 0, id=str(index)), (Generate(text),))

    return Task(
        name="ten",
        source=Place(Path("ten.yaml")),
        rows=Rows(),
        ask=ask,
        score=lambda record: (),
        metrics=(),
    )


class Model(BaseModel):
    """A model that replies to a question with the same text, the last first."""

    name = "echo"

    def __init__(
        self, events: list[str], *, works_ahead: bool, breaks: int = -1
    ) -> None:
        self._events, self.works_ahead, self._breaks = events, works_ahead, breaks

    def answer(self, requests: Sequence[Request]) -> Iterator[tuple[int, Response]]:
        self._events.append(f"answer {len(requests)}")
        for i in reversed(range(len(requests))):
            request = requests[i]
            assert isinstance(request, Generate)
            if request.prompt == f"question {self._breaks}":
                raise ModelError("broken")
            yield i, Response(text=str(request.prompt))


def taken(events: list[str], model: Model, window: int) -> list[Record]:
    task = task_of(events)
    jobs = [Job(task, i) for i in range(N)]
    planned = Batches(jobs, window=window)
    records = []
    for job in jobs:
        records.append(planned.take(job, model))
        events.append(f"take {job.index}")
    assert planned.n_answered == N
    assert planned.n_requests == N - 1
    return records


@pytest.mark.parametrize("window", [1, 2, 3, 4, 7, 100])
def test_records_are_the_same_however_they_are_planned(window: int) -> None:
    ahead = taken([], Model([], works_ahead=True), window)
    assert ahead == taken([], Model([], works_ahead=False), 100)
    texts = [record.responses[0].text for record in ahead if not record.error]
    assert texts == [f"question {i}" for i in range(N) if i != 3]
    assert ahead[3].error == "no such document"


def test_a_model_that_works_ahead_is_never_without_a_window() -> None:
    """The second window is rendered while the first runs, and started when that is
    complete: before the first document is read."""
    events: list[str] = []
    taken(events, Model(events, works_ahead=True), window=5)
    first = events.index("answer 4")
    second = events.index("answer 5")
    assert first < events.index("render 5") < second < events.index("take 1")


def test_a_model_that_works_ahead_gets_each_window_before_it_is_requested() -> None:
    events: list[str] = []

    class Listening(Model):
        def expect(self, requests: Sequence[Request]) -> None:
            events.append(f"expect {len(requests)}")

    taken(events, Listening(events, works_ahead=True), window=4)
    calls = [event for event in events if event.startswith(("expect", "answer"))]
    assert calls == ["answer 3", "expect 4", "answer 4", "expect 2", "answer 2"]
    events.clear()
    taken(events, Listening(events, works_ahead=False), window=4)
    assert not [event for event in events if event.startswith("expect")]


def test_other_models_get_a_window_when_one_of_its_documents_is_needed() -> None:
    events: list[str] = []
    taken(events, Model(events, works_ahead=False), window=5)
    assert events.index("take 4") < events.index("render 5") < events.index("answer 5")


def test_windows_double_from_a_small_first_one(monkeypatch) -> None:
    monkeypatch.setattr(batching, "FIRST", 1)
    events: list[str] = []
    taken(events, Model(events, works_ahead=True), window=4)
    sizes = [event for event in events if event.startswith("answer")]
    assert sizes == ["answer 1", "answer 2", "answer 3", "answer 3"]  # one has errored


def test_windows_grow_with_the_replicas_of_a_model() -> None:
    events: list[str] = []

    class Replicated(Model):
        replicas = 3

    taken(events, Replicated(events, works_ahead=False), window=2)
    first = next(n for n, event in enumerate(events) if not event.startswith("render"))
    assert first == 6


def test_a_window_ends_where_its_contexts_are_large(monkeypatch) -> None:
    """Ten characters each; a window has at least one document."""
    for limit, expected in ((25, ["answer 3", "answer 3", "answer 3"]), (1, 9 * [1])):
        monkeypatch.setattr(batching, "WINDOW_CHARACTERS", limit)
        events: list[str] = []
        taken(events, Model(events, works_ahead=False), window=100)
        sizes = [event for event in events if event.startswith("answer")]
        assert sizes == [e if isinstance(e, str) else f"answer {e}" for e in expected]


@pytest.mark.parametrize("works_ahead", [True, False])
def test_an_exception_of_a_model_reaches_the_waiting_caller(works_ahead: bool) -> None:
    with pytest.raises(ModelError, match="broken"):
        taken([], Model([], works_ahead=works_ahead, breaks=7), window=5)


def test_dropped_documents_send_no_requests_and_windows_end_where_they_must():
    sizes = []

    class Counting(BaseModel):
        name = "counting"

        def answer(self, requests):
            sizes.append(len(requests))
            for position, _ in enumerate(requests):
                yield position, Response(text="x")

    task = task_of([])
    jobs = [Job(task, i) for i in range(10)]
    batches = Batches(jobs, window=8, ends=[3, 6])
    model = Counting()
    batches.take(jobs[0], model)
    batches.take(jobs[3], model)
    batches.drop(lambda job: job.index in (4, 5, 6, 7), model)
    batches.take(jobs[8], model)
    assert sizes == [3, 2, 2]  # the fourth cannot be rendered


def test_windows_and_documents_that_wait_hold_few_images(monkeypatch):
    pytest.importorskip("PIL")
    from PIL import Image

    monkeypatch.setattr(batching, "WINDOW_CHARACTERS", 1000)
    events: list[str] = []
    plain = task_of(events)

    def ask(index: int) -> Asked:
        asked = plain.ask(index)
        image = RowImage(Image.new("RGB", (10, 10 + index)))  # 300 bytes and more
        (request,) = asked.requests
        options = ((LEADING_IMAGES, (image,)),)
        return asked._replace(requests=(replace(request, options=options),))

    task = replace(plain, ask=ask)
    jobs = [Job(task, i) for i in range(N)]
    batches = Batches(jobs)
    assert len([*batches.look()]) == N
    events.clear()
    model = Model(events, works_ahead=False)
    for job in jobs:
        batches.take(job, model)
    answered = [event for event in events if event.startswith("answer")]
    # Documents 0 to 2, 4 to 6, 7 and 8, 9: (10 + i) * 30 bytes and a question each.
    assert answered == ["answer 3", "answer 3", "answer 2", "answer 1"]
    assert "render 0" not in events and "render 9" in events
