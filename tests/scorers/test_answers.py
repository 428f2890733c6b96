"""Scorers of generated answers."""

from typing import Any

import pytest

from pytest_evals.core.case import Case, case
from pytest_evals.core.record import Score
from pytest_evals.core.request import Response
from pytest_evals.errors import DocumentError, EvalsError
from pytest_evals.scorers.answers import (
    AnswerScorer,
    contains,
    exact,
    json,
    regex,
    similar,
    starts_with,
)
from pytest_evals.scorers.functions import score_of_value
from pytest_evals.scorers.rubric import judge


def is_correct(scorer: AnswerScorer, answer: str, target: Any = None) -> bool | None:
    """Whether a scorer finds an answer correct."""
    score = scorer(answer, Case(prompt="q", target=target))
    if score.correct is not None:
        assert score.value == float(score.correct)
    return score.correct


@pytest.mark.parametrize(
    ("scorer", "answer", "target", "expected"),
    [
        (exact(), " Paris\n", "Paris", True),
        (exact(), "paris", "Paris", False),
        (exact(ignore_case=True), "PARIS", "Paris", True),
        (exact(ignore_punctuation=True), "Paris.", "Paris", True),
        (exact(), "7", 7, True),
        (exact(), "Rome", ["Paris", "Rome"], True),
        (contains(), "It is Paris.", "Paris", True),
        (contains(), "It is Rome.", ["Paris", "Rome"], True),
        (contains("sorry"), "Sorry!", None, False),
        (contains("sorry", ignore_case=True), "Sorry!", None, True),
        (contains(any_of=["a", "b"], all_of=["c", "d"]), "bcd", None, True),
        (contains(any_of=["a", "b"], all_of=["c", "d"]), "bc", None, False),
        (contains(any_of=["a", "b"], all_of=["c"]), "c", None, False),
        (~contains("sorry"), "fine", None, True),
        (starts_with(), "  Yes, it is", "Yes", True),
        (starts_with("No"), "Yes", None, False),
        (regex(r"\d{4}"), "in 1999.", None, True),
        (regex(r"\d{4}"), "in 99.", None, False),
        (regex(r"answer: (\d+)", group=1), "answer: 3, answer: 4", "4", True),
        (regex(r"answer: (\d+)", group=1), "answer: 3, answer: 4", "3", False),
        (json(), '{"a": [1, 2]}', None, True),
        (json(), '```json\n{"a": 1}\n```', None, True),
        (json(), "NaN", None, False),
        (json(), "{a: 1}", None, False),
        (json({"type": "object", "required": ["a"]}), '{"a": 1}', None, True),
        (json({"type": "object", "required": ["a"]}), "{}", None, False),
    ],
)
def test_answers_are_compared(
    scorer: AnswerScorer, answer: str, target: Any, expected: bool
) -> None:
    assert is_correct(scorer, answer, target) is expected


def test_similarity_is_one_minus_the_edit_distance_over_the_longer_length() -> None:
    # kitten to sitting takes 3 edits (Wagner and Fischer 1974); 7 letters.
    score = similar(threshold=0.5)("kitten", case("q", target="sitting"))
    assert score.value == pytest.approx(1 - 3 / 7)
    assert score.correct is True
    assert similar()("kitten", case("q", target="sitting")).correct is False


def test_settings_are_templates_over_the_row() -> None:
    scorer = contains("{{city}}")
    assert scorer("Rome it is", case("q", city="Rome")).correct is True


@pytest.mark.parametrize("key", ["any_of", "all_of"])
def test_one_text_is_a_list_with_this_text(key: str) -> None:
    scorer = contains(**{key: "sorry"})  # type: ignore[arg-type]
    assert is_correct(scorer, "I am sorry.") is True
    assert is_correct(scorer, "s o r r y") is False


def test_numbers_are_texts() -> None:
    assert is_correct(contains(5), "5 days") is True  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("make", "arguments", "fault"),
    [
        (exact, {"ignore_case": "no"}, "exact: ignore_case is 'no', not true or false"),
        (exact, {"name": None}, "exact: name is a NoneType, not text"),
        (contains, {"text": True}, "contains: text is True, not text"),
        (contains, {"any_of": [["a"]]}, "contains: any_of is a list, not text or a"),
        (starts_with, {"text": iter(())}, "starts_with: text is a tuple_iterator, not"),
        (regex, {"pattern": None}, "regex: pattern is a NoneType, not text"),
        (regex, {"pattern": "a", "group": True}, "regex: group is True, not a whole"),
        (similar, {"threshold": "0.8"}, "similar: threshold is '0.8', not a finite"),
        (similar, {"threshold": float("nan")}, "similar: threshold is nan, not a fin"),
        (judge, {"rubric": "r", "structured": "no"}, "judge: structured is 'no', not"),
        (judge, {"rubric": "r", "threshold": 2}, "judge: threshold is 2, not above 0"),
        (judge, {"criteria": "polite"}, "judge: criteria is 'polite', not a list or"),
    ],
)
def test_arguments_of_another_type_are_refused(
    make: Any, arguments: dict[str, Any], fault: str
) -> None:
    with pytest.raises(EvalsError, match=f"^{fault}"):
        make(**arguments)


def test_a_wrong_answer_is_explained() -> None:
    score = json({"type": "object", "required": ["a"]})("{}", case("q"))
    assert score.explanation == (
        "invalid under the schema: the value: 'a' is a required property"
    )
    assert contains("x")("y", case("q")).explanation == "does not contain 'x'"


def test_a_case_without_a_target_is_an_error_and_not_a_wrong_answer() -> None:
    with pytest.raises(DocumentError, match="the case has no target"):
        exact()("a", case("p"))
    with pytest.raises(DocumentError, match="the target true is not text"):
        exact()("a", case("p", target=True))


@pytest.mark.parametrize(
    ("value", "number", "correct"),
    [(True, 1, True), (False, 0, False), (0.25, 0.25, None), (1.0, 1, True)],
)
def test_values_of_custom_scorers(
    value: object, number: float, correct: bool | None
) -> None:
    score = score_of_value(value, "text")
    assert (score.value, score.correct, score.answer) == (number, correct, "text")


def test_a_score_keeps_its_explanation() -> None:
    given = Score(value=0.0, explanation="too long")
    score = score_of_value(given, "text")
    assert (score.correct, score.explanation) == (False, "too long")


@pytest.mark.parametrize("value", [None, "yes", float("nan"), float("inf"), [1]])
def test_other_values_are_errors(value: object) -> None:
    with pytest.raises(DocumentError, match="the scorer returned"):
        score_of_value(value, "text")


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"rubric": "r", "scale": [1]},
        {"rubric": "r", "scale": [5, 1]},
        {"rubric": "r", "threshold": 0},
        {"criteria": [{"name": "a", "text": "b", "weight": 0}]},
        {"criteria": [{"name": "reason", "text": "b"}]},
        {"criteria": [{"nam": "a", "text": "b"}]},
    ],
)
def test_invalid_judges_are_refused(arguments: dict[str, Any]) -> None:
    with pytest.raises(EvalsError):
        judge(**arguments)


def test_criteria_are_weighted() -> None:
    scorer = judge(
        criteria=[
            {"name": "polite", "text": "is polite", "weight": 3},
            {"name": "short", "text": "is short"},
        ],
        scale=(0, 4),
    )
    dialogue = scorer.dialogue(Response(text="hello"), case("Hi"))
    (ask,) = next(dialogue)
    assert "polite: is polite" in ask.request.prompt[-1].content
    reply = '{"reason": "ok", "polite": 4, "short": 2}'
    with pytest.raises(StopIteration) as end:
        dialogue.send([Response(text=reply)])
    assert end.value.value.value == pytest.approx(0.875)
    assert end.value.value.explanation == "polite 4, short 2: ok"
