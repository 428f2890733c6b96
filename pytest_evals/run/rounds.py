"""Follow-up requests about the documents of a batch, in rounds.

Each round contains the requests of all open dialogues, as one batch per model.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from pytest_evals.core.dialogue import TESTED, Ask, Dialogue, Exchange, ReadAsk
from pytest_evals.core.model import Model
from pytest_evals.core.record import Record
from pytest_evals.core.request import Request, Response, as_sent
from pytest_evals.core.response_contract import responses_of
from pytest_evals.core.task import Task
from pytest_evals.errors import DocumentError
from pytest_evals.run.task_responses import as_read
from pytest_evals.store.model import Read, StoredModel

Places = dict[Request, list[tuple[int, int]]]
"""Each distinct request of a batch, with its occurrences: the position of the record
and the position among its requests."""
AuxiliaryModels = Callable[[Task, str], Model]
"""Maps a task and a name in its ``models`` to the open model."""


NO_RESPONSE = Response(error="the model gave no response to this request")


def first_round(record: Record, task: Task) -> tuple[Record, Sequence[Ask]]:
    """The requests of a document that depend on no answers, and the document, with an
    error if a request cannot be made."""
    if record.error or record.requests or task.follow_up is None:
        requests = () if record.error else record.requests
        return record, [Ask("", request) for request in requests]
    dialogue = _dialogue(record, task)
    try:
        return record, next(dialogue)
    except StopIteration as end:
        return end.value, ()
    finally:
        dialogue.close()


def continued(
    record: Record, task: Task, answer: Callable[[Ask], Response], most: int
) -> Record | None:
    """Return a document whose dialogue is answered by a function, or ``None`` if it has
    more than ``most`` rounds."""
    if record.error or task.follow_up is None:
        return record
    dialogue = _dialogue(record, task)
    try:
        asks = next(dialogue)
        for _ in range(most):
            asks = dialogue.send([answer(one) for one in asks])
    except StopIteration as end:
        found: Record = end.value
        return found
    finally:
        dialogue.close()
    return None


def followed(
    first: Iterator[tuple[int, Record]],
    tasks: Sequence[Task],
    model: Model,
    auxiliary_models: AuxiliaryModels,
    tally: Callable[[int], None],
) -> Iterator[tuple[int, Record]]:
    """Yield records without a dialogue at once; run the dialogues of the others
    concurrently, and yield each record when its dialogue is complete. ``tally``: called
    with the number of distinct requests of each batch. Raises ``ModelError`` if a model
    violated its contract, or cannot be opened."""
    open_: dict[int, Dialogue[Record]] = {}
    for i, record in first:
        if record.error or tasks[i].follow_up is None:
            model.end(record.requests)
            yield i, record
        else:
            open_[i] = _dialogue(record, tasks[i])
    open_ = dict(sorted(open_.items()))  # in any order
    responses: dict[int, Any] = dict.fromkeys(open_)  # None starts a generator
    while open_:
        asks: dict[int, Sequence[Ask]] = {}
        for i, dialogue in [*open_.items()]:
            try:
                asks[i] = dialogue.send(responses[i])
            except StopIteration as end:
                del open_[i]
                _end(end.value, tasks[i], model, auxiliary_models)
                yield i, end.value
        responses = _round(asks, tasks, model, auxiliary_models, tally)


def _end(
    record: Record, task: Task, model: Model, auxiliary_models: AuxiliaryModels
) -> None:
    """Let the tested model close what it keeps open for a document."""
    model.end(record.requests)
    follow_ups = [one for one in record.exchanges if one.is_tested]
    if follow_ups:
        name = follow_ups[-1].model
        tested = auxiliary_models(task, name) if name else model
        tested.end([one.request for one in follow_ups])


def _dialogue(record: Record, task: Task) -> Dialogue[Record]:
    """The dialogue of a document; its result is the record with all exchanges, or with
    an error."""
    assert task.follow_up is not None
    exchanges: list[Exchange] = []
    error = ""
    try:
        dialogue = task.follow_up(record)
        _check_generator(dialogue, task)
        asks = next(dialogue)
        while True:
            _check(asks, task)
            responses = (yield asks) if asks else ()
            for ask, response in zip(asks, responses, strict=True):
                exchanges.append(Exchange(*ask, response))
            asks = dialogue.send(responses)
    except StopIteration:
        pass
    except DocumentError as problem:
        error = str(problem)
    if not exchanges and not error:
        return record
    return replace(record, exchanges=tuple(exchanges), error=error)


def _check_generator(dialogue: Any, task: Task) -> None:
    if not isinstance(dialogue, Generator):
        raise DocumentError(
            f"follow_up() of {task.name} must be a generator function, not return "
            f"{type(dialogue).__name__}\n  fix: {_YIELD}"
        )


def _check(asks: Any, task: Task) -> None:
    is_list = isinstance(asks, list | tuple) and not isinstance(asks, Ask)
    if not is_list or not all(isinstance(one, Ask) for one in asks):
        raise DocumentError(
            f"follow_up() of {task.name} must yield a list of Ask, not {asks!r:.80}\n"
            f"  fix: {_YIELD}"
        )
    for one in asks:
        if one.model and one.model not in task.models:
            names = ", ".join(map(repr, task.models)) or "none"
            raise DocumentError(
                f"unknown model {one.model!r} of {task.name}\n"
                f"  fix: name one of its models ({names}) in follow_up()"
            )


_YIELD = '(response,) = yield [Ask("judge", Generate("…"))]'


def _round(
    asks: Mapping[int, Sequence[Ask]],
    tasks: Sequence[Task],
    model: Model,
    auxiliary_models: AuxiliaryModels,
    tally: Callable[[int], None],
) -> dict[int, list[Response]]:
    """One round: each model gets one batch, with the requests of all documents."""
    models: dict[int, Model] = {}
    batches: dict[int, Places] = {}
    readers: dict[int, dict[Request, Read]] = {}
    for i, requests in asks.items():
        for j, one in enumerate(requests):
            target = auxiliary_models(tasks[i], one.model) if one.model else model
            models[id(target)] = target
            places = batches.setdefault(id(target), {})
            sent = as_sent(one.request, target.is_deterministic)
            places.setdefault(sent, []).append((i, j))
            if isinstance(one, ReadAsk):
                readers.setdefault(id(target), {})[sent] = one.read
    responses = {i: [NO_RESPONSE] * len(requests) for i, requests in asks.items()}
    for key, places in batches.items():
        tally(len(places))
        where, target = list(places.values()), models[key]
        if isinstance(target, StoredModel):
            target.read_by(readers.get(key, {}))
            target.asked_by([tasks[pairs[0][0]].name for pairs in where])
        for position, response in responses_of(list(places), target):
            for i, j in where[position]:
                is_tested = asks[i][j].model in TESTED
                responses[i][j] = as_read(response, tasks[i]) if is_tested else response
    return responses
