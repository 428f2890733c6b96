"""Time and memory of gates on scores from any source.

    python tests/bench/gates.py

Processor time of 57 gates on 1,000 scores of unknown range each, and of one gate on a
million scores, and the highest memory of the process. The aims are below 2 seconds for
the first, and below 3 seconds and 400 MB for the second.
"""

from __future__ import annotations

import random
import resource
import time
from collections.abc import Callable
from typing import Any

from pytest_evals import judge_gate, judge_gates


def timed(name: str, judge: Callable[[], Any]) -> None:
    """Print the processor time of a call, and the highest memory so far."""
    start = time.process_time()
    judge()
    seconds = time.process_time() - start
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{name:40} {seconds:6.2f} s  {memory:6.0f} MB")


def main() -> None:
    """Print one line for each case."""
    rng = random.Random(0)
    gates = {
        f"task{i}": (
            {"min": 0.5 + i / 100, "over": "population"},
            [rng.lognormvariate(0, 1) for _ in range(1000)],
        )
        for i in range(57)
    }
    timed("57 gates, 1,000 unbounded scores", lambda: judge_gates(gates, range=None))
    floor = {"min": 0.49, "over": "population"}
    correct = [rng.random() < 0.5 for _ in range(1_000_000)]
    timed("a million correct and wrong answers", lambda: judge_gate(floor, correct))
    ratings = [rng.random() for _ in range(1_000_000)]
    timed("a million ratings from 0 to 1", lambda: judge_gate(floor, ratings))


if __name__ == "__main__":
    main()
