"""A batch of documents and what models say about them, round by round.

The first round asks the model that is tested. Each further round asks what the tasks'
follow-ups want to know, of all documents that are open as one batch a model. Nothing
here knows a dialect, a kind of model or a report.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from operator import itemgetter

from pytest_evals.core.dialogue import FollowUp, Turn
from pytest_evals.core.record import Record
from pytest_evals.core.request import Model, Request, Response
from pytest_evals.core.response_contract import responses_of
from pytest_evals.core.task import Task
from pytest_evals.errors import DocumentError

__all__ = ["Furthers", "Places", "answer", "answered", "followed", "places_of"]

Places = dict[Request, list[tuple[int, int]]]
"""Each different request of a batch, with where it is asked: the position of the record
and the position among its requests."""
Furthers = Callable[[Task, str], Model]
"""A task and a name in its ``models`` → that model, open."""


def answer(records: Sequence[Record], model: Model) -> Iterator[tuple[int, Record]]:
    """Send all requests as one batch; give each record as soon as it is answered.

    Equal requests are sent once. A record with an error, or with nothing to ask, comes
    back as it is. A request that stays without response is an error of its document.

    Yields:
        Position in ``records``, and the record with its responses.

    Raises:
        ModelError: The model broke its contract (see :class:`Model`).
    """
    return answered(records, places_of(records), model)


def places_of(records: Sequence[Record]) -> Places:
    """The requests of records that can be asked about."""
    places: Places = {}
    for i, record in enumerate(records):
        if not record.error:
            for j, request in enumerate(record.requests):
                places.setdefault(request, []).append((i, j))
    return places


def answered(
    records: Sequence[Record], places: Places, model: Model
) -> Iterator[tuple[int, Record]]:
    """:func:`answer`, for records whose places are known."""
    left = [0 if record.error else len(record.requests) for record in records]
    idle = [(i, records[i]) for i, n in enumerate(left) if not n]
    found = [[_NO_RESPONSE] * n for n in left]
    where = list(places.values())
    for position, response in responses_of(list(places), model):
        # What needs no model comes once the model is at work.
        yield from idle
        idle = []
        for i, j in where[position]:
            found[i][j] = response
            left[i] -= 1
            if left[i] == 0:
                yield i, _with_responses(records[i], found[i])
    yield from idle
    for i, n in enumerate(left):
        if n:
            yield i, _with_responses(records[i], found[i])


_NO_RESPONSE = Response(error="the model gave no response to this request")


def followed(
    first: Iterator[tuple[int, Record]],
    tasks: Sequence[Task],
    model: Model,
    furthers: Furthers,
    tally: Callable[[int], None],
) -> Iterator[tuple[int, Record]]:
    """Give the records of which nothing more is asked; ask on about the others, all of
    them together in each round, and give each when it is through.

    Args:
        first: Positions, and records after the first round.
        tasks: Their tasks, by position.
        model: What answers follow-ups that name no model.
        furthers: What answers the others.
        tally: Hears how many different requests are sent.

    Raises:
        ModelError: A model broke its contract, or cannot be opened.
    """
    open_: list[tuple[int, Record]] = []
    for i, record in first:
        if record.error or tasks[i].follow_up is None:
            yield i, record
        else:
            open_.append((i, record))
    open_.sort(key=itemgetter(0))  # whatever order the answers came in
    while open_:
        asked: list[tuple[int, Record, Sequence[FollowUp]]] = []
        for i, record in open_:
            following, wanted = _next(record, tasks[i])
            if wanted:
                asked.append((i, following, wanted))
            else:
                yield i, following
        open_ = _round(asked, tasks, model, furthers, tally)


def _next(record: Record, task: Task) -> tuple[Record, Sequence[FollowUp]]:
    """What is asked next about a document; or why it cannot go on."""
    assert task.follow_up is not None
    try:
        wanted = task.follow_up(record)
        for one in wanted:
            if one.model and one.model not in task.models:
                known = ", ".join(map(repr, task.models)) or "none"
                raise DocumentError(
                    f"there is no model called {one.model!r} in {task.name}\n"
                    f"  fix: name one of its models ({known}) in follow_up()"
                )
    except DocumentError as error:
        return replace(record, error=str(error)), ()
    return record, wanted


def _round(
    asked: Sequence[tuple[int, Record, Sequence[FollowUp]]],
    tasks: Sequence[Task],
    model: Model,
    furthers: Furthers,
    tally: Callable[[int], None],
) -> list[tuple[int, Record]]:
    """One round: each model is asked once, about all documents."""
    models: dict[int, Model] = {}
    batches: dict[int, Places] = {}
    for n, (i, _, wanted) in enumerate(asked):
        for j, one in enumerate(wanted):
            who = furthers(tasks[i], one.model) if one.model else model
            models[id(who)] = who
            places = batches.setdefault(id(who), {})
            places.setdefault(one.request, []).append((n, j))
    found = [[_NO_RESPONSE] * len(wanted) for _, _, wanted in asked]
    for key, places in batches.items():
        tally(len(places))
        where = list(places.values())
        for position, response in responses_of(list(places), models[key]):
            for n, j in where[position]:
                found[n][j] = response
    return [
        (i, replace(record, turns=(*record.turns, *map(Turn, wanted, found[n]))))
        for n, (i, record, wanted) in enumerate(asked)
    ]


def _with_responses(record: Record, responses: list[Response]) -> Record:
    error = ""
    for response in responses:
        if response.error:
            error = response.error
            break
    return Record(  # not replace(), which costs a document as much as its scoring
        task=record.task,
        index=record.index,
        doc=record.doc,
        requests=record.requests,
        responses=tuple(responses),
        error=error,
    )
