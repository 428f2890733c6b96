"""The keys of a gate: one table with the parser, the schema and the field of each.

Rules that involve several keys are in :mod:`pytest_evals.gates.read.entry`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from numbers import Integral
from typing import Any, Literal, NamedTuple, cast, get_args

from pytest_evals.core.gate import Bound, Every, Margin, Policy, Published, Scope
from pytest_evals.errors import suggestion, unknown_name
from pytest_evals.gates.check import CONDITIONS
from pytest_evals.gates.read.text import (
    ConditionError,
    fit_for_id,
    read_number,
    unfit_for_id,
)
from pytest_evals.gates.reducers import REDUCERS, is_reducer

MARGIN_KEYS = ("max_drop", "max_rise", "recovery")
PROTOCOL_KEYS = (
    "num_fewshot",
    "limit",
    "chat_template",
    "template",
    "filter",
    "choices",
)
"""Keys of ``reference``: how a published number was measured."""
_REFERENCE = "reference: {value: 0.742, num_fewshot: 5}"
ALLOWED = "allowed"
"""The value of ``missing``: scored documents may lack the metric."""
_IDS = "must_pass: [Mercury_7175875, 417]"
_EVERY = "every: 8 of 10"
_WHEN = "when: {dtype: bfloat16, device: cuda}"
_MOST_DOCUMENTS = 2**53
_OF = re.compile(r"(\d{1,6}) of (\d{1,6})", re.ASCII)


def _text(key: str, value: object) -> str:
    """A string; YAML parses a metric called 4096 as a number."""
    if isinstance(value, bool) or not isinstance(value, (str, int)):
        raise ConditionError(f"{key} must be text, not {value!r}", f'{key}: "…"')
    return str(value).strip()


def _id(key: str, value: object) -> str:
    own = _text(key, value)
    if not own:
        raise ConditionError("id is empty", "id: acc-floor")
    if unfit_for_id(own):
        what = f"id {own!r} has '::', a bracket, white space or a control character"
        raise ConditionError(what, f"id: {fit_for_id(own)}")
    return own


def _minimum(key: str, value: object) -> Bound:
    return Bound(">=", read_number(value, key))


def _maximum(key: str, value: object) -> Bound:
    return Bound("<=", read_number(value, key))


def _must_pass(key: str, value: object) -> tuple[str, ...]:
    """Ids of documents."""
    if isinstance(value, Mapping) and "share" in value:
        what = "must_pass has no key 'share'"
        raise ConditionError(what, "must_pass: [417], every: 8 of 10")
    if not isinstance(value, (list, tuple)) or not value:
        what = f"{key} must be a list of document ids, not {value!r}"
        raise ConditionError(what, _IDS)
    for one in value:
        if isinstance(one, bool) or not isinstance(one, (str, int)) or one == "":
            what = f"{one!r} in {key} is not a document id"
            raise ConditionError(what, f"quote it: {str(one)!r}" if one else _IDS)
    return tuple(dict.fromkeys(map(str, value)))


def _every(key: str, value: object) -> Every:
    """``8 of 10``: the required number of correct answers, and that of answers."""
    match = _OF.fullmatch(value.strip()) if isinstance(value, str) else None
    if match is None:
        raise ConditionError(
            f"{key} must be text such as 8 of 10, not {value!r}", _EVERY
        )
    least, n = int(match[1]), int(match[2])
    if not 0 < least <= n:
        what = f"{key}: {least} of {n} is not possible: expected 1 of {n} to {n} of {n}"
        raise ConditionError(what, _EVERY)
    return Every(least, n)


def _one_of(names: tuple[str, ...]) -> Callable[[str, object], str]:
    def parse(key: str, value: object) -> str:
        if value in names:
            return str(value)
        hint = suggestion(str(value), names)
        what = f"{key} cannot be {value!r}{hint}"
        raise ConditionError(what, f"{key}: {names[-1]}")

    return parse


def _confidence(key: str, value: object) -> float:
    confidence = float(read_number(value, key))
    if not 0.5 < confidence < 1:
        what = f"confidence must be between 0.5 and 1, not {value!r}"
        raise ConditionError(what, "confidence: 0.95")
    return confidence


def _flip_rate(key: str, value: object) -> float | Literal["auto", "none"]:
    """The fraction of documents that flip between two runs."""
    if value in ("auto", "none", None):
        return "auto" if value == "auto" else "none"
    rate = float(read_number(value, key))
    if not 0 <= rate <= 1:
        what = f"noise must be a share of documents from 0 to 1, not {value!r}"
        raise ConditionError(what, "noise: 0.035")
    return rate


def _baseline(key: str, value: object) -> str:
    if isinstance(value, bool) or not isinstance(value, (str, int)) or not str(value):
        what = f"baseline must be the name of a stored run, not {value!r}"
        raise ConditionError(what, "baseline: main")
    return str(value)


def _margin(key: str, value: object) -> Margin:
    number = read_number(value, key)
    name = cast("Literal['max_drop', 'max_rise', 'recovery']", key)
    percent = isinstance(value, str) and value.strip().endswith("%")
    if key == "recovery":
        if not 0 < number <= 1:
            what = "recovery must be above 0 and at most 1, a share of the baseline's "
            raise ConditionError(f"{what}value, not {value!r}", "recovery: 0.95")
        return Margin(name, number, relative=True)
    if number < 0:
        what = (
            f"{key} must be 0 or more, not {value!r}: it is the largest "
            f"{key.removeprefix('max_').split('_')[0]} allowed"
        )
        raise ConditionError(what, f"{key}: {-number}")
    return Margin(name, number, relative=percent)


def _reference(key: str, value: object) -> Published:
    """A published number, or a mapping with its ``value`` and how it was measured."""
    if not isinstance(value, Mapping):
        return Published(read_number(value, key))
    _known(key, value, ("value", *PROTOCOL_KEYS), _REFERENCE)
    if "value" not in value:
        raise ConditionError(f"{key} has no value", _REFERENCE)
    protocol = tuple((str(k), one) for k, one in value.items() if k != "value")
    return Published(read_number(value["value"], "value"), protocol=protocol)


def _reference_n(key: str, value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, Integral) or int(value) < 1:
        what = f"{key} must be the number of documents behind reference, not {value!r}"
        raise ConditionError(what, f"{key}: 1319")
    if int(value) > _MOST_DOCUMENTS:
        what = f"{key} is larger than 2**53: no data set has so many documents"
        raise ConditionError(what, f"{key}: 1319")
    return int(value)


def _range(key: str, value: object) -> tuple[float, float]:
    """The smallest and the largest possible score of a document."""
    example = f"{key}: [0, 10]"
    if not isinstance(value, (list, tuple)) or len(value) != 2:
        what = f"{key} must be the lowest and the highest score, not {value!r}"
        raise ConditionError(what, example)
    low, high = (float(read_number(one, key)) for one in value)
    if not low < high:
        raise ConditionError(f"{key} must ascend, and {value!r} does not", example)
    return low, high


def _largest_drop(key: str, value: object) -> float:
    """The largest loss of one document that is assumed to be possible."""
    number = float(read_number(value, key))
    if not number > 0:
        what = f"{key} must be above 0, not {value!r}: no document loses more"
        raise ConditionError(what, f"{key}: 0.5")
    return number


def _cluster(key: str, value: object) -> str:
    return _name(key, value, "passage_id")


def _family(key: str, value: object) -> str:
    return _name(key, value, "release") or "none"


def _reducer(key: str, value: object) -> str:
    name = _name(key, value, "mean")
    if name and not is_reducer(name):
        fix = "reducer: pass@4" if name.startswith("pass") else "reducer: mean"
        raise ConditionError(unknown_name("reducer", name, REDUCERS), fix)
    return name


def _name(key: str, value: object, example: str) -> str:
    """A name; empty for ``none``."""
    if value is None or value == "none":
        return ""
    if isinstance(value, bool) or not isinstance(value, (str, int)) or value == "":
        raise ConditionError(
            f"{key} must be a name, not {value!r}", f"{key}: {example}"
        )
    return str(value)


def _missing(key: str, value: object) -> bool:
    if value != ALLOWED:
        hint = suggestion(value, (ALLOWED,))
        raise ConditionError(f"{key} cannot be {value!r}{hint}", f"{key}: {ALLOWED}")
    return True


def _min_overlap(key: str, value: object) -> float:
    share = float(read_number(value, key))
    if not 0 <= share <= 1:
        what = f"{key} must be a share from 0 to 1, not {value!r}"
        raise ConditionError(what, f"{key}: 0.8")
    return share


def _advisory(key: str, value: object) -> bool:
    if not isinstance(value, bool):
        what = f"{key} must be true or false, not {value!r}"
        raise ConditionError(what, f"{key}: true")
    return value


def _when(key: str, value: object) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """The patterns of each condition, one of which must match."""
    if not isinstance(value, Mapping) or not value:
        raise ConditionError(
            f"{key} must be a mapping of conditions, not {value!r}", _WHEN
        )
    for name in value:
        if name not in CONDITIONS:
            hint = suggestion(name, CONDITIONS)
            raise ConditionError(f"{key} has no condition {name!r}{hint}", _WHEN)
    return tuple((str(name), _patterns(name, one)) for name, one in value.items())


def _model(key: str, value: object) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """The condition on the model."""
    return _when("when", {key: value})


def _patterns(name: object, value: object) -> tuple[str, ...]:
    every = value if isinstance(value, (list, tuple)) else [value]
    texts = [one.strip() for one in every if isinstance(one, str)]
    if not every or len(texts) < len(every) or not all(texts):
        what = f"when.{name} must be a string or a list of strings, not {value!r}"
        raise ConditionError(what, _WHEN if name != "gpu" else 'gpu: "*H100*"')
    return tuple(texts)


def _known(
    key: str, value: Mapping[object, object], names: tuple[str, ...], example: str
) -> None:
    for name in value:
        if name not in names:
            hint = suggestion(str(name), names)
            raise ConditionError(f"{key} has no key {name!r}{hint}", example)


class GateKey(NamedTuple):
    """A key of a gate.

    Args:
        parse: Takes the key and its value, returns the parsed value. Raises
            :class:`~pytest_evals.gates.read.text.ConditionError`.
        schema: JSON schema of the value.
        about: Description for editors.
        field: The field of the gate with the parsed value; empty if
            :mod:`pytest_evals.gates.read.entry` combines it with other keys.
        is_condition: Whether a gate with this key needs neither ``min`` nor ``max``.
    """

    parse: Callable[[str, object], Any]
    schema: Mapping[str, Any]
    about: str
    field: str = ""
    is_condition: bool = False


_NUMBER = {"type": ["number", "string"]}
_NAME = {"type": ["string", "integer"]}
_STRING = {"type": "string"}


def _object(properties: Mapping[str, Any], **further: Any) -> Mapping[str, Any]:
    schema = {"type": "object", "properties": properties}
    return {**schema, "additionalProperties": False, **further}


_PATTERN = {
    "anyOf": [_STRING, {"type": "array", "items": _STRING, "minItems": 1}],
}

KEYS: Mapping[str, GateKey] = {
    "metric": GateKey(_text, _NAME, "Name of the metric: acc, or exact_match,strict."),
    "min": GateKey(_minimum, _NUMBER, "Smallest value that passes."),
    "max": GateKey(_maximum, _NUMBER, "Largest value that passes."),
    "over": GateKey(
        _one_of(get_args(Scope)), {"enum": [*get_args(Scope)]}, "Inference target."
    ),
    "confidence": GateKey(
        _confidence, _NUMBER, "Of each confidence limit; default 0.95.", "confidence"
    ),
    "noise": GateKey(
        _flip_rate, _NUMBER, "Flip rate between two runs: a share, auto or none."
    ),
    "inconclusive": GateKey(
        _one_of(get_args(Policy)),
        {"enum": [*get_args(Policy)]},
        "Meaning of an inconclusive verdict.",
        "inconclusive",
    ),
    "baseline": GateKey(
        _baseline,
        _NAME,
        "Name of a stored run, or a model to run as reference.",
        is_condition=True,
    ),
    "max_drop": GateKey(
        _margin,
        _NUMBER,
        "Largest drop since the baseline: 0.02 or 2%.",
        is_condition=True,
    ),
    "max_rise": GateKey(
        _margin, _NUMBER, "Largest rise since the baseline.", is_condition=True
    ),
    "recovery": GateKey(
        _margin,
        _NUMBER,
        "Smallest share of the baseline's value: 0.95 or 95%.",
        is_condition=True,
    ),
    "reference": GateKey(
        _reference,
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
        is_condition=True,
    ),
    "reference_n": GateKey(
        _reference_n, {"type": "integer"}, "Documents behind the reference."
    ),
    "cluster": GateKey(
        _cluster, _NAME, "Field of the rows that clusters documents.", "cluster"
    ),
    "range": GateKey(
        _range,
        {"type": "array", "items": _NUMBER, "minItems": 2, "maxItems": 2},
        "Lowest and highest possible score of a document.",
        "range",
    ),
    "largest_drop": GateKey(
        _largest_drop,
        _NUMBER,
        "Assumption: no document's score drops by more since the baseline.",
        "largest_drop",
    ),
    "family": GateKey(
        _family,
        {"type": ["string", "null"]},
        "Gates that are corrected together for their number.",
        "family",
    ),
    "reducer": GateKey(
        _reducer, _STRING, "Several answers to one number: pass@k, …", "reducer"
    ),
    "missing": GateKey(
        _missing,
        {"const": ALLOWED},
        "allowed: scored documents may lack the metric.",
        "allows_missing",
    ),
    "min_overlap": GateKey(
        _min_overlap,
        _NUMBER,
        "Share of the baseline's documents that must be left to compare: 0.8.",
        "min_overlap",
    ),
    "advisory": GateKey(
        _advisory,
        {"type": "boolean"},
        "true: it is judged and shown, and never fails the session.",
        "advisory",
    ),
    "when": GateKey(
        _when,
        _object(dict.fromkeys(CONDITIONS, _PATTERN), minProperties=1),
        "Model and machine on which it is judged: {dtype: bfloat16}.",
        "when",
    ),
    "model": GateKey(
        _model,
        _PATTERN,
        "Model on which it is judged, short for when: {model: …}: gpt2.",
    ),
    "must_pass": GateKey(
        _must_pass,
        {"type": "array", "items": _NAME, "minItems": 1},
        "Ids of documents that must be correct.",
        "must_pass",
        is_condition=True,
    ),
    "every": GateKey(
        _every,
        _NAME,
        "8 of 10: answers to each document that must be correct.",
        "every",
        is_condition=True,
    ),
    "id": GateKey(_id, _NAME, "Last part of its node id."),
    "task": GateKey(_text, _NAME, "The task or group, in gates.yaml."),
}
"""The keys of a gate, for the reader and for the schema of task files."""
