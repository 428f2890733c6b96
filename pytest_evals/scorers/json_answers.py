"""JSON in answers: values in texts, values at paths such as ``$.items[0].price``, and
JSON Schemas."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from pytest_evals.errors import (
    EvalsError,
    MissingExtraError,
    Place,
    similar_file,
    unknown_name,
)

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


def without_fence(answer: str) -> str:
    """Return an answer without a code fence that encloses it."""
    text = answer.strip()
    if text.startswith("```") and text.endswith("```") and "\n" in text:
        return text[text.index("\n") : -3].strip()
    return text


def no_constant(name: str) -> None:
    """Refuse a number that JSON does not have, such as NaN. Raises ValueError in any
    case."""
    raise ValueError(f"{name} is not valid JSON")


def schema_file(path: Path) -> Any:
    """Read a schema. Raises EvalsError if it does not exist or is not JSON."""
    message = f"json: the schema {Place(path)}"
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise EvalsError(
            f"{message} does not exist{similar_file(path)}\n"
            "  fix: write its path relative to the eval's file"
        ) from None
    except json.JSONDecodeError as error:
        place = Place(path, error.lineno)
        why = f"{error.msg} at column {error.colno}"
        raise EvalsError(
            f"json: the schema {place} is not JSON: {why}\n"
            '  fix: write a JSON schema, such as {"type": "object"}'
        ) from None
    except (OSError, ValueError) as error:
        raise EvalsError(f"{message} cannot be read: {error}") from None


_TYPES = ("array", "boolean", "integer", "null", "number", "object", "string")


def validator(schema: Any, name: str = "") -> Callable[[Any], str]:
    """Return a function from a value to its first violation, empty if it is valid.
    ``name``: of the schema's file, for messages. Raises EvalsError if the schema is
    invalid; MissingExtraError if jsonschema is not installed."""
    try:
        import jsonschema
    except ImportError as error:
        raise MissingExtraError(
            "json with a schema", "jsonschema", "metrics"
        ) from error
    kind = jsonschema.validators.validator_for(
        schema, default=jsonschema.Draft202012Validator
    )
    try:
        kind.check_schema(schema)
    except jsonschema.SchemaError as error:
        way = "".join(f".{step}" for step in error.absolute_path)
        message = f"json: invalid JSON Schema{name and f' {name}'}, ${way}: "
        if way.endswith(".type") and isinstance(error.instance, str):
            message += unknown_name("type", error.instance, _TYPES)
            raise EvalsError(message) from None
        raise EvalsError(message + error.message) from None
    validator = kind(schema)

    def fault_of(value: Any) -> str:
        error = jsonschema.exceptions.best_match(validator.iter_errors(value))
        if error is None:
            return ""
        way = "".join(f"[{step!r}]" for step in error.absolute_path)
        return f"{way or 'the value'}: {error.message}"[:500]

    return fault_of
