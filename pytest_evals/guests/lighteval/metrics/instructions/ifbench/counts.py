"""IFBench's instructions about counts (``count:``) and ratios (``ratio:``)."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache

from pytest_evals.guests.lighteval.metrics.instructions.ifbench.tokens import (
    EDGES,
    library,
    nltk_data,
    sentences,
)
from pytest_evals.guests.lighteval.metrics.normalizers import without_punctuation

_CONJUNCTIONS = frozenset(("and", "but", "for", "nor", "or", "so", "yet"))
_PRONOUNS = """
i me my mine myself we us our ours ourselves you your yours yourself yourselves he him
his himself she her hers herself it its itself they them their theirs themselves
"""
_NAMES = """
Emma Liam Sophia Jackson Olivia Noah Ava Lucas Isabella Mason Mia Ethan Charlotte
Alexander Amelia Benjamin Harper Leo Zoe Daniel Chloe Samuel Lily Matthew Grace Owen
Abigail Gabriel Ella Jacob Scarlett Nathan Victoria Elijah Layla Nicholas Audrey David
Hannah Christopher Penelope Thomas Nora Andrew Aria Joseph Claire Ryan Stella Jonathan
"""
_JAPANESE = re.compile("[\u3040-\u30ff\u4e00-\u9fff]")
_OFTEN = (1, 2, 3, 5, 7)
"""Required counts of the five keywords."""
_TOLERANCE = 2
"""Tolerance of an overlap in percentage points."""


def _n_words(text: str, *, min_words: int, max_words: int) -> bool:
    return min_words <= len(_words(text)) <= max_words


def _n_unique_words(text: str, *, N: int) -> bool:
    return len({word.strip(EDGES) for word in text.lower().split()}) >= N


def _n_conjunctions(text: str, *, small_n: int) -> bool:
    # "And," and "and" are different, because words are compared unchanged.
    found = {
        word for word in text.split() if word.strip(EDGES).lower() in _CONJUNCTIONS
    }
    return len(found) >= small_n


def _n_names(text: str, *, N: int) -> bool:
    return sum(name in text for name in _NAMES.split()) >= N


def _n_numbers(text: str, *, N: int) -> bool:
    return len(re.findall(r"\d+", without_punctuation(text))) == N


def _all_signs(text: str) -> bool:
    """Check for each of six punctuation marks, and an interrobang in addition."""
    rest = text.replace("?!", "", 1)
    if rest == text:
        rest = text.replace("!?", "", 1)
    has_interrobang = any(sign in text for sign in ("!?", "?!", "‽"))
    return has_interrobang and all(sign in rest for sign in ".,!?;:")


def _japanese(text: str, *, N: int) -> bool:
    """Check that each N-th word is Japanese, unless it is a number."""
    words = [word.strip(EDGES) for word in text.split()][N - 1 :: N]
    return all(_JAPANESE.search(word) for word in words if word and not word.isdigit())


def _n_pronouns(text: str, *, N: int) -> bool:
    words = without_punctuation(text.replace("/", " ").lower()).split()
    known = _PRONOUNS.split()
    return sum(word in known for word in words) >= N


def _keywords(
    text: str,
    *,
    keyword1: str,
    keyword2: str,
    keyword3: str,
    keyword4: str,
    keyword5: str,
) -> bool:
    keywords = (keyword1, keyword2, keyword3, keyword4, keyword5)
    lowered = text.lower()
    return all(
        lowered.count(keyword.strip().lower()) == n
        for keyword, n in zip(keywords, _OFTEN, strict=True)
    )


def _stop_words(text: str, *, percentage: float) -> bool:
    words, stops = _words(text), _nltk_stop_words()
    n = sum(word.lower() in stops for word in words)
    return bool(words) and 100 * (n / len(words)) <= percentage


@cache
def _nltk_stop_words() -> frozenset[str]:
    try:
        return frozenset(library("nltk.corpus").stopwords.words("english"))
    except LookupError as error:
        raise nltk_data("stopwords", error) from error


def _overlap(text: str, *, reference_text: str, percentage: float) -> bool:
    """Check the fraction of character trigrams that occur in the reference."""
    own, others = _trigrams(text), _trigrams(reference_text)
    if not own:
        return False
    shared = 100 * (len(own & others) / len(own))
    return percentage - _TOLERANCE <= shared <= percentage + _TOLERANCE


def _trigrams(text: str) -> set[str]:
    return {text[i : i + 3] for i in range(len(text) - 2)}


def _two_to_one(text: str) -> bool:
    n_statements, n_questions, _ = _ends(text)
    return n_statements == 2 * n_questions


def _balanced(text: str) -> bool:
    return len(set(_ends(text))) == 1


def _ends(text: str) -> Sequence[int]:
    """Count the sentences that end in a full stop, question mark, exclamation mark."""
    parts = sentences(text)
    return [sum(part.endswith(sign) for part in parts) for sign in ".?!"]


def _alike_long(text: str) -> bool:
    """Check for three sentences of equal length in characters."""
    lengths = [len(part) for part in sentences(text)]
    return len(lengths) == 3 and len(set(lengths)) == 1


def _words(text: str) -> list[str]:
    return re.findall(r"\w+", text)


COUNTS: Mapping[str, Callable[..., bool]] = {
    "count:conjunctions": _n_conjunctions,
    "count:keywords_multiple": _keywords,
    "count:numbers": _n_numbers,
    "count:person_names": _n_names,
    "count:pronouns": _n_pronouns,
    "count:punctuation": _all_signs,
    "count:unique_word_count": _n_unique_words,
    "count:word_count_range": _n_words,
    "count:words_japanese": _japanese,
    "ratio:overlap": _overlap,
    "ratio:sentence_balance": _balanced,
    "ratio:sentence_type": _two_to_one,
    "ratio:sentence_words": _alike_long,
    "ratio:stop_words": _stop_words,
}
