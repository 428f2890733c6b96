"""A JSON Schema of evals in YAML; ``docs/eval.schema.json`` is its text."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from inspect import signature
from typing import Any

from pytest_evals.core.reasoning import REFUSALS
from pytest_evals.core.task import MOST_REPEATS
from pytest_evals.dialects.gates_section.schema import described, gate_schema
from pytest_evals.dialects.native.choices import WAYS
from pytest_evals.dialects.native.scorers import SCORERS

Schema = dict[str, Any]
_TEXT: Schema = {"type": "string"}
_TYPES: dict[str, Schema] = {
    "bool": {"type": "boolean"},
    "float": {"type": "number"},
    "int": {"type": "integer"},
    "str": _TEXT,
    "Sequence[str]": {"type": "array", "items": _TEXT},
}
"""Annotation of a scorer's argument → schema; other arguments take any value."""
_MESSAGE: Schema = {
    "type": "object",
    "properties": {
        "role": {"enum": ["system", "user", "assistant"]},
        "content": _TEXT,
    },
    "required": ["role", "content"],
    "additionalProperties": False,
}


def schema() -> Schema:
    """The schema of a file."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "An eval of pytest-model-evals",
        "type": "object",
        "required": ["prompt"],
        "oneOf": [{"required": ["rows"]}, {"required": ["dataset"]}],
        "properties": {key: described(one, text) for key, one, text in _keys()},
        "additionalProperties": False,
        "$defs": {"gate": gate_schema(), "scorer": _scorer()},
    }


def schema_text() -> str:
    """The schema as JSON text."""
    return json.dumps(schema(), indent=2, ensure_ascii=False) + "\n"


def _keys() -> Iterator[tuple[str, Schema, str]]:
    """Each key of a file, its schema and its meaning."""
    texts = {"type": "array", "items": _TEXT}
    scorer = {"$ref": "#/$defs/scorer"}
    yield "task", _TEXT, "Name, unique in a session; by default the file's name."
    yield "description", _TEXT, "For readers; not sent to the model."
    yield (
        "prompt",
        {"anyOf": [_TEXT, {"type": "array", "items": _MESSAGE, "minItems": 1}]},
        "Template over the row's values, or the messages of a chat.",
    )
    yield "system", _TEXT, "System message before each prompt."
    yield (
        "rows",
        {"type": "array", "items": {"type": "object"}, "minItems": 1},
        "The cases: mappings of names to values.",
    )
    yield (
        "dataset",
        {
            "anyOf": [
                _TEXT,
                {
                    "type": "object",
                    "properties": {
                        "path": _TEXT,
                        "name": _TEXT,
                        "split": _TEXT,
                        "revision": _TEXT,
                    },
                    "required": ["path"],
                    "additionalProperties": False,
                },
            ]
        },
        "A JSON, CSV, Parquet or Arrow file, or a dataset of the Hugging Face Hub.",
    )
    yield "id", _TEXT, "Column with the cases' ids."
    yield "target", {}, "Template or column; by default the column target."
    yield (
        "choices",
        {"anyOf": [_TEXT, {"type": "array", "minItems": 2}]},
        "Template, column or list: the target is the text, the letter or the index of "
        "one.",
    )
    ways = {"enum": [*WAYS]}
    yield "choices_by", ways, "How choices are answered. Default: loglikelihood."
    yield (
        "score",
        {"anyOf": [scorer, {"type": "array", "items": scorer, "minItems": 1}]},
        "Scorers. The first decides whether a case is correct. Default: exact.",
    )
    yield (
        "generation",
        {"type": "object"},
        "max_tokens, temperature, stop, top_p and other sampling options.",
    )
    repeats = {"type": "integer", "minimum": 1, "maximum": MOST_REPEATS}
    yield "repeats", repeats, "Answers to each prompt."
    ways = {"enum": [*REFUSALS]}
    yield "refusals", ways, "What a refusal of the model is. Default: error."
    yield "model", _TEXT, "Spec of the model if the session has no --model."
    yield (
        "gates",
        {"type": "array", "items": {"$ref": "#/$defs/gate"}},
        "Conditions that metrics must meet.",
    )
    yield "tags", {"anyOf": [_TEXT, texts]}, "Names for --evals-tasks and -m."
    yield "version", {"type": ["string", "number"]}, "Version of the eval."
    yield "metadata", {"type": "object"}, "Kept in results files."


def _scorer() -> Schema:
    """A name, or a name with arguments."""
    named = {
        name: {"anyOf": [_bare(make, bare), _arguments(make)]}
        if bare
        else _arguments(make)
        for name, (make, bare) in SCORERS.items()
    }
    return {
        "anyOf": [
            {"enum": [*SCORERS]},
            {
                "type": "object",
                "properties": {**named, "not": {"$ref": "#/$defs/scorer"}},
                "additionalProperties": False,
                "minProperties": 1,
                "maxProperties": 1,
            },
        ]
    }


def _bare(make: Callable[..., Any], argument: str) -> Schema:
    return _type(str(signature(make).parameters[argument].annotation))


def _arguments(make: Callable[..., Any]) -> Schema:
    parameters = signature(make).parameters
    return {
        "type": ["object", "null"],
        "properties": {
            name: _type(str(one.annotation)) for name, one in parameters.items()
        },
        "additionalProperties": False,
    }


def _type(annotation: str) -> Schema:
    parts = [one.strip() for one in annotation.split("|")]
    known = [_TYPES[one] for one in parts if one in _TYPES]
    return dict(known[0]) if len(known) == 1 and {*parts} <= {*_TYPES, "None"} else {}


if __name__ == "__main__":
    sys.stdout.write(schema_text())
