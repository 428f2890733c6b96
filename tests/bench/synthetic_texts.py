"""Deterministic texts of synthetic words, for models with random weights. Words consist
of syllables and have a skewed frequency distribution, as in real languages."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate
from random import Random

__all__ = ["Writer", "pages"]

ONSETS = [*"bdfghklmnprstvz", "br", "dr", "gr", "kl", "pl", "sk", "st", "tr"]
VOWELS = ["a", "e", "i", "o", "u", "ai", "ea", "ou"]
CODAS = ["", "", "", "n", "r", "s", "l", "m", "st", "nd"]
WORDS = 30_000


class Writer:
    """A source of texts with its own random stream."""

    _words: tuple[str, ...] = ()
    _weights: tuple[float, ...] = ()

    def __init__(self, seed: int) -> None:
        """Different seeds give different texts with the same words."""
        if not Writer._words:
            Writer._words = tuple(_vocabulary())
            weights = (1 / (rank + 3) for rank in range(WORDS))
            Writer._weights = tuple(accumulate(weights))
        self.random = Random(seed)

    def words(self, n: int) -> list[str]:
        """Draw words."""
        return self.random.choices(self._words, cum_weights=self._weights, k=n)

    def phrase(self, n: int) -> str:
        """Draw words and join them."""
        return " ".join(self.words(n))

    def text(self, n: int) -> str:
        """Sentences with ``n`` words in total, including some numbers and names."""
        out: list[str] = []
        left = n
        while left > 0:
            length = min(left, self.random.randint(5, 18))
            words = self.words(length)
            words[0] = words[0].capitalize()
            if self.random.random() < 0.2:
                words[-1] = str(self.random.randint(2, 9_999))
            if length > 8:
                words[length // 2] += ","
            out.append(" ".join(words) + ".")
            left -= length
        return " ".join(out)


def pages(seed: int, n: int) -> Iterator[str]:
    """Texts to train a tokenizer on."""
    writer = Writer(seed)
    for _ in range(n):
        yield writer.text(300) + "\n\nAnswer: A\n"


def _vocabulary() -> Iterator[str]:
    random = Random(0)
    seen: set[str] = set()
    while len(seen) < WORDS:
        n = 1 + (random.random() < 0.7) + (random.random() < 0.3)
        word = "".join(
            random.choice(ONSETS) + random.choice(VOWELS) + random.choice(CODAS)
            for _ in range(n)
        )
        if word not in seen:
            seen.add(word)
            yield word
