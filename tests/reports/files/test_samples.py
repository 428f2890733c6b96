"""Rows of samples files. The hashes were recorded from lm-eval 0.4.13, which computed
them for this document, prompt and target; the schema is that of its files."""

import hashlib
import json
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pytest_evals.core.doc import Doc
from pytest_evals.core.record import Record, Score
from pytest_evals.core.request import (
    Generate,
    Loglikelihood,
    Message,
    Response,
    Rolling,
)
from pytest_evals.reports.files.samples import sample_of

ROW = {"q": "Q0?", "choices": ["a", "b", "cc"], "label": 0, "ans": "A0", "idx": 0}
PROMPT = "Question: Q0?\nAnswer:"
DOC_HASH = "d9f3d9c25ca091ba022cc6ceefca382fb31eee9a86a31bada051c45aa06e3f19"
PROMPT_HASH = "9a928a18f6f11ae3b13602fb66da14cbacc1027e395d25eee4461e7dd773643f"
CHOICES = json.dumps({"choices": ["a", "b", "cc"], "gold": 0}, indent=2)
TARGET_HASH = "5feceb66ffc86f38d952786c6d696c79c2dbc239dd4e91b46729d73a27fb57e9"


@pytest.fixture
def choice():
    """A multiple-choice document, answered correctly."""
    doc = Doc(PROMPT, ["a", "b", "cc"], 0, id="q0", row=ROW, target=0)
    return Record(
        task="toy",
        index=4,
        doc=doc,
        requests=tuple(Loglikelihood(PROMPT, f" {c}") for c in doc.choices),
        responses=tuple(
            Response(
                logprob=-float(i + 1), greedy=i == 0, n_prompt_tokens=5, n_tokens=1
            )
            for i in range(3)
        ),
        scores=(
            Score(metric="acc", value=1.0, correct=True, answer="a"),
            Score(metric="acc_norm", value=0.0, correct=False),
        ),
    )


def sample_rows(record, task):
    """The lines of a document, read back."""
    return [json.loads(line) for line in sample_of(record, task).lines]


def test_a_choice_has_lm_evals_fields_with_typed_numbers_and_ours(make, choice):
    (row,) = sample_rows(choice, make.task(metrics=("acc", "acc_norm")))
    assert row == {
        "doc_id": 4,
        "doc": ROW,
        "target": "0",
        "arguments": {
            "gen_args_0": {"arg_0": PROMPT, "arg_1": " a"},
            "gen_args_1": {"arg_0": PROMPT, "arg_1": " b"},
            "gen_args_2": {"arg_0": PROMPT, "arg_1": " cc"},
        },
        "resps": [[[-1.0, True]], [[-2.0, False]], [[-3.0, False]]],
        "filtered_resps": [[-1.0, True], [-2.0, False], [-3.0, False]],
        "filter": "none",
        "answer": "a",
        "metrics": ["acc", "acc_norm"],
        "acc": 1.0,
        "acc_norm": 0.0,
        "doc_hash": DOC_HASH,
        "prompt_hash": PROMPT_HASH,
        "target_hash": TARGET_HASH,
        "choices_hash": hashlib.sha256(CHOICES.encode()).hexdigest()[:16],
        "id": "q0",
        "status": "scored",
        "error": "",
        "gold": [0],
        "correct": True,
        "finish": ["", "", ""],
        "tokens": {"prompt": 15, "answer": 3, "truncated": 0},
    }


def test_repeats_of_a_prompt_are_one_argument_with_several_responses(make):
    ask = Generate(prompt=PROMPT, stop=("\n",), max_tokens=9, temperature=0.5)
    record = Record(
        task="toy",
        index=0,
        doc=Doc(PROMPT, ["18"], 0, row=ROW, target="18"),
        requests=tuple(replace(ask, repeat=i) for i in range(2)),
        responses=(Response(text="17", finish="stop"), Response(text="18")),
        scores=(
            Score(metric="em", filter="strict", value=1, filtered=("18",)),
            Score(metric="em", filter="loose", value=0, filtered=("17",)),
        ),
    )
    task = replace(make.task(), metrics=())
    strict, loose = sample_rows(record, task)
    assert strict["arguments"] == {
        "gen_args_0": {
            "arg_0": PROMPT,
            "arg_1": {
                "until": ["\n"],
                "max_gen_toks": 9,
                "temperature": 0.5,
                "do_sample": True,
            },
        }
    }
    assert strict["resps"] == loose["resps"] == [["17", "18"]]
    assert (strict["filter"], strict["filtered_resps"], strict["em"]) == (
        "strict",
        ["18"],
        1,
    )
    assert (loose["filter"], loose["filtered_resps"], loose["em"]) == (
        "loose",
        ["17"],
        0,
    )


def test_a_chat_is_hashed_as_the_json_of_its_messages(make):
    chat = (Message("system", "Sei kurz."), Message("user", "Wörter?"))
    record = Record(
        task="toy",
        index=0,
        doc=Doc("", [], 0, row={"a": 1}, target="x"),
        requests=(Generate(prompt=chat),),
        responses=(Response(text="ja"),),
    )
    (row,) = sample_rows(record, make.task())
    messages = [
        {"role": "system", "content": "Sei kurz."},
        {"role": "user", "content": "Wörter?"},
    ]
    assert row["arguments"]["gen_args_0"]["arg_0"] == messages
    text = '[{"role": "system", "content": "Sei kurz."}, '
    text += '{"role": "user", "content": "Wörter?"}]'
    assert row["prompt_hash"] == hashlib.sha256(text.encode()).hexdigest()


def test_a_rolling_request_has_its_text_alone(make):
    record = Record(
        task="toy",
        index=0,
        doc=Doc("", [], 0, row={"a": 1}, target="abc"),
        requests=(Rolling("abc"),),
        responses=(Response(logprob=-7.5),),
        scores=(Score(metric="ppl", value=(-7.5, 3)),),
    )
    (row,) = sample_rows(record, make.task())
    assert row["arguments"] == {"gen_args_0": {"arg_0": "abc"}}
    assert (row["resps"], row["filtered_resps"]) == ([[-7.5]], [-7.5])
    assert row["ppl"] == [-7.5, 3]


def test_an_errored_document_has_a_row_with_its_error(make, choice):
    error = "the server was gone"
    broken = replace(
        choice,
        responses=(Response(logprob=-1.0), Response(error=error)),
        scores=(),
        error=error,
    )
    (row,) = sample_rows(broken, make.task())
    assert (row["status"], row["error"], row["correct"]) == ("errored", error, None)
    assert row["resps"] == [[[-1.0, None]], [None], [None]]
    assert (row["metrics"], row["filtered_resps"]) == ([], [])


def test_a_document_that_could_not_be_rendered_has_a_row_too(make):
    record = Record(task="toy", index=3, doc=Doc("", [], 0), error="no column 'q'")
    (row,) = sample_rows(record, make.task())
    assert (row["doc_id"], row["status"], row["arguments"]) == (3, "errored", {})
    assert json.loads(json.dumps(row, allow_nan=False)) == row


def test_why_a_document_is_unscored_is_its_error(make, choice):
    unscored = replace(choice, scores=(Score(metric="acc", unscored="no judge"),))
    (row,) = sample_rows(unscored, make.task())
    assert (row["status"], row["error"], row["acc"]) == ("unscored", "no judge", None)


def test_a_metric_called_like_a_field_does_not_hide_it(make, choice):
    odd = replace(choice, scores=(Score(metric="target", value=0.5),))
    (row,) = sample_rows(odd, make.task())
    assert (row["target"], row["target,none"]) == ("0", 0.5)


def test_rows_hold_nothing_but_strict_json(make, choice):
    doc = Doc("", [], 0, row={"x": float("nan"), "y": b"\x00", "z": {1}}, target=None)
    odd = replace(choice, doc=doc, scores=(Score(metric="acc", value=float("inf")),))
    (row,) = sample_rows(odd, make.task())
    assert json.loads(json.dumps(row, allow_nan=False)) == row
    assert row["doc"] == {"x": None, "y": "b'\\x00'", "z": [1]}
    assert row["acc"] is None


SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text()


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.dictionaries(st.text(), SCALARS | st.lists(SCALARS, max_size=2), min_size=1))
def test_doc_hash_is_that_of_the_indented_row_whether_flat_or_nested(make, choice, row):
    """lm-eval 0.4.13 hashes ``json.dumps(doc, indent=2, ensure_ascii=False)``."""
    choice.doc.row = row
    (found,) = sample_rows(choice, make.task())
    text = json.dumps(row, indent=2, ensure_ascii=False)
    expected = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    assert found["doc_hash"] == expected


def test_latency_and_cost_are_in_the_samples_where_they_are_known(make):
    question = Generate(prompt="q", stop=(), max_tokens=4)
    answers = [
        Response(text="a", finish="stop", latency_s=0.5, cost=0.25),
        Response(text="b", finish="stop", latency_s=1.5, cost=0.5),
    ]
    doc = Doc("q", ["a"], 0, id="q0")
    record = Record(task="toy", index=0, doc=doc, requests=(question,) * 2)
    record = replace(record, responses=tuple(answers))
    (row,) = sample_rows(record, make.task())
    assert (row["latency_s"], row["cost"]) == (1.5, 0.75)
    silent = replace(record, responses=(Response(text="a"), Response(text="b")))
    (row,) = sample_rows(silent, make.task())
    assert not {"latency_s", "cost"} & row.keys()


def test_a_document_without_a_target_has_an_empty_one(make):
    """lm-eval writes the text None, which reads like an answer."""
    record = make.record(0, True, prompt="p", text="x")
    doc = replace(record.doc, choices=[], row={"q": 1}, target=None)
    (row,) = sample_rows(replace(record, doc=doc), make.task())
    assert row["target"] == ""
    assert row["target_hash"] == hashlib.sha256(b"None").hexdigest()


def test_steps_before_an_answer_are_in_the_samples(make):
    steps = ({"tool": "search", "arguments": {"query": "a"}}, {"tool": "read"})
    record = Record(
        task="toy",
        index=0,
        doc=Doc("q", ["a"], 0, id="q0"),
        requests=(Generate(prompt="q"), Generate(prompt="r")),
        responses=(Response(text="a", steps=steps), Response(text="b")),
    )
    (row,) = sample_rows(record, make.task())
    assert row["steps"] == [list(steps), []]
