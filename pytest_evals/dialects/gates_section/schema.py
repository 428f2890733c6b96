"""A JSON Schema of gates, for the schemas of task files."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pytest_evals.gates.read.keys import KEYS

Schema = dict[str, Any]


def gate_schema() -> Schema:
    """The schema of a gate: text, or a mapping."""
    keys = {name: described(key.schema, key.about) for name, key in KEYS.items()}
    short = {
        "type": "string",
        "description": "METRIC[,FILTER] >= NUMBER",
        "pattern": r"^[^<>=]+(>=|<=|>|<)\s*[-+]?[\d.][\d.eE+-]*\s*%?\s*$",
    }
    long = {"type": "object", "properties": keys, "additionalProperties": False}
    return {"anyOf": [short, long]}


def described(one: Mapping[str, Any], text: str) -> Schema:
    """A schema with another description."""
    return {"description": text, **{k: v for k, v in one.items() if k != "description"}}
