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

from pytest_evals.plugin.nodes import DocItem, GateItem
from pytest_evals.plugin.session import EvalSession
from pytest_evals.plugin.workers.serialization import pack, unpack
from pytest_evals.reports.files.samples import Sample

FIXTURE = "eval_results"
HOST = 0
"""The slot of the worker that runs these tests."""
_NAME = "records"


def is_late(item: pytest.Item) -> bool:
    """Whether a test asks for the results."""
    return FIXTURE in getattr(item, "fixturenames", ())


def turn(item: pytest.Item, *, on_worker: bool) -> int:
    """When an item runs: documents, then gates, then tests that ask for the results.

    On a worker all other tests come before the documents: so what stands behind the
    last document or gate is a late one, which the controller, that knows ids only, can
    see from their order.
    """
    if isinstance(item, GateItem):
        return 2
    if is_late(item):
        return 3
    return 0 if on_worker and not isinstance(item, DocItem) else 1


def hand_over(session: EvalSession, folder: Path) -> None:
    """Write all records for the worker that runs late tests, and the hashes by which
    they are found in a baseline."""
    draft = folder / f"{_NAME}.tmp"
    with draft.open("wb") as stream:
        for name, run in session.suite.tasks.items():
            hashes = session.run.writer.hashes.of(name)
            reads = session.run.writer.hashes.reads(name)
            for record in run.records.values():
                said = Sample([], "".join(hashes[record.index].values()), reads)
                marshal.dump(pack(record, said), stream)
    draft.rename(folder / _NAME)


def take_over(session: EvalSession) -> bool:
    """Know, on a worker, what the controller knows of all documents.

    Returns:
        Whether all workers are done; nothing is known of their documents before.
    """
    assert session.orders is not None
    path = Path(session.orders.stop).parent / _NAME
    if not path.is_file():
        return False
    for data in _parts(path):
        record, sample, _ = unpack(data)
        run = session.suite.tasks[record.task]
        session.run.writer.hashes.add(record.task, record.index, sample)
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
