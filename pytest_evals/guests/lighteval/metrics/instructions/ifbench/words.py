"""IFBench's instructions about words (``words:``) and sentences (``sentence:``)."""

from __future__ import annotations

import string
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise

from pytest_evals.guests.lighteval.metrics.instructions.ifbench.tokens import (
    EDGES,
    library,
    nltk_data,
    sentences,
    trimmed,
)
from pytest_evals.guests.lighteval.metrics.normalizers import without_punctuation
from pytest_evals.guests.lighteval.metrics.normalizers import words as nltk_words

_CONSONANTS = frozenset("bcdfghjklmnpqrstvwxyz")
_VOWELS = frozenset("aeiou")
_PRIMES = frozenset(
    n for n in range(2, 98) if all(n % divisor for divisor in range(2, n))
)
_LETTERS = string.ascii_lowercase


def _bare(text: str) -> list[str]:
    return without_punctuation(text.lower()).split()


def _alphabet(text: str) -> bool:
    """Check that the first letters of words are in alphabetical order, cyclically."""
    first = [word[0] for word in _bare(text)]
    if not first or first[0] not in _LETTERS:
        return False
    start = _LETTERS.index(first[0])
    return all(letter == _LETTERS[(start + i) % 26] for i, letter in enumerate(first))


def _few_vowels(text: str) -> bool:
    """Check for one paragraph with at most three different vowels."""
    paragraph = text.strip().lower()
    return "\n" not in paragraph and len(_VOWELS.intersection(paragraph)) <= 3


def _clusters(text: str) -> bool:
    """Check for two adjacent consonants in every word."""
    return all(
        any(a in _CONSONANTS and b in _CONSONANTS for a, b in pairwise(word))
        for word in text.lower().split()
    )


def _palindromes(text: str) -> bool:
    found = [word for word in _bare(text) if len(word) > 4 and word == word[::-1]]
    return len(found) >= 10


def _prime_lengths(text: str) -> bool:
    return all(len(word) in _PRIMES for word in without_punctuation(text).split())


def _verb_first(text: str) -> bool:
    tagger = library("nltk")
    try:
        tagged: Sequence[tuple[str, str]] = tagger.pos_tag(nltk_words(text))
    except LookupError as error:
        raise nltk_data("averaged_perceptron_tagger_eng", error) from error
    return bool(tagged) and "VB" in tagged[0][1]


def _few_repeats(text: str, *, small_n: int) -> bool:
    return max(Counter(_bare(text)).values(), default=0) <= small_n


def _syllables(text: str) -> bool:
    """Check that words with odd and even numbers of syllables alternate."""
    count = library("syllapy").count
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


def _no_alliteration(text: str) -> bool:
    return all(a[0] != b[0] for a, b in pairwise(_bare(text)))


def _word_at(text: str, *, keyword: str, n: int, m: int) -> bool:
    """Check that the keyword is the m-th word of the n-th sentence."""
    parts = sentences(text)
    if not 1 <= n <= len(parts):
        return False
    words = nltk_words(parts[n - 1])
    return 1 <= m <= len(words) and words[m - 1] == keyword.strip()


def _second_and_last(text: str, *, keyword: str) -> bool:
    """Check that the keyword is the second and the second-to-last word."""
    words = nltk_words(text)
    return len(words) > 1 and words[1] == words[-2] == keyword.strip()


def _more_alliteration(text: str) -> bool:
    """Check that each sentence has more alliterating words than the previous one."""
    found = [_n_alliterating(part) for part in sentences(text)]
    return all(a < b for a, b in pairwise(found))


def _n_alliterating(sentence: str) -> int:
    words = [word.lstrip(EDGES) for word in sentence.lower().split()]
    first = [word[0] for word in words if word]
    alike = [a == b for a, b in pairwise(first)]
    # The first pair of a run adds two words, each further pair one.
    runs = sum(now and not before for before, now in pairwise([False, *alike]))
    return sum(alike) + runs


def _keyword_in(text: str, *, word: str, N: int) -> bool:
    parts = sentences(text)
    return 1 <= N <= len(parts) and word.lower() in parts[N - 1].lower()


def _longer(text: str, *, small_n: int) -> bool:
    """Check that each sentence has a fixed number of words more than the previous."""
    lengths = [len(without_punctuation(part).split()) for part in sentences(text)]
    return bool(lengths) and all(b == a + small_n for a, b in pairwise(lengths))


WORDS: Mapping[str, Callable[..., bool]] = {
    "sentence:alliteration_increment": _more_alliteration,
    "sentence:increment": _longer,
    "sentence:keyword": _keyword_in,
    "words:alphabet": _alphabet,
    "words:consonants": _clusters,
    "words:keywords_specific_position": _word_at,
    "words:last_first": _last_first,
    "words:no_consecutive": _no_alliteration,
    "words:odd_even_syllables": _syllables,
    "words:palindrome": _palindromes,
    "words:paragraph_last_first": _same_ends,
    "words:prime_lengths": _prime_lengths,
    "words:repeats": _few_repeats,
    "words:start_verb": _verb_first,
    "words:vowel": _few_vowels,
    "words:words_position": _second_and_last,
}
