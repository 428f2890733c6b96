"""Documents with instructions and few-shot examples, and datasets with splits."""

from __future__ import annotations

from random import Random
from typing import Any

from .texts import text

CHAT = (
    "{% for m in messages %}<|{{ m['role'] }}|>{{ m['content'] }}\n{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)


def _question(rng: Random, instruction: str | None) -> dict[str, Any]:
    query = text(rng) + rng.choice(["", "\nAnswer:", "\nA: "])
    if instruction is not None and rng.random() < 0.7:
        query = instruction + query
    n = rng.randint(1, 3)
    doc: dict[str, Any] = {
        "query": query,
        "choices": [rng.choice(["", " "]) + text(rng) for _ in range(n)],
        "gold_index": rng.choice([rng.randrange(n), [rng.randrange(n)]]),
    }
    if instruction is not None:
        doc["instruction"] = instruction
    return doc


def prompted(rng: Random) -> dict[str, Any]:
    """A document with few-shot examples, with and without instruction."""
    instruction = rng.choice([None, None, "", "Do it.", "Do it.\n\n", text(rng)])
    return {
        "doc": _question(rng, instruction),
        "fewshots": [
            _question(rng, rng.choice([None, instruction]))
            for _ in range(rng.choice([0, 0, 1, 2, 3]))
        ],
    }


def splits(rng: Random) -> dict[str, Any]:
    """A dataset of a few questions, some with separate labels."""

    def row(i: int) -> dict[str, Any]:
        made: dict[str, Any] = {"i": i, "y": rng.randrange(2)}
        if labelled:
            made["cls"] = rng.choice(["a", "b", "c", "d"])
        return made

    labelled = rng.random() < 0.5
    train, test = rng.randint(3, 15), rng.randint(2, 8)
    return {
        "dataset": {
            "train": [row(i) for i in range(train)],
            "test": [row(100 + i) for i in range(test)],
        }
    }
