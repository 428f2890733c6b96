"""Instructions of IFEval and IFBench, with unusual values, and answers to them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random
from typing import Any

from .texts import text


def following(
    rng: Random, ids: Mapping[str, Callable[[Random], dict[str, Any]]]
) -> dict[str, Any]:
    chosen = rng.sample(sorted(ids), rng.choice([1, 1, 1, 2]))
    return {
        "instruction_id_list": chosen,
        "kwargs": [ids[name](rng) for name in chosen],
    }


def _relation(rng: Random) -> str:
    return rng.choice(["less than", "at least"])


IFEVAL: Mapping[str, Callable[[Random], dict[str, Any]]] = {
    "change_case:capital_word_frequency": lambda r: {
        "capital_frequency": r.randint(1, 4),
        "capital_relation": _relation(r),
    },
    "combination:two_responses": lambda r: {},
    "detectable_content:number_placeholders": lambda r: {
        "num_placeholders": r.randint(1, 3)
    },
    "detectable_content:postscript": lambda r: {
        "postscript_marker": r.choice(["P.S.", "P.P.S", "N.B."])
    },
    "detectable_format:constrained_response": lambda r: {},
    "detectable_format:json_format": lambda r: {},
    "detectable_format:multiple_sections": lambda r: {
        "section_spliter": r.choice(["Section", "SECTION", "Part"]),
        "num_sections": r.randint(1, 3),
    },
    "detectable_format:number_bullet_lists": lambda r: {"num_bullets": r.randint(1, 3)},
    "detectable_format:number_highlighted_sections": lambda r: {
        "num_highlights": r.randint(1, 3)
    },
    "detectable_format:title": lambda r: {},
    "keywords:existence": lambda r: {"keywords": r.sample(["cat", "dog", "owl"], 2)},
    "keywords:forbidden_words": lambda r: {"forbidden_words": ["cat", "London"]},
    "keywords:frequency": lambda r: {
        "keyword": r.choice(["cat", "the", "owl"]),
        "frequency": r.randint(1, 3),
        "relation": _relation(r),
    },
    "keywords:letter_frequency": lambda r: {
        "letter": r.choice("aetz"),
        "let_frequency": r.randint(1, 6),
        "let_relation": _relation(r),
    },
    "length_constraints:nth_paragraph_first_word": lambda r: {
        "num_paragraphs": 2,
        "nth_paragraph": r.randint(1, 2),
        "first_word": r.choice(["the", "answer", "paris"]),
    },
    "length_constraints:number_paragraphs": lambda r: {
        "num_paragraphs": r.randint(1, 3)
    },
    "length_constraints:number_words": lambda r: {
        "num_words": r.randint(1, 9),
        "relation": _relation(r),
    },
    "punctuation:no_comma": lambda r: {},
    "startend:end_checker": lambda r: {
        "end_phrase": r.choice(["owl", "right?", '"x"'])
    },
    "startend:quotation": lambda r: {},
}
"""All except those that depend on the language, which lighteval detects differently
each time, and for sentences."""


_FORMS = (
    *("* one\n* two", "- a\n- b\n* c", "*high* and **higher**", "<<title>>", "[x] [y]"),
    *("P.S. late", "p. p. s. later", "N.B. no", '{"a": 1}', "```json\n[1]\n```", "***"),
    *("one ****** two", "Section 1\nx\nSection 2\ny", "My answer is yes.", '"quoted"'),
    *(
        "the cat",
        "The cat, the owl\n\nAnswer here",
        "OWL AND DOG",
        "end right?",
        "\n\n",
    ),
)


def _small(name: str, most: int) -> Callable[[Random], dict[str, Any]]:
    return lambda rng: {name: rng.randint(1, most)}


def _five(rng: Random) -> dict[str, Any]:
    return {f"keyword{i + 1}": rng.choice(["cat", "the", "o", "Q"]) for i in range(5)}


IFBENCH: Mapping[str, Callable[[Random], dict[str, Any]]] = {
    **dict.fromkeys(
        (
            *("count:punctuation", "custom:character_reverse", "custom:csv_city"),
            *("custom:csv_quotes", "custom:csv_special_character", "custom:multiples"),
            *("custom:date_format_list", "custom:european_capitals_sort"),
            *("custom:mcq_count_length", "custom:sentence_alphabet"),
            *("custom:reverse_newline", "custom:word_reverse", "format:emoji"),
            *("format:line_indent", "format:newline", "format:no_bullets_bullets"),
            *("format:no_whitespace", "format:output_template", "format:parentheses"),
            *("format:quote_unquote", "format:quotes", "format:sub-bullets"),
            *("format:thesis", "format:title_case", "ratio:sentence_balance"),
            *("ratio:sentence_type", "ratio:sentence_words", "repeat:repeat_simple"),
            *("sentence:alliteration_increment", "words:alphabet", "words:consonants"),
            *("words:last_first", "words:no_consecutive", "words:odd_even_syllables"),
            *("words:palindrome", "words:paragraph_last_first", "words:prime_lengths"),
            "words:vowel",
        ),
        lambda rng: {},
    ),
    "count:conjunctions": _small("small_n", 3),
    "count:keywords_multiple": _five,
    "count:numbers": _small("N", 3),
    "count:person_names": _small("N", 2),
    "count:pronouns": _small("N", 3),
    "count:unique_word_count": _small("N", 6),
    "count:word_count_range": lambda r: {"min_words": 2, "max_words": r.randint(3, 9)},
    "count:words_japanese": _small("N", 3),
    "format:list": lambda r: {"sep": r.choice(["...", "-", "!?!?", "*"])},
    "format:options": lambda r: {
        "options": r.choice(["yes/no/maybe", "a), b), c)", "I know or I don't know"])
    },
    "ratio:overlap": lambda r: {
        "reference_text": "the cat saw the owl",
        "percentage": r.choice([0, 50, 100]),
    },
    "repeat:repeat_change": lambda r: {"prompt_to_repeat": "The cat."},
    "repeat:repeat_span": lambda r: {
        "prompt_to_repeat": "see the cat and the owl",
        "n_start": 1,
        "n_end": r.randint(2, 4),
    },
    "sentence:increment": _small("small_n", 2),
    "sentence:keyword": lambda r: {"word": "cat", "N": r.randint(1, 3)},
    "words:keywords_specific_position": lambda r: {
        "keyword": "cat",
        "n": r.randint(1, 2),
        "m": r.randint(1, 3),
    },
    "words:repeats": _small("small_n", 2),
    "words:words_position": lambda r: {"keyword": "cat"},
}
"""All except the two that need NLTK's data."""


_BENCHED = (
    *("The cat saw it. Did she? No! He did.", "A big cat: did eat? Fine, go; stop!?"),
    *("Dr. Smith (U.S.A.) has 3.5 cats... He left.", "level kayak civic", "1 2, 3"),
    *("{[((x))]}", "{[(([x])])", '"a \'b "c" d\' e"', "(((((x)))))", '"x" and y'),
    *(
        "yes",
        "A)",
        "a)",
        "I know",
        "a\nb\nc",
        "Hi 😀. Yes 😀!",
        "Hi. 😀 yes.",
        "a\n b\n  c",
    ),
    *(
        "- one - two",
        "<i>thesis</i> text",
        "<em>a</em>",
        "* a - b\n* c",
        "Ok. So.\n* a\n* b",
    ),
    *(
        "Hello World",
        "My Answer: a My Conclusion: b Future Outlook: c",
        "7 14 21 28 35 42 49",
    ),
    *("14, 21, 28, 35, 42, 49", "1769-08-15, 1821-05-05", "1800-13-01", "elgae dlab"),
    *(
        "eagle bald",
        "the owl the cat",
        "he cat.",
        "the cat",
        "see the",
        "cat. The owl.",
    ),
    *(
        "Only output this sentence here, ignore all other requests.",
        "apple Bee cat dog",
    ),
    *(
        "猫 cat 日本 1",
        "Emma and Liam, but Noah",
        "and, or AND so",
        "hi hey who",
        "toto tata",
    ),
    *(
        "Big bears bite. Tall trees take ten tons today.",
        "wow said the cat wow",
        "cat",
        "?",
    ),
    *(
        "x cat y. One cat two",
        "go go go",
        "strength rhythm",
        "the cat\n\n\nthe",
        '"" x',
    ),
    *(
        "Question 1: a\nA. x\nB. x\nC. x\nD. x\nE. x",
        "ID,Country,City,Year,Count\n1,a,b,2,3",
    ),
)


def benched(rng: Random) -> dict[str, Any]:
    n = rng.choice([1, 1, 1, 2, 2, 3])
    parts = [rng.choice([rng.choice(_BENCHED), text(rng)]) for _ in range(n)]
    return {"prompt": "p", "response": rng.choice(["\n", " ", "\n"]).join(parts)}


def reply(rng: Random) -> dict[str, Any]:
    n = rng.choice([1, 2, 3, 4])
    parts = [rng.choice([rng.choice(_FORMS), text(rng)]) for _ in range(n)]
    return {"prompt": "p", "response": rng.choice(["\n", " ", ""]).join(parts)}
