"""A synthetic world for a tiny model: facts, sums and sentences.

It generates the documents of the example suites and the training texts of the bundled
model. Standard library only; the same seed gives the same world on every machine. It
writes no files.

Half of the capitals and all products are missing from the training texts: a score near
chance on those shows that nothing leaks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random
from typing import Any, NamedTuple

__all__ = ["DATA_SEED", "Country", "Row", "countries", "data_files", "pages"]

DATA_SEED = 20
"""The world of the data files; training texts are drawn with another seed."""

Row = dict[str, Any]
"""One line of a JSONL file."""

_ONSETS = ("b", "d", "f", "g", "k", "l", "m", "n", "p", "r", "s", "t", "v", "z", "dr")
_VOWELS = ("a", "e", "i", "o", "u")
_COUNTRY_ENDINGS = ("land", "ia", "stan", "mark")
_CAPITAL_ENDINGS = ("ek", "or", "burg", "ina", "polis")
_PEOPLE = ("Mira", "Tovi", "Anka", "Belo", "Dara", "Elio", "Fenna", "Goran")
_COLOURS = ("red", "blue", "green", "black", "white", "golden")
_THINGS = ("ball", "cube", "book", "lamp", "ring", "drum", "kite", "shoe")
_ANIMALS = ("dog", "bird", "horse", "frog", "goat", "bear", "duck", "mole")
_PLACES = ("tree", "river", "house", "hill", "bridge", "garden")
_SIZES = ("small", "big", "old", "young")
_VERBS = (("runs", "run"), ("sings", "sing"), ("sleeps", "sleep"), ("waits", "wait"))
_LETTERS = "abcdefghijklmnop"
_MAX_ADDEND = 19


class Country(NamedTuple):
    """A country, its capital, and whether training texts contain it."""

    name: str
    capital: str
    known: bool


def countries(n: int = 200) -> tuple[Country, ...]:
    """All countries; those at even positions are in the training texts."""
    random = Random(DATA_SEED)
    names = _names(random, n, _COUNTRY_ENDINGS)
    capitals = _names(random, n, _CAPITAL_ENDINGS)
    pairs = zip(names, capitals, strict=True)
    return tuple(Country(a, b, i % 2 == 0) for i, (a, b) in enumerate(pairs))


def data_files() -> dict[str, list[Row]]:
    """File name → rows, for all tasks."""
    random = Random(DATA_SEED + 1)
    sums = [(a, b) for a in range(_MAX_ADDEND + 1) for b in range(_MAX_ADDEND + 1)]
    random.shuffle(sums)
    return {
        "addition.jsonl": [_sum_row(a, b) for a, b in sums[:200]],
        "addition_train.jsonl": [_sum_row(a, b) for a, b in sums[200:240]],
        "capitals.jsonl": _capital_rows(random),
        "compare.jsonl": _distinct(random, _compare_row, 150),
        "grammar.jsonl": _distinct(random, _grammar_row, 150),
        "last_word.jsonl": _distinct(random, _last_word_row, 150),
        "multiplication.jsonl": _distinct(random, _product_row, 200),
        "reversal.jsonl": _distinct(random, _letters_row, 200),
        "reversal_train.jsonl": _distinct(random, _letters_row, 20),
        "stories.jsonl": [{"text": _story(random)} for _ in range(50)],
    }


def pages(random: Random) -> Iterator[str]:
    """Generate training texts endlessly: a few questions of one kind, or a story."""
    known = [country for country in countries() if country.known]
    writers: tuple[Callable[[Random], str], ...] = (
        _any_sum_text,
        lambda r: _capital_text(r.choice(known)),
        _compare_text,
        _letters_text,
        _belongings_text,
        _belongings_text,
    )
    while True:
        kind = random.randrange(len(writers) + 1)
        if kind == len(writers):
            yield _story(random)
        else:
            n = random.choice((1, 1, 2, 3, 4))
            yield "\n\n".join(writers[kind](random) for _ in range(n)) + "\n\n"


def _names(random: Random, n: int, endings: tuple[str, ...]) -> list[str]:
    names: dict[str, None] = {}
    while len(names) < n:
        syllables = (random.choice(_ONSETS) + random.choice(_VOWELS) for _ in range(2))
        stem = "".join(syllables) + random.choice(_ONSETS[:-1])
        names[(stem + random.choice(endings)).capitalize()] = None
    return list(names)


def _distinct(random: Random, make: Callable[[Random], Row], n: int) -> list[Row]:
    rows: list[Row] = []
    while len(rows) < n:
        row = make(random)
        if row not in rows:
            rows.append(row)
    return rows


def _sum_row(a: int, b: int) -> Row:
    return {"question": f"{a}+{b}", "answer": a + b}


def _any_sum_text(random: Random) -> str:
    a, b = random.randint(0, _MAX_ADDEND), random.randint(0, _MAX_ADDEND)
    return f"Question: {a}+{b}=?\nAnswer: {a + b}"


def _capital_rows(random: Random) -> list[Row]:
    """Four capitals per country. Wrong choices are as frequent in training as the
    correct one, so frequency is no hint."""
    rows = []
    world = countries()
    for country in world:
        others = [c.capital for c in world if c.known == country.known]
        others.remove(country.capital)
        choices = random.sample(others, 3)
        label = random.randrange(4)
        choices.insert(label, country.capital)
        name = country.name
        row = {"id": name.lower(), "country": name, "choices": choices, "label": label}
        rows.append(row)
    return rows


def _capital_text(country: Country) -> str:
    return (
        f"Question: What is the capital of {country.name}?\nAnswer: {country.capital}"
    )


def _compare_row(random: Random) -> Row:
    a, b = random.sample(range(100), 2)
    return {"a": a, "b": b, "label": int(a > b)}


def _compare_text(random: Random) -> str:
    row = _compare_row(random)
    answer = ("no", "yes")[row["label"]]
    return f"Question: Is {row['a']} more than {row['b']}?\nAnswer: {answer}"


def _letters_row(random: Random) -> Row:
    """Letters to reverse; training texts have fewer than six of them."""
    letters = random.choices(_LETTERS, k=random.randint(3, 6))
    return {"letters": " ".join(letters)}


def _letters_text(random: Random) -> str:
    letters = random.sample(_LETTERS, k=random.randint(3, 5))
    return f"Reverse: {' '.join(letters)}\nAnswer: {' '.join(reversed(letters))}"


def _product_row(random: Random) -> Row:
    """A product and three numbers that differ from it in one inner digit."""
    a, b = random.randint(100, 999), random.randint(100, 999)
    right = str(a * b)
    choices = [right]
    while len(choices) < 4:
        place = random.randrange(1, len(right) - 1)
        wrong = right[:place] + random.choice("0123456789") + right[place + 1 :]
        if wrong not in choices:
            choices.append(wrong)
    random.shuffle(choices)
    return {"a": a, "b": b, "choices": choices, "label": choices.index(right)}


def _sentence(random: Random, plural: bool, verb_plural: bool) -> str:
    """A sentence whose subject and verb are each singular or plural; they agree if both
    flags are equal."""
    noun, place = random.choice(_ANIMALS), random.choice(_PLACES)
    verb = random.choice(_VERBS)[verb_plural]
    places = place + random.choice(("", "s"))
    size = random.choice(_SIZES)
    return f"The {size} {noun}{'s' if plural else ''} near the {places} {verb}."


def _grammar_row(random: Random) -> Row:
    """A grammatical and an ungrammatical sentence, in either order."""
    plural = random.random() < 0.5
    state = random.getstate()
    good = _sentence(random, plural, plural)
    random.setstate(state)
    bad = _sentence(random, plural, not plural)
    label = random.randrange(2)
    first, second = (bad, good) if label else (good, bad)
    return {"first": first, "second": second, "label": label}


def _story(random: Random) -> str:
    sentences = []
    for _ in range(random.randint(4, 8)):
        plural = random.random() < 0.5
        sentences.append(_sentence(random, plural, plural))
    return " ".join(sentences)


def _belongings(random: Random) -> list[str]:
    """Who has which thing, listed twice in different orders."""
    people = random.sample(_PEOPLE, 3)
    colours = random.sample(_COLOURS, 3)
    things = random.sample(_THINGS, 3)
    told = [
        f"{person} has a {colour} {thing}."
        for person, colour, thing in zip(people, colours, things, strict=True)
    ]
    return told + random.sample(told, 3)


def _belongings_text(random: Random) -> str:
    return " ".join(_belongings(random))


def _last_word_row(random: Random) -> Row:
    """A text whose last word follows from the words before it."""
    told = _belongings(random)[:4]
    texts = (
        _any_sum_text(random),
        _compare_text(random),
        _letters_text(random),
        " ".join(told).removesuffix("."),
    )
    return {"text": random.choice(texts)}
