"""Likely causes of wrong answers, and cases in which none is reported."""

import pytest

from pytest_evals.scorers.near_misses import Answer, near_misses


def wrong(text, target, **more):
    return Answer(text, (target,), True, **more)


def right(text):
    return Answer(text, (text,), False)


@pytest.mark.parametrize(
    ("text", "target", "what"),
    [
        (" 7", "7", "differ from the target by whitespace only"),
        ("paris", "Paris", "differ from the target by case only"),
        ("Paris.", "Paris", "differ from the target by punctuation only"),
        (
            " Paris.",
            "Paris",
            "differ from the target by whitespace and punctuation only",
        ),
        ("7", " 7", "differ from the target by whitespace of the target only"),
        ("**7**", "7", "equal the target without their Markdown"),
        ("```python\nx = 1\n```", "x = 1", "equal the target without their Markdown"),
        *(
            (
                text,
                target,
                "equal the target as numbers, booleans, dates or missing values",
            )
            for text, target in (
                ("4.90", "4.9"),
                ("30", "30.0"),
                ("01067", "1067"),
                ("2024-01-01", "2024-01-01 00:00:00"),
                ("NA", "None"),
            )
        ),
        ("7.", "7", "differ from the target by punctuation only"),
        ("7\nQ: 2+2=", "7", "continue after a first line that equals the target"),
        (
            " 7\nQ: 2+2=",
            "7",
            "continue after a first line that equals the target, apart from whitespace",
        ),
    ],
)
def test_the_difference_of_a_single_answer_is_named_with_its_count(text, target, what):
    answers = [wrong(text, target), wrong("other", "8")]
    assert near_misses(answers) == [f"1 of 2 wrong answers {what}"]


@pytest.mark.parametrize(
    ("texts", "targets", "name"),
    [
        (["So 3 + 4 is 7 apples", "So 2 + 3 is 5 pears"], ["7", "5"], "last number"),
        (["7, since 3 + 4 = 8 - 1", "5, as 2 + 3 = 6 - 1"], ["7", "5"], "first number"),
        (["I choose B", "I choose D"], ["B", "D"], "last letter"),
        (["B rather than A", "D rather than C"], ["B", "D"], "first letter"),
    ],
)
def test_an_extraction_is_named_if_it_helps_several_answers(texts, targets, name):
    answers = [*map(wrong, texts, targets)]
    what = f"equal the target if the {name} is taken"
    assert near_misses(answers) == [f"2 of 2 wrong answers {what}"]
    assert near_misses(answers[:1]) == []


def test_a_letter_that_agrees_by_chance_is_not_reported():
    answers = [wrong(f"I choose {'ABCD'[i % 4]}", "A") for i in range(20)]
    assert near_misses(answers) == []


def test_a_change_that_would_break_correct_answers_is_not_proposed():
    """The last number of a target with a unit is not that target."""
    answers = [wrong("about 7", "7"), wrong("about 5", "5"), right("3 km in 2 h")]
    assert near_misses(answers) == []


def test_answers_that_are_wrong_for_other_reasons_have_no_cause():
    assert near_misses([wrong("Rome", "Paris"), wrong("Oslo", "Madrid")]) == []
    assert near_misses([right("7")]) == []
    assert near_misses([]) == []


def test_an_answer_that_equals_its_target_is_wrong_for_another_reason():
    # With repeats, the first answer may be right and the others wrong.
    assert near_misses([wrong("six", "six"), wrong("one", "six")]) == []


def test_answers_cut_at_their_limit_are_counted():
    answers = [wrong("I think that", "7", is_cut=True), wrong("Rome", "Paris")]
    answers += [right("7")]
    assert near_misses(answers, {"limit": "raise max_gen_toks"}) == [
        "1 of 2 wrong answers were cut off at their token limit; raise max_gen_toks"
    ]


def test_equal_or_empty_answers_are_reported_only_if_targets_differ():
    empty = [wrong("", str(i)) for i in range(3)]
    assert near_misses(empty) == [
        "all 3 answers are empty, although the targets differ"
    ]
    equal = [wrong("no", str(i)) for i in range(4)]
    assert near_misses(equal) == ["all 4 answers are 'no', although the targets differ"]
    assert near_misses([wrong("no", "yes")] * 4) == []


def test_one_choice_position_for_all_documents_is_reported():
    answers = [Answer(None, (str(i % 4),), i % 4 != 1, choice=1) for i in range(12)]
    assert near_misses(answers) == [
        "the second choice is chosen for all 12 documents, although the targets differ"
    ]
    varied = [*answers, Answer(None, ("0",), True, choice=0)]
    assert near_misses(varied) == []
    assert near_misses(answers[:9]) == []


def test_several_causes_come_with_their_remedies_the_most_frequent_first():
    answers = [wrong(" 7", "7"), wrong("Rome", "rome"), wrong("Oslo", "oslo")]
    assert near_misses(answers, {"whitespace": "strip it"}) == [
        "2 of 3 wrong answers differ from the target by case only",
        "1 of 3 wrong answers differ from the target by whitespace only; strip it",
    ]


def test_a_stop_string_that_empties_answers_is_named():
    empty = Answer(text="", targets=("x",), is_wrong=True, emptied_by="\n")
    (line,) = near_misses([empty] * 4)
    assert line.startswith("4 of 4 wrong answers are empty, probably because")
    assert "stop string '\\n'" in line
