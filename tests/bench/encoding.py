"""Measure the CPU time of encoding 14,042 documents with four choices.

python tests/bench/encoding.py [--kind letters] [--docs 14042]

``letters`` and ``full`` have 5 few-shot examples that all documents of a task share, 57
tasks; ``drawn`` has examples of each document's own. Garbage is collected as rarely as
in a session. Prints a digest of all ids too: versions must agree in it.
"""

from __future__ import annotations

import argparse
import hashlib
import tempfile
import time
from pathlib import Path
from random import Random

import random_models
import synthetic_tasks

from pytest_evals.core.request import Loglikelihood
from pytest_evals.models.engine.in_process_model import BackgroundEncoder
from pytest_evals.models.hf.settings import HfSettings
from pytest_evals.models.tokens.loader import load_tokenizer
from pytest_evals.models.tokens.request_encoder import RequestEncoder
from pytest_evals.plugin.execution.fast_path.protocol import (
    ReducedGarbageCollection,
)

N_TASKS = 57
LETTERS = "ABCD"


def _question(row: dict[str, object]) -> str:
    lines = [f"{a}. {b}" for a, b in zip(LETTERS, row["choices"], strict=True)]
    return "\n".join([row["question"], *lines, "Answer:"])


def requests_of(kind: str, n_docs: int) -> list[Loglikelihood]:
    """The requests of all documents."""
    found = []
    for task in range(N_TASKS):
        n = len(range(task, n_docs, N_TASKS))
        rows = synthetic_tasks._choices(task, n, 95, [4, 5, 6])
        pool = synthetic_tasks._choices(
            1000 + task, 50 if kind == "drawn" else 5, 95, [4, 5, 6]
        )
        draw = Random(task)
        for row in rows:
            shots = draw.sample(pool, 5) if kind == "drawn" else pool
            texts = [f"{_question(one)} {LETTERS[one['answer']]}\n\n" for one in shots]
            context = "".join(texts) + _question(row)
            ends = row["choices"] if kind == "full" else LETTERS
            found += [Loglikelihood(context, f" {end}") for end in ends]
    return found


def main() -> None:
    """Encode, and print the seconds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--kind", choices=["letters", "full", "drawn"], default="letters"
    )
    parser.add_argument("--docs", type=int, default=14_042)
    given = parser.parse_args()
    requests = requests_of(given.kind, given.docs)
    with tempfile.TemporaryDirectory() as folder:
        random_models._make_tokenizer(8_192, Path(folder))
        settings = HfSettings(target=folder)
        encoder = RequestEncoder(load_tokenizer(settings), settings, 8_192)
    ReducedGarbageCollection()
    start = time.process_time()
    found = BackgroundEncoder(encoder).take(requests).encoded()
    took = time.process_time() - start
    digest = hashlib.sha256()
    for pair in found.pairs.values():
        digest.update(pair.context.tobytes() + b"|" + pair.continuation.tobytes())
    print(f"{len(requests)} requests: {took:.2f} s, ids {digest.hexdigest()[:12]}")


if __name__ == "__main__":
    main()
