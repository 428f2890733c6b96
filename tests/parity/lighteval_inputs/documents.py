"""Random documents with generations or log-probabilities."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

from .texts import WORDS, like, text


def answered(
    rng: Random, make: Callable[[Random], str], golds: int = 3, preds: int = 3
) -> dict[str, Any]:
    """A document with references, and generations for it."""
    choices = [make(rng) for _ in range(rng.choice([1, 1, golds]))]
    n = len(choices)
    index: Any = rng.randrange(n)
    if rng.random() < 0.4:
        index = sorted(rng.sample(range(n), rng.randint(1, n)))
    base = choices[index if isinstance(index, int) else index[0]]
    texts = [like(rng, base) for _ in range(rng.choice([1, 1, preds]))]
    response: dict[str, Any] = {"text": texts}
    if rng.random() < 0.15:
        think = [f"<think>{make(rng)}</think>{one}" for one in texts]
        response = {"text": think, "text_post_processed": texts}
    return {
        "doc": {"choices": choices, "gold_index": index},
        "model_response": response,
    }


def logprob(rng: Random) -> float:
    return rng.choice([-0.5, -1.0, -2.0, -800.0, round(rng.uniform(-9, 0), 3)])


def scored(rng: Random) -> dict[str, Any]:
    """A document with choices, and their log-probabilities; sometimes followed by those
    without the question."""
    n = rng.choice([1, 2, 3, 4, 5])
    choices = [(text(rng, WORDS, 6) or "x") for _ in range(n)]
    if rng.random() < 0.5:
        choices = [f" {one}" for one in choices]
    index: Any = rng.randrange(n)
    if rng.random() < 0.4:
        index = sorted(rng.sample(range(n), rng.randint(1, n)))
    n_all = 2 * n if rng.random() < 0.4 else n
    logprobs = [logprob(rng) for _ in range(n_all)]
    return {
        "doc": {"choices": choices, "gold_index": index},
        "model_response": {
            "logprobs": logprobs,
            "argmax_logits_eq_gold": [rng.random() < 0.3 for _ in range(n_all)],
            "output_tokens": [[7] * rng.randint(1, 5) for _ in range(n_all)],
        },
    }


def single(rng: Random) -> dict[str, Any]:
    """The same where each choice was requested once, and one of them is correct."""
    given = scored(rng)
    doc, response = given["doc"], given["model_response"]
    n = len(doc["choices"])
    doc["gold_index"] = rng.randrange(n)
    return {
        "doc": doc,
        "model_response": {key: listed[:n] for key, listed in response.items()},
    }


def untied(rng: Random) -> dict[str, Any]:
    """The same with distinct log-probabilities: NumPy's choice between ties depends on
    the CPU."""
    given = single(rng)
    n = len(given["doc"]["choices"])
    given["model_response"]["logprobs"] = [-i / 7 for i in rng.sample(range(99), n)]
    return given


def sampled(rng: Random, make: Callable[[Random], str], n: int) -> dict[str, Any]:
    """A document with one reference and several generations, some of them correct."""
    gold = make(rng)
    texts = [rng.choice([gold, like(rng, gold), make(rng)]) for _ in range(n)]
    return {
        "doc": {"choices": [gold], "gold_index": 0},
        "model_response": {"text": texts},
    }
