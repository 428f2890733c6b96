"""Texts made alike before they are compared: lighteval's text normalisers (0.13.0,
``metrics/normalizations.py``).

Published results depend on their quirks, which are kept and documented;
those that are bugs have separate names.
"""

from __future__ import annotations

import re
import string
import unicodedata
from collections.abc import Callable

from pytest_evals.core.registry import Registry

__all__ = [
    "INVALID",
    "NORMALIZERS",
    "Normalizer",
    "bigbench_normalizer",
    "gsm8k_normalizer",
    "harness_triviaqa_normalizer",
    "helm_normalizer",
    "helm_normalizer_published",
    "is_number",
    "remove_braces",
    "remove_braces_and_strip",
    "remove_punc",
    "resolve_normalizer",
    "without_articles",
    "without_punctuation",
]

Normalizer = Callable[[str], str]
"""A text to the text that is compared."""

_PUNCTUATION = str.maketrans("", "", string.punctuation)
_ARTICLES = re.compile(r"\b(a|an|the)\b")
_FINAL = re.compile(r"#### (-?[0-9.,]+)")
INVALID = "[invalid]"
"""Value of a text without a final number; equal to itself, as in lighteval."""


def without_punctuation(text: str) -> str:
    """The text without ASCII punctuation."""
    return text.translate(_PUNCTUATION)


def without_articles(text: str) -> str:
    """The text with a space instead of each a, an and the; white space collapsed."""
    return " ".join(_ARTICLES.sub(" ", text).split())


def helm_normalizer(text: str) -> str:
    """HELM's quasi-exact match: lower case, no punctuation, no articles, numbers as
    floats. A number keeps its point; hyphens part words, so that no sign is left."""
    return _helm(text, lambda token: token if is_number(token) else _bare(token))


def helm_normalizer_published(text: str) -> str:
    """The same with lighteval's mistake: punctuation goes first, so that "1.0" becomes
    "10.0"."""
    return _helm(text, _bare)


def _bare(token: str) -> str:
    return without_punctuation(token)


def is_number(text: str) -> bool:
    """Whether a text is one number for Python."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def _helm(text: str, bare: Normalizer) -> str:
    pieces = []
    for token in re.split(" |-", text):
        kept = bare(token.lower())
        number = str(float(kept)) if is_number(kept) else kept
        pieces.append(without_articles(number))
    return " ".join(piece for piece in pieces if piece)


def harness_triviaqa_normalizer(text: str) -> str:
    """Lower case without ASCII punctuation."""
    return without_punctuation(text.lower())


def bigbench_normalizer(text: str) -> str:
    """A line for each sentence, which is what ``rougeLsum`` wants."""
    return text.replace(" . ", ".\n")


def remove_braces(text: str) -> str:
    """The text without one brace at its start and one at its end."""
    return text.removeprefix("{").removesuffix("}")


def remove_braces_and_strip(text: str) -> str:
    """The text without white space and one brace at its ends."""
    return remove_braces(text.strip())


def gsm8k_normalizer(text: str) -> str:
    """The number after the first ``####``, without commas."""
    found = _FINAL.search(text)
    return found.group(1).strip().replace(",", "") if found else INVALID


def remove_punc(text: str) -> str:
    """The text without punctuation of any script."""
    return "".join(
        char
        for char in text
        if char not in string.punctuation
        and not unicodedata.category(char).startswith("P")
    )


_MODULE = "pytest_evals.scorers.lighteval.text.math_text"

NORMALIZERS: Registry[Normalizer] = Registry(
    "normaliser",
    {
        "bigbench_normalizer": bigbench_normalizer,
        "gsm8k_normalizer": gsm8k_normalizer,
        "harness_triviaqa_normalizer": harness_triviaqa_normalizer,
        "helm_normalizer": helm_normalizer,
        "helm_normalizer_published": helm_normalizer_published,
        "math_normalizer": f"{_MODULE}:math_normalizer",
        "remove_braces": remove_braces,
        "remove_braces_and_strip": remove_braces_and_strip,
        "remove_punc": remove_punc,
    },
)
"""Name → normaliser, as a metric's arguments in a task file give it."""


def resolve_normalizer(normalizer: Normalizer | str | None) -> Normalizer | None:
    """A normaliser given as a function or by its name.

    Raises:
        UnknownNameError: None has that name.
    """
    return NORMALIZERS[normalizer] if isinstance(normalizer, str) else normalizer
