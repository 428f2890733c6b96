"""Embeddings of a server, and the scorer that compares them."""

from __future__ import annotations

import math

import pytest

import pytest_evals as ev
from pytest_evals import evaluate
from pytest_evals.core.record import Status
from pytest_evals.core.request import Generate, embedding_request

VECTORS = {
    "Yes.": [1.0, 0.0],
    "Certainly.": [3.0, 4.0],  # cosine 0.6 to "Yes."
    "No.": [-2.0, 0.0],
    "Nothing": [0.0, 0.0],
    "Long": [1.0, 0.0, 0.0],
}


def reply(path, body):
    assert path.endswith("/embeddings")
    return {
        "object": "list",
        "model": "tiny",
        "data": [{"index": 0, "embedding": VECTORS[body["input"]]}],
        "usage": {"prompt_tokens": 4, "total_tokens": 4},
    }


def run(served, answers, folder=None, **settings):
    spec = f"openai:tiny,base_url={served.url},max_retries=0,price_in=1"
    score = [ev.semantic(model=spec, **settings)]
    rows = [{"prompt": one, "target": "Yes."} for one in answers]
    return evaluate(rows, lambda prompt: prompt, score=score, folder=folder)


def test_the_value_is_the_cosine_of_answer_and_target(served):
    served.reply = reply
    result = run(served, ["Yes.", "Certainly.", "No."], threshold=0.6)
    scores = [one.scores[0] for one in result.tasks[0].records]
    assert [one.value for one in scores] == pytest.approx([1, 0.6, -1])
    assert [one.correct for one in scores] == [True, True, False]
    assert scores[1].explanation == "cosine 0.600 to 'Yes.'"
    # Equal texts are sent once.
    assert sorted(body["input"] for _, body in served.bodies) == [
        "Certainly.",
        "No.",
        "Yes.",
    ]
    (usage,) = [one["usage"] for one in result.judges.values()]
    assert (usage["prompt_tokens"], usage["completion_tokens"]) == (12, 0)
    assert usage["cost"] == pytest.approx(12e-6)
    assert "requests_of_unknown_cost" not in usage


def test_embeddings_are_stored_like_responses(served, tmp_path):
    served.reply = reply
    first = run(served, ["Certainly."], tmp_path)
    again = run(served, ["Certainly."], tmp_path)
    assert len(served.bodies) == 2
    assert again.tasks[0].records[0].scores == first.tasks[0].records[0].scores


def test_the_nearest_of_several_targets_counts(served):
    served.reply = reply
    spec = f"openai:tiny,base_url={served.url}"
    rows = [{"prompt": "Certainly.", "target": ["No.", "Yes."]}]
    result = evaluate(
        rows, lambda prompt: prompt, score=[ev.semantic(0.5, model=spec)]
    )  # fmt: skip
    assert result.tasks[0].records[0].scores[0].value == pytest.approx(0.6)


def test_an_empty_answer_is_wrong_and_not_sent(served):
    result = run(served, [" "])
    (score,) = result.tasks[0].records[0].scores
    assert (score.value, score.correct) == (0.0, False)
    assert score.explanation == "the answer is empty"
    assert served.bodies == []


@pytest.mark.parametrize(
    ("answer", "why"),
    [("Nothing", "an embedding has zeros only"), ("Long", "have 3 and 2 numbers")],
)
def test_embeddings_that_cannot_be_compared_are_no_score(served, answer, why):
    served.reply = reply
    (record,) = run(served, [answer]).tasks[0].records
    assert record.status is Status.UNSCORED
    assert why in record.scores[0].unscored


@pytest.mark.parametrize(
    "data", [[], [{}], None, [{"embedding": []}], [{"embedding": [1, math.inf]}]]
)
def test_replies_without_an_embedding_are_errors_and_not_stored(
    served, fault, tmp_path, data
):
    body = {"data": data, "usage": {"prompt_tokens": 4}}
    served.reply = lambda path, request: reply(path, request) | body
    (record,) = run(served, ["Yes."], tmp_path).tasks[0].records
    assert "the reply has no embedding" in record.scores[0].unscored
    served.reply = reply
    (record,) = run(served, ["Yes."], tmp_path).tasks[0].records
    assert record.scores[0].value == pytest.approx(1)


def test_a_model_that_gives_no_embeddings_is_no_score():
    rows = [{"prompt": "Yes.", "target": "Yes."}]
    scorer = ev.semantic(model="scripted:echo")
    (record,) = evaluate(rows, lambda prompt: prompt, score=[scorer]).tasks[0].records
    assert "the model returned no embedding" in record.scores[0].unscored


@pytest.mark.slow
def test_texts_and_embeddings_are_answered_in_one_batch(served, model_of, fault):
    def slow(path, body):
        answer = reply if path.endswith("embeddings") else canned
        return fault(body=answer(path, body), slow_s=0.3)

    served.reply = slow
    model = model_of(api="chat")
    found = dict(model.answer([Generate("Hi"), embedding_request("Yes.")]))
    assert (found[0].text, found[1].data) == ("said Hi", [1.0, 0.0])
    assert served.most_running == 2


def canned(path, body):
    text = "said " + body["messages"][-1]["content"]
    choice = {"message": {"role": "assistant", "content": text}}
    choice |= {"index": 0, "finish_reason": "stop"}
    return {"choices": [choice], "usage": {}}


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ({}, "semantic needs a model\n  fix: semantic: {model: 'openai:"),
        ({"model": "openai:a", "threshold": 2}, "threshold is 2, not above -1"),
        ({"model": "vllm:a"}, "vllm: models give no embeddings"),
    ],
)
def test_arguments_of_semantic_are_checked(arguments, why):
    with pytest.raises(ev.EvalsError) as error:
        ev.semantic(**arguments)
    assert why in str(error.value)
