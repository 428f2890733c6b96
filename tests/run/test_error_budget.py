"""A run stops if the model fails on too many documents."""

from __future__ import annotations

import pytest

from pytest_evals.core.doc import Doc
from pytest_evals.core.record import Record
from pytest_evals.core.request import Generate, Response
from pytest_evals.errors import ModelError
from pytest_evals.run.error_budget import ErrorBudget


def record(error="", index=0):
    requests = (Generate("Q:"),)
    doc = Doc("", [], 0)
    responses = (Response(error=error),)
    return Record(
        task="t",
        index=index,
        doc=doc,
        requests=requests,
        responses=responses,
        error=error,
    )


def test_a_model_that_answers_nothing_is_stopped_after_twenty_documents():
    losses = ErrorBudget(0.05)
    for n in range(19):
        losses.add(record("down", n))
    with pytest.raises(ModelError) as caught:
        losses.add(record("down", 19))
    assert str(caught.value).startswith(
        "the run stops: the model could not answer 20 of 20 documents, more than "
        "--evals-max-errors=5% allows; the last one: down\n"
    )


def test_a_few_errors_at_the_start_do_not_stop_a_run():
    losses = ErrorBudget(0.05)
    for n in range(1000):
        losses.add(record("odd" if n < 4 or n % 100 == 0 else "", n))
    assert (len(losses.lost), losses.n_asked) == (13, 1000)


def test_a_document_that_is_requested_again_counts_once_with_its_last_response():
    losses = ErrorBudget(0.05)
    for n in range(100):
        for _ in range(10):
            losses.add(record("odd" if n == 7 else "", n))
            if n != 7:
                break
    assert (len(losses.lost), losses.n_asked) == (1, 100)
    losses.add(record("", 7))
    assert (len(losses.lost), losses.n_asked) == (0, 100)


def test_a_proportion_of_one_is_never_reached():
    losses = ErrorBudget(1.0)
    for n in range(500):
        losses.add(record("down", n))
    assert len(losses.lost) == losses.n_asked == 500


def test_documents_that_cannot_be_prompted_do_not_count_as_model_errors():
    losses = ErrorBudget(0.0)
    for _ in range(100):
        losses.add(Record(task="t", index=0, doc=Doc("", [], 0), error="no template"))
    assert len(losses.lost) == losses.n_asked == 0


@pytest.mark.slow
@pytest.mark.parametrize("args", [(), pytest.param(("-n2",), marks=pytest.mark.slow)])
def test_half_the_documents_fail_and_the_run_stops(pytester, args):
    """Completed documents are kept, the rest is skipped, and the gate does not pass."""
    rows = "".join(f'{{"q": "q{i}", "a": "a"}}\n' for i in range(300))
    pytester.path.joinpath("t.jsonl").write_text(rows)
    pytester.path.joinpath("t.yaml").write_text(
        "task: t\ndataset_path: json\ndataset_kwargs: {data_files: {test: t.jsonl}}\n"
        "test_split: test\noutput_type: generate_until\n"
        "doc_to_text: '{{q}}'\ndoc_to_target: '{{a}}'\n"
        "metric_list: [{metric: exact_match}]\ngates: [exact_match > 0]\n"
    )
    pytester.path.joinpath("r.jsonl").write_text(
        '{"regex": "[13579]$", "error": "down"}\n{"text": "a"}\n'
    )
    pytester.makeini("[pytest]\n")
    done = pytester.runpytest_subprocess("--model=scripted:r.jsonl", "t.yaml", *args)
    assert done.ret == 1
    done.stdout.fnmatch_lines(["*the run stops: the model could not answer*"])
    outcomes = done.parseoutcomes()
    assert outcomes["skipped"] > 200
    assert 10 <= outcomes["passed"] <= 40
    assert "t::exact_match passed" not in done.stdout.str()
