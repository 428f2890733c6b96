"""Explains why files that resemble eval files are not read as such.

The gates of a file that is silently ignored would be lost. Most YAML files of a
repository are unrelated, so a file is parsed only if it contains keys that are rare
elsewhere.
"""

from __future__ import annotations

import codecs
import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from pytest_evals.dialects.detect import (
    FOREIGN_KEYS,
    GATES_FILES,
    YAML_SUFFIXES,
    dialect,
    may_be_misnamed,
    may_look_alike,
    raw_of,
)
from pytest_evals.dialects.resemblance import (
    EVAL,
    GATE_TEXT,
    GROUP,
    TASK,
    UNKNOWN,
    FileKind,
    Resemblance,
    has_gates,
    listed,
    resemblance,
)
from pytest_evals.dialects.yaml_reader.yaml_file import YamlFile, read_yaml
from pytest_evals.errors import Place, Problem, TaskFileError


class Lookalike(NamedTuple):
    """Why a file is not read; whether it can only be ours, or may be another
    program's."""

    problem: Problem
    is_error: bool


def lookalike(path: Path, raw: bytes) -> Lookalike | None:
    """Return why a file that resembles an eval file is not read as one.

    Returns:
        ``None`` if it does not resemble one.
    """
    if path.suffix not in YAML_SUFFIXES:
        problem = _misnamed(path, raw)
        return Lookalike(problem, is_error=False) if problem else None
    if dialect(raw) is not None or not may_look_alike(_decoded(raw)):
        return None
    try:
        file = read_yaml(path)
    except TaskFileError as error:
        return _unreadable(error.problems[0], _decoded(raw).decode(errors="replace"))
    found = resemblance(file.values)
    if found is None:
        return _nested(file)
    fault, key, fix = _fault(found, file)
    if raw.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        fault, key, fix = "but its encoding is UTF-16", "", "save the file as UTF-8"
    place = file.place(key) if key in file.values else Place(path, 1)
    problem = Problem(f"looks like {found}, {fault}", place, fix)
    return Lookalike(problem, found.is_error)


def is_included(path: Path, files: Iterable[Path]) -> bool:
    """Return whether another file includes this one, which then needs no name."""
    name = rb"(?:^|[\s/'\"\[,])%s(?:$|[\s'\"\],])" % re.escape(path.name.encode())
    for other in files:
        is_candidate = other != path and other.suffix in YAML_SUFFIXES
        raw = raw_of(other) if is_candidate else b""
        if b"include" in raw and re.search(name, raw):
            return True
    return False


def _misnamed(path: Path, raw: bytes) -> Problem | None:
    """Return the error of a file with nearly the name of an eval file or gates file."""
    if not may_be_misnamed(path):
        return None
    name = f"{path.name.partition('.')[0]}.yaml"
    if dialect(raw) is not None:
        what = "looks like an eval file, but its name does not end in .yaml"
        return Problem(what, Place(path), f"rename it to {name}")
    if (key := _GATES_KEY.search(raw)) is None:
        return None
    try:
        is_toml = path.suffix.lower() == ".toml"
        values = tomllib.loads(raw.decode()) if is_toml else read_yaml(path).values
    except (TaskFileError, ValueError) as error:
        lost = None
        if isinstance(error, TaskFileError) and path.suffix.lower() in YAML_SUFFIXES:
            text = _decoded(raw).decode(errors="replace")
            lost = _unreadable(error.problems[0], text)
        return lost.problem if lost else None
    place = Place(path, raw.count(b"\n", 0, key.start()) + 1)
    found = resemblance(values)
    if found is None or not has_gates(values):
        return None
    what = f"looks like {found}, {_ONLY_GATES_FILES}"
    if found.kind is not None:
        what = f"looks like {found}, but its name does not end in .yaml"
    return Problem(what, place, f"rename it to {name}" if found.kind else _RENAME)


_GATES_KEY = re.compile(rb"""\bgates["']?\s*[\]:=]""", re.IGNORECASE)
_ONLY_GATES_FILES = f"but only {' and '.join(GATES_FILES)} are read"
_RENAME = f"rename it to {GATES_FILES[0]}"


def _fault(found: Resemblance, file: YamlFile) -> tuple[str, str, str]:
    """Return the error, its key and the fix."""
    kind, values, stem = found.kind, file.values, file.path.stem
    if kind is None and file.path.name in GATES_FILES:
        what = "which is read with the tasks in its folder and below, not on its own"
        return what, "gates", f"run {Place(file.path.parent)}"
    if kind is None:
        return _ONLY_GATES_FILES, "gates", _RENAME
    for group, example in kind.needs.items():
        if any(key in values for key in group):
            continue
        for key in group:
            if near := found.misspelt.get(key):
                what = f"which has no key {near!r}; did you mean {key!r}?"
                return what, near, f"write {key}: in place of {near}:"
        first = next(iter(kind.needs))[0]
        return f"but it has no {group[0]!r} key", first, example.format(stem)
    return _type_fault(kind, values, stem)


def _type_fault(
    kind: FileKind, values: Mapping[Any, Any], stem: str
) -> tuple[str, str, str]:
    """Return the error of a file that has all keys that it needs."""
    name = next(iter(kind.needs))[0]
    value, members = values.get(name), values.get("task")
    if kind is TASK and isinstance(value, list):
        what = "but 'task' is a list: a file with several tasks is a group"
        return what, name, f"group: {stem}"
    if kind in (TASK, GROUP) and not (value and isinstance(value, str)):
        what = f"but {name!r} is {_description(value)}, not a name"
        return what, name, f"{name}: {stem}"
    if kind is GROUP and not (members and isinstance(members, list | str)):
        what = f"but 'task' is {_description(members)}, not a list of its members"
        return what, "task", kind.needs["task",]
    foreign = [key for key in FOREIGN_KEYS if kind is EVAL and key in values]
    if foreign:
        what = f"which has no key {foreign[0]!r}"
        return what, foreign[0], "remove it, or move it below metadata:"
    what = f"but {name!r} does not begin its line, or its value is not on that line"
    return what, name, f"{name}: …"


def _nested(file: YamlFile) -> Lookalike | None:
    """Return the error of a file with gates whose keys are below another key."""
    for key, value in file.values.items():
        for one in listed(value):
            found = resemblance(one) if isinstance(one, dict) else None
            if found and found.is_error and has_gates(one):
                what = f"looks like {found}, but its keys are below {key!r}"
                fix = "move them to the start of the line"
                return Lookalike(
                    Problem(what, file.place(str(key)), fix), is_error=True
                )
    return None


def _unreadable(fault: Problem, text: str) -> Lookalike | None:
    """Return the error of a file that is not valid YAML or not a mapping, if its
    outermost keys, or inner ones with gates, resemble an eval file."""
    with suppress(yaml.YAMLError):
        if isinstance(entries := yaml.load(text, yaml.BaseLoader), list):
            return _in_list(fault, entries)
    keys = [(m.start(1) - m.start(), m[1]) for m in _KEY.finditer(text)]
    indents = sorted({indent for indent, _ in keys})
    for number, outer in enumerate(indents):
        values: dict[str, Any] = {k: UNKNOWN for indent, k in keys if indent == outer}
        gates = next((key for key in values if key.casefold() == "gates"), "")
        if any(key.casefold() == "gates" for _, key in keys):
            value = "> 0" if GATE_TEXT.search(text) else ""
            values |= {gates: value} if gates else {"metadata": {"gates": value}}
        found = resemblance(values)
        if found and (number == 0 or (has_gates(values) and found.is_error)):
            what = f"looks like {found}, but cannot be read: {fault.what}"
            return Lookalike(Problem(what, fault.where, fault.fix), found.is_error)
    # A line may have the wrong indentation, and keys may be in braces.
    names = {key for _, key in keys} | {*_FLOW_KEY.findall(text)}
    names -= {"definition", "evaluation"}
    found = resemblance(dict.fromkeys(names, UNKNOWN))
    if found is None or not found.is_error:
        return None
    what = f"looks like {found}, but cannot be read: {fault.what}"
    return Lookalike(Problem(what, fault.where, fault.fix), is_error=False)


def _in_list(fault: Problem, entries: Sequence[Any]) -> Lookalike | None:
    """Return the error of a file that is a list, if an entry, or the value of its key,
    is an eval with gates; or if the only entry is a whole eval."""
    for entry in entries:
        inner = [*entry.values()] if isinstance(entry, dict) else []
        for one in (entry, *inner):
            found = resemblance(one) if isinstance(one, dict) else None
            if found is None or not found.is_error:
                continue
            needs = found.kind.needs if found.kind else ()
            is_whole = all(any(key in one for key in group) for group in needs)
            if has_gates(one) or (is_whole and len(entries) == 1):
                what = f"looks like {found}, but cannot be read: {fault.what}"
                fix = "remove the dash before its first key"
                return Lookalike(Problem(what, fault.where, fix), is_error=True)
    return None


_FLOW_KEY = re.compile(r"""[{,][ \t]*["']?(\w+)["']?[ \t]*:""")
_KEY = re.compile(r"""^[ \t]*(?:-[ \t]+)?["']?(\w+)["']?[ \t]*:""", re.MULTILINE)


def _decoded(raw: bytes) -> bytes:
    """Return the text as UTF-8."""
    if raw.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return raw.decode("utf-16", "replace").encode()
    return raw.replace(b"\0", b"")


def _description(value: object) -> str:
    if isinstance(value, dict | list):
        return "a mapping" if isinstance(value, dict) else "a list"
    return repr(value) if value else "empty"
