"""IFBench's instructions, each with an answer that follows its text in the data set
(allenai/IFBench) and one that does not. lighteval's results for unusual answers are in
tests/parity/vectors."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_evals.core.doc import Doc
from pytest_evals.errors import DocumentError
from pytest_evals.guests.lighteval.metrics.instructions.ifeval import (
    IFBENCH,
    IFBenchMetrics,
    is_followed,
)
from pytest_evals.guests.lighteval.metrics.instructions.words import (
    sentences,
)
from pytest_evals.scorers.custom_metrics.response import ModelResponse

CITIES = "ID,Country,City,Year,Count\n" + "1,a,b,2,3\n" * 7
GRADES = '"StudentID"\t"Subject"\t"Grade"\t"Semester"\t"Score"\n'
PRODUCTS = '"ProductID","Category","Brand","Price","Stock"\n'
QUIZ = "".join(
    f"Question {n}\n{'why ' * n}\n" + "".join(f"{c}. x\n" for c in "ABCDE")
    for n in range(1, 5)
)
COUNTRIES = "\n".join(["Zimbabwe", *(f"A{n}" for n in range(90, 38, -1))])

CASES: list[tuple[str, dict[str, Any], str, str]] = [
    ("count:conjunctions", {"small_n": 2}, "cats and dogs or owls", "cats and dogs"),
    ("count:punctuation", {}, "a. b, c! d? e; f: g?!", "a. b, c! d? e; f:"),
    ("count:word_count_range", {"min_words": 2, "max_words": 3}, "a b", "a b c d"),
    ("count:words_japanese", {"N": 2}, "one 猫 two 犬", "one cat two 犬"),
    ("count:pronouns", {"N": 2}, "She saw them.", "She saw cats."),
    ("count:person_names", {"N": 2}, "Emma met Liam.", "Emma met Bob."),
    ("custom:csv_city", {}, CITIES, CITIES + "1,a,b,2,3\n"),
    ("custom:csv_quotes", {}, GRADES * 4, GRADES * 4 + GRADES),
    (
        "custom:csv_special_character",
        {},
        PRODUCTS + '1,a,"b!",2,3\n' * 14,
        PRODUCTS + "1,a,b,2,3\n" * 14,
    ),
    ("custom:date_format_list", {}, "1769-08-15, 1821-05-05", "1769-02-30"),
    ("custom:mcq_count_length", {}, QUIZ, QUIZ.replace("E. x", "")),
    ("custom:multiples", {}, "14, 21, 28, 35, 42, 49", "7, 14, 21, 28, 35, 42, 49"),
    ("custom:reverse_newline", {}, COUNTRIES, COUNTRIES.replace("A90", "A00")),
    ("custom:word_reverse", {}, "bird national the is eagle bald the", "bald eagle"),
    ("format:emoji", {}, "Hi 😀. Yes 😀!", "Hi. Yes 😀!"),
    ("format:line_indent", {}, "a\n b\n  c", "a\n b\n b"),
    ("format:no_bullets_bullets", {}, "One. Two.\n* a\n* b", "One.\n* a\n* b"),
    ("format:options", {"options": "yes/no/maybe"}, "Yes.", "yes and no"),
    ("format:parentheses", {}, "((((([x])))))", "((x))"),
    ("format:quote_unquote", {}, '"so" he says', 'he says "so"'),
    ("format:quotes", {}, '"a \'b "c" d\' e"', "\"a 'b' c\""),
    ("format:thesis", {}, "<i>It is so.</i> Because.", "<i>It is so.</i>"),
    ("format:title_case", {}, "The Cat Sat", "The cat Sat"),
    ("ratio:sentence_balance", {}, "So. So? So!", "So. So? So."),
    ("ratio:sentence_type", {}, "So. So. So?", "So. So?"),
    ("repeat:repeat_change", {"prompt_to_repeat": "the cat"}, "The cat", "the cat"),
    ("sentence:alliteration_increment", {}, "A b. Big bears go.", "Big bears. A b."),
    ("sentence:increment", {"small_n": 1}, "One two. One two three.", "One. One."),
    ("words:alphabet", {}, "Yes, zebras are big", "zebras are not big"),
    ("words:consonants", {}, "strong cats", "strong dog"),
    ("words:last_first", {}, "I see cats. Cats see me.", "I see cats. Dogs too."),
    ("words:odd_even_syllables", {}, "cat window dog tiger", "cat dog"),
    ("words:paragraph_last_first", {}, "Go and go.\nNo one says no", "Go and stop."),
    ("words:vowel", {}, "a big top", "a big top queue"),
    ("words:words_position", {"keyword": "cat"}, "a cat is a cat .", "a cat is ."),
]


@pytest.mark.parametrize(
    ("instruction", "arguments", "right", "wrong"), CASES, ids=[c[0] for c in CASES]
)
def test_an_answer_that_follows_the_instruction_passes_and_another_fails(
    instruction: str, arguments: dict[str, Any], right: str, wrong: str
) -> None:
    assert is_followed(right, instruction, arguments, IFBENCH)
    assert not is_followed(wrong, instruction, arguments, IFBENCH)


def test_no_odd_answer_breaks_an_instruction() -> None:
    """In lighteval many of them raise and end the run."""
    numbers = dict.fromkeys(("N", "small_n", "n", "m", "percentage", "n_start"), 1)
    texts = {f"keyword{i}": "x" for i in range(1, 6)}
    names = ("options", "sep", "word", "keyword", "reference_text", "prompt_to_repeat")
    more = {"min_words": 1, "max_words": 2, "n_end": 2, **dict.fromkeys(names, "x y")}
    given = {**numbers, **texts, **more}
    for instruction in IFBENCH.keys() - {"ratio:stop_words", "words:start_verb"}:
        for answer in (".", "...", "\n!\n", "、", "* -", '"', "Question", "\n \n\na"):
            assert is_followed(answer, instruction, given, IFBENCH) in (True, False)


def test_full_stops_of_abbreviations_and_numbers_end_no_sentence() -> None:
    text = 'Dr. Smith has 3.5 cats at cats.com... "So?" He left the U.S.A. We stay.'
    assert sentences(text) == [
        "Dr. Smith has 3.5 cats at cats.com...",
        '"So"?',
        "He left the U.S.A.",
        "We stay.",
    ]


def test_an_instruction_that_lacks_its_number_is_an_error_and_not_a_guess() -> None:
    """lighteval draws one at random."""
    doc = Doc("p", [""], 0)
    doc.specific = {"instruction_id_list": ["count:numbers"], "kwargs": [{"N": None}]}
    with pytest.raises(DocumentError, match="'count:numbers' needs 'N'"):
        IFBenchMetrics().compute(doc, ModelResponse(text=["1"]))


def test_an_unknown_instruction_is_reported_with_the_nearest_one() -> None:
    with pytest.raises(DocumentError, match="did you mean 'words:vowel'"):
        is_followed("a", "words:vowels", {}, IFBENCH)
