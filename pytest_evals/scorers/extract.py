"""What part of an answer is scored: ``extract`` of an eval or of one scorer.

An answer without that part is wrong for built-in scorers and judges; a custom scorer
gets an empty text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pytest_evals.core.returned import text_of
from pytest_evals.errors import EvalsError, suggestion
from pytest_evals.limits.patterns import compiled
from pytest_evals.scorers.json_answers import found_at, json_values, path_steps

Read = Callable[[str], str | None]


@dataclass(frozen=True, slots=True)
class Extraction:
    """Returns the part of an answer, ``None`` if it is missing. ``given``: the key's
    value, for messages and the task's hash. ``read``: its function."""

    given: Any
    read: Read

    def __call__(self, text: str) -> str | None:
        """Return the part of an answer."""
        return self.read(text)

    @property
    def missing(self) -> str:
        """Why an answer is wrong that has no such part."""
        return f"nothing to extract: {json.dumps(self.given, ensure_ascii=False)}"


def extraction_of(given: Any) -> Extraction | None:
    """Return the extraction of a key ``extract``: one of

    - ``{regex: PATTERN}``: the last match; its first group, if the pattern has groups;
    - ``{json: PATH}``: the value in the last JSON object or list, ``$.answer``;
    - ``{xml: TAG}``: the text in the last such element;
    - ``{after: TEXT}``: what follows the last such text;

    or a list of these, one after the other. ``None`` for ``None``.

    Raises EvalsError if it is something else."""
    if given is None:
        return None
    steps = [_read(one) for one in (given if isinstance(given, list) else [given])]

    def read(text: str) -> str | None:
        found: str | None = text
        for step in steps:
            found = step(found) if found is not None else None
        return found

    return Extraction(given, read)


def _read(given: Any) -> Read:
    if not isinstance(given, Mapping) or len(given) != 1:
        raise EvalsError(
            f"extract: {given!r:.60} is not one of {', '.join(_KINDS)}\n"
            "  fix: extract: {after: 'Answer:'}"
        )
    ((kind, value),) = given.items()
    if kind not in _KINDS:
        raise EvalsError(f"extract: unknown kind {kind!r}{suggestion(kind, _KINDS)}")
    if not isinstance(value, str) or not value:
        raise EvalsError(f"extract: {kind} is {value!r:.60}, not text")
    return _KINDS[kind](value)


def _regex(pattern: str) -> Read:
    try:
        expression = compiled(pattern)
    except re.error as error:
        raise EvalsError(f"extract: invalid pattern {pattern!r}: {error}") from None

    def read(text: str) -> str | None:
        matches = expression.matches(text)
        if not matches:
            return None
        start, end, groups = matches[-1]
        return groups[0] if expression.regex.groups else text[start:end]

    return read


def _json(path: str) -> Read:
    steps = path_steps(path)

    def read(text: str) -> str | None:
        values = [*json_values(text)]
        found = [*found_at(values[-1], steps)] if values else []
        return text_of(found[0]) if found else None

    return read


def _xml(tag: str) -> Read:
    name = re.escape(tag)
    inner = rf"(?:(?!<{name}[\s>]).)*?"
    element = re.compile(rf"(?s)<{name}(?:\s[^<>]*)?>({inner})</{name}\s*>")

    def read(text: str) -> str | None:
        found = element.findall(text)
        return found[-1].strip() if found else None

    return read


def _after(mark: str) -> Read:
    def read(text: str) -> str | None:
        _, found, rest = text.rpartition(mark)
        return rest.strip() if found else None

    return read


_KINDS: Mapping[str, Callable[[str], Read]] = {
    "regex": _regex,
    "json": _json,
    "xml": _xml,
    "after": _after,
}
