"""Which kind of eval file the keys of a file resemble, if it is none.

A file is an error if it has at least two keys of ours with values of the right type,
one of them rare in other programs' files (``gates`` is one), and if the missing key is
misspelt or gates would be lost. Weaker resemblance is a warning.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pytest_evals.dialects.detect import EVAL_KEYS, OWN_KEYS, TASK_KEYS
from pytest_evals.errors import nearest
from pytest_evals.gates.read.keys import KEYS

_Test = Callable[[Any], bool]


def _text(pattern: str = ".") -> _Test:
    """Return a test for a text that contains a pattern."""
    return lambda value: isinstance(value, str) and bool(re.search(pattern, value))


def _mapping(*keys: str) -> _Test:
    """Return a test for a mapping with one of these keys, or any."""
    return lambda value: (
        isinstance(value, dict) and (not keys or bool({*keys} & value.keys()))
    )


def _list(*keys: str) -> _Test:
    """Return a test for a list of mappings, one of them with one of these keys."""
    is_any, has_key = _mapping(), _mapping(*keys)
    return lambda value: (
        isinstance(value, list) and all(map(is_any, value)) and any(map(has_key, value))
    )


def _any(*tests: _Test) -> _Test:
    return lambda value: any(test(value) for test in tests)


def _always(value: Any) -> bool:
    return True


_NAMED = _any(_text(), lambda value: isinstance(value, list) and bool(value))
"""A name or a list."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileKind:
    """A kind of file, with tests of the values of its keys."""

    label: str
    needs: Mapping[tuple[str, ...], str]
    """The keys that make one, one of each group, with an example of the first."""
    rare: Mapping[str, _Test]  # keys that are rare in other programs' files
    common: Mapping[str, _Test]
    known: Collection[str] = ()  # all its keys
    names: tuple[str, ...] = ()
    """With one of these and a key of ``pairs``, a file without unknown keys is one."""
    pairs: Collection[str] = ()
    enough: int = 1
    """Number of keys with the right values, one of them rare, for a warning."""


EVAL = FileKind(
    label="an eval",
    needs={
        ("prompt",): 'prompt: "{{{{question}}}}"',
        ("rows", "dataset"): 'rows: [{{question: "2 + 2", target: "4"}}]',
    },
    rare={"prompt": _any(_text(r"\{\{"), _list("role")), "rows": _list()},
    common={
        "prompt": _text(),
        "dataset": _any(_text(r"\.(jsonl?|[ct]sv|parquet|arrow)$"), _mapping("path")),
        "score": lambda value: (
            _NAMED(value) or (isinstance(value, dict) and len(value) == 1)
        ),
        "choices_by": _text(),
    },
    known=EVAL_KEYS,
    names=("prompt", "score"),
    pairs=("prompt", "rows", "dataset", "score"),
    enough=3,
)
_COMMON = (
    dict.fromkeys([key for key in TASK_KEYS if "_" in key], _always)
    | dict.fromkeys(("task", "dataset_path"), _text())
    | {
        "output_type": _text("^(generate_until|loglikelihood|multiple_choice)"),
        "include": lambda value: ".y" in str(value),
    }
)
_LM_EVAL = {*TASK_KEYS, *OWN_KEYS, *_COMMON, "tasks", "group", "group_alias", "gates"}
TASK = FileKind(
    label="a task file of lm-eval",
    needs={
        ("task",): "task: {}",
        (
            *("dataset_path", "custom_dataset", "include", "output_type", "class"),
        ): "dataset_path: json",
    },
    rare=dict.fromkeys(OWN_KEYS, _always)
    | dict.fromkeys(("metric_list", "aggregate_metric_list"), _list("metric")),
    common=_COMMON,
    known=_LM_EVAL,
    names=("task",),
    pairs=_LM_EVAL - {"description", "metadata"},
    enough=2,
)
GROUP = FileKind(
    label="a group file of lm-eval",
    needs={("group",): "group: {}", ("task",): "task: [first_task, second_task]"},
    rare={"aggregate_metric_list": _list("metric")},
    common={"group": _NAMED, "task": _NAMED, "group_alias": _text()},
    known=_LM_EVAL,
    names=("group",),
    pairs=("group", "task", "tasks", "group_alias", *OWN_KEYS),
)
_LATTICEFLOW = FileKind(
    label="a file of LatticeFlow",
    needs={
        ("definition", "evaluation"): "definition: {{solver: …, scorers: […]}}",
        ("key", "display_name"): "key: {}",
    },
    rare={
        "definition": _mapping("solver", "scorers"),
        "evaluation": _mapping("task_specifications"),
    },
    common=dict.fromkeys(("key", "display_name", "description"), _text()),
)
UNKNOWN, _MISSING = object(), object()
"""The value of a key in a file that cannot be parsed; of a key that is not there."""


@dataclass(frozen=True, slots=True)
class Resemblance:
    """A resemblance."""

    kind: FileKind | None  # None for a gates file
    is_error: bool
    n_keys: int
    missing: Mapping[tuple[str, ...], tuple[str, str]]
    """Group of keys, one of which is missing → that key and its misspelt form, or the
    first key and an empty text."""

    def __str__(self) -> str:
        return self.kind.label if self.kind else "a gates file"


def resemblance(values: Mapping[Any, Any]) -> Resemblance | None:
    """Return the kind of file that the keys resemble, or ``None``."""
    kinds = (_to(kind, values) for kind in (EVAL, TASK, GROUP, _LATTICEFLOW))
    if found := [*filter(None, kinds)]:
        return max(found, key=lambda one: (one.is_error, one.n_keys))
    if not _lists_gates(values):
        return None
    return Resemblance(None, is_error=False, n_keys=1, missing={})


def _to(kind: FileKind, values: Mapping[Any, Any]) -> Resemblance | None:
    gates, missing = has_gates(values), _missing(kind, values)
    misspelt = {key: near for key, near in missing.values() if near}

    def fitting(tests: Mapping[str, _Test]) -> set[str]:
        found = {k: value_of(values, misspelt.get(k, k), _MISSING) for k in tests}
        there = {k: value for k, value in found.items() if value is not _MISSING}
        return {k for k, one in there.items() if one is UNKNOWN or tests[k](one)}

    rare = fitting(kind.rare)
    fits = rare | fitting(kind.common)
    is_ours = rare or (gates and kind is not _LATTICEFLOW)
    is_lost = gates or not missing or misspelt.keys() & fits
    n_keys = len(fits) + gates
    is_error = bool(n_keys > 1 and is_ours and is_lost)
    keys = {str(key).casefold() for key in values} | misspelt.keys()
    is_named = fits & {*kind.names} and len(keys & {*kind.pairs}) > 1
    if not (
        is_error
        or (rare and len(fits) >= kind.enough)
        or (is_named and all(nearest(key, kind.known) for key in keys))
    ):
        return None
    return Resemblance(kind, is_error, n_keys, missing)


def _missing(
    kind: FileKind, values: Mapping[Any, Any]
) -> dict[tuple[str, ...], tuple[str, str]]:
    known = EVAL_KEYS if kind is EVAL else (*TASK_KEYS, *kind.rare, *kind.common)
    others = [str(key) for key in values if key not in known]
    found = {}
    for group in kind.needs:
        if not any(key in values for key in group):
            alike = _SYNONYMS if kind is EVAL and "score" in values else {}
            near = {
                key: next((one for one in others if one.casefold().strip() == key), "")
                or nearest(key, others, _LEAST)
                or next((one for one in others if one in alike.get(key, ())), "")
                for key in group
            }
            written = ((key, one) for key, one in near.items() if one)
            found[group] = next(written, (group[0], ""))
    return found


_SYNONYMS: Mapping[str, tuple[str, ...]] = {
    "prompt": ("messages", "question", "template"),
    "rows": ("cases", "data", "examples", "samples", "tests"),
}
"""Key of an eval → its names in other programs."""
_DEPTH = 4
"""Levels of mappings and lists that are searched; aliases can nest without end."""
_LEAST = 0.7  # least similarity of a misspelt key


def value_of(values: object, name: str, default: Any = None) -> Any:
    """Return the value of a key, ignoring case."""
    pairs = values if isinstance(values, Mapping) else {}
    alike = (pairs[key] for key in pairs if str(key).casefold() == name.casefold())
    return pairs[name] if name in pairs else next(alike, default)


def are_gates(value: object) -> bool:
    """Whether a value is a gate or a list with one."""
    return any(
        "must_pass" in one
        or ("metric" in one and bool(one.keys() & (KEYS.keys() - _NAMES)))
        if isinstance(one, dict)
        else isinstance(one, str) and _GATE.search(one) is not None
        for one in (value if isinstance(value, list) else [value])
    )


_GATE = re.compile(r"[<>≤≥]=?\s*-?[\d.]|=>|must_pass")
GATE_TEXT = re.compile(_GATE.pattern + r"|\bmetric\b")
_NAMES = {"metric", "id", "task"}


def has_gates(values: Mapping[Any, Any]) -> bool:
    """Whether a file has gates, at its top or anywhere in its metadata; the key may be
    misspelt."""
    below = inner([value_of(values, "metadata")])
    return _lists_gates(values) or any(_lists_gates(one) for _, one in below)


def _lists_gates(values: Mapping[Any, Any]) -> bool:
    return any(_is_for_gates(key) and are_gates(one) for key, one in values.items())


def _is_for_gates(key: object) -> bool:
    name = str(key).casefold()
    return "gate" in name or bool(nearest("gates", [name], _LEAST))


def misplaced_gates(values: Mapping[Any, Any]) -> Iterator[str]:
    """Yield the outermost keys of lists of gates that nothing reads, because they are
    in another key than the metadata or a group's members."""
    for key, one in inner(values):
        lists = (
            value
            for name, value in one.items()
            if isinstance(value, list) and "gate" in str(name).casefold()
        )
        if key not in ("gates", "metadata", "task") and any(map(are_gates, lists)):
            yield key


def inner(
    values: Any, outer: str = "", depth: int = _DEPTH
) -> Iterator[tuple[str, dict[Any, Any]]]:
    """Yield the mappings inside of a mapping or a list, with the outermost key."""
    is_list = isinstance(values, list)
    for key, value in (("", one) for one in values) if is_list else values.items():
        name = outer or str(key)
        if isinstance(value, dict):
            yield name, value
        if isinstance(value, dict | list) and depth > 1:
            yield from inner(value, name, depth - 1)
