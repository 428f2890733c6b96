"""Scorers that use a model as judge. OBS and CORE were measured on LatticeFlow's own
code (3.17.0), DOC is from its documentation; the rest is our own decision."""

import json

import pytest

from pytest_evals.errors import DocumentError

CLASSIFIER = """
- type: model_as_a_judge_classifier
  model_key: judge-model
  system_prompt: "Say 'correct' or 'incorrect'."
  user_prompt: "Truth: {{ sample.gt }} Answer: {{ solver_output.output }}"
  correct_labels: ["correct"]
  incorrect_labels: ["incorrect"]
"""


def test_the_request_of_a_judge_contains_the_answer(scored, read):
    sent = []

    def reply(prompt):
        sent.append(prompt)
        return "correct"

    score = scored(CLASSIFIER, {"gt": "Paris"}, "paris", reply)
    assert score.values == {"is_correct": True}
    assert score.metadata == {"prediction": "correct", "raw": "correct"}
    ((system, user),) = sent
    assert system == ("system", "Say 'correct' or 'incorrect'.")
    assert user.content.startswith("Truth: Paris Answer: paris\n\nReply with a JSON")
    assert '"prediction" (one of "correct", "incorrect")' in user.content
    assert read(CLASSIFIER)[0][0].models == {"judge-model"}


@pytest.mark.parametrize(
    ("reply", "is_correct"),
    [
        ("correct", True),
        ("Incorrect.", False),
        ('"CORRECT"', True),
        ('{"prediction": "incorrect", "reasoning": "r", "confidence": 0.5}', False),
        ('```json\n{"prediction": "correct"}\n```', True),
        ('Sure: {"label": "correct"} as asked', True),
    ],
)
def test_a_reply_may_be_json_or_a_bare_label(scored, reply, is_correct):
    """SEED: the documentation's example requires one bare word."""
    assert (
        scored(CLASSIFIER, {"gt": "a"}, "b", reply).values["is_correct"] is is_correct
    )


@pytest.mark.parametrize(
    ("reply", "message"),
    [
        ("perhaps", "is not one of 'correct', 'incorrect': 'perhaps'"),
        ("not correct", "is not one of"),
        ('{"prediction": "so-so"}', "is not one of"),
        ("", "has no label: ''"),
        ('{"prediction": null}', "has no label"),
    ],
)
def test_a_reply_without_label_is_an_error_and_not_a_wrong_answer(
    scored, reply, message
):
    with pytest.raises(DocumentError, match=message):
        scored(CLASSIFIER, {"gt": "a"}, "b", reply)


def test_structured_outputs_are_requested_with_the_labels(read):

    from pytest_evals.guests.latticeflow.prompts.output import SolverOutput

    (scorer,), _, _ = read(f"{CLASSIFIER}  use_structured_outputs: true\n")
    output = SolverOutput(trace=[{"role": "assistant", "content": "b"}])
    (sent,) = next(scorer.dialogue({"gt": "a"}, output))
    form = json.loads(dict(sent.request.options)["response_format"])
    schema = form["json_schema"]["schema"]
    assert (form["type"], form["json_schema"]["strict"]) == ("json_schema", True)
    assert schema["properties"]["prediction"]["enum"] == ["correct", "incorrect"]
    assert sent.model == "judge-model"


def test_a_labeler_takes_any_label_unless_some_are_valid(scored):
    yaml = """
- type: labeler_via_model
  model_key: m
  user_prompt: "{{ sample.text }}"
"""
    assert scored(yaml, {"text": "a"}, reply="polite").values == {"label": "polite"}
    json_reply = '{"label": "RUDE", "reasoning": "r", "confidence": 1}'
    score = scored(yaml, {"text": "a"}, reply=json_reply)
    assert score.values == {"label": "RUDE"}
    assert score.metadata["reasoning"] == "r"
    yaml += '  valid_labels: ["POLITE", "RUDE"]\n'
    assert scored(yaml, {"text": "a"}, reply="polite").values == {"label": "POLITE"}
    with pytest.raises(DocumentError, match="not one of 'POLITE', 'RUDE': 'neither'"):
        scored(yaml, {"text": "a"}, reply="neither")


GRADER = """
- type: model_as_a_judge_scorer
  model_key: m
  user_prompt: "Grade {{ input_prompt }} and {{ messages[-1].content }}"
  score_min: 0
  score_max: 10
"""


@pytest.mark.parametrize(
    ("reply", "score"),
    [("7", 0.7), ('{"score": 2.5}', 0.25), ("10.", 1.0), ('{"score": "5"}', 0.5)],
)
def test_a_grade_is_brought_between_0_and_1(scored, reply, score):
    """DOC."""
    found = scored(GRADER, {}, "x", reply)
    assert found.values == {"score": pytest.approx(score)}
    assert found.metadata["raw_score"] == pytest.approx(score * 10)


@pytest.mark.parametrize(
    ("reply", "message"),
    [
        ("11", "score 11 is not between 0 and 10"),
        ("good", "has no score: 'good'"),
        ('{"score": true}', "has no score"),
        ("nan", "has no score"),
        ('{"grade": 3}', "has no score"),
    ],
)
def test_an_invalid_grade_is_an_error_and_not_a_low_grade(scored, reply, message):
    with pytest.raises(DocumentError, match=message):
        scored(GRADER, {}, "x", reply)
