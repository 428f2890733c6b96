"""The hash of a task is lm-eval's, whose recorded files ``tests/parity/test_files.py``
compares; here are its corners."""

import hashlib
import json

from pytest_evals.reports.hashes import TaskHashes
from pytest_evals.reports.samples import sample_lines


def rows(make, index, row=None, filters=("none",)):
    """Rows of a document, as they are written."""
    from dataclasses import replace

    record = make.record(index, True, prompt=f"p{index}", text="a", gold="a")
    record = replace(record, index=index)
    record.doc.row = row or {"n": index}
    (line,) = sample_lines(record, make.task())
    return [line.replace('"filter":"none"', f'"filter":"{name}"') for name in filters]


def expected(*documents):
    """lm-eval 0.4.13, ``EvaluationTracker.save_results_aggregated``."""
    samples = [json.loads(line) for line in documents]
    text = "".join(s["doc_hash"] + s["prompt_hash"] + s["target_hash"] for s in samples)
    return hashlib.sha256(text.encode()).hexdigest()


def test_documents_count_in_the_order_of_the_dataset_whatever_came_first(make):
    hashes = TaskHashes()
    lines = {i: rows(make, i) for i in (10, 2, 1)}
    for each in lines.values():
        hashes.add("t", each)
    assert hashes.digests() == {"t": expected(*lines[1], *lines[2], *lines[10])}


def test_each_filter_counts_the_documents_once_more(make):
    hashes = TaskHashes()
    first, second = (rows(make, i, filters=("a", "b")) for i in (0, 1))
    hashes.add("t", first)
    hashes.add("t", second)
    by_filter = (first[0], second[0], first[1], second[1])
    assert hashes.digests() == {"t": expected(*by_filter)}


def test_columns_that_are_called_like_the_hashes_change_nothing(make):
    row = {"doc_hash": "0" * 64, "prompt_hash": "1" * 64, "target_hash": "2" * 64}
    hashes = TaskHashes()
    hashes.add("t", rows(make, 0, row=row))
    assert hashes.digests() == {"t": expected(*rows(make, 0, row=row))}


def test_a_metric_called_like_a_hash_changes_nothing(make):
    line = rows(make, 0)[0]
    tricky = line[:-1] + ',"own":{"doc_hash":"x"}}'
    hashes = TaskHashes()
    hashes.add("t", [tricky])
    assert hashes.digests() == {"t": expected(line)}


def test_a_task_without_documents_has_no_hash():
    assert TaskHashes().digests() == {}
