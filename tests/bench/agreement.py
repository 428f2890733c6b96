"""Compare the results of two harnesses: metrics, and responses one by one."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

__all__ = ["compare"]


def compare(ours: Path, theirs: Path, names: Sequence[str]) -> str:
    """Return one line about the agreement of both. Metrics are equal if they print the
    same with four digits, or differ by at most a millionth.

    Args:
        ours: Folder of our run, with ``results.json`` and ``.evals``.
        theirs: Folder of lm-eval's, with ``results``.
        names: The tasks.
    """
    mine = json.loads((ours / "results.json").read_text())["results"]
    (found,) = theirs.glob("results/**/results_*.json")
    other = json.loads(found.read_text())["results"]
    n = 0
    differing = []
    for name in names:
        for key, value in other[name].items():
            if not isinstance(value, float) or key not in mine[name]:
                continue
            n += 1
            mine_too = mine[name][key]
            near = abs(value - mine_too) <= 1e-6 * abs(value)
            if not near and f"{value:.4f}" != f"{mine_too:.4f}":
                differing.append(f"{name} {key}: {mine_too:.4f}, not {value:.4f}")
    differences = "; ".join(differing[:3]) or "all equal as printed"
    return f"{n} numbers, {differences}; {_answers(ours, theirs, names)}"


def _answers(ours: Path, theirs: Path, names: Sequence[str]) -> str:
    """The difference of log-probabilities, and the number of equal generations."""
    widest, n_numbers, n_texts, n_equal = 0.0, 0, 0, 0
    for name in names:
        mine = _samples(next(ours.glob(f".evals/runs/*/samples_{name}.jsonl")))
        other = _samples(next(theirs.glob(f"results/**/samples_{name}_*.jsonl")))
        for key, answers in other.items():
            for left, right in zip(mine[key], answers, strict=True):
                if isinstance(right, str):
                    n_texts += 1
                    n_equal += left == right
                else:
                    n_numbers += 1
                    widest = max(widest, abs(left - right))
    parts = []
    if n_numbers:
        parts.append(f"{n_numbers} log-probabilities within {widest:.1e}")
    if n_texts:
        parts.append(f"{n_equal} of {n_texts} texts the same")
    return ", ".join(parts)


def _samples(path: Path) -> dict[int, list[Any]]:
    rows = (json.loads(line) for line in path.read_text().splitlines())
    return {row["doc_id"]: list(_flat(row["resps"])) for row in rows}


def _flat(value: Any) -> Iterator[Any]:
    """Generations and log-probabilities, in order; both harnesses write numbers as
    strings next to the greedy flags."""
    if isinstance(value, list):
        if len(value) == 2 and str(value[1]) in ("True", "False"):
            yield float(value[0])
            return
        for item in value:
            yield from _flat(item)
    elif isinstance(value, str):
        try:
            yield float(value)
        except ValueError:
            yield value
    elif isinstance(value, int | float):
        yield float(value)
