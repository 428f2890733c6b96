"""IFBench's instructions about words (``words:``), sentences (``sentence:``), counts
(``count:``) and ratios (``ratio:``).
"""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from itertools import pairwise

from pytest_evals.errors import DocumentError
from pytest_evals.guests.lighteval.metrics.normalizers import (
    library,
    without_punctuation,
)
from pytest_evals.guests.lighteval.metrics.normalizers import words as nltk_words

THIS = "this instruction"
EDGES = string.punctuation + " "
"""Characters stripped from the ends of words and lines."""
_POINT, _END = "\x00", "\x01"
"""Placeholders for a full stop within a sentence, and for the end of a sentence."""

_STARTERS = (
    r"(Mr|Mrs|Ms|Dr|Prof|Capt|Cpt|Lt|He\s|She\s|It\s|They\s|Their\s|Our\s|We\s|But\s"
    r"|However\s|That\s|This\s|Wherever)"
)
_LETTER = "([A-Za-z])"
_CORPORATE = "(Inc|Ltd|Jr|Sr|Co)"

_BEFORE = (
    (r"(Mr|St|Mrs|Ms|Dr)\.", rf"\1{_POINT}"),
    (r"\.(com|net|org|io|gov|edu|me)", rf"{_POINT}\1"),
    (r"([0-9])\.([0-9])", rf"\1{_POINT}\2"),
)
_AFTER = (
    (r"Ph\.D\.", f"Ph{_POINT}D{_POINT}"),
    (rf"\s{_LETTER}\. ", rf" \1{_POINT} "),
    (rf"([A-Z]\.[A-Z]\.(?:[A-Z]\.)?) {_STARTERS}", rf"\1{_END} \2"),
    (rf"{_LETTER}\.{_LETTER}\.{_LETTER}\.", rf"\1{_POINT}\2{_POINT}\3{_POINT}"),
    (rf"{_LETTER}\.{_LETTER}\.", rf"\1{_POINT}\2{_POINT}"),
    (rf" {_CORPORATE}\. {_STARTERS}", rf" \1{_END} \2"),
    (rf" {_CORPORATE}\.", rf" \1{_POINT}"),
    (rf" {_LETTER}\.", rf" \1{_POINT}"),
    # The final punctuation mark follows the quotation mark.
    (r"\.”", "”."),
    (r'\."', '".'),
    (r'!"', '"!'),
    (r'\?"', '"?'),
    (r"([.!?])", rf"\1{_END}"),
)
"""Pairs of pattern and replacement, applied in order."""


def trimmed(text: str) -> str:
    """Strip ASCII punctuation and spaces."""
    return text.strip(EDGES)


def nltk_data(resource: str, error: LookupError) -> DocumentError:
    """Return the error for missing NLTK data."""
    made = DocumentError(
        f"this instruction needs NLTK's {resource}\n"
        f"  fix: python -m nltk.downloader {resource}"
    )
    made.__cause__ = error
    return made


def sentences(text: str) -> list[str]:
    """Split a text into stripped sentences; empty ones are kept, except the last."""
    text = f" {text}  ".replace("\n", " ")
    for pattern, replacement in _BEFORE:
        text = re.sub(pattern, replacement, text)
    text = re.sub(r"\.{2,}", lambda dots: _POINT * len(dots[0]) + _END, text)
    for pattern, replacement in _AFTER:
        text = re.sub(pattern, replacement, text)
    parts = [part.strip() for part in text.replace(_POINT, ".").split(_END)]
    return parts[:-1] if not parts[-1] else parts


_CONSONANTS = frozenset("bcdfghjklmnpqrstvwxyz")
_VOWELS = frozenset("aeiou")
_PRIMES = frozenset(
    n for n in range(2, 98) if all(n % divisor for divisor in range(2, n))
)


def _bare(text: str) -> list[str]:
    return without_punctuation(text.lower()).split()


def _alphabet(text: str) -> bool:
    """Check that the first letters of words are in alphabetical order, cyclically."""
    first = "".join(word[0] for word in _bare(text))
    letters = string.ascii_lowercase
    return bool(first) and first in letters * (len(first) // len(letters) + 2)


def _verb_first(text: str) -> bool:
    tagger = library("nltk", THIS)
    try:
        tagged: Sequence[tuple[str, str]] = tagger.pos_tag(nltk_words(text))
    except LookupError as error:
        raise nltk_data("averaged_perceptron_tagger_eng", error) from error
    return bool(tagged) and "VB" in tagged[0][1]


def _syllables(text: str) -> bool:
    """Check that words with odd and even numbers of syllables alternate."""
    count = library("syllapy", THIS).count
    odd = [count(word) % 2 for word in _bare(text)]
    return all(a != b for a, b in pairwise(odd))


def _last_first(text: str) -> bool:
    """Check that each sentence starts with the last word of the previous one."""
    for before, after in pairwise(sentences(text.lower())):
        # Punctuation before the last and after the first word is kept.
        last, first = before.rstrip(EDGES).split()[-1:], after.lstrip(EDGES).split()[:1]
        if not last or last != first:
            return False
    return True


def _same_ends(text: str) -> bool:
    """Check that each paragraph starts and ends with the same word."""
    for line in text.lower().split("\n"):
        words = trimmed(line.strip()).split()
        if line.strip() and (not words or words[0] != words[-1]):
            return False
    return True


def _word_at(text: str, keyword: str, n: int, m: int) -> bool:
    """Check that the keyword is the m-th word of the n-th sentence."""
    parts = sentences(text)
    if not 1 <= n <= len(parts):
        return False
    words = nltk_words(parts[n - 1])
    return 1 <= m <= len(words) and words[m - 1] == keyword.strip()


def _n_alliterating(sentence: str) -> int:
    words = [word.lstrip(EDGES) for word in sentence.lower().split()]
    first = [word[0] for word in words if word]
    alike = [a == b for a, b in pairwise(first)]
    # The first pair of a run adds two words, each further pair one.
    runs = sum(now and not before for before, now in pairwise([False, *alike]))
    return sum(alike) + runs


WORDS: Mapping[str, Callable[..., bool]] = {
    # Each sentence has more alliterating words than the previous one.
    "sentence:alliteration_increment": lambda text: all(
        a < b for a, b in pairwise(map(_n_alliterating, sentences(text)))
    ),
    # Each sentence has a fixed number of words more than the previous one.
    "sentence:increment": lambda text, small_n: (
        bool(parts := sentences(text))
        and all(
            len(without_punctuation(b).split())
            == len(without_punctuation(a).split()) + small_n
            for a, b in pairwise(parts)
        )
    ),
    "sentence:keyword": lambda text, word, N: (
        0 < N <= len(parts := sentences(text)) and word.lower() in parts[N - 1].lower()
    ),
    "words:alphabet": _alphabet,
    # Two adjacent consonants in every word.
    "words:consonants": lambda text: all(
        any(a in _CONSONANTS and b in _CONSONANTS for a, b in pairwise(word))
        for word in text.lower().split()
    ),
    "words:keywords_specific_position": _word_at,
    "words:last_first": _last_first,
    "words:no_consecutive": (
        lambda text: all(a[0] != b[0] for a, b in pairwise(_bare(text)))
    ),
    "words:odd_even_syllables": _syllables,
    "words:palindrome": lambda text: (
        sum(len(word) > 4 and word == word[::-1] for word in _bare(text)) >= 10
    ),
    "words:paragraph_last_first": _same_ends,
    "words:prime_lengths": lambda text: all(
        len(word) in _PRIMES for word in without_punctuation(text).split()
    ),
    "words:repeats": lambda text, small_n: (
        max(Counter(_bare(text)).values(), default=0) <= small_n
    ),
    "words:start_verb": _verb_first,
    # One paragraph with at most three different vowels.
    "words:vowel": lambda text: (
        "\n" not in text.strip() and len(_VOWELS.intersection(text.lower())) <= 3
    ),
    # The keyword is the second and the second-to-last word.
    "words:words_position": lambda text, keyword: (
        len(words := nltk_words(text)) > 1 and words[1] == words[-2] == keyword.strip()
    ),
}


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


def _n_conjunctions(text: str, small_n: int) -> bool:
    # "And," and "and" are different, because words are compared unchanged.
    found = {
        word for word in text.split() if word.strip(EDGES).lower() in _CONJUNCTIONS
    }
    return len(found) >= small_n


def _all_signs(text: str) -> bool:
    """Check for each of six punctuation marks, and an interrobang in addition."""
    rest = text.replace("?!", "", 1)
    if rest == text:
        rest = text.replace("!?", "", 1)
    has_interrobang = any(sign in text for sign in ("!?", "?!", "‽"))
    return has_interrobang and all(sign in rest for sign in ".,!?;:")


def _n_pronouns(text: str, N: int) -> bool:
    words = without_punctuation(text.replace("/", " ").lower()).split()
    known = _PRONOUNS.split()
    return sum(word in known for word in words) >= N


def _stop_words(text: str, percentage: float) -> bool:
    words, stops = re.findall(r"\w+", text), _nltk_stop_words()
    n = sum(word.lower() in stops for word in words)
    return bool(words) and 100 * (n / len(words)) <= percentage


@cache
def _nltk_stop_words() -> frozenset[str]:
    try:
        return frozenset(library("nltk.corpus", THIS).stopwords.words("english"))
    except LookupError as error:
        raise nltk_data("stopwords", error) from error


def _overlap(text: str, reference_text: str, percentage: float) -> bool:
    """Check the fraction of character trigrams that occur in the reference."""
    trigrams, others = (
        {one[i : i + 3] for i in range(len(one) - 2)} for one in (text, reference_text)
    )
    if not trigrams:
        return False
    shared = 100 * (len(trigrams & others) / len(trigrams))
    return percentage - _TOLERANCE <= shared <= percentage + _TOLERANCE


def _ends(text: str) -> Sequence[int]:
    """Count the sentences that end in a full stop, question mark, exclamation mark."""
    parts = sentences(text)
    return [sum(part.endswith(sign) for part in parts) for sign in ".?!"]


def _keywords(
    text: str, keyword1: str, keyword2: str, keyword3: str, keyword4: str, keyword5: str
) -> bool:
    keywords = (keyword1, keyword2, keyword3, keyword4, keyword5)
    return tuple(text.lower().count(k.strip().lower()) for k in keywords) == _OFTEN


COUNTS: Mapping[str, Callable[..., bool]] = {
    "count:conjunctions": _n_conjunctions,
    "count:keywords_multiple": _keywords,
    "count:numbers": lambda text, N: (
        len(re.findall(r"\d+", without_punctuation(text))) == N
    ),
    "count:person_names": lambda text, N: sum(n in text for n in _NAMES.split()) >= N,
    "count:pronouns": _n_pronouns,
    "count:punctuation": _all_signs,
    "count:unique_word_count": lambda text, N: (
        len({word.strip(EDGES) for word in text.lower().split()}) >= N
    ),
    "count:word_count_range": lambda text, min_words, max_words: (
        min_words <= len(re.findall(r"\w+", text)) <= max_words
    ),
    # Each N-th word is Japanese, unless it is a number.
    "count:words_japanese": lambda text, N: all(
        _JAPANESE.search(bare)
        for word in text.split()[N - 1 :: N]
        if (bare := word.strip(EDGES)) and not bare.isdigit()
    ),
    "ratio:overlap": _overlap,
    "ratio:sentence_balance": lambda text: len(set(_ends(text))) == 1,
    "ratio:sentence_type": lambda text: _ends(text)[0] == 2 * _ends(text)[1],
    # Three sentences of equal length in characters.
    "ratio:sentence_words": lambda text: (
        len(lengths := [*map(len, sentences(text))]) == 3 and len(set(lengths)) == 1
    ),
    "ratio:stop_words": _stop_words,
}
