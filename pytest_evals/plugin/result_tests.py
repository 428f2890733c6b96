"""Tests that use the results: Python tests with the fixture ``eval_results``.

They run when all documents are scored and all gates judged. With pytest-xdist they run
on one worker, which waits for them with the first one in its queue: the controller
writes the records of all workers to a file, and the worker reads it when the first of
these tests asks.
"""

from __future__ import annotations

import marshal
from collections.abc import Iterator
from pathlib import Path

import pytest

from pytest_evals.plugin.gates import GateItem
from pytest_evals.plugin.session import EvalSession
from pytest_evals.plugin.workers.serialization import pack, unpack
from pytest_evals.reports.files.samples import Sample

FIXTURE = "eval_results"
HOST = 0  # the slot of the worker that runs these tests
_NAME = "records"


def is_late(item: pytest.Item) -> bool:
    """Whether a test uses the results."""
    return FIXTURE in getattr(item, "fixturenames", ())


def rank(item: pytest.Item, *, on_worker: bool) -> int:
    """Return the rank of an item that is not a document: gates come after documents,
    whose rank is 1, and tests of the results after gates.

    On a worker all other tests come before the documents, so that items after the last
    document or gate are tests of the results. The controller, which has ids only,
    recognises them by this order.
    """
    if isinstance(item, GateItem):
        return 2
    if is_late(item):
        return 3
    return 0 if on_worker else 1


def write_records(session: EvalSession, folder: Path) -> None:
    """Write all records for the worker that runs tests of the results, with the hashes
    that pair them with a baseline."""
    draft = folder / f"{_NAME}.tmp"
    with draft.open("wb") as stream:
        for place, one in enumerate(session.all):
            for name, run in one.suite.tasks.items():
                hashes = one.run.writer.hashes.of(name)
                reads = one.run.writer.hashes.reads(name)
                for record in run.records.values():
                    sample = Sample([], "".join(hashes[record.index].values()), reads)
                    marshal.dump(pack(record, sample, model=place), stream)
    draft.rename(folder / _NAME)


def read_records(session: EvalSession) -> bool:
    """Read the records of all documents on a worker. Return whether they are there:
    not while some workers are still running."""
    assert session.assignment is not None
    path = Path(session.assignment.stop).parent / _NAME
    if not path.is_file():
        return False
    for data in _parts(path):
        record, sample, *_, place = unpack(data)
        one = session.all[place]
        run = one.suite.tasks[record.task]
        one.run.writer.hashes.add(record.task, record.index, sample)
        run.records[record.index] = record
        run.result = None
    return True


def _parts(path: Path) -> Iterator[bytes]:
    with path.open("rb") as stream:
        while True:
            try:
                yield marshal.load(stream)
            except EOFError:
                return
