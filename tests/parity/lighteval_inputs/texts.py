"""Pieces of texts, and texts composed of them."""

# ruff: noqa: RUF001 - the unusual characters are intended

from __future__ import annotations

from collections.abc import Sequence
from random import Random

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
    """Some pieces and separators; sometimes an empty string."""
    out = ""
    for _ in range(min(most, rng.choice([0, 1, 1, 2, 3, 4, rng.randint(5, 12)]))):
        out += (rng.choice(BETWEEN) if out else "") + rng.choice(pieces)
    return rng.choice(["", "", "", " ", "\n"]) + out + rng.choice(["", "", "", " "])


def like(rng: Random, given: str) -> str:
    """A text that is similar to another one."""
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
