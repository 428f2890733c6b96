"""The hash of a task is lm-eval's, whose recorded files ``tests/parity/test_files.py``
compares; these tests cover edge cases."""

import hashlib
import json
from dataclasses import replace

import pytest

from pytest_evals.core.record import Score
from pytest_evals.reports.files.samples import sample_of
from pytest_evals.run.run_writer import TaskHashes


@pytest.fixture
def sample(make):
    """Fields of the files about the document at a position."""

    def made(index, row=None, filters=("none",)):
        record = make.record(index, True, prompt=f"p{index}", text="a", gold="a")
        scores = tuple(Score(metric="acc", filter=f, value=1.0) for f in filters)
        record = replace(record, index=index, scores=scores)
        record.doc.row = row or {"n": index}
        return sample_of(record, replace(make.task(), metrics=()))

    return made


def expected(*lines):
    """lm-eval 0.4.13, ``EvaluationTracker.save_results_aggregated``."""
    rows = [json.loads(line) for line in lines]
    text = "".join(r["doc_hash"] + r["prompt_hash"] + r["target_hash"] for r in rows)
    return hashlib.sha256(text.encode()).hexdigest()


def test_documents_are_numbered_in_the_order_of_the_dataset(sample):
    hashes = TaskHashes()
    samples = {i: sample(i) for i in (10, 2, 1)}
    for index, each in samples.items():
        hashes.add("t", index, each)
    in_order = [*samples[1].lines, *samples[2].lines, *samples[10].lines]
    assert hashes.digests() == {"t": expected(*in_order)}


def test_each_filter_counts_the_documents_once_more(sample):
    hashes = TaskHashes()
    first, second = (sample(i, filters=("a", "b")) for i in (0, 1))
    hashes.add("t", 0, first)
    hashes.add("t", 1, second)
    by_filter = (first.lines[0], second.lines[0], first.lines[1], second.lines[1])
    assert hashes.digests() == {"t": expected(*by_filter)}


def test_columns_that_are_called_like_the_hashes_change_nothing(sample):
    row = {"doc_hash": "0" * 64, "prompt_hash": "1" * 64, "target_hash": "2" * 64}
    hashes = TaskHashes()
    hashes.add("t", 0, sample(0, row=row))
    assert hashes.digests() == {"t": expected(*sample(0, row=row).lines)}


def test_a_task_without_documents_has_no_hash():
    assert TaskHashes().digests() == {}
