"""Documents of other metrics, and corpora of documents."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

from .documents import logprob
from .texts import EVERYTHING, NUMBERS, like, text


def spans(rng: Random) -> dict[str, Any]:
    """A question of DROP: expected spans and predicted spans."""
    pieces = (*NUMBERS, "three", "Tom Brady", "the Bears", "Bears", "blue-green", "")
    golds = [
        [rng.choice(pieces) for _ in range(rng.choice([1, 1, 2, 3]))]
        for _ in range(rng.choice([1, 1, 2]))
    ]
    texts = [like(rng, rng.choice(golds[0])) for _ in range(rng.choice([1, 1, 2]))]
    specific = {"golds_no_preprocessing": golds}
    return {
        "doc": {"choices": ["_"], "gold_index": 0, "specific": specific},
        "model_response": {"text": texts},
    }


def summarised(rng: Random) -> dict[str, Any]:
    """A source and its summary, which contains some of its words."""
    source = " ".join(text(rng, EVERYTHING, 12) for _ in range(3))
    words = source.split(" ")
    start = rng.randrange(len(words))
    kept = " ".join(words[start : start + rng.randint(0, 6)])
    summary = rng.choice([kept, f"{kept} {text(rng)}", text(rng), f"{{{kept}}}"])
    return {
        "doc": {"choices": [""], "gold_index": 0, "specific": {"text": source}},
        "model_response": {"text": [summary]},
    }


def truthful(rng: Random) -> dict[str, Any]:
    """A question of TruthfulQA with its two lists of choices."""
    one, two = rng.randint(2, 4), rng.randint(2, 5)
    true = rng.randint(1, two)
    return {
        "doc": {
            "choices": ["x"] * (one + two),
            "gold_index": [0, *range(one, one + true)],
            "specific": {"len_mc1": one},
        },
        "model_response": {"logprobs": [logprob(rng) for _ in range(one + two)]},
    }


def rolled(rng: Random) -> dict[str, Any]:
    """Texts with their log-probabilities."""
    docs, responses = [], []
    for _ in range(rng.randint(1, 4)):
        doc = {"query": text(rng) or "x", "choices": [], "gold_index": 0}
        if rng.random() < 0.4:
            doc["original_query"] = text(rng) or "y"
        docs.append(doc)
        responses.append({"logprobs": [-rng.uniform(1, 30)]})
    return {"docs": docs, "model_responses": responses}


def corpus_of(make: Callable[[Random], dict[str, Any]]) -> Callable[[Random], Any]:
    """Several documents."""

    def made(rng: Random) -> dict[str, Any]:
        pairs = [make(rng) for _ in range(rng.randint(2, 6))]
        return {
            "docs": [pair["doc"] for pair in pairs],
            "model_responses": [pair["model_response"] for pair in pairs],
        }

    return made


def one_to_one(rng: Random) -> dict[str, Any]:
    """A reference and a prediction, both from few values."""
    kinds = ("yes", "no", "maybe", "Paris", "4")
    return {
        "doc": {"choices": [rng.choice(kinds)], "gold_index": 0},
        "model_response": {"text": [rng.choice(kinds)]},
    }


def translated(rng: Random) -> dict[str, Any]:
    """A translation of some words, and its reference."""
    gold = " ".join(rng.choice(EVERYTHING) for _ in range(rng.randint(4, 14)))
    return {
        "doc": {"choices": [gold], "gold_index": 0},
        "model_response": {"text": [like(rng, gold)]},
    }


def classified(rng: Random) -> dict[str, Any]:
    """Correct labels and predicted labels."""
    n, classes = rng.randint(2, 9), rng.choice([2, 3, 4])
    return {
        "golds": [rng.randrange(classes) for _ in range(n)],
        "preds": [rng.randrange(classes) for _ in range(n)],
    }


def correlated(rng: Random) -> dict[str, Any]:
    """The same where each document has a list of correct labels."""
    given = classified(rng)
    return {**given, "golds": [[gold] for gold in given["golds"]]}
