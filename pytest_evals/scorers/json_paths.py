"""JSON values in texts, and values at paths such as ``$.items[0].price``."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from pytest_evals.errors import EvalsError

_STEP = re.compile(r"""\.?([\w-]+)|\[(-?\d+|\*)\]|\[(?:'([^']*)'|"([^"]*)")\]""")


def json_values(text: str) -> Iterator[Any]:
    """Yield the JSON objects and lists in a text that are in no other one."""
    decoder, start = json.JSONDecoder(), 0
    while found := re.search(r"[{\[]", text[start:]):
        start += found.start()
        try:
            value, start = decoder.raw_decode(text, start)
        except (ValueError, RecursionError):
            start += 1
        else:
            yield value


def path_steps(path: str) -> list[str | int | None]:
    """Return names and positions of a path, ``None`` for all items. Raises EvalsError
    if it is invalid."""
    at, steps = 1, list[str | int | None]()
    while path.startswith("$") and at < len(path):
        found = _STEP.match(path, at)
        if found is None or (at == 1 and path[at] not in ".["):
            break
        at = found.end()
        name, number, single, double = found.groups()
        if number is not None:
            steps.append(None if number == "*" else int(number))
        else:
            steps += [one for one in (name, single, double) if one is not None]
    if not path.startswith("$") or at < len(path):
        raise EvalsError(
            f"invalid path {path!r}\n"
            "  fix: $.total, $.items[0].price, $.items[*].id or $['a name']"
        )
    return steps


def found_at(value: Any, steps: list[str | int | None]) -> Iterator[Any]:
    """Yield the values at a path."""
    if not steps:
        yield value
        return
    step, rest = steps[0], steps[1:]
    if isinstance(step, str):
        if isinstance(value, Mapping) and step in value:
            yield from found_at(value[step], rest)
    elif isinstance(value, list | tuple):
        if step is None:
            for one in value:
                yield from found_at(one, rest)
        elif -len(value) <= step < len(value):
            yield from found_at(value[step], rest)
