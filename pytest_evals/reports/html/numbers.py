"""Numbers of a document besides its metrics: confidence, lengths, latency and cost.

Add a number here, and the page has it as a column of the list and as a histogram.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pytest_evals.reports.html.sections import is_number, mapping

_DIGITS = 4
"""Significant digits that are stored."""

Request = Mapping[str, Any]


def numbers_of(row: Mapping[str, Any], requests: Sequence[Request]) -> dict[str, float]:
    """Return the known numbers of a document."""
    tokens = mapping(row.get("tokens"))
    texts = [*_generated(row)]
    known: dict[str, Any] = {
        "confidence": _confidence(_choice_logprobs(row, requests)),
        "answer characters": sum(map(len, texts)) if texts else None,
        "answer tokens": (tokens.get("answer") or None) if texts else None,
        "prompt tokens": tokens.get("prompt") or None,
        "latency (s)": row.get("latency_s"),
        "cost": row.get("cost"),
    }
    numbers = {name: one for name, one in known.items() if is_number(one)}
    return {name: float(f"{one:.{_DIGITS}g}") for name, one in numbers.items()}


def _generated(row: Mapping[str, Any]) -> Iterator[str]:
    for answers in row.get("resps") or ():
        if isinstance(answers, list):
            yield from (one for one in answers if isinstance(one, str))


def _choice_logprobs(
    row: Mapping[str, Any], requests: Sequence[Request]
) -> list[float]:
    """Return the log-probabilities of the choices. Requests with another prompt, as of
    unconditional log-probabilities, are left out if one prompt has all choices."""
    choices = [n for n, one in enumerate(requests) if one["kind"] == "choice"]
    first = [n for n in choices if requests[n]["prompt"] == 0]
    answers = row.get("resps") or []
    found = []
    for n in first if len(first) > 1 else choices:
        try:
            found.append(answers[n][0][0])
        except (IndexError, TypeError, KeyError):
            return []
    return found if all(map(is_number, found)) else []


def _confidence(logprobs: Sequence[float]) -> float | None:
    if len(logprobs) < 2:
        return None
    best = max(logprobs)
    return 1 / sum(math.exp(one - best) for one in logprobs)
