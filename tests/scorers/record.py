"""Record the results of lm-eval 0.4.13's functions for fixed and seeded values.

    python tests/scorers/record.py

Run it by hand, in an environment with ``lm_eval==0.4.13``; it takes minutes. It writes
``lm_eval_aggregations.json`` next to this file: values and standard errors, from the
functions of ``lm_eval.api.metrics`` and from ``stderr_for_metric``. The tests read the
file and never import lm-eval.
"""

from __future__ import annotations

import json
import math
import os
import random
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

os.environ["DISABLE_MULTIPROC"] = "1"

from lm_eval.api import metrics
from lm_eval.api.registry import get_aggregation

FILE = Path(__file__).parent / "lm_eval_aggregations.json"
WORDS = [
    *("the", "a", "cat", "dog", "sat", "on", "mat", ",", ".", "ran", "fast", "Élan"),
    *("über", '"quick"', "brown-fox", "jumps", "over", "it's", "3.14", "U.S.", "你好"),
    *("世界", "don't", "e-mail", "&", "©", "(so)", "[x]", "'y'", "--", "?"),
]


class Input(NamedTuple):
    """The input of an aggregation. In values, ``None`` means NaN."""

    aggregation: str
    values: list[Any]
    iterations: int


def inputs() -> Iterator[Input]:
    """All recorded values."""
    rng = random.Random(2024)
    yield from averages(rng)
    yield from labels(rng)
    yield from texts(rng)
    weighted = [
        [round(-rng.expovariate(0.1), 4), rng.randint(1, 50)] for _ in range(57)
    ]
    yield Input("weighted_perplexity", weighted, 1000)
    yield Input("bits_per_byte", weighted, 1000)
    rows = [[round(rng.random(), 4) for _ in range(4)] for _ in range(12)]
    yield Input("brier_score", [[rng.randrange(4), row] for row in rows], 1000)
    yield Input("bypass", [1, 2], 1000)
    places = [(rng.randrange(4), rng.randrange(5)) for _ in range(60)]
    answers = [
        [
            rng.random() < 0.8,
            {"idx": {"paragraph": p, "question": q}, "label": rng.randrange(2)},
        ]
        for p, q in sorted(places)
    ]
    yield Input("acc_all", [[bool(r["label"]) == (a), r] for a, r in answers], 1000)


def averages(rng: random.Random) -> Iterator[Input]:
    """Log-probabilities with flags for correct answers."""
    nats = [round(-rng.expovariate(0.2), 4) for _ in range(2500)]
    binary = [float(rng.random() < 0.6) for _ in range(2500)]
    holes = [None if rng.random() < 0.2 else value for value in nats]
    for values in (nats[:57], binary[:57], nats):
        yield Input("mean", values, 100_000)
    for n, iterations in (
        (57, 3000),
        (57, 1500),
        (57, 700),
        (300, 100_000),
        (2500, 3000),
    ):
        yield Input("perplexity", nats[:n], iterations)
    yield Input("perplexity", binary[:57], 100_000)
    for n, iterations in ((57, 2000), (10, 2000), (2, 1000), (2500, 1000)):
        yield Input("median", nats[:n], iterations)
    yield Input("median", binary[:56], 1000)
    for n in (57, 2500):
        yield Input("nanmean", holes[:n], 2000)
    yield Input("nanmean", nats[:57], 2000)


def labels(rng: random.Random) -> Iterator[Input]:
    """Pairs of true and predicted label."""

    def pairs(n: int, n_labels: int, sure: float) -> list[Any]:
        right = [rng.randrange(n_labels) for _ in range(n)]
        predicted = [
            label if rng.random() < sure else rng.randrange(n_labels) for label in right
        ]
        return [list(pair) for pair in zip(right, predicted, strict=True)]

    rare = [[int(i == 3), int(i in (3, 9))] for i in range(57)]
    for n, iterations in ((57, 2000), (1500, 1000)):
        yield Input("f1", pairs(n, 2, 0.3), iterations)
        yield Input("matthews_corrcoef", pairs(n, 2, 0.3), iterations)
    yield Input("f1", rare, 1000)
    yield Input("matthews_corrcoef", rare, 1000)
    yield Input("matthews_corrcoef", pairs(57, 2, 0.5), 20_000)
    for n_labels in (3, 4, 12):
        yield Input("matthews_corrcoef", pairs(300, n_labels, 0.6), 1000)


def texts(rng: random.Random) -> Iterator[Input]:
    """References and generated texts, for corpus metrics."""

    def sentence() -> str:
        return " ".join(rng.choices(WORDS, k=rng.randint(1, 14)))

    def near(text: str) -> str:
        words = text.split()
        for _ in range(len(words) // 3):
            words[rng.randrange(len(words))] = rng.choice(WORDS)
        cut = rng.randrange(len(words)) if rng.random() < 0.3 else 0
        return " ".join(words[cut:] + words[:cut])

    one = [[text := sentence(), near(text)] for _ in range(60)]
    three = [
        [[text := sentence(), sentence(), near(text)], near(text)] for _ in range(30)
    ]
    ragged = []
    for _ in range(12):
        text = sentence()
        others = [sentence() for _ in range(rng.choice([0, 1, 2, 2, 2]))]
        ragged.append([[text, *others], near(text)])
    odd = [["", ""], ["a", ""], ["", "a"], ["a", "a"], *one[:4]]
    short = [["a b", "a c"], ["b", "b"], ["x", "y"]]
    listed = [[reference, [text]] for reference, text in one[:10]]
    for name in ("bleu", "chrf", "chrf++", "ter"):
        for values in (one, three, ragged, odd, short, listed):
            yield Input(name, values, 100)
        yield Input(name, one[:5], 2000)


def number(value: Any) -> float | None:
    """A finite number; ``None`` for every other."""
    return float(value) if math.isfinite(value) else None


def recorded(given: Input) -> dict[str, Any]:
    """lm-eval's value and standard error."""
    known = metrics.acc_all if given.aggregation == "acc_all" else None
    function = known or get_aggregation(given.aggregation)
    values = [math.nan if value is None else value for value in given.values]
    stderr = metrics.stderr_for_metric(function, given.iterations)
    return {
        **given._asdict(),
        "value": number(function(values)),
        "stderr": number(stderr(values)) if stderr else None,
    }


def main() -> None:
    """Write the file."""
    source = (
        f"lm-eval {version('lm_eval')}, lm_eval.api.metrics: the aggregation and "
        "stderr_for_metric(aggregation, iterations), with DISABLE_MULTIPROC=1; "
        f"numpy {version('numpy')}, scikit-learn {version('scikit-learn')}, sacrebleu "
        f"{version('sacrebleu')}. null in values stands for NaN. By record.py."
    )
    cases = [recorded(given) for given in inputs()]
    text = json.dumps({"source": source, "cases": cases}, ensure_ascii=False)
    FILE.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
