"""Documents whose answers name a letter, a number or a formula."""

from __future__ import annotations

import string
from random import Random
from typing import Any


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


def _number_sentence(rng: Random) -> str:
    pools = (_QUANTITIES, _FORMULAS)
    two = (rng.choice(rng.choice(pools)), rng.choice(rng.choice(pools)))
    return rng.choice(_SAYING).format(*two)


def maths(rng: Random) -> dict[str, Any]:
    """A document with a number or a formula, and answers that contain some."""
    gold = rng.choice([rng.choice(_QUANTITIES), f"${rng.choice(_FORMULAS)}$"])
    bare = gold.strip("$")
    texts = []
    for _ in range(rng.choice([1, 1, 2])):
        near = rng.choice(_SAYING).format(bare, rng.choice(_QUANTITIES))
        texts.append(rng.choice([near, near, _number_sentence(rng)]))
    return {
        "doc": {"choices": [gold], "gold_index": 0},
        "model_response": {"text": texts},
    }


def two_maths(rng: Random) -> dict[str, Any]:
    """The same with two answers."""
    given = maths(rng)
    texts = given["model_response"]["text"]
    return {**given, "model_response": {"text": [texts[0], texts[-1]]}}
