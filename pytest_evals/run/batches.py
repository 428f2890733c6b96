"""The batches of a model: documents are rendered, batched and answered in windows.

A document passes through as a :class:`Record`; each function returns it with its own
field set. This module is independent of dialects, model kinds and reports.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from pytest_evals.core.doc import Doc, watch
from pytest_evals.core.model import Model
from pytest_evals.core.record import Record
from pytest_evals.core.request import (
    UNSENT,
    Generate,
    Request,
    Response,
    as_sent,
    weight_of,
)
from pytest_evals.core.response_contract import responses_of
from pytest_evals.core.task import Task
from pytest_evals.errors import DocumentError, ModelError
from pytest_evals.run.rounds import NO_RESPONSE, AuxiliaryModels, Places, followed
from pytest_evals.run.task_responses import changes_responses, read_by
from pytest_evals.store.model import StoredModel

WINDOW = 16_384
"""Documents in a window: enough to sort and share prefixes over whole suites, few
enough that their prompts fit into memory."""
FIRST = 512
"""Documents in the first window, which is small so that the model starts early; each
later one has twice as many. A model with replicas gets as many times more."""
AHEAD = 32  # answered documents whose background work runs before their turn
TICK_S = 0.05
"""Seconds between two reports of progress, at least, except for the last answer."""
WINDOW_CHARACTERS = 2**29
"""Characters of the contexts in a window, plus bytes of images, each request counted:
models keep the tokens of all of them."""


@dataclass(slots=True, eq=False)
class Job:
    """A document to run: a task and a position in its dataset; compared by identity."""

    task: Task
    index: int


def jobs_of(task: Task, indices: Iterable[int]) -> list[Job]:
    """The jobs of a task's documents."""
    return [Job(task, index) for index in indices]


def ask(task: Task, index: int) -> Record:
    """The document at a position of the dataset, with its requests or an error."""
    try:
        doc, requests = task.ask(index)
    except DocumentError as error:
        doc = Doc("", [], 0, task_name=task.name)
        return Record(task=task.name, index=index, doc=doc, error=str(error))
    doc.row = watch(doc.row)
    return Record(task=task.name, index=index, doc=doc, requests=requests)


def looked(task: Task, index: int) -> Iterator[Record]:
    """The document at a position, with its requests; ``None`` if an error is raised
    that is not the document's: it is raised again when the document runs."""
    try:
        record = ask(task, index)
    except Exception:  # noqa: BLE001 - see above
        return
    yield record


def unsendable(rendered: Iterable[tuple[Task, Record]]) -> list[str]:
    """The documents that cannot be prompted, one line for each task."""
    seen: Counter[str] = Counter()
    faults: dict[str, list[tuple[Task, Record]]] = {}
    for task, record in rendered:
        seen[task.name] += 1
        if record.error:
            faults.setdefault(task.name, []).append((task, record))
    lines = []
    for name, ones in faults.items():
        task, first = ones[0]
        (shown,) = _with_ids(task, [first])
        which = f"{len(ones):,} of {seen[name]:,} documents cannot be prompted"
        why = first.error.splitlines()[0]
        lines.append(f"{name}: {which}, first document {shown.doc.id}: {why}")
    return lines


def _no_auxiliary_models(task: Task, name: str) -> Model:
    raise ModelError(f"{task.name} needs the model {name!r}, but none is set")


class _Window(NamedTuple):
    """Documents that are answered together."""

    order: list[int]  # the number of each document among the jobs
    records: list[Record]
    places: Places  # their distinct requests, each with its occurrences


class Batches:
    """All documents of a session for one model, answered window by window.

    A window is rendered, passed to ``prepare``, and its requests are sent as one batch.
    Callers that need a record pull batches until it is complete, so that the run can
    stop between two batches. A model that ``works_ahead`` gets the next window while it
    works on the current one. All of this happens in the caller's thread.

    Args:
        jobs: The documents, in the order in which they will be requested.
        prepare: Gets the records of one task of a window before they are answered, and
            returns the records to send instead.
        ends: Numbers of documents before which a window must end.
        auxiliary_models: Opens judges and other auxiliary models.
    """

    def __init__(
        self,
        jobs: Sequence[Job],
        prepare: Callable[[Task, list[Record]], list[Record]] | None = None,
        window: int = WINDOW,
        ends: Collection[int] = (),
        auxiliary_models: AuxiliaryModels = _no_auxiliary_models,
    ) -> None:
        self._jobs = jobs
        self._ends = frozenset(ends)
        self._dropped: set[int] = set()
        self._prepare = prepare
        self._auxiliary_models = auxiliary_models
        self._window = window
        self._next_size = min(FIRST, window)
        self._numbers: dict[Job, int] = {}
        self._expected = 0
        """The number of the job that is requested next, if jobs are in order."""
        self._next = 0
        self._stream: Iterator[tuple[int, Record]] = iter(())
        self._under_way: list[int] = []
        self._reported = 0.0
        self._left = 0
        self._coming: _Window | None = None
        self._looked: dict[int, Record] = {}
        self._ready: dict[int, Record] = {}
        self._unsent: set[Request] = set()
        self.n_answered = 0  # documents with responses
        self.n_requests = 0  # distinct requests that were sent, summed over windows
        self.n_tokens = 0  # tokens of their prompts and answers
        self.model_s = 0.0  # seconds spent inside the model

    def __len__(self) -> int:
        return len(self._jobs)

    def look(self) -> Iterator[tuple[Task, Record]]:
        """Render all documents before any request is sent, to find their errors. As
        many as fit into a window are kept."""
        n_characters = 0
        for number, job in enumerate(self._jobs):
            for record in looked(job.task, job.index):
                if number < WINDOW and n_characters < WINDOW_CHARACTERS:
                    self._looked[number] = record
                    n_characters += weight_of(record.requests)
                yield job.task, record

    def take(
        self, job: Job, model: Model, tick: Callable[[], None] | None = None
    ) -> Record:
        """The answered record of a job; ``tick`` is called after answers, if it was
        not called a moment ago.

        A record is returned once; a job that is requested again is answered again.
        """
        number = self._number(job)
        while number not in self._ready:
            pulled = self._pull(model)
            self._report(tick)
            if not pulled and number < self._next:
                self._open(self._render(range(number, number + 1), model), model)
        if job.task.begin is not None:
            # The background work of several documents runs at a time.
            while self._left and len(self._ready) <= AHEAD and self._pull(model):
                self._report(tick)
        return self._ready.pop(number)

    def _report(self, tick: Callable[[], None] | None) -> None:
        if tick is not None:
            now = time.perf_counter()
            is_last = self.n_answered == len(self._jobs)
            if is_last or now - self._reported >= TICK_S:
                self._reported = now
                tick()

    def _number(self, job: Job) -> int:
        """The number of a job; an index exists only if jobs come out of order."""
        number = self._expected
        if number == len(self._jobs) or self._jobs[number] is not job:
            if not self._numbers:
                self._numbers = {job: n for n, job in enumerate(self._jobs)}
            number = self._numbers[job]
        self._expected = number + 1
        return number

    def stop(self) -> None:
        """Stop the iteration over responses, which cancels pending requests."""
        self._stream = iter(())

    def drop(self, is_dropped: Callable[[Job], bool], model: Model) -> None:
        """Send no more requests for jobs that are not needed. A window with no other
        jobs is cancelled, even while the model works on it."""
        self._dropped.update(n for n, job in enumerate(self._jobs) if is_dropped(job))
        if self._left and self._dropped.issuperset(self._under_way):
            self.stop()
            self._left = 0
        if self._coming and not self._dropped.isdisjoint(self._coming.order):
            kept = [n for n in self._coming.order if n not in self._dropped]
            self._coming = self._render(kept, model) if kept else None

    def _pull(self, model: Model) -> bool:
        """Take one response from the stream, opening the next window if it is empty."""
        start = time.perf_counter()
        pair = next(self._stream, None)
        self.model_s += time.perf_counter() - start
        if pair is None:
            return self._open_next(model)
        number, record = pair
        self._ready[number] = record
        begin = self._jobs[number].task.begin
        if begin is not None and not record.error:
            begin(record)
        self._left -= 1
        self.n_answered += 1
        self.n_tokens += record.n_tokens
        # Requests that a spend cap has held back do not count.
        pairs = zip(record.requests, record.responses, strict=False)
        for request, response in pairs if record.error else ():
            if response.finish == UNSENT and request not in self._unsent:
                self._unsent.add(request)
                self.n_requests -= 1
        if model.works_ahead:
            self._go_on(model)
        return True

    def _go_on(self, model: Model) -> None:
        """Render the next window while the model works, and start it as soon as the
        model is idle. The responses to the current one are scored meanwhile."""
        if self._coming is None:
            self._coming = self._render_next(model)
            if self._coming is not None:
                model.expect(list(self._coming.places))
        if self._left == 0 and self._open_next(model):
            self._pull(model)

    def _open_next(self, model: Model) -> bool:
        window = self._coming or self._render_next(model)
        self._coming = None
        if window is not None:
            self._open(window, model)
        return window is not None

    def _render_next(self, model: Model) -> _Window | None:
        numbers: list[int] = []
        n_characters = 0
        most = self._next_size * max(1, model.replicas)
        while self._next < len(self._jobs) and len(numbers) < most:
            number = self._next
            is_full = n_characters >= WINDOW_CHARACTERS
            if numbers and (number in self._ends or is_full):
                break
            if number not in self._dropped:
                numbers.append(number)
                record = self._looked[number] = self._rendered(number)
                n_characters += weight_of(record.requests)
            self._next += 1
        self._next_size = min(2 * self._next_size, self._window)
        return self._render(numbers, model) if numbers else None

    def _open(self, window: _Window, model: Model) -> None:
        order, records, places = window
        self.n_requests += len(places)
        self._left = len(records)
        self._under_way = order
        if isinstance(model, StoredModel):
            model.asked_by([records[pairs[0][0]].task for pairs in places.values()])
        stream = answered(records, places, model)
        tasks = [self._jobs[n].task for n in order]
        if any(map(changes_responses, {id(task): task for task in tasks}.values())):
            stream = ((i, read_by(tasks[i], record)) for i, record in stream)
        if any(task.follow_up is not None for task in tasks):
            stream = followed(stream, tasks, model, self._auxiliary_models, self._sent)
        self._stream = ((order[i], record) for i, record in stream)

    def _sent(self, n_requests: int) -> None:
        self.n_requests += n_requests

    def _render(self, numbers: Sequence[int], model: Model) -> _Window:
        by_task: dict[str, list[int]] = {}
        for n in numbers:
            by_task.setdefault(self._jobs[n].task.name, []).append(n)
        records: list[Record] = []
        order: list[int] = []
        for members in by_task.values():
            task = self._jobs[members[0]].task
            rendered = [self._rendered(n) for n in members]
            if self._prepare is not None:
                rendered = self._prepare(task, rendered)
            position = {record.index: record for record in rendered}
            places = [self._jobs[n].index for n in members]
            with_all = [position.get(i) or _withdrawn(task, i) for i in places]
            order += members
            records += _with_ids(task, with_all)
        return _Window(order, records, places_of(records, model))

    def _rendered(self, number: int) -> Record:
        looked = self._looked.pop(number, None)
        job = self._jobs[number]
        return ask(job.task, job.index) if looked is None else looked


def _with_ids(task: Task, records: Sequence[Record]) -> Sequence[Record]:
    """The records; those that could not be rendered have at least their ids."""
    if all(record.doc.id for record in records):
        return records
    ids = dict(zip(task.rows.indices(), task.rows.ids(), strict=True))
    return [
        record
        if record.doc.id
        else replace(record, doc=replace(record.doc, id=ids.get(record.index, "")))
        for record in records
    ]


def _withdrawn(task: Task, index: int) -> Record:
    doc = Doc("", [], 0, task_name=task.name)
    why = "pytest_evals_requests did not return this document"
    return Record(task=task.name, index=index, doc=doc, error=why)


def places_of(records: Sequence[Record], model: Model) -> Places:
    """The requests of records without errors, as the model receives them."""
    places: Places = {}
    is_deterministic = model.is_deterministic
    for i, record in enumerate(records):
        if not record.error:
            for j, request in enumerate(record.requests):
                if is_deterministic and isinstance(request, Generate):
                    request = as_sent(request, is_deterministic)
                places.setdefault(request, []).append((i, j))
    return places


def answered(
    records: Sequence[Record], places: Places, model: Model
) -> Iterator[tuple[int, Record]]:
    """Send all requests as one batch; yield each record as soon as it is answered.

    A record with an error, or without requests, is yielded unchanged. A request without
    a response is an error of its document.

    Yields:
        Position in ``records``, and the record with its responses.

    Raises:
        ModelError: The model violated its contract (see :class:`Model`).
    """
    left = [0 if record.error else len(record.requests) for record in records]
    idle = [(i, records[i]) for i, n in enumerate(left) if not n]
    responses = [[NO_RESPONSE] * n for n in left]
    where = list(places.values())
    for position, response in responses_of(list(places), model):
        # Records without requests follow once the model is at work.
        yield from idle
        idle = []
        for i, j in where[position]:
            responses[i][j] = response
            left[i] -= 1
            if left[i] == 0:
                yield i, _with_responses(records[i], responses[i])
    yield from idle
    for i, n in enumerate(left):
        if n:
            yield i, _with_responses(records[i], responses[i])


def _with_responses(record: Record, responses: list[Response]) -> Record:
    error = ""
    for response in responses:
        if response.error:
            error = response.error
            break
    return Record(  # not replace(), which takes as long as scoring a document
        task=record.task,
        index=record.index,
        doc=record.doc,
        requests=record.requests,
        responses=tuple(responses),
        error=error,
    )
