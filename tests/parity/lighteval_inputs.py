"""What lighteval is asked to record its answers: inputs drawn at random, always the
same ones, for each kind of metric, prompt and template. Standard library only.

Texts are made of odd pieces: numbers with signs, units and commas, LaTeX, marks and
letters of many scripts, blanks of all kinds, and nothing at all.
"""

# ruff: noqa: RUF001 - odd characters are what is wanted

from __future__ import annotations

import string
from collections.abc import Callable, Iterator, Mapping, Sequence
from random import Random
from typing import Any, NamedTuple

__all__ = ["drawn"]

WORDS = (
    *("the cat", "The", "a", "an", "AN", "owl", "dog", "Paris", "paris", "London"),
    *("answer", "Answer:", "is", "not", "therefore", "well-known", "it's", "don't"),
    *("New York", "U.S.A.", "e.g.", "Dr. Smith", "nan", "inf", "None", "true", "x"),
)
NUMBERS = (
    *("1", "2", "10", "42", "-5", "1.0", "2.50", "1,000", "1,000,000", ".5", "0.5"),
    *("1e3", "50%", "$5", "1/2", "3/4", "007", "٣", "½", "1.5.2", "12 km", "3 000"),
    *("#### 72", "#### -1,234.5", "2+2", "3.14", "0", "-0", "1_000", "١٢٫٥"),
)
SIGNS = (".", ",", "!", "?", ";", ":", "-", "…", "'", '"', "(", ")", "[", "]")
ODD = (
    *("é", "e\u0301", "ß", "İ", "ı", "Ǆ", "日本", "東京", "，", "。", "「", "」"),
    *("١", "العربية", "हिन्दी", "ไทย", "русский", "ελληνικά", "😀", "👩‍👩‍👧", "\u200b"),
    *("\xa0", "\u3000", "\u2028", "ﬁ", "²", "™", "«", "»", "“", "”", "‘", "’", "_"),
    *("{", "}", "{}", "*", "**", "#", "\\", "/", "|", "<", ">", "&", "l'eau", "naïve"),
)
LATEX = (
    *("\\boxed{42}", "\\boxed{\\frac{1}{2}}", "\\boxed 7", "\\fbox{3}", "$x=5$"),
    *("\\boxed{x = 5}", "\\boxed{\\tfrac12}", "\\boxed{50\\%}", "\\boxed{\\sqrt3}"),
    *("\\boxed{5 \\text{ km}}", "\\boxed{1/2}", "\\boxed{0.5}", "\\boxed{.5}"),
    *("\\boxed{\\left(1,2\\right)}", "\\boxed{90^\\circ}", "\\boxed{\\$5}", "\\boxed{"),
    *("\\boxed{\\text{ a }3\\text{ b }}", "\\boxed{\\dfrac{a}{b}}", "\\boxed{\\!3}"),
    *("\\boxed{\\frac12+\\frac1{72}}", "\\boxed{}", "\\boxed{a=b=c}", "\\boxed{\\%}"),
)
BETWEEN = (" ", " ", " ", " ", "  ", "\n", "\n\n", "\t", "-", " . ", "", ", ")
EVERYTHING = (*WORDS, *WORDS, *NUMBERS, *SIGNS, *ODD)


def text(rng: Random, pieces: Sequence[str] = EVERYTHING, most: int = 9) -> str:
    """Some pieces and what stands between them; sometimes nothing."""
    out = ""
    for _ in range(min(most, rng.choice([0, 1, 1, 2, 3, 4, rng.randint(5, 12)]))):
        out += (rng.choice(BETWEEN) if out else "") + rng.choice(pieces)
    return rng.choice(["", "", "", " ", "\n"]) + out + rng.choice(["", "", "", " "])


def like(rng: Random, given: str) -> str:
    """A text that is near to another one."""
    words = given.split(" ")
    rng.shuffle(words)
    forms = (
        given,
        given,
        rng.choice([given.upper(), given.lower()]),
        f"{given}{rng.choice(SIGNS)}",
        f"{rng.choice(WORDS)} {given}",
        f" {given}\n",
        " ".join(words),
        " ".join(given.split(" ")[: len(words) // 2 + 1]),
        text(rng),
    )
    return rng.choice(forms)


def answered(
    rng: Random, make: Callable[[Random], str], golds: int = 3, preds: int = 3
) -> dict[str, Any]:
    """A document with references, and answers to it."""
    choices = [make(rng) for _ in range(rng.choice([1, 1, golds]))]
    n = len(choices)
    index: Any = rng.randrange(n)
    if rng.random() < 0.4:
        index = sorted(rng.sample(range(n), rng.randint(1, n)))
    base = choices[index if isinstance(index, int) else index[0]]
    texts = [like(rng, base) for _ in range(rng.choice([1, 1, preds]))]
    response: dict[str, Any] = {"text": texts}
    if rng.random() < 0.15:
        think = [f"<think>{make(rng)}</think>{one}" for one in texts]
        response = {"text": think, "text_post_processed": texts}
    return {
        "doc": {"choices": choices, "gold_index": index},
        "model_response": response,
    }


def _logprob(rng: Random) -> float:
    return rng.choice([-0.5, -1.0, -2.0, -800.0, round(rng.uniform(-9, 0), 3)])


def scored(rng: Random) -> dict[str, Any]:
    """A document with choices, and their log-probabilities; sometimes those without the
    question behind them."""
    n = rng.choice([1, 2, 3, 4, 5])
    choices = [(text(rng, WORDS, 6) or "x") for _ in range(n)]
    if rng.random() < 0.5:
        choices = [f" {one}" for one in choices]
    index: Any = rng.randrange(n)
    if rng.random() < 0.4:
        index = sorted(rng.sample(range(n), rng.randint(1, n)))
    n_all = 2 * n if rng.random() < 0.4 else n
    logprobs = [_logprob(rng) for _ in range(n_all)]
    return {
        "doc": {"choices": choices, "gold_index": index},
        "model_response": {
            "logprobs": logprobs,
            "argmax_logits_eq_gold": [rng.random() < 0.3 for _ in range(n_all)],
            "output_tokens": [[7] * rng.randint(1, 5) for _ in range(n_all)],
        },
    }


def single(rng: Random) -> dict[str, Any]:
    """The same where each choice was asked once, and one of them is right."""
    given = scored(rng)
    doc, response = given["doc"], given["model_response"]
    n = len(doc["choices"])
    doc["gold_index"] = rng.randrange(n)
    return {
        "doc": doc,
        "model_response": {key: listed[:n] for key, listed in response.items()},
    }


def _untied(rng: Random) -> dict[str, Any]:
    """The same with other log-probabilities for each: which of equal ones NumPy takes
    depends on the processor."""
    given = single(rng)
    n = len(given["doc"]["choices"])
    given["model_response"]["logprobs"] = [-i / 7 for i in rng.sample(range(99), n)]
    return given


def sampled(rng: Random, make: Callable[[Random], str], n: int) -> dict[str, Any]:
    """A document with one reference and several answers, of which some are right."""
    gold = make(rng)
    texts = [rng.choice([gold, like(rng, gold), make(rng)]) for _ in range(n)]
    return {
        "doc": {"choices": [gold], "gold_index": 0},
        "model_response": {"text": texts},
    }


def letters(rng: Random) -> dict[str, Any]:
    """A document whose choices are letters, and answers that name some."""
    n = rng.choice([2, 4, 4, 5, 10])
    labels = string.ascii_uppercase[:n]
    texts = [_names_letter(rng, labels) for _ in range(rng.choice([1, 1, 2]))]
    return {
        "doc": {"choices": list(labels), "gold_index": rng.randrange(n)},
        "model_response": {"text": texts},
    }


_NAMING = (
    "{0}",
    "({0})",
    "{0}.",
    "{0}) because",
    "Answer: {0}",
    "Answer: ({0})",
    "**Answer:** {0}",
    "answer is {0}",
    "The answer is **{0}**.",
    "The final answer is {0}. I hope it is correct.",
    "final answer: the option that fits is {0}",
    "I think {0} is right",
    "Not {0}, but {1}",
    "Answer: {0}\nNo, wait.\nAnswer: {1}",
    "{0}\n\n{1}. indeed",
    "A {0} is here, so {1}",
    "Option {0}: it fits; {1} does not",
    "{0},{1}",
    "{0} {1}",
    "\\boxed{{{0}}}",
    "answer {0} and answers {1}",
    "the answers: {0}, {1}",
    "Answer:\n{0}",
    "ANSWER : {0}",
    "b",
    "Banana",
    "",
    "None of the above",
    "My answer: none",
)


def _names_letter(rng: Random, labels: str) -> str:
    form = rng.choice(_NAMING)
    wrapped = form.format(rng.choice(labels), rng.choice(labels))
    return rng.choice(["", "", "Let me think. ", "A. no\nB. yes\n"]) + wrapped


_QUANTITIES = (
    *("4", "4.0", "-4", "1,000", "1000", "1 000", "0.5", "1/2", "50%", "50\\%", "3.14"),
    *("0.333333", "1/3", "$5", "5 km", "12,5", "1e3", "007", "100", "10", "2", "17"),
)
_FORMULAS = (
    *(
        "\\frac{1}{2}",
        "\\frac12",
        "\\dfrac{3}{4}",
        "x=5",
        "x + 1",
        "1 + x",
        "2x",
        "x^2",
    ),
    *("(1,2)", "[1,2]", "(1,2]", "\\{1,2\\}", "\\{2,1\\}", "1,2", "2^{10}", "1024"),
    *(
        "\\text{cat}",
        "x<3",
        "3>x",
        "x \\le 3",
        "-\\frac{1}{2}",
        "5\\text{ km}",
        "90^\\circ",
    ),
    *("\\begin{pmatrix}1\\\\2\\end{pmatrix}", "a^2+b^2", "\\frac{x}{y}", "0.5", "2:3"),
    *("10\\%", "\\$5", "3 \\frac{1}{2}", "(x+1)(x-1)", "x^2-1", "5!", "120", "|x|"),
)
_SAYING = (
    "{0}",
    "${0}$",
    "$${0}$$",
    "\\[{0}\\]",
    "\\({0}\\)",
    "\\boxed{{{0}}}",
    "$\\boxed{{{0}}}$",
    "The answer is {0}.",
    "The answer is ${0}$.",
    "Answer: {0}",
    "So we get ${0}$ and then ${1}$.",
    "First {0} then {1}",
    "The final answer is ${0}$. I hope it is correct.",
    "Final Answer: The final answer is {0}. I hope it is correct.",
    "\\boxed{{{0}}} but the answer is \\boxed{{{1}}}",
    "We have {0} = {1}",
    "#### {0}",
    "It costs {0} dollars, that is {1}.",
    "${0}$, ${1}$",
    "${0}$ and ${1}$",
    "no idea",
    "",
    "x",
)


def _says_number(rng: Random) -> str:
    pools = (_QUANTITIES, _FORMULAS)
    two = (rng.choice(rng.choice(pools)), rng.choice(rng.choice(pools)))
    return rng.choice(_SAYING).format(*two)


def maths(rng: Random) -> dict[str, Any]:
    """A document with a number or a formula, and answers that hold some."""
    gold = rng.choice([rng.choice(_QUANTITIES), f"${rng.choice(_FORMULAS)}$"])
    bare = gold.strip("$")
    texts = []
    for _ in range(rng.choice([1, 1, 2])):
        near = rng.choice(_SAYING).format(bare, rng.choice(_QUANTITIES))
        texts.append(rng.choice([near, near, _says_number(rng)]))
    return {
        "doc": {"choices": [gold], "gold_index": 0},
        "model_response": {"text": texts},
    }


def two_maths(rng: Random) -> dict[str, Any]:
    """The same with two answers."""
    given = maths(rng)
    texts = given["model_response"]["text"]
    return {**given, "model_response": {"text": [texts[0], texts[-1]]}}


def spans(rng: Random) -> dict[str, Any]:
    """A question of DROP: spans that are wanted, and spans that are given."""
    pieces = (*NUMBERS, "three", "Tom Brady", "the Bears", "Bears", "blue-green", "")
    golds = [
        [rng.choice(pieces) for _ in range(rng.choice([1, 1, 2, 3]))]
        for _ in range(rng.choice([1, 1, 2]))
    ]
    texts = [like(rng, rng.choice(golds[0])) for _ in range(rng.choice([1, 1, 2]))]
    specific = {"golds_no_preprocessing": golds}
    return {
        "doc": {"choices": ["_"], "gold_index": 0, "specific": specific},
        "model_response": {"text": texts},
    }


def summarised(rng: Random) -> dict[str, Any]:
    """A source and its summary, which takes some of its words."""
    source = " ".join(text(rng, EVERYTHING, 12) for _ in range(3))
    words = source.split(" ")
    start = rng.randrange(len(words))
    kept = " ".join(words[start : start + rng.randint(0, 6)])
    summary = rng.choice([kept, f"{kept} {text(rng)}", text(rng), f"{{{kept}}}"])
    return {
        "doc": {"choices": [""], "gold_index": 0, "specific": {"text": source}},
        "model_response": {"text": [summary]},
    }


def truthful(rng: Random) -> dict[str, Any]:
    """A question of TruthfulQA with its two lists of choices."""
    one, two = rng.randint(2, 4), rng.randint(2, 5)
    true = rng.randint(1, two)
    return {
        "doc": {
            "choices": ["x"] * (one + two),
            "gold_index": [0, *range(one, one + true)],
            "specific": {"len_mc1": one},
        },
        "model_response": {"logprobs": [_logprob(rng) for _ in range(one + two)]},
    }


def rolled(rng: Random) -> dict[str, Any]:
    """Texts with their log-probabilities."""
    docs, responses = [], []
    for _ in range(rng.randint(1, 4)):
        doc = {"query": text(rng) or "x", "choices": [], "gold_index": 0}
        if rng.random() < 0.4:
            doc["original_query"] = text(rng) or "y"
        docs.append(doc)
        responses.append({"logprobs": [-rng.uniform(1, 30)]})
    return {"docs": docs, "model_responses": responses}


def corpus_of(make: Callable[[Random], dict[str, Any]]) -> Callable[[Random], Any]:
    """Several documents."""

    def made(rng: Random) -> dict[str, Any]:
        pairs = [make(rng) for _ in range(rng.randint(2, 6))]
        return {
            "docs": [pair["doc"] for pair in pairs],
            "model_responses": [pair["model_response"] for pair in pairs],
        }

    return made


def one_to_one(rng: Random) -> dict[str, Any]:
    """A reference and an answer, both of few kinds."""
    kinds = ("yes", "no", "maybe", "Paris", "4")
    return {
        "doc": {"choices": [rng.choice(kinds)], "gold_index": 0},
        "model_response": {"text": [rng.choice(kinds)]},
    }


def translated(rng: Random) -> dict[str, Any]:
    """A translation of some words, and its reference."""
    gold = " ".join(rng.choice(EVERYTHING) for _ in range(rng.randint(4, 14)))
    return {
        "doc": {"choices": [gold], "gold_index": 0},
        "model_response": {"text": [like(rng, gold)]},
    }


def classified(rng: Random) -> dict[str, Any]:
    """Labels that are right, and labels that are said."""
    n, classes = rng.randint(2, 9), rng.choice([2, 3, 4])
    return {
        "golds": [rng.randrange(classes) for _ in range(n)],
        "preds": [rng.randrange(classes) for _ in range(n)],
    }


def correlated(rng: Random) -> dict[str, Any]:
    """The same where each document has a list of right labels."""
    given = classified(rng)
    return {**given, "golds": [[gold] for gold in given["golds"]]}


# Prompts

_CHAT = (
    "{% for m in messages %}<|{{ m['role'] }}|>{{ m['content'] }}\n{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)


def _question(rng: Random, instruction: str | None) -> dict[str, Any]:
    query = text(rng) + rng.choice(["", "\nAnswer:", "\nA: "])
    if instruction is not None and rng.random() < 0.7:
        query = instruction + query
    n = rng.randint(1, 3)
    doc: dict[str, Any] = {
        "query": query,
        "choices": [rng.choice(["", " "]) + text(rng) for _ in range(n)],
        "gold_index": rng.choice([rng.randrange(n), [rng.randrange(n)]]),
    }
    if instruction is not None:
        doc["instruction"] = instruction
    return doc


def prompted(rng: Random) -> dict[str, Any]:
    """A document with shots, with and without instruction."""
    instruction = rng.choice([None, None, "", "Do it.", "Do it.\n\n", text(rng)])
    return {
        "doc": _question(rng, instruction),
        "fewshots": [
            _question(rng, rng.choice([None, instruction]))
            for _ in range(rng.choice([0, 0, 1, 2, 3]))
        ],
    }


def splits(rng: Random) -> dict[str, Any]:
    """A dataset of a few questions, some with labels of their own."""

    def row(i: int) -> dict[str, Any]:
        made: dict[str, Any] = {"i": i, "y": rng.randrange(2)}
        if labelled:
            made["cls"] = rng.choice(["a", "b", "c", "d"])
        return made

    labelled = rng.random() < 0.5
    train, test = rng.randint(3, 15), rng.randint(2, 8)
    return {
        "dataset": {
            "train": [row(i) for i in range(train)],
            "test": [row(100 + i) for i in range(test)],
        }
    }


# Templates

_SENTENCES = (
    *("the cat sat on the mat", "He fell.", "Is it so?", "it rains", "Wait!", "list:"),
    *(
        "What is 2+2?",
        "une phrase, oui",
        "日本は島国です。",
        "هل هذا صحيح؟",
        "Why;",
        "x,",
    ),
    *(
        "[title] Clean it [step] Wash.",
        "A dog... runs  fast",
        "ÉCOLE",
        "istanbul",
        " a ",
    ),
)


def _sentence(rng: Random) -> str:
    return rng.choice(_SENTENCES)


def _several(rng: Random) -> list[str]:
    return [_sentence(rng) for _ in range(rng.randint(2, 5))]


def _with_gold(rng: Random, name: str) -> dict[str, Any]:
    choices = _several(rng)
    gold: Any = rng.randrange(len(choices))
    if rng.random() < 0.3:
        gold = sorted(rng.sample(range(len(choices)), 2))
    return {name: choices, "gold_idx": gold}


def _maybe(rng: Random, **given: str) -> dict[str, str]:
    return {key: value for key, value in given.items() if rng.random() < 0.5}


def _mcq(rng: Random) -> dict[str, Any]:
    more = _maybe(rng, context=_sentence(rng), instruction=_sentence(rng))
    return {"question": _sentence(rng), **_with_gold(rng, "choices"), **more}


def _boolq(rng: Random) -> dict[str, Any]:
    more = _maybe(rng, context=_sentence(rng), instruction=_sentence(rng))
    return {"question": _sentence(rng), "answer": rng.random() < 0.5, **more}


def _continuation(rng: Random) -> dict[str, Any]:
    more = _maybe(rng, instruction=_sentence(rng))
    return {"context": _sentence(rng), **_with_gold(rng, "continuations"), **more}


def _copa(rng: Random) -> dict[str, Any]:
    which = rng.choice(["cause", "effect"])
    choices = _with_gold(rng, "continuations")
    return {"cause_effect": which, "context": _sentence(rng), **choices}


def _hellaswag(rng: Random) -> dict[str, Any]:
    more = _maybe(rng, ctx_b=_sentence(rng), activity_label=_sentence(rng))
    return {"ctx_a": _sentence(rng), **_with_gold(rng, "continuations"), **more}


def _nli(rng: Random) -> dict[str, Any]:
    two = {"premise": _sentence(rng), "hypothesis": _sentence(rng)}
    return {**two, "gold_idx": rng.randrange(2)}


def _qa(rng: Random) -> dict[str, Any]:
    # One answer: of several, lighteval's order is another in each process.
    more = _maybe(rng, context=_sentence(rng), instruction=_sentence(rng))
    return {"question": _sentence(rng), "choices": [_sentence(rng)], **more}


def _translation(rng: Random) -> dict[str, Any]:
    target: Any = _sentence(rng)
    if rng.random() < 0.3:
        target = _several(rng)
    return {"source_text": _sentence(rng), "target_text": target}


LANGUAGES = (
    *("eng", "fra", "zho", "ara", "hin", "jpn", "tha", "ell", "tel", "rus", "spa"),
    *("deu", "ita", "swa", "tur", "urd", "pan", "guj", "ben", "shn", "vie", "ukr"),
)
_SHAPES = ("CF", "Hybrid", "MCF", "MCF/NativeLetters", "MCF/Numbers")


def _shape(rng: Random) -> dict[str, Any]:
    return {"language": rng.choice(LANGUAGES), "formulation": rng.choice(_SHAPES)}


def _nli_shape(rng: Random) -> dict[str, Any]:
    three = ["entailment", "neutral", "contradiction"]
    rng.shuffle(three)
    return {**_shape(rng), "relations": three[: rng.choice([2, 3])]}


def _two_languages(rng: Random) -> dict[str, Any]:
    one, other = rng.sample(LANGUAGES, 2)
    return {"source": one, "target": other, "formulation": rng.choice(_SHAPES)}


# Instructions


def _following(
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
"""All but those that ask for a language, which lighteval guesses another each time, and
for sentences."""

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
"""All but the two that ask for data of NLTK's."""

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


def _benched(rng: Random) -> dict[str, Any]:
    n = rng.choice([1, 1, 1, 2, 2, 3])
    parts = [rng.choice([rng.choice(_BENCHED), text(rng)]) for _ in range(n)]
    return {"prompt": "p", "response": rng.choice(["\n", " ", "\n"]).join(parts)}


def _reply(rng: Random) -> dict[str, Any]:
    n = rng.choice([1, 2, 3, 4])
    parts = [rng.choice([rng.choice(_FORMS), text(rng)]) for _ in range(n)]
    return {"prompt": "p", "response": rng.choice(["\n", " ", ""]).join(parts)}


# Everything


class Kind(NamedTuple):
    """Records of a kind: name, parameters and input."""

    metric: str
    params: Callable[[Random], dict[str, Any]]
    given: Callable[[Random], dict[str, Any]]


def _none(rng: Random) -> dict[str, Any]:
    return {}


def _one_of(*options: dict[str, Any]) -> Callable[[Random], dict[str, Any]]:
    return lambda rng: dict(rng.choice(options))


def _text(rng: Random) -> dict[str, Any]:
    return {"text": text(rng, (*EVERYTHING, *LATEX))}


def _boxed(rng: Random) -> dict[str, Any]:
    return {"text": text(rng, (*LATEX, *WORDS))}


_NORMALIZERS = (
    "bigbench_normalizer",
    "gsm8k_normalizer",
    "harness_triviaqa_normalizer",
    "helm_normalizer",
    "remove_braces",
    "remove_braces_and_strip",
    "remove_punc",
)
_LOGPROB_NORMS = ("none", "char", "char_ignore_first_space", "token", "pmi")
_ARTICLES = (
    *("eng", "spa", "por", "ita", "fra", "deu", "fin", "ell", "nor", "swe", "tur"),
    *("nld", "hun", "cat", "heb", "glg", "jpn"),
)
_ROUGES = ("rouge1", "rouge2", "rougeL", "rougeLsum")
_FIXED = ("helm_normalizer", "gsm8k_normalizer", "harness_triviaqa_normalizer")


def _normalizing(rng: Random) -> dict[str, Any]:
    name = rng.choice((*_FIXED, "math_normalizer", "remove_punc"))
    return {"normalize_gold": name, "normalize_pred": name}


def _texts(rng: Random) -> dict[str, Any]:
    return answered(rng, text)


def _plain_texts(rng: Random) -> dict[str, Any]:
    return answered(rng, lambda r: text(r, (*WORDS, *NUMBERS), 12) or "x")


def _four(rng: Random) -> dict[str, Any]:
    return sampled(rng, lambda r: text(r, (*WORDS, *NUMBERS), 3), 4)


def _reasoned(rng: Random) -> dict[str, Any]:
    tags = ("<think>", "</think>", "<think>a</think>", "[THINK]", "[/THINK]")
    return {"text": text(rng, (*tags, *tags, *WORDS))}


def _lists(rng: Random) -> dict[str, Any]:
    n = rng.randint(1, 4)
    return {
        "choices_logprob": [_logprob(rng) for _ in range(n)],
        "unconditioned_logprob": [_logprob(rng) for _ in range(n)],
        "choices_text": [text(rng) or "x" for _ in range(n)],
        "choices_tokens": [[1] * rng.randint(1, 4) for _ in range(n)],
    }


def _gold_and_pred(rng: Random) -> dict[str, Any]:
    gold = text(rng)
    return {"gold": gold, "pred": like(rng, gold)}


def _extraction(rng: Random) -> dict[str, Any]:
    kinds = ("expr", "latex", "latex+expr", "expr+latex")
    return {
        "gold": rng.choice(kinds),
        "pred": rng.choice(kinds),
        "fallback_mode": rng.choice(["first_match", "no_fallback"]),
        "extraction_mode": rng.choice(["any_match", "first_match"]),
    }


def _gold_and_says(rng: Random) -> dict[str, Any]:
    given = maths(rng)
    return {"golds": given["doc"]["choices"], "preds": given["model_response"]["text"]}


def _judged(rng: Random) -> dict[str, Any]:
    marks = ("A", "B", "C", "a", "[[0]]", "[[1]]", "[[0.5]]", "[[1.0]]", "CORRECT")
    flow = (
        "<score>\n3\n</score>",
        "<score> 5 </score>",
        "<score>4</score>",
        "Score: 1",
    )
    return {"response": text(rng, (*marks, *flow, *WORDS[:4]), 4)}


def _coded(rng: Random) -> dict[str, Any]:
    parts = ("```python", "```", "x = 1", "print(x)", " ``` y", "text", "```\n", "")
    return {"text": "\n".join(rng.choice(parts) for _ in range(rng.randint(0, 8)))}


def _shots(rng: Random) -> dict[str, Any]:
    ways = ("balanced", "random", "sequential", "random_sampling_from_train", None)
    return {
        "few_shots_select": rng.choice(ways),
        "num_fewshots": rng.choice([0, 1, 2, 3]),
        "max_samples": rng.choice([None, 1, 3]),
    }


def _seeded_shots(rng: Random) -> dict[str, Any]:
    return {
        "few_shots_select": rng.choice(["balanced", "random", "sequential"]),
        "num_fewshot": rng.choice([1, 2, 3, 5]),
        "variance_seed": rng.choice([0, 1, 2, 7]),
    }


def _prompts(rng: Random) -> dict[str, Any]:
    return {"system_prompt": rng.choice([None, "You are helpful.", ""])}


def _chats(rng: Random) -> dict[str, Any]:
    return {**_prompts(rng), "chat_template": _CHAT}


def _kinds() -> Iterator[Kind]:
    yield from _text_kinds()
    yield from _choice_kinds()
    yield from _sampling_kinds()
    yield from _maths_kinds()
    yield from _corpus_kinds()
    yield from _prompt_kinds()


def _text_kinds() -> Iterator[Kind]:
    for name in _NORMALIZERS:
        yield Kind(f"normalizations.{name}", _none, _text)
    yield Kind("normalizations.math_normalizer", _none, _boxed)
    articles = _one_of(*({"lang": code} for code in _ARTICLES))
    yield Kind("normalizations.remove_articles", articles, _text)
    lowered = _one_of(*({"lang": c, "lower": c != "deu"} for c in _ARTICLES[:-1]))
    yield Kind("normalizations.get_multilingual_normalizer", lowered, _text)
    yield Kind("Metrics.exact_match", _none, _texts)
    yield Kind("Metrics.f1_score", _none, _texts)
    ways = [{"aggregation_function": name} for name in ("max", "min", "mean")]
    yield Kind("ExactMatches", _one_of(*ways, {}), _texts)
    yield Kind("ExactMatches", _normalizing, _texts)
    types = [
        {"strip_strings": strip, "type_exact_match": kind}
        for kind in ("full", "prefix", "suffix")
        for strip in (True, False)
    ]
    yield Kind("ExactMatches", _one_of(*types), _texts)
    yield Kind("F1_score", _one_of(*ways), _texts)
    yield Kind("F1_score", _normalizing, _texts)
    for name in (*_ROUGES, "rouge_t5"):
        yield Kind(f"Metrics.{name}", _none, _texts)
    several = {"methods": ["rouge1", "rougeL"], "multiple_golds": True}
    most = {"methods": "rouge2", "aggregation_function": "max"}
    yield Kind("ROUGE", _one_of(several, most), _texts)
    for name in ("bleu_1", "bleu_4", "copyright"):
        yield Kind(f"Metrics.{name}", _none, _plain_texts)
    distance = {"metric_types": "edit_similarity", "strip_prediction": False}
    yield Kind("StringDistance", _one_of(distance), _texts)
    for name in ("", "_de", "_fr", "_it"):
        yield Kind(f"Metrics.extractiveness{name}", _none, summarised)
    yield Kind("Metrics.drop", _none, spans)
    quasi = _one_of(*({"language": code} for code in _ARTICLES[:-1]))
    yield Kind("MultilingualQuasiF1ScoreMetric", quasi, _gold_and_pred)
    matched = _one_of(
        *({"language": c, "match_type": "full"} for c in ("eng", "fra", "deu", "rus"))
    )
    yield Kind("MultilingualQuasiExactMatchMetric", matched, _gold_and_pred)
    pairs = [[["<think>", "</think>"]], [["[THINK]", "[/THINK]"]], []]
    tags = _one_of(*({"tag_pairs": pair} for pair in pairs))
    yield Kind("utils.remove_reasoning_tags", tags, _reasoned)


def _choice_kinds() -> Iterator[Kind]:
    plain = ("acc_golds_likelihood", "loglikelihood_acc", "mrr", "recall_at_k")
    for name in plain:
        yield Kind(f"Metrics.{name}", _none, single)
    for name in ("loglikelihood_f1", "mcc", "multi_f1_numeric", "target_perplexity"):
        yield Kind(f"Metrics.{name}", _none, single)
    yield Kind("Metrics.truthfulqa_mc_metrics", _none, truthful)
    norms = _one_of(*({"logprob_normalization": n} for n in _LOGPROB_NORMS))
    yield Kind("LoglikelihoodAcc", norms, scored)
    chance = _one_of(*({"log_prob_normalization": n} for n in _LOGPROB_NORMS))
    yield Kind("NormalizedMultiChoiceProbability", chance, scored)
    given = _one_of({"normalization": "none"}, {"normalization": "token"})
    yield Kind("Probability", given, single)
    yield Kind("MRR", _one_of({"length_normalization": True}), single)
    yield Kind("Recall", _one_of({"k": 1}, {"k": 2}, {"k": 3}), _untied)
    asked = _one_of(*({"normalization": n} for n in _LOGPROB_NORMS))
    yield Kind("normalizations.normalize_log_probs", asked, _lists)


def _sampling_kinds() -> Iterator[Kind]:
    some = _one_of({"n": 1}, {"n": 2}, {"n": 4})
    yield Kind("Metrics.avg_at_n", some, _four)
    yield Kind("Metrics.maj_at_n", some, _four)
    drawn_k = _one_of({"k": 1, "n": 4}, {"k": 2, "n": 4}, {"k": 1}, {"k": 4, "n": 4})
    yield Kind("Metrics.pass_at_k", drawn_k, _four)
    groups = _one_of({"k": 2, "n": 4}, {"k": [1, 2, 4], "n": 4}, {"k": 3, "n": 3})
    yield Kind("Metrics.g_pass_at_k", groups, _four)
    shapes = [
        {"n": 3, "sample_scoring_function": kind, "strip_strings": True}
        for kind in ("full", "prefix", "suffix")
    ]
    yield Kind("MajAtN", _one_of(*shapes), _four)


def _maths_kinds() -> Iterator[Kind]:
    yield Kind("Metrics.expr_gold_metric", _none, maths)
    yield Kind("Metrics.pass_at_k_math", _one_of({"k": 1, "n": 1}), maths)
    yield Kind("Metrics.avg_at_n_math", _one_of({"n": 1}), maths)
    for name in ("math", "latex"):
        two = _one_of({"k": 1, "n": 2})
        yield Kind(f"Metrics.g_pass_at_k_{name}", two, two_maths)
    yield Kind("MultilingualExtractiveMatchMetric", _extraction, _gold_and_says)
    yield Kind("Metrics.gpqa_instruct_metric", _none, letters)
    yield Kind("Metrics.pass_at_k_letters", _one_of({"k": 1}), letters)
    yield Kind("Metrics.gpqa_instruct_pass_at_k", _one_of({"k": 1}), letters)


def _corpus_kinds() -> Iterator[Kind]:
    words = ("word_perplexity", "prediction_perplexity", "byte_perplexity")
    for name in (*words, "bits_per_byte"):
        yield Kind(f"Metrics.{name}#corpus", _none, rolled)
    for name in ("mcc", "loglikelihood_f1", "multi_f1_numeric", "target_perplexity"):
        yield Kind(f"Metrics.{name}#corpus", _none, corpus_of(single))
    for name in ("f1_score_macro", "f1_score_micro"):
        yield Kind(f"Metrics.{name}#corpus", _none, corpus_of(one_to_one))
    yield Kind("Metrics.bleu#corpus", _none, corpus_of(translated))
    averages = ("macro", "micro", "weighted", None)
    counted = [{"average": a, "num_classes": n} for a in averages for n in (2, 3, 4)]
    yield Kind("CorpusLevelF1Score", _one_of(*counted), classified)
    yield Kind("MatthewsCorrCoef", _none, correlated)


def _prompt_kinds() -> Iterator[Kind]:
    yield Kind("PromptManager.prepare_prompt(plain)", _prompts, prompted)
    yield Kind("PromptManager.prepare_prompt(chat)", _chats, prompted)
    yield Kind("PromptManager.prepare_prompt_api", _prompts, prompted)
    yield Kind("LightevalTask fewshot selection", _shots, splits)
    yield Kind("FewShotSampler.sample_fewshot_examples", _seeded_shots, splits)
    yield Kind("templates.mcq", _shape, _mcq)
    yield Kind("templates.boolq", _shape, _boolq)
    yield Kind("templates.continuation", _shape, _continuation)
    yield Kind("templates.copa", _shape, _copa)
    yield Kind("templates.hellaswag", _shape, _hellaswag)
    yield Kind("templates.nli", _nli_shape, _nli)
    languages = _one_of(*({"language": code} for code in LANGUAGES))
    yield Kind("templates.qa", languages, _qa)
    yield Kind("templates.translation", _two_languages, _translation)
    yield Kind("ifeval", lambda rng: _following(rng, IFEVAL), _reply)
    yield Kind("ifbench", lambda rng: _following(rng, IFBENCH), _benched)
    yield Kind("judge_utils.process_judge_response_simpleqa", _none, _judged)
    for name in ("", "_freeform_gpt", "_multichoice_gpt"):
        yield Kind(f"mix_eval.process_judge_response{name}", _none, _judged)
    yield Kind("lcb.extract_code", _none, _coded)


def drawn(n: int) -> list[dict[str, Any]]:
    """So many records of each kind, without what lighteval says to them."""
    return [
        {
            "id": f"{kind.metric} {number}.{i}",
            "metric": kind.metric,
            "params": kind.params(rng),
            "input": kind.given(rng),
        }
        for number, kind in enumerate(_kinds())
        for rng in [Random(f"{kind.metric} {number}")]
        for i in range(n)
    ]
