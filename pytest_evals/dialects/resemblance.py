"""Which kind of eval file the keys of a file resemble, if it is none.

A file is an error if it has at least two keys of ours with values of the right type,
one of them rare in other programs' files (``gates`` is one), and if the missing key is
misspelt or gates would be lost. Weaker resemblance is a warning.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pytest_evals.dialects.detect import EVAL_KEYS, OWN_KEYS, TASK_KEYS
from pytest_evals.errors import nearest
from pytest_evals.gates.read.keys import KEYS

_Test = Callable[[Any], bool]


def _text(pattern: str = "") -> _Test:
    """Return a test for a text that contains a pattern."""
    return lambda value: isinstance(value, str) and bool(re.search(pattern, value))


def _list(*keys: str) -> _Test:
    """Return a test for a list of mappings that have one of these keys, or any."""
    return lambda value: (
        isinstance(value, list)
        and bool(value)
        and all(isinstance(one, dict) for one in value)
        and (not keys or any({*keys} & one.keys() for one in value))
    )


def _mapping(*keys: str) -> _Test:
    """Return a test for a mapping with one of these keys."""
    return lambda value: isinstance(value, dict) and bool({*keys} & value.keys())


def _any(*tests: _Test) -> _Test:
    return lambda value: any(test(value) for test in tests)


_NAMED = _any(_text("."), lambda value: isinstance(value, list) and bool(value))
"""A name or a list."""


@dataclass(frozen=True, slots=True)
class FileKind:
    """A kind of file: the keys that make one, one of each group, with an example of the
    first; and tests of values, of keys that are rare in other programs' files, and of
    further ones."""

    label: str
    needs: Mapping[tuple[str, ...], str]
    rare: Mapping[str, _Test]
    common: Mapping[str, _Test]


EVAL = FileKind(
    "an eval",
    {
        ("prompt",): 'prompt: "{{{{question}}}}"',
        ("rows", "dataset"): 'rows: [{{question: "2 + 2", target: "4"}}]',
    },
    {"prompt": _any(_text(r"\{\{"), _list("role")), "rows": _list()},
    {
        "prompt": _text("."),
        "dataset": _any(_text(r"\.(jsonl?|[ct]sv|parquet|arrow)$"), _mapping("path")),
        "score": _any(
            _NAMED, lambda value: isinstance(value, dict) and len(value) == 1
        ),
        "choices_by": _text("."),
    },
)
TASK = FileKind(
    "a task file of lm-eval",
    {
        ("task",): "task: {}",
        (
            *("dataset_path", "custom_dataset", "include", "output_type", "class"),
        ): "dataset_path: json",
    },
    dict.fromkeys(OWN_KEYS, lambda _: True)
    | dict.fromkeys(("metric_list", "aggregate_metric_list"), _list("metric")),
    dict.fromkeys([key for key in TASK_KEYS if "_" in key], lambda _: True)
    | dict.fromkeys(("task", "dataset_path"), _text("."))
    | {
        "output_type": _text("^(generate_until|loglikelihood|multiple_choice)"),
        "include": lambda value: ".y" in str(value),
    },
)
GROUP = FileKind(
    "a group file of lm-eval",
    {("group",): "group: {}", ("task",): "task: [first_task, second_task]"},
    {"aggregate_metric_list": _list("metric")},
    {"group": _text("."), "task": _NAMED, "group_alias": _text(".")},
)
_LATTICEFLOW = FileKind(
    "a file of LatticeFlow",
    {
        ("definition", "evaluation"): "definition: {{solver: …, scorers: […]}}",
        ("key", "display_name"): "key: {}",
    },
    {
        "definition": _mapping("solver", "scorers"),
        "evaluation": _mapping("task_specifications"),
    },
    dict.fromkeys(("key", "display_name", "description"), _text(".")),
)
_KINDS = (EVAL, TASK, GROUP, _LATTICEFLOW)
UNKNOWN, _MISSING = object(), object()
"""The value of a key in a file that cannot be parsed; of a key that is not there."""


@dataclass(frozen=True, slots=True)
class Resemblance:
    """A resemblance: the kind of file, ``None`` for a gates file, and misspelt keys by
    the key that is missing."""

    kind: FileKind | None
    misspelt: Mapping[str, str]
    is_error: bool

    def __str__(self) -> str:
        return self.kind.label if self.kind else "a gates file"


def resemblance(values: Mapping[Any, Any]) -> Resemblance | None:
    """Return the kind of file that the keys resemble, or ``None``."""
    found = [(n, one) for kind in _KINDS for n, one in _errors(kind, values)]
    if found:
        return max(found, key=lambda one: one[0])[1]
    kind = _weak_resemblance(values)
    if kind is None and not are_gates(value_of(values, "gates")):
        return None
    return Resemblance(kind, _misspelt(kind, values) if kind else {}, is_error=False)


def _errors(
    kind: FileKind, values: Mapping[Any, Any]
) -> Iterator[tuple[int, Resemblance]]:
    """Yield the resemblance to a kind of file, with the number of its keys, if the file
    cannot be another program's."""
    misspelt = _misspelt(kind, values)
    rare, common = _evidence(kind, values)
    gates = has_gates(values)
    n = len(rare | common) + gates
    is_ours = rare or (gates and kind is not _LATTICEFLOW)
    is_whole = all(any(key in values for key in group) for group in kind.needs)
    if n > 1 and is_ours and (gates or is_whole or misspelt.keys() & (rare | common)):
        yield n, Resemblance(kind, misspelt, is_error=True)


def _evidence(kind: FileKind, values: Mapping[Any, Any]) -> tuple[set[str], set[str]]:
    """Return the keys of this kind whose values fit: rare and common ones."""
    misspelt = _misspelt(kind, values)

    def fitting(tests: Mapping[str, _Test]) -> set[str]:
        return {
            k for k, test in tests.items() if _fits(values, misspelt.get(k, k), test)
        }

    return fitting(kind.rare), fitting(kind.common)


def _fits(values: Mapping[Any, Any], key: str, test: _Test) -> bool:
    value = value_of(values, key, _MISSING)
    return value is not _MISSING and (value is UNKNOWN or test(value))


def _misspelt(kind: FileKind, values: Mapping[Any, Any]) -> dict[str, str]:
    """Return the key that is written in place of each missing one."""
    known = {*EVAL_KEYS} if kind is EVAL else {*TASK_KEYS, *kind.rare, *kind.common}
    others = [str(key) for key in values if key not in known]
    found = {}
    for group in kind.needs:
        if any(key in values for key in group):
            continue
        for key in group:
            same = [one for one in others if one.casefold().strip() == key]
            if near := (same or [nearest(key, others, _LEAST)])[0]:
                found[key] = near
                break
    return found


_LEAST = 0.7
"""Least similarity of a misspelt key."""
_GENERAL = {"task", "description", "metadata"}
"""Keys that are not sufficient, because other programs' files have them too."""


def _weak_resemblance(values: Mapping[Any, Any]) -> FileKind | None:
    """Return the kind of an incomplete file, which may be another program's."""
    keys = {str(key).casefold() for key in values}
    rare, common = _evidence(TASK, values)
    known = {*TASK_KEYS, *TASK.common, *GROUP.common, "tasks", "gates"}
    is_lm_eval = all(nearest(key, known) for key in keys)
    if "aggregate_metric_list" in keys or ("group" in keys and rare):
        return GROUP
    if "group" in keys and keys & {"task", "tasks", "group_alias"} and is_lm_eval:
        return GROUP
    if rare and len(rare | common) > 1:
        return TASK
    if _fits(values, "task", _text(".")) and keys & known - _GENERAL and is_lm_eval:
        return TASK
    near = {nearest(key, EVAL_KEYS) for key in keys}
    main = near & {"prompt", "rows", "dataset", "score"}
    fits = any(_evidence(EVAL, values))
    if len(main) > 1 and main & {"prompt", "score"} and "" not in near and fits:
        return EVAL
    return _LATTICEFLOW if _evidence(_LATTICEFLOW, values)[0] else None


def listed(value: Any) -> list[Any]:
    """A list, or a list of the value."""
    return value if isinstance(value, list) else [value]


def value_of(values: object, name: str, default: Any = None) -> Any:
    """Return the value of a key, ignoring case."""
    pairs = values.items() if isinstance(values, Mapping) else ()
    exact = [value for key, value in pairs if key == name]
    alike = (v for key, v in pairs if str(key).casefold() == name.casefold())
    return exact[0] if exact else next(alike, default)


def are_gates(value: object) -> bool:
    """Whether a value is a gate or a list with one."""
    return any(
        "must_pass" in one
        or ("metric" in one and bool(one.keys() & (KEYS.keys() - _NAMES)))
        if isinstance(one, dict)
        else isinstance(one, str) and _GATE.search(one) is not None
        for one in listed(value)
    )


_GATE = re.compile(r"[<>≤≥]=?\s*-?[\d.]|=>|must_pass")
GATE_TEXT = re.compile(_GATE.pattern + r"|\bmetric\b")
_NAMES = {"metric", "id", "task"}


def has_gates(values: Mapping[Any, Any]) -> bool:
    """Whether a file has gates, at its top or in its metadata."""
    places = values, value_of(values, "metadata")
    return any(are_gates(value_of(place, "gates")) for place in places)
