"""Parsing of a judge's reply; decision 4 of LatticeFlow's: a reply outside of the
labels or the range is an error of the sample, not a wrong answer."""

import pytest

from pytest_evals.errors import DocumentError
from pytest_evals.scorers.judge_replies import (
    read_grade,
    read_json,
    read_label,
)

KEYS = ("prediction", "label")


@pytest.mark.parametrize(
    "reply",
    [
        "RIGHT",
        "right.",
        '"Right"',
        "**RIGHT**",
        '{"prediction": "RIGHT"}',
        '{"Prediction": "right", "Confidence": 1}',
        '[{"label": "RIGHT"}]',
        'Well: {"prediction": "RIGHT"} as I said.',
        '```json\n{"prediction": "RIGHT"}\n```',
        '<think>Or {"prediction": "WRONG"}?</think>\n{"prediction": "RIGHT"}',
        "it may be WRONG</think>RIGHT",
        "[THINK]WRONG? No.[/THINK] RIGHT",
        "<|channel|>analysis<|message|>WRONG?<|end|><|channel|>final<|message|>RIGHT",
        '{"prediction": "RIGHT"} so: {"prediction": "RIGHT"}',
        '{"prediction": "RIGHT", "reasoning": "not {\\"prediction\\": \\"WRONG\\"}"}',
    ],
)
def test_a_label_is_understood_in_every_form_of_judges(reply):
    assert read_label(reply, KEYS, ["RIGHT", "WRONG"]).value == "RIGHT"


@pytest.mark.parametrize(
    ("reply", "why"),
    [
        ("It is RIGHT", "not one of 'RIGHT', 'WRONG'"),
        ("RIGHT or WRONG", "not one of"),
        ('{"prediction": "MAYBE"}', "not one of"),
        ('{"prediction": null}', "has no label"),
        ("", "has no label"),
        ('<think>{"prediction": "RIGHT"} if I had the time', "has no label"),
        ('{"prediction": "RIGHT"} {"prediction": "WRONG"}', "contradicts itself"),
        ('{"prediction": "RIGHT", "prediction": "WRONG"}', "contradicts itself"),
    ],
)
def test_a_reply_without_a_label_is_an_error(reply, why):
    with pytest.raises(DocumentError, match=why):
        read_label(reply, KEYS, ["RIGHT", "WRONG"])


@pytest.mark.parametrize(
    ("reply", "labels", "label"),
    [
        ('{"label": true}', ["true", "false"], "true"),
        ('{"label": 1}', ["1", "0"], "1"),
        ('{"label": 1.0}', ["1", "0"], "1"),
        ("a", ["A", "a"], "a"),
        (" Anything. ", [], "Anything"),
    ],
)
def test_labels_are_spelled_as_in_the_file(reply, labels, label):
    assert read_label(reply, KEYS, labels).value == label


@pytest.mark.parametrize(
    ("reply", "grade"),
    [("7", 7), (" 7.5 ", 7.5), ('{"SCORE": "7"}', 7), ("<think>3</think>7", 7)],
)
def test_a_grade_is_a_number_or_looks_like_one(reply, grade):
    assert read_grade(reply, 0, 10).value == grade


@pytest.mark.parametrize(
    "reply", ["7/10", "Score: 7", "nan", "", "11", '{"score": true}', '{"score": NaN}']
)
def test_a_reply_without_a_number_in_the_range_is_an_error(reply):
    with pytest.raises(DocumentError):
        read_grade(reply, 0, 10)


def test_an_object_without_the_keys_is_passed_over():
    assert read_json('{"a": 1} {"claims": []}', ("claims",)) == {"claims": []}
    assert read_json('{"a": 1}', ("claims",)) is None
