"""``generation_grammar``: a JSON schema or regular expression that constrains answers,
in huggingface_hub's format."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pytest_evals.errors import EvalsError


@dataclass
class TextGenerationInputGrammarType:
    """huggingface_hub's class of that name.

    Args:
        type: ``json``, ``json_schema`` or ``regex``.
        value: A schema or a regular expression.
    """

    type: str
    value: Any


def grammar_text(given: Any) -> str:
    """A grammar serialized for the request option ``GRAMMAR``."""
    fields = given if isinstance(given, Mapping) else getattr(given, "__dict__", {})
    kind, value = fields.get("type"), fields.get("value")
    if kind in ("json", "json_schema") and isinstance(value, str):
        value = _read(value)
    if kind in ("json", "json_schema") and isinstance(value, Mapping):
        return json.dumps({"type": "json", "value": value}, sort_keys=True)
    if kind == "regex" and isinstance(value, str):
        return json.dumps({"type": "regex", "value": _compiled(value)})
    raise EvalsError(
        "generation_grammar must have a type (json or regex) and a value (the schema "
        f"or the expression), not {given!r:.120}"
    )


def _read(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise EvalsError(
            f"generation_grammar is not valid JSON: {text!r:.120}"
        ) from None


def _compiled(text: str) -> str:
    try:
        re.compile(text)
    except re.error as error:
        raise EvalsError(
            f"invalid regular expression in generation_grammar ({error}): {text!r:.120}"
        ) from None
    return text
