"""Top log-probabilities of generated tokens: the option that requests them, and their
form.

The value is a tuple with one entry for each generated token: the selected token, and
the top tokens of the model's distribution, each with its log-probability in nats. The
distribution is the model's own, before temperature, penalties and truncation. A token's
string identifies it among all tokens of the model; ``""`` is a selected token whose
string does not.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from pytest_evals.core.request import TOP_LOGPROBS, Generate, Request, TopLogprobs
from pytest_evals.core.task import Asked, Task

MAX_LOGPROB = 1e-3  # Log-probabilities are at most 0; rounding may exceed it a little
N_TOP = 5  # number of top tokens: OpenAI's completions and TGI return at most 5
_BROKEN = "\ufffd"
"""Replacement for bytes that are not a whole character: many tokens have this
string."""


def task_with_top_logprobs(task: Task) -> Task:
    """The task, with top log-probabilities in its generation requests."""

    def ask(index: int) -> Asked:
        doc, requests = task.ask(index)
        return Asked(doc, tuple(map(_with_top_logprobs, requests)))

    return replace(task, ask=ask)


def _with_top_logprobs(request: Request) -> Request:
    if not isinstance(request, Generate):
        return request
    options = {TOP_LOGPROBS: N_TOP, **dict(request.options)}
    return replace(request, options=tuple(sorted(options.items())))


def without_top_logprobs(request: Generate) -> Generate:
    """The same request without top log-probabilities."""
    options = tuple(one for one in request.options if one[0] != TOP_LOGPROBS)
    if options == request.options:
        return request
    return replace(request, options=options)


def top_entry(
    token: str, top: Iterable[tuple[str, float]], n: int
) -> tuple[str, tuple[tuple[str, float], ...]]:
    """The entry of one generated token.

    Strings that do not identify a token are left out: those of incomplete characters,
    and those of several tokens.

    Args:
        top: Strings and log-probabilities, at least those of the ``n`` top tokens.
    """
    ranked = sorted(top, key=lambda one: -one[1])[:n]
    texts = [text for text, _ in ranked]
    named = tuple(
        (text, value)
        for text, value in ranked
        if text and _BROKEN not in text and texts.count(text) == 1
    )
    is_named = _BROKEN not in token and texts.count(token) < 2
    return token if is_named else "", named


def read_top_logprobs(value: Any) -> TopLogprobs:
    """The value from nested sequences, such as JSON's lists. The top tokens may be a
    mapping; log-probabilities that are not finite are left out. Raises ``TypeError`` or
    ``ValueError`` if the value has another form."""
    entries = []
    for token, top in value:
        pairs = top.items() if isinstance(top, Mapping) else top
        numbers = [(name, _float(number)) for name, number in pairs]
        if not all(isinstance(name, str) for name in (token, *dict(numbers))):
            raise TypeError("tokens are texts")
        if any(number > MAX_LOGPROB for _, number in numbers):
            raise ValueError("a log-probability is above 0")
        entries.append((token, tuple(one for one in numbers if math.isfinite(one[1]))))
    return tuple(entries)


def _float(number: Any) -> float:
    try:
        return float(number)
    except OverflowError:
        return -math.inf if number < 0 else math.inf


def shown_top_logprobs(value: TopLogprobs) -> list[list[Any]]:
    """The value for results files: ``[token, {token: log-probability}]`` each."""
    return [[token, dict(top)] for token, top in value]


def compact(shown: Any) -> str:
    """The value in results files as a string; empty for none."""
    return json.dumps(shown, separators=(",", ":")) if shown else ""
