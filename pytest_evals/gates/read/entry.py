"""Parse entries of ``gates:`` lists, and ``--evals-gate`` expressions.

Unknown keys and invalid values are errors with file and line. Whether the metric exists
is checked later, when the tasks are known.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from pytest_evals.core.gate import DOCUMENT_KEYS, Bound, Gate, Margin, Published, Scope
from pytest_evals.errors import (
    OptionError,
    Place,
    Problem,
    TaskFileError,
    did_you_mean,
    suggestion,
)
from pytest_evals.gates.read.keys import KEYS, MARGIN_KEYS
from pytest_evals.gates.read.text import (
    ConditionError,
    MissingKeyError,
    Subject,
    default_id,
    read_condition,
    split_subject,
)
from pytest_evals.gates.read.values import bounds_of

COMPARED: Mapping[str, tuple[float, float]] = {
    "agreement": (0.0, 1.0),
    "flips": (0.0, 1.0),
    "kl": (0.0, math.log(2)),
}
"""Metrics that compare two runs: agreement of answers, flips, divergence of choices;
and the range of a document's value. Larger divergences are capped."""
DEFAULTS = ("confidence", "inconclusive", "family")
"""Keys that a file of gates may set for all of its gates."""
NO_DEFAULTS: Mapping[object, object] = {}
_OWN_KEYS = ("id", "task", "when", "model", "variant")
_NOISE_KEYS = ("confidence", "noise", "inconclusive")
_CONDITIONS = tuple(name for name, key in KEYS.items() if key.is_condition)
_FIXES = {
    "filter": "metric: exact_match,strict-match",
    "op": "min: 0.75",
    "threshold": "min: 0.75",
    "anchor": "write a second gate, {metric: acc, baseline: v1, max_drop: 0.05}",
    "each": "write one gate for each task: {task: algebra, metric: acc, …}",
    "weights": "set weight_by_size in the aggregate_metric_list of the group",
    "group": "task: mmlu (a task or a group)",
    "reference_protocol": "reference: {value: 0.742, num_fewshot: 5}",
}
"""What to write instead of a key that other tools or earlier versions have."""
_OPTION = Place(Path("--evals-gate"))
_EXAMPLE = "{metric: acc, baseline: main, max_drop: 0.02}"
_DROP_EXAMPLE = "{metric: score, baseline: main, max_drop: 0.02, largest_drop: 0.5}"
Parsed = dict[str, Any]


def read_gate(
    entry: object,
    *,
    task: str,
    source: Place,
    defaults: Mapping[object, object] = NO_DEFAULTS,
) -> Gate:
    """Parse one entry of a ``gates:`` list.

    Args:
        entry: Text such as ``acc >= 0.75``, or a mapping.
        task: Name of the task that contains it; empty in a gates file, in which each
            gate names its own.
        defaults: Keys of :data:`DEFAULTS` for gates with an inference target.
    """
    try:
        if isinstance(entry, str):
            text, fields = entry.strip(), _of_text(entry, task)
        elif isinstance(entry, Mapping):
            fields = _of_mapping(_with(defaults, entry), task)
            text = _as_written(entry)
        else:
            message = "a gate must be text such as 'acc >= 0.75' or a mapping, not "
            raise ConditionError(f"{message}{entry!r}", "- acc >= 0.75")
        if not fields["task"]:
            message = f"gate {text!r} does not name its task"
            fix = f"gsm8k/{text}" if isinstance(entry, str) else "task: gsm8k"
            raise ConditionError(message, fix)
    except (ConditionError, _ManyErrors) as error:
        every = error.every if isinstance(error, _ManyErrors) else [error]
        problems = [Problem(one.message, source, one.fix) for one in every]
        raise TaskFileError(problems) from None
    return _gate(fields, text, source)


def read_defaults(
    entry: Mapping[object, object], source: Callable[[object], Place]
) -> dict[object, object]:
    """Parse the ``defaults`` of a file of gates. ``source`` returns file and line of
    one of its keys."""
    problems = []
    for key, value in entry.items():
        if key not in DEFAULTS:
            hint = suggestion(str(key), DEFAULTS)
            problems.append(Problem(f"defaults has no key {key!r}{hint}", source(key)))
            continue
        try:
            KEYS[str(key)].parse(str(key), value)
        except ConditionError as error:
            problems.append(Problem(error.message, source(key), error.fix))
    if problems:
        raise TaskFileError(problems)
    return {**entry}


def read_expression(text: str, source: Place = _OPTION) -> Gate:
    """Parse a gate in the short form, as in ``--evals-gate EXPR``.

    Without the prefix ``TASK/`` its task is empty: it applies to every task that has
    the metric, and the caller sets the name.

    Raises:
        OptionError: The expression is invalid.
    """
    try:
        return _gate(_of_text(text, ""), text.strip(), source)
    except ConditionError as error:
        raise OptionError(str(Problem(error.message, source, error.fix))) from None


class _ManyErrors(Exception):
    """Several problems of one entry."""

    def __init__(self, every: Sequence[ConditionError]) -> None:
        self.every = every


def _gate(fields: Parsed, text: str, source: Place) -> Gate:
    gate = Gate(**{"id": "", **fields}, text=text, source=source)
    return gate if gate.id else replace(gate, id=default_id(gate))


def _of_text(text: str, task: str) -> Parsed:
    subject, bound = read_condition(text)
    return {**split_subject(subject, task)._asdict(), "bounds": (bound,)}


def _with(
    defaults: Mapping[object, object], entry: Mapping[object, object]
) -> Mapping[object, object]:
    try:
        over = _over({key: entry[key] for key in entry if key in KEYS})
    except ConditionError:  # reported when the entry is read
        return entry
    return {**defaults, **entry} if over != "run" else entry


def _of_mapping(entry: Mapping[object, object], task: str) -> Parsed:
    _check_named(entry)
    errors = [*_key_errors(entry)]
    parsed: Parsed = {}
    for key, value in entry.items():
        if isinstance(key, str) and key in KEYS:
            try:
                parsed[key] = KEYS[key].parse(key, value)
            except ConditionError as error:
                errors.append(error)
    fields: Parsed = {k: value for k, value in parsed.items() if KEYS[k].is_field}
    fields["allows_missing"] = parsed.get("missing", False)
    for combine in (_subject, _when, _bounds, _expected, _compared, _noise, _assumed):
        try:
            # A key with an invalid value is present, so it is not reported as missing.
            fields.update(combine({**dict.fromkeys(map(str, entry)), **parsed}, task))
        except MissingKeyError as error:
            if not _misspelt(entry, error.keys):
                errors.append(error)
        except ConditionError as error:
            errors.append(error)
    if errors:
        raise _ManyErrors(errors)
    return fields


def _check_named(entry: Mapping[object, object]) -> None:
    """Refuse a metric as the key of its threshold or of the other keys."""
    for name, value in entry.items() if len(entry) == 1 else ():
        if name not in KEYS and isinstance(value, int | float | Mapping):
            meant = f"{name} >= {value}"
            if isinstance(value, Mapping):
                keys = ", ".join(f"{key}: {one}" for key, one in value.items())
                meant = f"{{metric: {name}, {keys}}}"
            raise ConditionError(f"a gate has no key {name!r}", meant)


def _subject(entry: Parsed, task: str) -> Parsed:
    named = entry.get("task") or ""
    if named and task and named != task:
        message = f"the gate names task {named!r} but belongs to task {task!r}"
        raise ConditionError(message, "leave 'task' out")
    fields: Parsed = {"task": named or task, "id": entry.get("id") or ""}
    if any(key in entry for key in DOCUMENT_KEYS):
        return fields
    metric = entry.get("metric")
    if not metric:
        if "metric" in entry and metric is None:  # reported by its parser
            return fields
        raise MissingKeyError("the gate names no metric", "metric: acc", ["metric"])
    return {**fields, **_subject_of(metric, named, task)._asdict()}


def _subject_of(metric: str, named: str, task: str) -> Subject:
    if not named:
        return split_subject(metric, task)
    # The task is named separately: a slash in the metric is part of its name, unless
    # the prefix repeats the task.
    name, comma, pipeline = metric.removeprefix(f"{named}/").partition(",")
    if not name or (comma and not pipeline):
        return split_subject(metric, named)
    return Subject(named, name.strip(), pipeline.strip())


def _when(entry: Parsed, _: str) -> Parsed:
    """The conditions on model, variant and machine."""
    when, conditions = entry.get("when") or (), ()
    for name in ("model", "variant"):
        if found := entry.get(name) or ():
            if any(key == name for key, _ in when):
                message = (
                    f"the gate names its {name} twice: {name}, and {name} below when"
                )
                raise ConditionError(message, "remove one of them")
            conditions = (*conditions, *found)
    return {"when": (*conditions, *when)} if conditions else {}


def _bounds(entry: Parsed, _: str) -> Parsed:
    conditions = ("min", "max", *_CONDITIONS)
    if not any(key in entry for key in conditions):
        raise MissingKeyError(
            "the gate has no condition: neither min nor max", "min: 0.75", conditions
        )
    bounds: list[Bound] = [*filter(None, (entry.get("min"), entry.get("max")))]
    if len(bounds) == 2 and bounds[0].value > bounds[1].value:
        message = f"no number is both {bounds[0]} and {bounds[1]}"
        raise ConditionError(message, "min must be at most max")
    return {"bounds": tuple(bounds)}


def _expected(entry: Parsed, _: str) -> Parsed:
    others = ("min", "max", *MARGIN_KEYS, "reference", "baseline")
    bounds = bounds_of(entry, others)
    return {"bounds": bounds, "expected": entry["value"]} if bounds else {}


def _compared(entry: Parsed, _: str) -> Parsed:
    """A baseline or a published number, with the allowed change."""
    margins = [key for key in MARGIN_KEYS if key in entry]
    if "reference" in entry:
        return _published(entry, margins)
    if "reference_n" in entry:
        raise ConditionError("reference_n needs a reference", "reference: 0.742")
    if "baseline" not in entry:
        if margins:
            message = f"{margins[0]} compares with a baseline: name one"
            raise ConditionError(message, "baseline: main")
        return {}
    bounds = [key for key in ("min", "max") if key in entry]
    if entry.get("metric") in COMPARED:
        if "range" in entry:
            message = f"the range of {entry['metric']} is known"
            raise ConditionError(message, "leave range out")
        if margins or not bounds:
            message = f"{entry['metric']} compares two runs: set min or max"
            raise ConditionError(
                message, "{metric: agreement, baseline: main, min: 0.98}"
            )
        return {"baseline": entry["baseline"]}
    if bounds:
        message = f"a baseline gate limits a change, and {bounds[0]} the number itself"
        raise ConditionError(message, f"write two entries, one of them {_EXAMPLE}")
    return {"baseline": entry["baseline"], "margin": _one_margin(entry, margins)}


def _published(entry: Parsed, margins: Sequence[str]) -> Parsed:
    example = "{metric: exact_match, reference: 0.742, reference_n: 1319, max_drop: 3%}"
    for key in ("baseline", "min", "max"):
        if key in entry:
            message = f"{key} cannot be combined with reference, a published number"
            raise ConditionError(message, example)
    published: Published | None = entry["reference"]
    if published is not None:
        published = published._replace(n=entry.get("reference_n"))
    return {"published": published, "margin": _one_margin(entry, margins)}


def _one_margin(entry: Parsed, margins: Sequence[str]) -> Margin | None:
    if len(margins) != 1:
        named = " and ".join(margins) if margins else "none of them"
        message = (
            f"a comparison needs one of {', '.join(MARGIN_KEYS)}; this has {named}"
        )
        raise ConditionError(message, _EXAMPLE)
    margin: Margin | None = entry[margins[0]]
    return margin


def _over(entry: Mapping[Any, Any]) -> Scope:
    """The inference target: as set, or by the other keys. ``confidence`` or ``noise``
    alone imply another run on the same documents; a baseline, a published number and a
    cluster imply other documents."""
    if entry.get("over") is not None:
        over: Scope = KEYS["over"].parse("over", entry["over"])
        return over
    compared = {"baseline", "reference"} & entry.keys()
    clustered = entry.get("cluster") not in (None, "", "none")
    if clustered or (compared and "noise" not in entry):
        return "population"
    return "benchmark" if {"confidence", "noise"} & entry.keys() else "run"


def _noise(entry: Parsed, _: str) -> Parsed:
    over = _over(entry)
    named = [key for key in _NOISE_KEYS if key in entry]
    if over == "run" and named:
        message = f"{named[0]} has no effect with over: run, which compares numbers"
        raise ConditionError(message, "over: population")
    if over == "population" and "noise" in entry:
        message = (
            "noise is that of another run, and over: population is about documents"
        )
        raise ConditionError(message, "over: benchmark")
    if over != "population" and entry.get("cluster"):
        message = f"cluster has no effect with over: {over}, which keeps the documents"
        raise ConditionError(message, "over: population")
    if over == "benchmark" and "reference" in entry:
        message = "a published number has the error of its documents"
        raise ConditionError(message, "over: population")
    noise = entry.get("noise", "auto")
    return {
        "over": over,
        "flip_rate": None if noise in ("auto", "none") else noise,
        "measured": noise == "auto",
        "names_target": bool({"over", "noise"} & entry.keys()),
    }


def _assumed(entry: Parsed, _: str) -> Parsed:
    """``largest_drop``: an assumption on the documents of a paired comparison."""
    largest = entry.get("largest_drop")
    if largest is None:
        return {}
    margin = entry.get("max_drop")
    if "baseline" not in entry or not {"max_drop", "recovery"} & entry.keys():
        message = "largest_drop is about drops since a baseline: it needs baseline and "
        raise ConditionError(f"{message}max_drop (or recovery)", _DROP_EXAMPLE)
    if _over(entry) != "population":
        message = f"largest_drop has no effect with over: {_over(entry)}"
        raise ConditionError(message, "over: population")
    if margin is not None and not margin.relative and float(margin.value) >= largest:
        message = (
            f"largest_drop {largest:g} is not above max_drop {margin.value}: the gate "
        )
        raise ConditionError(f"{message}would pass by assumption alone", _DROP_EXAMPLE)
    return {}


def _misspelt(entry: Mapping[object, object], keys: Sequence[str]) -> bool:
    """Whether an unknown key is most similar to one of some keys."""
    meant = {did_you_mean(key, [key]) for key in keys}
    return any(did_you_mean(str(k), [*KEYS]) in meant for k in entry if k not in KEYS)


def _key_errors(entry: Mapping[object, object]) -> Iterator[ConditionError]:
    """Unknown keys, and keys that a gate on documents cannot have."""
    names = [key if isinstance(key, str) else repr(key) for key in entry]
    for name in names:
        if name not in KEYS:
            fix = _FIXES.get(name, "")
            hint = "" if fix else suggestion(name, KEYS)
            yield ConditionError(f"a gate has no key {name!r}{hint}", fix)
    document_keys = [name for name in names if name in DOCUMENT_KEYS]
    others = {*names} & {*KEYS} - {*DOCUMENT_KEYS, *_OWN_KEYS}
    if document_keys and others:
        message = (
            f"{document_keys[0]} cannot be combined with other conditions in one gate"
        )
        yield ConditionError(message, "write two entries")


def _as_written(entry: Mapping[object, object]) -> str:
    """The mapping on one line, as in YAML."""
    return "{" + ", ".join(f"{k}: {_shown(v)}" for k, v in entry.items()) + "}"


def _shown(value: object) -> str:
    if isinstance(value, Mapping):
        return _as_written(value)
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(_shown(one) for one in value) + "]"
    return value if isinstance(value, str) and value.isprintable() else repr(value)
