"""Several answers to a document as one value.

The names of reducers are those of Inspect and lm-eval: ``mean``, ``max``, ``majority``,
``pass@k`` (at least one of k answers is correct) and ``pass^k`` (all k are).
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Hashable, Sequence

_PLAIN = ("mean", "max", "majority")
_OF_K = re.compile(r"pass([@^])([1-9]\d*)", re.ASCII)
REDUCERS = (*_PLAIN, "pass@k", "pass^k")
"""Names of reducers with a number k."""


def is_reducer(name: str) -> bool:
    """Whether the name is a reducer."""
    return name in _PLAIN or bool(_OF_K.fullmatch(name))


def n_needed(name: str) -> int:
    """The smallest number of answers to a document that the reducer accepts."""
    match = _OF_K.fullmatch(name)
    return int(match[2]) if match else 1


def reduced(
    name: str, values: Sequence[float], answers: Sequence[Hashable] = ()
) -> float:
    """Reduce the values of a document's answers to one.

    ``pass@k`` and ``pass^k`` are the unbiased estimates from n answers, c of them
    correct: 1 - C(n-c, k) / C(n, k) (Chen et al. 2021, arXiv 2107.03374) and C(c, k) /
    C(n, k) (Yao et al. 2024, arXiv 2406.12045).

    Args:
        values: One for each answer; not empty. For ``pass`` each is 0 or 1.
        answers: The answers; ``majority`` returns the value of the most frequent one,
            the earliest of several.

    Raises:
        ValueError: There are too few answers for the reducer, or values that are
            neither 0 nor 1.
    """
    if name == "mean":
        return math.fsum(values) / len(values)
    if name == "max":
        return max(values)
    if name == "majority":
        ((most, _),) = Counter(answers).most_common(1)
        return values[list(answers).index(most)]
    if not {*values} <= {0, 1}:
        raise ValueError(f"{name} counts right answers, and a value is neither 0 nor 1")
    n, k = len(values), n_needed(name)
    if n < k:
        raise ValueError(f"{name} needs {k} answers to a document, and one has {n}")
    right = round(sum(values))
    if "^" in name:
        return math.comb(right, k) / math.comb(n, k)
    return 1 - math.comb(n - right, k) / math.comb(n, k)
