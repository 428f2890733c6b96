"""Parsers of option values. Each raises ``ValueError`` with the expected form if a
value is invalid.

Standard library only: this is imported in every pytest run.
"""

from __future__ import annotations

import json
import math
from typing import Any, TypeVar

T = TypeVar("T")


def shots(text: str) -> int:
    """A number of few-shot examples."""
    number = int(text)
    if number < 0:
        raise ValueError("expected 0 or a positive whole number")
    return number


def resamples(text: str) -> int:
    """A number of resamples; 0 for no standard errors, as in lm-eval."""
    number = int(text)
    if number < 0:
        raise ValueError("expected 0 or a positive whole number")
    return number


def documents(text: str) -> int:
    """A number of documents."""
    number = int(text)
    if number < 1:
        raise ValueError("expected a positive whole number")
    return number


def runs(text: str) -> int:
    """A number of runs that can be compared."""
    number = int(text)
    if number < 2:
        raise ValueError("expected 2 or more runs")
    return number


def policy(text: str) -> str:
    """The result of an inconclusive gate."""
    if text not in ("warn", "fail", "pass"):
        raise ValueError("expected warn, fail or pass")
    return text


def stop(text: str) -> str:
    """When a task is stopped."""
    if text not in ("off", "curtail", "auto"):
        raise ValueError("expected off, curtail or auto")
    return text


def switch(text: str) -> bool:
    """Whether a part is on."""
    if text not in ("on", "off"):
        raise ValueError("expected on or off")
    return text == "on"


def cache(text: str) -> str:
    """How stored responses are used."""
    if text not in ("use", "refresh", "off", "only"):
        raise ValueError("expected use, refresh, off or only")
    return text


def choices(text: str) -> str:
    """How documents with choices are answered."""
    if text not in ("generate", "loglikelihood"):
        raise ValueError("expected generate or loglikelihood")
    return text


def seconds(text: str) -> float:
    """A time limit in seconds; 0 for none."""
    expected = "expected seconds, such as 30, or 0 for no limit"
    try:
        number = float(text)
    except ValueError:
        raise ValueError(expected) from None
    if not 0 <= number < math.inf:
        raise ValueError(expected)
    return number


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
    try:
        number = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        number = -1.0
    if not 0 <= number <= 1:
        raise ValueError("expected a share, such as 5%")
    return number


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


def _encodable(value: T, text: str) -> T:
    if "\\" not in text:
        return value
    from pytest_evals.core.surrogates import encoding_fault

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


def junit(text: str) -> str:
    """The test cases of a JUnit file.

    Raises:
        ValueError: It is neither gates nor docs.
    """
    if text not in ("gates", "docs"):
        raise ValueError("expected gates or docs")
    return text


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
