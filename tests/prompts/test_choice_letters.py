"""Questions with lettered choices."""

from __future__ import annotations

import pytest

from pytest_evals.core.doc import Doc
from pytest_evals.core.request import Message
from pytest_evals.errors import DocumentError
from pytest_evals.prompts.choice_letters import lettered, lettered_prompt, question_of

LISTED = "Capital of Italy?\n\nA. Paris\nB. Rome"


@pytest.mark.parametrize(
    "query",
    ["Capital of Italy?", "Capital of Italy?\nAnswer:", "Capital of Italy?\nA:"],
)
def test_choices_are_listed_and_the_start_of_an_answer_is_removed(query):
    found = lettered(query, [" Paris", " Rome"])
    assert found.labels == ("A", "B") and found.texts == ("Paris", "Rome")
    assert found.text == LISTED


@pytest.mark.parametrize(
    ("query", "choices", "labels"),
    [
        (f"{LISTED}\nAnswer:", ["A", "B"], "AB"),
        (f"{LISTED}\nAnswer:", [" A", " B"], "AB"),
        ("Which? (A) Paris (B) Rome", ["(A)", "(B)"], "AB"),
        ("Which?\n1) Paris\n2) Rome\nAnswer:", ["1", "2"], "12"),
        ("Which?\na. Paris\nb. Rome", ["a", "b"], "ab"),
        (f"{LISTED}\nAnswer:", ["Paris", "Rome"], "AB"),
        (f"{LISTED}\nAnswer:", ["A. Paris", "B. Rome"], "AB"),
        ("Is A or B better?", ["A", "B"], "AB"),
    ],
)
def test_labels_that_are_there_are_kept_and_not_added_again(query, choices, labels):
    found = lettered(query, choices)
    assert found.labels == tuple(labels)
    assert found.text == query.removesuffix("\nAnswer:")


def test_the_texts_behind_letters_are_read_from_the_question():
    assert lettered(LISTED, ["A", "B"]).texts == ("Paris", "Rome")


def test_choices_with_labels_are_listed_once():
    found = lettered("Capital of Italy?", ["A. Paris", "B. Rome"])
    assert found.text == LISTED


def test_numbers_that_are_answers_get_letters():
    found = lettered("2 + 2 =", ["3", "4", "5"])
    assert found.labels == ("A", "B", "C") and "B. 4" in found.text


def test_more_choices_than_letters_are_numbered():
    found = lettered("Which?", [f"city {n}" for n in range(27)])
    assert found.labels[0] == "1" and found.labels[-1] == "27"
    assert "27. city 26" in found.text and "number" in found.format


def test_choices_must_be_strings():
    with pytest.raises(DocumentError, match="choices must be strings, not 3"):
        lettered("2 + 1 =", [3, 4])  # type: ignore[list-item]
    with pytest.raises(DocumentError, match="no choices"):
        lettered("2 + 1 =", [])


SHOT = Doc("Capital of France?", ["Paris", "Rome"], 0)
DOC = Doc(
    "Be brief.\n\nCapital of Italy?",
    ["Paris", "Rome"],
    1,
    instruction="Be brief.\n\n",
    fewshot_samples=[SHOT],
)
FORMAT = 'Reply with the letter of the correct choice, in the form "Answer: LETTER".'


def test_few_shot_examples_have_the_form_of_the_question():
    prompt = lettered_prompt(DOC, question_of(DOC), "", chat=False, multiturn=True)
    assert prompt == (
        "Be brief.\n\n"
        "### Question\nCapital of France?\n\nA. Paris\nB. Rome\n\n"
        f"{FORMAT}\nAnswer: A\n\n"
        "### Question\nCapital of Italy?\n\nA. Paris\nB. Rome\n\n"
        f"{FORMAT}\nAnswer:"
    )


def test_a_chat_has_a_message_for_each_example():
    prompt = lettered_prompt(DOC, question_of(DOC), "You know.", chat=True, multiturn=1)
    assert prompt == (
        Message("system", "You know."),
        Message(
            "user",
            f"Be brief.\n\nCapital of France?\n\nA. Paris\nB. Rome\n\n{FORMAT}",
        ),
        Message("assistant", "Answer: A"),
        Message("user", f"{LISTED}\n\n{FORMAT}"),
    )


def test_an_example_without_a_correct_choice_is_an_error():
    doc = Doc("Q", ["x", "y"], 0, fewshot_samples=[Doc("R", ["x", "y"], -100)])
    with pytest.raises(DocumentError, match="few-shot example is not among"):
        lettered_prompt(doc, question_of(doc), "", chat=False, multiturn=True)
