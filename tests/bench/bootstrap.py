"""How long a metric of many documents takes, with its standard error.

    python tests/bench/bootstrap.py [--docs 10000] [--only median ter] [--contrast 100]

Each metric is added up with lm-eval's default of 100,000 replicates (100 for metrics of
a corpus, as there). With ``--contrast N`` and lm-eval installed, the same is timed with
its own functions over N documents and a thousandth of the replicates, and told as what
all of them would take.
"""

from __future__ import annotations

import argparse
import os
import random
import time
from collections.abc import Callable, Iterator
from typing import Any

from pytest_evals.scorers.metrics import MetricSpec, metric

SEEN = {"bleu", "chrf", "chrf++", "ter"}


def inputs(n: int) -> Iterator[tuple[str, str, list[Any]]]:
    """Label, aggregation and values of ``n`` documents."""
    rng = random.Random(1)
    nats = [-rng.expovariate(0.2) for _ in range(n)]
    labels = [(rng.randrange(2), rng.randrange(2)) for _ in range(n)]
    four = [(rng.randrange(4), rng.randrange(4)) for _ in range(n)]
    words = [
        "".join(rng.choices("abcdefghij", k=rng.randint(2, 8))) for _ in range(999)
    ]
    texts = []
    for _ in range(n):
        said = rng.choices(words, k=rng.randint(8, 20))
        right = [word if rng.random() < 0.7 else rng.choice(words) for word in said]
        texts.append((" ".join(right), " ".join(said)))
    yield "acc (mean)", "mean", [float(label == said) for label, said in labels]
    yield "perplexity", "perplexity", nats
    yield "median", "median", nats
    yield "nanmean", "nanmean", nats
    holes = [float("nan") if rng.random() < 0.1 else value for value in nats]
    yield "nanmean, with NaN", "nanmean", holes
    yield "f1", "f1", labels
    yield "mcc", "matthews_corrcoef", labels
    yield "mcc, 4 labels", "matthews_corrcoef", four
    lengths = [(value, rng.randint(1, 99)) for value in nats]
    yield "word_perplexity", "weighted_perplexity", lengths
    yield "bits_per_byte", "bits_per_byte", lengths
    yield "brier_score", "brier_score", [(g, [0.1, 0.2, 0.3, 0.4]) for g, _ in four]
    for name in sorted(SEEN):
        yield name, name, texts


def seconds(call: Callable[[], Any]) -> float:
    """Wall time of a call."""
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def lm_evals(aggregation: str, values: list[Any]) -> str:
    """What lm-eval would take, from a thousandth of its replicates on one core."""
    os.environ["DISABLE_MULTIPROC"] = "1"
    from lm_eval.api.metrics import stderr_for_metric
    from lm_eval.api.registry import get_aggregation

    function = get_aggregation(aggregation)
    few, share = (10, 10) if aggregation in SEEN else (100, 1000)
    stderr = stderr_for_metric(function, few)
    if stderr is None:
        return f"{seconds(lambda: function(values)):9.1f}"
    return f"{seconds(lambda: stderr(values)) * share:9.1f}"


def main() -> None:
    """Print a line a metric."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--docs", type=int, default=10_000)
    parser.add_argument("--only", nargs="*", default=())
    parser.add_argument("--contrast", type=int, default=0)
    options = parser.parse_args()
    smaller = {label: v for label, _, v in inputs(options.contrast or 1)}
    print(f"{'metric':20}{options.docs:>8} docs, s", end="")
    print(f"   lm-eval, {options.contrast} docs, s" if options.contrast else "")
    for label, aggregation, values in inputs(options.docs):
        if options.only and label not in options.only:
            continue
        name = aggregation if aggregation in SEEN else "any"
        spec = MetricSpec(name=name, aggregation=aggregation)
        made = metric(spec, "none", "generate_until", declared=True)
        line = f"{label:20}{seconds(lambda m=made, v=values: m.aggregate(v)):16.2f}"
        if options.contrast:
            line += f"   {lm_evals(aggregation, smaller[label])}"
        print(line, flush=True)


if __name__ == "__main__":
    main()
