"""From several answers to one document to one value.

The words are Inspect's and lm-eval's: ``mean``, ``max``, ``majority``, ``pass@k``
(at least one of k answers is right) and ``pass^k`` (all k are).
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Hashable, Sequence

__all__ = ["REDUCERS", "is_reducer", "n_needed", "reduced"]

_PLAIN = ("mean", "max", "majority")
_OF_K = re.compile(r"pass([@^])([1-9]\d*)", re.ASCII)
REDUCERS = (*_PLAIN, "pass@k", "pass^k")
"""Their names, where k is a number."""


def is_reducer(name: str) -> bool:
    """Whether there is such a reducer."""
    return name in _PLAIN or bool(_OF_K.fullmatch(name))


def n_needed(name: str) -> int:
    """How many answers to a document the reducer takes at least."""
    match = _OF_K.fullmatch(name)
    return int(match[2]) if match else 1


def reduced(
    name: str, values: Sequence[float], answers: Sequence[Hashable] = ()
) -> float:
    """One value of a document's several.

    ``pass@k`` and ``pass^k`` are the unbiased estimates out of n answers, c of them
    right: 1 - C(n-c, k) / C(n, k) (Chen et al. 2021, arXiv 2107.03374) and
    C(c, k) / C(n, k) (Yao et al. 2024, arXiv 2406.12045).

    Args:
        name: Of the reducer.
        values: One an answer; not empty. For ``pass`` each is 0 or 1.
        answers: What was answered, one each; ``majority`` takes the value of the most
            frequent, of the earliest where several are.

    Raises:
        ValueError: There are fewer answers than the reducer takes, or values that are
            neither right nor wrong.
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
