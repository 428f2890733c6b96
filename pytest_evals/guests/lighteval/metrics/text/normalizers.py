"""Text normalizers of lighteval 0.13.0 (``metrics/normalizations.py``).

Published results depend on their quirks, which are kept; versions with bugs have
separate names.
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

_PUNCTUATION = str.maketrans("", "", string.punctuation)
_ARTICLES = re.compile(r"\b(a|an|the)\b")
_FINAL = re.compile(r"#### (-?[0-9.,]+)")
INVALID = "[invalid]"
"""Normalized form of a text without a final number."""


def without_punctuation(text: str) -> str:
    """Remove ASCII punctuation."""
    return text.translate(_PUNCTUATION)


def without_articles(text: str) -> str:
    """Remove a, an and the, and collapse whitespace."""
    return " ".join(_ARTICLES.sub(" ", text).split())


def helm_normalizer(text: str) -> str:
    """Normalize for HELM's quasi-exact match: lower case, no punctuation, no articles,
    numbers as floats. Text is split at hyphens, so minus signs are lost."""
    return _helm(text, lambda token: token if is_number(token) else _bare(token))


def helm_normalizer_published(text: str) -> str:
    """Like :func:`helm_normalizer` with lighteval's bug: punctuation is removed first,
    so "1.0" becomes "10.0"."""
    return _helm(text, _bare)


def _bare(token: str) -> str:
    return without_punctuation(token)


def is_number(text: str) -> bool:
    """Return whether Python parses a text as a float."""
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
    """Convert to lower case and remove ASCII punctuation."""
    return without_punctuation(text.lower())


def bigbench_normalizer(text: str) -> str:
    """Put each sentence on its own line, for ``rougeLsum``."""
    return text.replace(" . ", ".\n")


def remove_braces(text: str) -> str:
    """Remove one brace at the start and one at the end."""
    return text.removeprefix("{").removesuffix("}")


def remove_braces_and_strip(text: str) -> str:
    """Strip whitespace, then one brace at either end."""
    return remove_braces(text.strip())


def gsm8k_normalizer(text: str) -> str:
    """Return the number after the first ``####``, without commas."""
    found = _FINAL.search(text)
    return found.group(1).strip().replace(",", "") if found else INVALID


def remove_punc(text: str) -> str:
    """Remove punctuation of all scripts."""
    return "".join(
        char
        for char in text
        if char not in string.punctuation
        and not unicodedata.category(char).startswith("P")
    )


_MODULE = "pytest_evals.guests.lighteval.metrics.text.math_text"

NORMALIZERS: Registry[Normalizer] = Registry(
    "normalizer",
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


def resolve_normalizer(normalizer: Normalizer | str | None) -> Normalizer | None:
    """Return a normalizer given as a function or by name."""
    return NORMALIZERS[normalizer] if isinstance(normalizer, str) else normalizer
