"""``every`` and proportions of responses: documents that were sent several times."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from pytest_evals.core.doc import Doc
from pytest_evals.core.record import Record, Score
from pytest_evals.core.result import TaskResult
from pytest_evals.errors import Place, TaskFileError
from pytest_evals.gates.judge import judge
from pytest_evals.gates.read.entry import read_gate

HERE = Place(Path("arc.yaml"), 7)


def verdict(entry, *answers):
    """Records of documents ``d0``, ``d1`` …, each with (correct, total) responses."""
    records = tuple(
        Record(
            task="arc",
            index=i,
            doc=Doc("", [], 0, id=f"d{i}"),
            scores=(
                Score(
                    metric="acc",
                    value=1.0,
                    correct=True,
                    repeats=(1.0,) * right + (0.0,) * (n - right),
                ),
            ),
        )
        for i, (right, n) in enumerate(answers)
    )
    ids = [f"d{i}" for i in range(len(answers))]
    rows = SimpleNamespace(ids=lambda: ids, indices=lambda: range(len(ids)))
    task = SimpleNamespace(name="arc", rows=rows)
    n = len(records)
    result = TaskResult(task=task, records=records, metrics=(), n_selected=n, n_total=n)
    return judge(read_gate(entry, task="arc", source=HERE), result)


def test_every_document_needs_so_many_correct_answers():
    passed = verdict({"every": "8 of 10"}, (8, 10), (10, 10))
    assert passed.outcome == "passed"
    assert passed.reason == "2 documents correct in at least 8 of 10 answers"
    failed = verdict({"every": "8 of 10"}, (8, 10), (7, 10))
    assert failed.outcome == "failed"
    assert failed.documents == ("d1",)
    assert failed.reason == (
        "1 of 2 documents not correct in at least 8 of 10 answers: d1 (7 of 10)"
    )


def test_named_documents_need_so_many_correct_answers():
    entry = {"must_pass": ["d0", "d1"], "every": "4 of 5"}
    assert verdict(entry, (4, 5), (5, 5), (0, 5)).outcome == "passed"
    assert verdict(entry, (4, 5), (3, 5), (0, 5)).documents == ("d1",)


def test_too_few_answers_make_it_invalid():
    found = verdict({"every": "8 of 10"}, (8, 10), (4, 4))
    assert found.outcome == "invalid"
    assert "set repeats: 10 in the task" in found.reason


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"every": "11 of 10"}, "not possible"),
        ({"every": 8}, "must be text such as 8 of 10"),
        (
            {"must_pass": {"ids": ["a"], "share": 0.8}},
            r"no key 'share'\n  fix: must_pass: \[417\], every: 8 of 10",
        ),
        ({"must_pass": {"id": ["a"]}}, "must be a list of document ids"),
        ({"every": "1 of 2", "min": 0.5}, "cannot be combined with other"),
    ],
)
def test_invalid_entries_are_refused(entry, message):
    with pytest.raises(TaskFileError, match=message):
        verdict(entry, (1, 2))
