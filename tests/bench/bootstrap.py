"""Time the aggregation of a metric over many documents, with its standard error.

    python tests/bench/bootstrap.py [--docs 10000] [--only median ter] [--contrast 100]
    python tests/bench/bootstrap.py --gates

Each metric is aggregated with lm-eval's default of 100,000 replicates (100 for corpus
metrics, as in lm-eval). With ``--contrast N`` and lm-eval installed, lm-eval's
functions are timed over N documents with a thousandth of the replicates, and the time
is extrapolated.

``--gates`` times the resampling of gates instead: wall and processor time of the
confidence limits of BLEU over 100,000 documents, and of the median of 10,000. The
n-gram counts of BLEU are synthetic.
"""

from __future__ import annotations

import argparse
import os
import random
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from pytest_evals.scorers.corpus import Corpus
from pytest_evals.scorers.metrics import MetricSpec, metric
from pytest_evals.stats.bootstrap_limits import resample, resample_sums

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
        predicted = rng.choices(words, k=rng.randint(8, 20))
        right = [
            word if rng.random() < 0.7 else rng.choice(words) for word in predicted
        ]
        texts.append((" ".join(right), " ".join(predicted)))
    yield (
        "acc (mean)",
        "mean",
        [float(label == predicted) for label, predicted in labels],
    )
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
    """Time that lm-eval would take, extrapolated from a thousandth of its replicates on
    one core."""
    os.environ["DISABLE_MULTIPROC"] = "1"
    from lm_eval.api.metrics import stderr_for_metric
    from lm_eval.api.registry import get_aggregation

    function = get_aggregation(aggregation)
    few, share = (10, 10) if aggregation in SEEN else (100, 1000)
    stderr = stderr_for_metric(function, few)
    if stderr is None:
        return f"{seconds(lambda: function(values)):9.1f}"
    return f"{seconds(lambda: stderr(values)) * share:9.1f}"


def limits() -> Iterator[tuple[str, Callable[[], Any]]]:
    """Label and calculation of the confidence limits of gates."""
    rng = np.random.default_rng(1)
    lengths = rng.integers(8, 20, 100_000)
    totals = [np.maximum(lengths - order, 0) for order in range(4)]
    shared = [rng.binomial(total, 0.7 / (i + 1)) for i, total in enumerate(totals)]
    columns = [each.tolist() for each in (lengths, lengths, *shared, *totals)]
    score = Corpus("bleu", [("a b c d", "a b c d")]).totals().score
    yield (
        "BLEU, 100,000 documents",
        lambda: resample_sums(columns, score),
    )
    nats = rng.exponential(5.0, 10_000).tolist()
    spec = MetricSpec(name="any", aggregation="median")
    median = metric(spec, "none", "generate_until", declared=True)
    assert median.statistic is not None
    statistic = median.statistic(nats)
    yield "median, 10,000 documents", lambda: resample(len(nats), statistic, 0.0)


def gates() -> None:
    """Print one line per calculation."""
    for label, call in limits():
        wall, processor = time.perf_counter(), time.process_time()
        call()
        wall, processor = time.perf_counter() - wall, time.process_time() - processor
        print(
            f"{label:30}{wall:8.2f} s of the clock{processor:8.2f} s of the processor"
        )


def main() -> None:
    """Print one line per metric."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--docs", type=int, default=10_000)
    parser.add_argument("--only", nargs="*", default=())
    parser.add_argument("--contrast", type=int, default=0)
    parser.add_argument("--gates", action="store_true")
    options = parser.parse_args()
    if options.gates:
        return gates()
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
