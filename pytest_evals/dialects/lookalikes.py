"""Explains why files that resemble eval files are not read as such.

The gates of a file that is silently ignored would be lost. Most YAML and JSON files of
a repository are unrelated, so a file is parsed only if it contains keys that are rare
elsewhere.
"""

from __future__ import annotations

import codecs
import json
import os
import re
import shlex
import tomllib
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from pytest_evals.dialects.detect import (
    FOREIGN_KEYS,
    GATES_FILES,
    YAML_NAME,
    YAML_SUFFIXES,
    as_utf8,
    dialect,
    is_gates_name,
    lookalike_bytes,
    raw_of,
)
from pytest_evals.dialects.foreign_gates.formats import format_of, usual
from pytest_evals.dialects.resemblance import (
    EVAL,
    GATE_TEXT,
    GROUP,
    TASK,
    UNKNOWN,
    FileKind,
    Resemblance,
    has_gates,
    inner,
    resemblance,
)
from pytest_evals.dialects.yaml_reader.section import described
from pytest_evals.dialects.yaml_reader.yaml_file import YamlFile, read_yaml
from pytest_evals.errors import Place, Problem, TaskFileError

_WITH_CR = re.compile(r"\r\n?")


class Lookalike(NamedTuple):
    """Why a file is not read; whether it can only be ours, or may be another
    program's."""

    problem: Problem
    is_error: bool


def lookalike(path: Path) -> Lookalike | None:
    """Return why a file that resembles an eval file is not read as one; ``None`` if it
    does not resemble one."""
    if not (raw := lookalike_bytes(path)):
        return None
    text = _WITH_CR.sub("\n", as_utf8(raw).decode(errors="replace"))
    if path.suffix not in YAML_SUFFIXES:
        problem = _misnamed(path, raw, text)
        return Lookalike(problem, is_error=False) if problem else None
    try:
        file = read_yaml(path)
    except TaskFileError as error:
        return _unreadable(error.problems[0], text)
    return _foreign(path, file) or _resembling(path, file, raw)


def _foreign(path: Path, file: YamlFile) -> Lookalike | None:
    found = format_of(usual(file.values))
    if found is None:
        return None
    message, fix = f"is a gate file of {found.owner}, and its gates are not judged", ""
    if found.reason:
        message += f": {found.reason}"
    else:
        shown = shlex.quote(os.path.relpath(path))
        fix = f"python -m pytest_evals convert {shown} -o evals"
    return Lookalike(Problem(message, Place(path, 1), fix), is_error=False)


def _resembling(path: Path, file: YamlFile, raw: bytes) -> Lookalike | None:
    found = resemblance(file.values)
    if found is not None:
        fault, key, fix = _fault(found, file)
        if raw.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            fault, key, fix = "but its encoding is UTF-16", "", "save the file as UTF-8"
        place = file.place(key) if key in file.values else Place(path, 1)
        problem = Problem(f"looks like {found}, {fault}", place, fix)
        return Lookalike(problem, found.is_error)
    if below := _below(file.values):
        key, found = below
        message = f"looks like {found}, but its keys are below {key!r}"
        fix = "move them to the start of the line"
        return Lookalike(Problem(message, file.place(key), fix), is_error=True)
    return None


def _below(values: Any) -> tuple[str, Resemblance] | None:
    """The outermost key of an inner mapping that can only be ours, and what it
    resembles."""
    for key, one in inner(values):
        found = resemblance(one)
        if found and found.is_error and has_gates(one):
            return key, found
    return None


def is_included(path: Path, files: Iterable[Path]) -> bool:
    """Return whether another file includes this one, which then needs no name."""
    name = rb"(?:^|[\s/'\"\[,])%s(?:$|[\s'\"\],])" % re.escape(path.name.encode())
    for other in files:
        is_candidate = other != path and other.suffix in YAML_SUFFIXES
        raw = raw_of(other) if is_candidate else b""
        if b"include" in raw and re.search(name, raw):
            return True
    return False


def _misnamed(path: Path, raw: bytes, text: str) -> Problem | None:
    """Return the error of an eval file or gates file that is not read because of its
    name."""
    name = f"{path.name.partition('.')[0]}.yaml"
    if YAML_NAME.match(path.name) and dialect(raw) is not None:
        message = "looks like an eval file, but its name does not end in .yaml"
        return Problem(message, Place(path), f"rename it to {name}")
    load = tomllib.loads if path.suffix.lower() == ".toml" else None
    load = json.loads if text.lstrip().startswith("{") else load
    try:
        values = load(text) if load else read_yaml(path).values
    except (TaskFileError, ValueError, RecursionError) as error:
        fault = Problem(f"invalid {path.suffix[1:].upper()}: {error}", Place(path, 1))
        if isinstance(error, TaskFileError):
            fault = error.problems[0]
        return _lost(path, fault, text)
    found = resemblance(values) if isinstance(values, dict) else None
    if found is None and YAML_NAME.match(path.name) and (below := _below(values)):
        _, found = below
    if found is None or not ((found.kind and found.is_error) or has_gates(values)):
        return None
    if found.kind is None and len(values) > 1 and not is_gates_name(path):
        return None  # results, which list gates too
    gates = re.search(r"""\bgates["']?\s*[\]:=]""", text, re.IGNORECASE)
    place = Place(path, text.count("\n", 0, gates.start() if gates else 0) + 1)
    if found.kind is None:
        return Problem(f"looks like {found}, {_ONLY_GATES_FILES}", place, _RENAME)
    message = f"looks like {found}, but its name does not end in .yaml"
    fix = f"write it as YAML in {name}" if load else f"rename it to {name}"
    return Problem(message, place, fix)


def _lost(path: Path, fault: Problem, text: str) -> Problem | None:
    """Return the error of a file that cannot be read and has another name."""
    is_gates = is_gates_name(path)
    if not (is_gates or YAML_NAME.match(path.name)):
        return None
    if lost := _unreadable(fault, text):
        return lost.problem
    message = f"looks like a gates file, but cannot be read: {fault.message}"
    is_lost = is_gates and GATE_TEXT.search(text)
    return Problem(message, fault.where, fault.fix) if is_lost else None


_ONLY_GATES_FILES = f"but only {' and '.join(GATES_FILES)} are read"
_RENAME = f"rename it to {GATES_FILES[0]}"


def _fault(found: Resemblance, file: YamlFile) -> tuple[str, str, str]:
    """Return the error, its key and the fix."""
    kind, values, stem = found.kind, file.values, file.path.stem
    if kind is None and file.path.name in GATES_FILES:
        message = "which is read with the tasks in its folder and below, not on its own"
        return message, "gates", f"run {Place(file.path.parent)}"
    if kind is None:
        return _ONLY_GATES_FILES, "gates", _RENAME
    name = next(iter(kind.needs))[0]
    for group, (key, near) in found.missing.items():
        if near:
            message = f"which has no key {near!r}; did you mean {key!r}?"
            return message, near, f"write {key}: in place of {near}:"
        return f"but it has no {key!r} key", name, kind.needs[group].format(stem)
    return _type_fault(kind, values, name, stem)


def _type_fault(
    kind: FileKind, values: Mapping[Any, Any], name: str, stem: str
) -> tuple[str, str, str]:
    value, members = values.get(name), values.get("task")
    if kind is TASK and isinstance(value, list):
        message = "but 'task' is a list: a file with several tasks is a group"
        return message, name, f"group: {stem}"
    if kind in (TASK, GROUP) and not (value and isinstance(value, str)):
        message = (
            f"but {name!r} is {described(value) if value else 'empty'}, not a name"
        )
        return message, name, f"{name}: {stem}"
    if kind is GROUP and not (members and isinstance(members, list | str)):
        shown = described(members) if members else "empty"
        message = f"but 'task' is {shown}, not a list of its members"
        return message, "task", kind.needs["task",]
    foreign = [key for key in FOREIGN_KEYS if kind is EVAL and key in values]
    if foreign:
        message = f"which has no key {foreign[0]!r}"
        return message, foreign[0], "remove it, or move it below metadata:"
    message = f"but {name!r} does not begin its line, or its value is not on that line"
    return message, name, f"{name}: …"


def _unreadable(fault: Problem, text: str) -> Lookalike | None:
    """Return the error of a file that is not valid YAML or not a mapping, if it
    resembles an eval file: an entry of a list with gates, or a single whole one; else
    its outermost keys, inner ones with gates, or all its keys."""

    def lost(found: Resemblance, fix: str = "", *, is_error: bool = True) -> Lookalike:
        message = f"looks like {found}, but cannot be read: {fault.message}"
        return Lookalike(Problem(message, fault.where, fix or fault.fix), is_error)

    with suppress(yaml.YAMLError, RecursionError):
        entries = yaml.load(text, yaml.BaseLoader)
        if isinstance(entries, dict) and (found := resemblance(entries)):
            return lost(found, is_error=found.is_error)  # its encoding is wrong
        if isinstance(entries, list):
            for _, one in inner(entries):
                found = resemblance(one)
                is_single = len(entries) == 1 and found and not found.missing
                if found and found.is_error and (has_gates(one) or is_single):
                    return lost(found, "remove the dash before its first key")
            return None
    text = _EXPLICIT_KEY.sub(r"\1:", text)
    keys = [(m.start(1) - m.start(), m[1]) for m in _KEY.finditer(text)]
    any_gates = any(key.casefold() == "gates" for _, key in keys)
    for number, outer in enumerate(sorted({indent for indent, _ in keys})):
        values: dict[str, Any] = {k: UNKNOWN for indent, k in keys if indent == outer}
        gates = next((key for key in values if key.casefold() == "gates"), "")
        if any_gates:
            value = "> 0" if GATE_TEXT.search(text) else ""
            values |= {gates: value} if gates else {"metadata": {"gates": value}}
        found = resemblance(values)
        if found and (number == 0 or (has_gates(values) and found.is_error)):
            return lost(found, is_error=found.is_error)
    # A line may have the wrong indentation, and keys may be in braces.
    names = {key for _, key in keys} | {*_FLOW_KEY.findall(text)}
    found = resemblance(dict.fromkeys(names - {"definition", "evaluation"}, UNKNOWN))
    return lost(found, is_error=False) if found and found.is_error else None


_PROPERTIES = r"(?:[!&]\S*[ \t]+)*"
"""The tag and the anchor of a key, as in ``!!str gates:``."""
_FLOW_KEY = re.compile(rf"""[{{,][ \t]*{_PROPERTIES}["']?(\w+)["']?[ \t]*:""")
_EXPLICIT_KEY = re.compile(r"""^\?[ \t]+(["']?\w+["']?)[ \t]*\n:""", re.MULTILINE)
_KEY = re.compile(
    rf"""^[ \t]*(?:[-?][ \t]+)?{_PROPERTIES}["']?(\w+)["']?[ \t]*:""", re.MULTILINE
)
