"""chrF and chrF++: counts of sacrebleu 2, computed for all texts of a corpus at once.

sacrebleu counts n-grams text by text in Python, which takes most of the metric's time.
The definition of characters and words and the selection of the best reference equal
sacrebleu's (``metrics/chrf.py``); sacrebleu computes the score from the counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pytest_evals.scorers.ngrams import Sequences, shared_ngrams

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Counts = NDArray[np.int64]


def chrf_counts(
    metric: Any, texts: Sequence[str], references: Sequence[Sequence[str | None]]
) -> list[list[int]]:
    """For each text, numbers of n-grams in the text, in its best reference, and in
    both, for each order, first of characters, then of words; empty without reference.

    Args:
        metric: sacrebleu's ``CHRF``, without lower-casing and white space.
        references: For each reference position, one reference or ``None`` for each
            text.
    """
    best: list[list[int]] = [[] for _ in texts]
    scores = [-1.0] * len(texts)
    is_single = len(references) == 1
    for stream in references:
        known = [i for i, text in enumerate(stream) if text is not None]
        counts = _counts(
            metric, [texts[i] for i in known], [stream[i] or "" for i in known]
        )
        for i, row in zip(known, counts.tolist(), strict=True):
            score = 0.0 if is_single else metric._compute_f_score(row)
            if score > scores[i]:
                best[i], scores[i] = row, score
    return best


def _counts(metric: Any, texts: Sequence[str], references: Sequence[str]) -> Counts:
    """(N, 3 * orders)"""
    import numpy as np

    parts = [
        shared_ngrams(_characters(texts), _characters(references), metric.char_order)
    ]
    if metric.word_order:
        split = metric._remove_punctuation
        numbers: dict[str, int] = {}
        left, right = (
            _words([split(text) for text in side], numbers)
            for side in (texts, references)
        )
        parts.append(shared_ngrams(left, right, metric.word_order))
    counts = np.concatenate(parts, axis=1)
    # Ignore orders for which the reference has no n-gram.
    counts[:, :, 0][counts[:, :, 1] == 0] = 0
    flat: Counts = counts.reshape(len(texts), 3 * counts.shape[1])
    return flat


def _characters(texts: Sequence[str]) -> Sequences:
    """Code points, without white space."""
    import numpy as np

    bare = ["".join(text.split()) for text in texts]
    coded = "".join(bare).encode("utf-32-le", "surrogatepass")
    items = np.frombuffer(coded, dtype="<u4").astype(np.int64)
    return Sequences(items, np.fromiter(map(len, bare), np.int64, len(bare)))


def _words(texts: Sequence[Sequence[str]], numbers: dict[str, int]) -> Sequences:
    """A number for each different word, stored in ``numbers``."""
    import numpy as np

    items = [
        numbers.setdefault(word, len(numbers)) for words in texts for word in words
    ]
    lengths = np.fromiter(map(len, texts), np.int64, len(texts))
    return Sequences(np.array(items, dtype=np.int64), lengths)
