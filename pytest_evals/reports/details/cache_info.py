"""Cache information of a document: why its requests are stored or not."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

from pytest_evals.errors import plural
from pytest_evals.reports.escape import cut

LONGEST = 60
AROUND = 20
"""Characters of a prompt shown before the first difference."""


class KeyChange(NamedTuple):
    """One part of a cache key: its current and its stored value."""

    part: str
    now: Any
    before: Any


class RequestCacheInfo(NamedTuple):
    """Cache information of one request."""

    stored: float | None
    """Unix time at which the nearest stored request was stored; ``None`` if without
    one."""
    differences: tuple[KeyChange, ...] = ()
    """How that one differs, except for its prompt."""
    prompt: str = ""
    before: str = ""  # the stored prompt, empty if it is the same


def cache_info_lines(
    nodeid: str, requests: Sequence[RequestCacheInfo]
) -> Iterator[str]:
    """Yield the state of each request, and the parts of its key that differ."""
    yield f"{nodeid}: {plural(len(requests), 'request')}"
    for n, one in enumerate(requests):
        if one.stored is None:
            yield f"request {n}: not in the store; no similar request is stored"
            continue
        when = f"{datetime.fromtimestamp(one.stored, UTC):%Y-%m-%d %H:%M:%S} UTC"
        if not one.differences and not one.before:
            yield f"request {n}: in the store since {when}"
            continue
        yield f"request {n}: not in the store; the nearest was stored {when}"
        if one.before:
            yield f"  {_prompt(one.prompt, one.before)}"
        for part, now, before in one.differences:
            yield f"  {part} is {_shown(now)}, was {_shown(before)}"


def _prompt(now: str, before: str) -> str:
    pairs = enumerate(zip(now, before, strict=False))
    place = next((i for i, (a, b) in pairs if a != b), min(len(now), len(before)))
    start = max(0, place - AROUND)
    shown = [cut(text[start:], LONGEST) for text in (now, before)]
    return f"prompt differs from character {place}: {shown[0]!r}, was {shown[1]!r}"


def _shown(value: Any) -> str:
    return "not there" if value is None else cut(repr(value), LONGEST)
