"""Rows for lighteval's templates."""

from __future__ import annotations

from random import Random
from typing import Any

_SENTENCES = (
    *("the cat sat on the mat", "He fell.", "Is it so?", "it rains", "Wait!", "list:"),
    *(
        "What is 2+2?",
        "une phrase, oui",
        "日本は島国です。",
        "هل هذا صحيح؟",
        "Why;",
        "x,",
    ),
    *(
        "[title] Clean it [step] Wash.",
        "A dog... runs  fast",
        "ÉCOLE",
        "istanbul",
        " a ",
    ),
)


def _sentence(rng: Random) -> str:
    return rng.choice(_SENTENCES)


def _several(rng: Random) -> list[str]:
    return [_sentence(rng) for _ in range(rng.randint(2, 5))]


def _with_gold(rng: Random, name: str) -> dict[str, Any]:
    choices = _several(rng)
    gold: Any = rng.randrange(len(choices))
    if rng.random() < 0.3:
        gold = sorted(rng.sample(range(len(choices)), 2))
    return {name: choices, "gold_idx": gold}


def _maybe(rng: Random, **given: str) -> dict[str, str]:
    return {key: value for key, value in given.items() if rng.random() < 0.5}


def mcq(rng: Random) -> dict[str, Any]:
    more = _maybe(rng, context=_sentence(rng), instruction=_sentence(rng))
    return {"question": _sentence(rng), **_with_gold(rng, "choices"), **more}


def boolq(rng: Random) -> dict[str, Any]:
    more = _maybe(rng, context=_sentence(rng), instruction=_sentence(rng))
    return {"question": _sentence(rng), "answer": rng.random() < 0.5, **more}


def continuation(rng: Random) -> dict[str, Any]:
    more = _maybe(rng, instruction=_sentence(rng))
    return {"context": _sentence(rng), **_with_gold(rng, "continuations"), **more}


def copa(rng: Random) -> dict[str, Any]:
    which = rng.choice(["cause", "effect"])
    choices = _with_gold(rng, "continuations")
    return {"cause_effect": which, "context": _sentence(rng), **choices}


def hellaswag(rng: Random) -> dict[str, Any]:
    more = _maybe(rng, ctx_b=_sentence(rng), activity_label=_sentence(rng))
    return {"ctx_a": _sentence(rng), **_with_gold(rng, "continuations"), **more}


def nli(rng: Random) -> dict[str, Any]:
    two = {"premise": _sentence(rng), "hypothesis": _sentence(rng)}
    return {**two, "gold_idx": rng.randrange(2)}


def qa(rng: Random) -> dict[str, Any]:
    # One answer: with several, lighteval's order differs between processes.
    more = _maybe(rng, context=_sentence(rng), instruction=_sentence(rng))
    return {"question": _sentence(rng), "choices": [_sentence(rng)], **more}


def translation(rng: Random) -> dict[str, Any]:
    target: Any = _sentence(rng)
    if rng.random() < 0.3:
        target = _several(rng)
    return {"source_text": _sentence(rng), "target_text": target}


LANGUAGES = (
    *("eng", "fra", "zho", "ara", "hin", "jpn", "tha", "ell", "tel", "rus", "spa"),
    *("deu", "ita", "swa", "tur", "urd", "pan", "guj", "ben", "shn", "vie", "ukr"),
)


_SHAPES = ("CF", "Hybrid", "MCF", "MCF/NativeLetters", "MCF/Numbers")


def shape(rng: Random) -> dict[str, Any]:
    return {"language": rng.choice(LANGUAGES), "formulation": rng.choice(_SHAPES)}


def nli_shape(rng: Random) -> dict[str, Any]:
    three = ["entailment", "neutral", "contradiction"]
    rng.shuffle(three)
    return {**shape(rng), "relations": three[: rng.choice([2, 3])]}


def two_languages(rng: Random) -> dict[str, Any]:
    one, other = rng.sample(LANGUAGES, 2)
    return {"source": one, "target": other, "formulation": rng.choice(_SHAPES)}
