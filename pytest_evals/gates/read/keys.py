"""The keys of a gate: one table with the parser, the schema and the field of each.

Rules that involve several keys are in :mod:`pytest_evals.gates.read.entry`.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, NamedTuple, get_args

from pytest_evals.core.gate import Policy, Scope
from pytest_evals.gates.check import CONDITIONS
from pytest_evals.gates.read import values
from pytest_evals.gates.read.text import read_number
from pytest_evals.gates.read.values import PROTOCOL_KEYS, SIDES, Parser, read_tolerance

MARGIN_KEYS = ("max_drop", "max_rise", "recovery")
ALLOWED = "allowed"  # the value of missing: scored documents may lack the metric


class GateKey(NamedTuple):
    """A key of a gate."""

    parse: Parser  # its parser
    schema: Mapping[str, Any]  # JSON schema of the value
    about: str  # description for editors
    is_field: bool = False
    """Whether the parsed value is a field of the gate; otherwise
    :mod:`pytest_evals.gates.read.entry` combines it with other keys."""
    is_condition: bool = False  # whether a gate with this key needs neither min nor max


_field = partial(GateKey, is_field=True)
_condition = partial(GateKey, is_condition=True)
_document = partial(GateKey, is_field=True, is_condition=True)


_NUMBER = {"type": ["number", "string"]}
_NAME = {"type": ["string", "integer"]}
_STRING = {"type": "string"}


def _object(properties: Mapping[str, Any], **further: Any) -> Mapping[str, Any]:
    schema = {"type": "object", "properties": properties}
    return {**schema, "additionalProperties": False, **further}


_PATTERN = {"anyOf": [_STRING, {"type": "array", "items": _STRING, "minItems": 1}]}

KEYS: Mapping[str, GateKey] = {
    "metric": GateKey(
        values.text, _NAME, "Name of the metric: acc, or exact_match,strict."
    ),
    "min": GateKey(values.bound(">="), _NUMBER, "Smallest value that passes."),
    "max": GateKey(values.bound("<="), _NUMBER, "Largest value that passes."),
    "value": _condition(
        lambda key, value: read_number(value, key),
        _NUMBER,
        "Expected value, whose tolerance is the smallest value that passes.",
    ),
    "tolerance": _condition(
        read_tolerance,
        {"anyOf": [_NUMBER, _object(dict.fromkeys(SIDES, _NUMBER), minProperties=1)]},
        "Distance from value that passes: 8% of it, 0.08, or 8 points; below it, or "
        "{below: 4%, above: 10%}.",
    ),
    "over": GateKey(
        values.one_of(get_args(Scope)),
        {"enum": [*get_args(Scope)]},
        "Inference target.",
    ),
    "confidence": _field(
        values.number(lambda one: 0.5 < one < 1, "between 0.5 and 1", "0.95"),
        _NUMBER,
        "Of each confidence limit; default 0.95.",
    ),
    "noise": GateKey(
        values.flip_rate, _NUMBER, "Flip rate between two runs: a share, auto or none."
    ),
    "inconclusive": _field(
        values.one_of(get_args(Policy)),
        {"enum": [*get_args(Policy)]},
        "Meaning of an inconclusive verdict.",
    ),
    "baseline": _condition(
        values.baseline, _NAME, "Name of a stored run, or a model to run as reference."
    ),
    "max_drop": _condition(
        values.margin, _NUMBER, "Largest drop since the baseline: 0.02 or 2%."
    ),
    "max_rise": _condition(values.margin, _NUMBER, "Largest rise since the baseline."),
    "recovery": _condition(
        values.margin, _NUMBER, "Smallest share of the baseline's value: 0.95 or 95%."
    ),
    "reference": _condition(
        values.reference,
        {
            "anyOf": [
                _NUMBER,
                _object(
                    {"value": _NUMBER, **{key: {} for key in PROTOCOL_KEYS}},
                    required=["value"],
                ),
            ]
        },
        "A published number that max_drop is relative to.",
    ),
    "reference_n": GateKey(
        values.reference_n, {"type": "integer"}, "Documents behind the reference."
    ),
    "cluster": _field(
        values.name("passage_id"), _NAME, "Field of the rows that clusters documents."
    ),
    "range": _field(
        values.score_range,
        {"type": "array", "items": _NUMBER, "minItems": 2, "maxItems": 2},
        "Lowest and highest possible score of a document.",
    ),
    "largest_drop": _field(
        values.number(lambda one: one > 0, "above 0", "0.5"),
        _NUMBER,
        "Assumption: no document's score drops by more since the baseline.",
    ),
    "family": _field(
        lambda key, value: values.name("release")(key, value) or "none",
        {"type": ["string", "null"]},
        "Gates that are corrected together for their number.",
    ),
    "reducer": _field(
        values.reducer, _STRING, "Several answers to one number: pass@k, …"
    ),
    "missing": GateKey(
        lambda key, value: bool(values.one_of((ALLOWED,))(key, value)),
        {"const": ALLOWED},
        "allowed: scored documents may lack the metric.",
    ),
    "min_overlap": _field(
        values.number(lambda one: 0 <= one <= 1, "a share from 0 to 1", "0.8"),
        _NUMBER,
        "Share of the baseline's documents that must be left to compare: 0.8.",
    ),
    "advisory": _field(
        values.flag,
        {"type": "boolean"},
        "true: it is judged and shown, and never fails the session.",
    ),
    "when": _field(
        values.when,
        _object(dict.fromkeys(CONDITIONS, _PATTERN), minProperties=1),
        "Model and machine on which it is judged: {dtype: bfloat16}.",
    ),
    "model": GateKey(
        values.model,
        _PATTERN,
        "Model on which it is judged, short for when: {model: …}: gpt2.",
    ),
    "variant": GateKey(
        values.model, _PATTERN, "Variant of an eval's prompt that it judges: short."
    ),
    "must_pass": _document(
        values.must_pass,
        {"type": "array", "items": _NAME, "minItems": 1},
        "Ids of documents that must be correct.",
    ),
    "every": _document(
        values.every, _NAME, "8 of 10: answers to each document that must be correct."
    ),
    "id": GateKey(values.gate_id, _NAME, "Last part of its node id."),
    "task": GateKey(values.text, _NAME, "The task or group, in gates.yaml."),
}
"""The keys of a gate, for the reader and for the schema of task files."""
