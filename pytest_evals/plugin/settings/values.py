"""Parsers of option values. Each raises ``ValueError`` with the expected form if a
value is invalid.

Standard library only: this is imported in every pytest run.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")
MOST_SHARDS = 10_000  # maximum number of parts of a suite; more are probably a mistake


def at_least(least: int, expected: str) -> Callable[[str], int]:
    """Return the parser of a whole number."""

    def parse(text: str) -> int:
        number = int(text)
        if number < least:
            raise ValueError(f"expected {expected}")
        return number

    return parse


def one_of(*words: str) -> Callable[[str], str]:
    """Return the parser of one of these words."""

    def parse(text: str) -> str:
        if text not in words:
            raise ValueError(f"expected {', '.join(words[:-1])} or {words[-1]}")
        return text

    return parse


def sandbox_level(text: str) -> str:
    """A level of isolation."""
    if text != "auto":  # the default, in sessions without evals
        from pytest_evals.sandbox.session import parse_level

        parse_level(text)
    return text


def _number(text: str, is_valid: Callable[[float], bool], expected: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not is_valid(number):
        raise ValueError(f"expected {expected}")
    return number


def seconds(text: str) -> float:
    """A time limit in seconds; 0 for none."""
    expected = "seconds, such as 30, or 0 for no limit"
    return _number(text, lambda number: 0 <= number < math.inf, expected)


def amount(text: str) -> float:
    """An amount of money above 0."""
    expected = "an amount above 0, such as 2.50"
    return _number(text, lambda number: 0 < number < math.inf, expected)


def shard(text: str) -> str:
    """A part of a suite and their number, as ``K/N``."""
    part, slash, n = (one.strip() for one in text.partition("/"))
    if not (slash and part.isascii() and part.isdigit() and n.isascii()):
        raise ValueError("expected a part and their number, such as 3/8")
    if not n.isdigit() or not 1 <= int(part) <= int(n) <= MOST_SHARDS:
        raise ValueError(
            f"expected a part from 1 to N and N up to {MOST_SHARDS:,}, such as 3/8"
        )
    return f"{int(part)}/{int(n)}"


def share(text: str) -> float:
    """A number of documents, or a share below 1 (lm-eval's ``--limit``)."""
    expected = "expected a number of documents, such as 200, or a share, such as 10%"
    try:
        number = float(text.removesuffix("%"))
    except ValueError:
        raise ValueError(expected) from None
    if text.endswith("%"):
        number /= 100
        if number == 1:
            raise ValueError("100% selects all documents; omit the option")
    if not math.isfinite(number) or number <= 0 or (text.endswith("%") and number > 1):
        raise ValueError(expected)
    if number > 1 and number != int(number):
        raise ValueError(expected)
    return number


def percent(text: str) -> float:
    """A share from 0 to 1, written as one or with a percent sign."""
    whole = 100 if text.endswith("%") else 1
    bare, expected = text.removesuffix("%"), "a share, such as 5%"
    return _number(bare, lambda number: 0 <= number <= whole, expected) / whole


def pairs(text: str) -> dict[str, Any]:
    """``a=1,b=[x,y]`` → a mapping; commas inside brackets and quotes do not split.

    Values as lm-eval's command line reads them.
    """
    from pytest_evals.core.cli_values import cli_value

    found: dict[str, Any] = {}
    for part in _split(text):
        name, equals, value = part.partition("=")
        if not equals or not name.strip():
            raise ValueError(f"{part!r} is not NAME=VALUE")
        found[name.strip()] = cli_value(value.strip())
    return found


def tag_pairs(text: str) -> tuple[tuple[str, str], ...]:
    """Pairs of tags as Python or JSON writes them (lighteval 0.13.0,
    ``PipelineParameters.reasoning_tags``); none for ``off``."""
    if text == "off":
        return ()
    from ast import literal_eval

    expected = "off, or pairs such as [('<think>', '</think>')], are expected"
    try:
        found = literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        raise ValueError(expected) from None
    listed = found if isinstance(found, list | tuple) else [found]
    for pair in listed:
        whole = isinstance(pair, list | tuple) and len(pair) == 2
        if not whole or not all(isinstance(tag, str) and tag for tag in pair):
            raise ValueError(expected)
    return _encodable(tuple((start, end) for start, end in listed), text)


def mapping(text: str) -> dict[str, Any]:
    """A mapping as JSON, or as :func:`pairs`."""
    if not text.startswith("{"):
        return pairs(text)
    try:
        found: dict[str, Any] = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"invalid JSON: {error}") from None
    return _encodable(found, text)


def generation(text: str) -> dict[str, Any]:
    """Generation arguments, as :func:`mapping`.

    Raises:
        OptionError: One of them is not possible.
    """
    from pytest_evals.prompts.generation import check_overrides

    found = mapping(text)
    check_overrides(found)
    return found


def baseline_name(text: str) -> str:
    """A valid name of a baseline."""
    from pytest_evals.store.baselines import check_name

    return check_name(text)


def _encodable(value: T, text: str) -> T:
    if "\\" not in text:
        return value
    from pytest_evals.core.cli_values import encoding_fault

    fault = encoding_fault(value)  # an escape such as \\ud800, spelled in ASCII
    if fault:
        raise ValueError(f"in a text of it, {fault}")
    return value


STATUSES = ("wrong", "error", "missing", "regressed")
"""Statuses of documents of an earlier run."""


def statuses(text: str) -> tuple[str, ...]:
    """Statuses of an earlier run, separated by commas.

    Raises:
        ValueError: A status is unknown, or none is given.
    """
    words = tuple(word.strip() for word in text.split(",") if word.strip())
    for word in words:
        if word not in STATUSES:
            from pytest_evals.errors import unknown_name

            raise ValueError(unknown_name("value", word, STATUSES))
    if not words:
        raise ValueError(f"expected one or more of {', '.join(STATUSES)}")
    return words


def _split(text: str) -> list[str]:
    parts, depth, quote, start = [], 0, "", 0
    for i, char in enumerate(text):
        if quote:
            quote = "" if char == quote else quote
        elif char in "\"'":
            quote = char
        elif char in "([{":
            depth += 1
        elif char in ")]}":
            depth -= 1
        elif char == "," and depth == 0:
            parts.append(text[start:i])
            start = i + 1
    return [*parts, text[start:]]
