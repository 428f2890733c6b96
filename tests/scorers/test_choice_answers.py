"""Which choice a generated answer selects."""

from __future__ import annotations

import pytest

from pytest_evals.scorers.choice_answers import select

LABELS = ("A", "B", "C", "D")
TEXTS = ("London", "Paris", "Berlin", "Madrid")


@pytest.mark.parametrize(
    "answer",
    [
        "B",
        " b\n",
        "(B)",
        "[b]",
        "B.",
        "**B**",
        "**(B)** Paris",
        '"B"',
        "Option B",
        "B: Paris",
        "Paris",
        "paris.",
        "The answer is B.",
        "So the answer is **(B)**.",
        "The correct answer is B, because A is in England.",
        "The correct option is B",
        "Answer: B",
        "**Answer: B**",
        "Answer:\n\nB",
        "Answer: B. Paris\n\nLondon is in England.",
        "The answer is Paris (B).",
        "The answer is Paris.",
        "I would go with Paris",
        "The capital of France is Paris.",
        "It's B.",
        "B because Paris is the capital.",
        r"\boxed{B}",
        r"So $\boxed{\text{B}}$.",
        r"\boxed{Paris}",
        "Answer\uff1a\uff22",
        "A. London is in England\nC. Berlin is in Germany\n\nFinal answer: B",
        "Let me see: A is in England.\nThe answer is B",
        "<think>It may be A. The answer is A</think>\n\nB",
        "A is in England</think>The answer is B",
        "B\n\nParis is the capital of France.",
    ],
)
def test_a_choice_is_selected_by_its_label_or_its_text(answer):
    assert select(answer, LABELS, TEXTS).choice == 1


@pytest.mark.parametrize(
    "answer",
    [
        "",
        "   ",
        "A or B",
        "A, B",
        "A/B",
        "A B",
        "AB",
        "A\nB",
        "(A)(B)",
        "Both A and B",
        "Answer: A or maybe B",
        "Answer: A\nAnswer: B",
        "The answer is A. No, the answer is B.",
        "A\n\nThe answer is B.",
        r"\boxed{A}, \boxed{B}",
        r"\boxed{A, B}",
        "London or Paris",
        "B. London",
        "The answer is B. London",
        "A. London\nB. Paris\nC. Berlin\nD. Madrid",
        "Neither A nor B",
        "The answer is not B",
        "It is not Paris",
        "None of the above",
        "E",
        "Answer: LETTER",
        "A dog",
        "The answer is a city.",
        "I do not know",
        "<think>The answer is B",
    ],
)
def test_nothing_is_guessed(answer):
    found = select(answer, LABELS, TEXTS)
    assert found.choice is None and found.fault


@pytest.mark.parametrize(
    ("answer", "labels", "texts", "choice"),
    [
        ("17", [str(n) for n in range(1, 31)], ["x"] * 30, 16),
        ("Answer: (27)", [str(n) for n in range(1, 31)], ["x"] * 30, 26),
        ("no idea", LABELS, ("no", "no idea", "yes", "perhaps"), 1),
        ("No", LABELS, ("no", "no idea", "yes", "perhaps"), 0),
        ("4", LABELS, ("3", "4", "5", "6"), 1),
        ("2", ("1", "2", "3"), ("3", "2", "1"), 1),  # the label, not the text
        ("I", tuple("ABCDEFGHI"), (), 8),
        ("I think it's B", tuple("ABCDEFGHI"), (), 1),
        ("Paris", LABELS, ("Paris", "Rome", "Paris", "Oslo"), None),
        ("b", ("a", "b"), ("x", "y"), 1),
    ],
)
def test_labels_and_texts_of_other_kinds(answer, labels, texts, choice):
    assert select(answer, labels, texts).choice == choice


def test_tags_of_reasoning_can_be_set():
    tags = [("[THINK]", "[/THINK]")]
    answer = "[THINK]The answer is A[/THINK]B"
    assert select(answer, LABELS, tags=tags).choice == 1


def test_long_answers_are_read_in_linear_time():
    answer = "answer" + " \n" * 50_000 + "is " * 20_000 + "B"
    assert select(answer, LABELS, TEXTS).choice in (1, None)
