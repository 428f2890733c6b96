"""Serialization of a scored document: from a worker to the controller, and from a part
of a run to the session that merges parts.

It travels to the controller as one bytes object on its report: plain Python values
through ``marshal``, which is many times cheaper than xdist's own encoding of nested
values. Both ends are processes of one session. In the folder of a part it is a line of
JSON, in which plain values keep their types: files of parts are read on other machines,
from artifacts that others may have changed. JSON makes values only; ``marshal`` and
``pickle`` would trust the file.
"""

from __future__ import annotations

import json
import marshal
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields
from functools import lru_cache
from operator import attrgetter
from typing import Any, NamedTuple

from pytest_evals.core.dialogue import Exchange
from pytest_evals.core.doc import Doc
from pytest_evals.core.record import NO_VALUES, Record, Score, SlimRecord, bare_doc
from pytest_evals.core.reference import ComparedValues
from pytest_evals.core.request import (
    Generate,
    Loglikelihood,
    Message,
    Request,
    Response,
    Rolling,
)
from pytest_evals.errors import DocumentError
from pytest_evals.reports.files.samples import Sample
from pytest_evals.run.suite import Suite

_REQUESTS: dict[str, type[Request]] = {
    "Generate": Generate,
    "Loglikelihood": Loglikelihood,
    "Rolling": Rolling,
}
_DOC = ("id", "query", "choices", "gold_index", "task_name")
"""Fields of a document that are sent; its row is not."""
_RESPONSE = tuple(field.name for field in fields(Response))
_SCORE = tuple(field.name for field in fields(Score))
_of_doc = attrgetter(*_DOC)
_of_response = attrgetter(*_RESPONSE)
_of_score = attrgetter(*_SCORE)
_BARE = _of_doc(bare_doc(""))[1:]


class ReceivedDocument(NamedTuple):
    """A document as the controller receives it."""

    record: Record
    sample: Sample  # its row of the samples file
    report: CollectionReport | None
    """The worker's collection report, with its first document."""
    secrets: tuple[str, ...]
    """What the worker has learned; the controller masks it in files."""
    model: int  # position of its model among the tested ones


def pack(
    record: Record,
    sample: Sample,
    report: CollectionReport | None = None,
    secrets: Iterable[str] = (),
    model: int = 0,
) -> bytes:
    """Return a record as bytes, complete or as ``slim`` returned it.

    Raises:
        DocumentError: A score holds a value that is not plain Python.
    """
    parts = (
        *_values(record),
        tuple(sample),
        report and tuple(report),
        tuple(secrets),
        model,
    )
    try:
        return marshal.dumps((marshal.dumps(_answers(record)), *parts))
    except ValueError:
        raise _unsendable(record) from None


def record_line(record: Record, sample: Sample) -> str:
    """Return a record as a line of JSON, with the hashes of its sample.

    Raises:
        DocumentError: A score holds a value that is not plain Python.
    """
    facts = (sample.hashes, sample.reads)
    try:
        answers = plain_text(_answers(record))
        return plain_text((answers, *_values(record), facts))
    except ValueError:
        raise _unsendable(record) from None


def _unsendable(record: Record) -> DocumentError:
    kinds = ", ".join(sorted({type(s.value).__name__ for s in record.scores}))
    return DocumentError(
        f"a score of type {kinds} cannot be sent from a worker, or to other jobs\n"
        "  fix: let the scorer return numbers, texts, lists or mappings"
    )


def _values(record: Record) -> tuple[Any, ...]:
    return (
        record.task,
        record.index,
        record.error,
        record.excluded,
        _of_doc(record.doc),
        [_of_request(request) for request in record.requests],
        [
            (one.model, _of_request(one.request), _of_response(one.response))
            for one in record.exchanges
        ],
        dict(record.labels),
        record.compared and (dict(record.compared.answers), *record.compared[1:]),
        dict(record.facts),
    )


def _answers(record: Record) -> tuple[Any, ...]:
    return (
        tuple(map(_of_response, record.responses)),
        tuple(map(_of_score, record.scores)),
    )


def unpack(data: bytes) -> ReceivedDocument:
    """What :func:`pack` packed."""
    answered, *values, sample, report, secrets, model = marshal.loads(data)
    reads = _slim_answered if not values[5] else _answered
    record = _record(values, reads(answered))
    return ReceivedDocument(
        record, Sample(*sample), report and CollectionReport(*report), secrets, model
    )


def read_record_line(line: bytes) -> tuple[Record, str, tuple[str, ...] | None]:
    """Return the record of :func:`record_line`, and the hashes and read fields of its
    sample.

    Raises:
        ValueError: The line was not made by it.
    """
    try:
        answers, *values, (hashes, reads) = plain_value(line)
        reader = _slim_answers_in if not values[5] else _answers_in
        return _record(values, reader(answers)), hashes, reads
    except (TypeError, KeyError, AttributeError, IndexError) as error:
        raise ValueError(f"not a record: {error}") from None


def record_key(line: bytes) -> tuple[str, int]:
    """Return the task and the position of the document in :func:`record_line`.

    Raises:
        ValueError: The line was not made by it.
    """
    try:
        _, task, index, *_ = json.loads(line)
    except (TypeError, RecursionError) as error:
        raise ValueError(f"not a record: {error}") from None
    if not (isinstance(task, str) and type(index) is int):
        raise ValueError("not a record")
    return task, index


def _record(values: Sequence[Any], answered: Answered) -> Record:
    task, index, error, excluded, doc, requests, exchanges, labels, *rest = values
    compared, facts = rest
    responses, scores = answered
    is_bare = doc[1:] == _BARE
    return (SlimRecord if is_bare else Record)(
        task=task,
        index=index,
        doc=bare_doc(doc[0]) if is_bare else Doc(**dict(zip(_DOC, doc, strict=True))),
        requests=tuple([_request(kind, values) for kind, *values in requests]),
        responses=responses,
        exchanges=tuple([_exchange(*values) for values in exchanges]),
        scores=scores,
        error=error,
        excluded=excluded,
        labels=labels or NO_VALUES,
        compared=compared and ComparedValues(*compared),
        facts=facts or NO_VALUES,
    )


def _of_request(request: Request) -> tuple[Any, ...]:
    values = [_plain(getattr(request, field.name)) for field in fields(request)]
    return (type(request).__name__, *values)


def _plain(value: Any) -> Any:
    if isinstance(value, tuple) and value and isinstance(value[0], Message):
        return tuple(tuple(message) for message in value)
    return value


def _request(kind: str, values: list[Any]) -> Request:
    prompt, *rest = values
    if isinstance(prompt, tuple):
        prompt = tuple(Message(*message) for message in prompt)
    return _REQUESTS[kind](prompt, *rest)


def _exchange(
    model: str, request: tuple[Any, ...], response: tuple[Any, ...]
) -> Exchange:
    kind, *values = request
    return Exchange(model, _request(kind, values), _response(response))


Answered = tuple[tuple[Response, ...], tuple[Score, ...]]


def _answered(data: bytes) -> Answered:
    """Responses and scores."""
    return _made(*marshal.loads(data))


def _answers_in(text: str) -> Answered:
    """Responses and scores in a line of JSON."""
    return _made(*plain_value(text))


def _made(responses: Iterable[Any], scores: Iterable[Any]) -> Answered:
    return (
        tuple([_response(values) for values in responses]),
        tuple([Score(**dict(zip(_SCORE, values, strict=True))) for values in scores]),
    )


_slim_answered = lru_cache(maxsize=4096)(_answered)
_slim_answers_in = lru_cache(maxsize=4096)(_answers_in)
"""Records are frozen: what is equal in many documents is made once."""


def _response(values: tuple[Any, ...]) -> Response:
    return Response(**dict(zip(_RESPONSE, values, strict=True)))


_AS_THEY_ARE = frozenset({bool, int, str, type(None)})
_ENCODE = json.JSONEncoder(separators=(",", ":"), allow_nan=False).encode


def plain_text(value: Any) -> str:
    """Return a value as one line of JSON: an array is a tuple, and an object with one
    key is any other type.

    Raises:
        ValueError: A value is not plain Python.
    """
    return _ENCODE(_encoded(value))


def plain_value(text: str | bytes) -> Any:
    """Return the value of :func:`plain_text`.

    Raises:
        ValueError: The text was not made by it.
    """
    try:
        return _decoded(json.loads(text))
    except (TypeError, KeyError, AttributeError, RecursionError) as error:
        raise ValueError(f"not a plain value: {error}") from None


def _encoded(value: Any) -> Any:
    kind = type(value)
    if kind in _AS_THEY_ARE or (kind is float and math.isfinite(value)):
        return value
    if kind is tuple:
        return [*map(_encoded, value)]
    if kind not in _ENCODERS:
        raise ValueError(f"a value of type {kind.__name__} is not plain Python")
    return {kind.__name__: _ENCODERS[kind](value)}


_ENCODERS: Mapping[type, Callable[[Any], Any]] = {
    float: repr,
    list: lambda value: [*map(_encoded, value)],
    dict: lambda value: [[_encoded(k), _encoded(v)] for k, v in value.items()],
    set: lambda value: [*map(_encoded, sorted(value, key=repr))],
    frozenset: lambda value: [*map(_encoded, sorted(value, key=repr))],
    bytes: bytes.hex,
    complex: lambda value: [_encoded(value.real), _encoded(value.imag)],
}


def _decoded(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(map(_decoded, value))
    if isinstance(value, dict):
        ((kind, inside),) = value.items()
        return _DECODERS[kind](inside)
    return value


_DECODERS: Mapping[str, Callable[[Any], Any]] = {
    "float": float,
    "list": lambda inside: [*map(_decoded, inside)],
    "dict": lambda inside: {_decoded(k): _decoded(v) for k, v in inside},
    "set": lambda inside: {*map(_decoded, inside)},
    "frozenset": lambda inside: frozenset(map(_decoded, inside)),
    "bytes": bytes.fromhex,
    "complex": lambda inside: complex(*map(_decoded, inside)),
}


class GateMark(NamedTuple):
    """A ``skip`` or ``xfail`` mark whose condition is true, or a mark with an invalid
    condition."""

    reason: str
    skips: bool = False  # whether it is a skip
    runs: bool = False  # whether the gate is judged
    strict: bool = False  # whether a passing gate fails
    covers: bool = True  # whether a failing gate is expected
    fails: bool = False  # whether the condition is invalid; ``reason`` is the error


class CollectionReport(NamedTuple):
    """A worker's report of its collection, beyond the ids of items: these have neither
    groups (one without gates has no id), nor the order of results, nor marks of gates.
    It is sent with the first document, so that it also reaches a controller on another
    machine.

    Ids of files with groups, names of tasks in the order of results, and the fields
    of the marks of gates by node id; the node ids of all gates; the model and machine
    that conditions of gates are compared with; and the names that several folders
    define, not all of which the controller may have read.
    """

    files: list[str]
    tasks: list[str]
    gate_marks: dict[str, tuple[Any, ...]]
    gates: list[str]
    machine: dict[str, tuple[str, ...]] = {}  # noqa: RUF012 - never changed
    ambiguous: list[str] = []  # noqa: RUF012 - never changed


def report_collection(
    known: Suite, gate_marks: Mapping[str, GateMark], gates: Iterable[str]
) -> CollectionReport:
    """Return the report of this worker. ``gates``: node ids of all gates."""
    groups = (run for run in known.groups.values() if not run.changed)
    files = dict.fromkeys(run.nodeid.partition("::")[0] for run in groups)
    marks = {nodeid: tuple(mark) for nodeid, mark in gate_marks.items()}
    return CollectionReport(
        list(files),
        list(known.tasks),
        marks,
        sorted(gates),
        ambiguous=sorted(known.ambiguous),
    )
