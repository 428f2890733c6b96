"""Explains why YAML files that resemble eval files are not read as such.

The gates of a file that is silently ignored would be lost. Most YAML files of a
repository are unrelated, so a file is parsed only if it contains keys that are rare
elsewhere. :mod:`.detect` decides which kind a file resembles.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from pytest_evals.dialects.detect import (
    COMMON_KEYS,
    GATES_FILES,
    OWN_KEYS,
    YAML_SUFFIXES,
    Lookalike,
    dialect,
    looks_like,
    may_look_alike,
    raw_of,
)
from pytest_evals.dialects.yaml_reader.yaml_file import YamlFile, read_yaml
from pytest_evals.errors import Place, Problem, TaskFileError, nearest


def lookalike(path: Path, raw: bytes) -> Problem | None:
    """Return why a file that resembles an eval file is not read as one.

    Returns:
        ``None`` if it does not resemble one.
    """
    if path.suffix.lower() not in YAML_SUFFIXES:
        return None
    known = dialect(raw)
    if known is not None and path.suffix not in YAML_SUFFIXES:
        what = (
            f"looks like an eval file, but its name does not end in {YAML_SUFFIXES[0]}"
        )
        return Problem(what, Place(path), f"rename it to {path.stem}.yaml")
    if known is not None or not may_look_alike(_decoded(raw)):
        return None
    try:
        file = read_yaml(path)
    except TaskFileError as error:
        return _unreadable(error.problems[0], _decoded(raw).decode(errors="replace"))
    if raw.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        kind = looks_like(file.values)
        what = f"looks like {kind}, but its encoding is UTF-16"
        return Problem(what, Place(path), "save the file as UTF-8") if kind else None
    return _explanation(file)


def is_included(path: Path, files: Iterable[Path]) -> bool:
    """Return whether another file includes this one, which then needs no name."""
    name = rb"(?:^|[\s/'\"\[,])%s(?:$|[\s'\"\],])" % re.escape(path.name.encode())
    for other in files:
        is_candidate = other != path and other.suffix in YAML_SUFFIXES
        raw = raw_of(other) if is_candidate else b""
        if b"include" in raw and re.search(name, raw):
            return True
    return False


def _explanation(file: YamlFile) -> Problem | None:
    values = file.values
    kind = looks_like(values)
    if not kind:
        return None
    what, key, fix = _EXPLANATIONS[kind](file)
    place = file.place(key) if key in values else file.place(next(iter(values)))
    return Problem(f"looks like {kind}, {what}", place, fix)


_Fault = tuple[str, str, str]
"""Error, key and fix."""


def _group(file: YamlFile) -> _Fault:
    values = file.values
    if "group" not in values:
        near = _near(values, "group")
        what = f"but it has no 'group' key{_suggestion(near)}"
        return what, near, f"group: {file.path.stem}"
    if not isinstance(values["group"], str):
        what = f"but 'group' is {_description(values['group'])}, not a name"
        return what, "group", f"group: {file.path.stem}"
    if "task" not in values:
        near = _near(values, "task")
        what = f"but it has no 'task' key with its members{_suggestion(near)}"
        return what, near or "group", "task: [first_task, second_task]"
    if not isinstance(values["task"], list | str) or not values["task"]:
        what = (
            f"but 'task' is {_description(values['task'])}, not a list of its members"
        )
        return what, "task", "task: [first_task, second_task]"
    return _not_at_line_start("group", values["group"])


def _task(file: YamlFile) -> _Fault:
    values = file.values
    if "task" not in values:
        near = _near(values, "task")
        return f"but it has no 'task' key{_suggestion(near)}", near, _name_fix(file)
    name = values["task"]
    if isinstance(name, list):
        what = "but 'task' is a list: a file with several tasks is a group"
        return what, "task", f"group: {file.path.stem}"
    if not isinstance(name, str) or not name:
        return (
            f"but 'task' is {_description(name)}, not a name",
            "task",
            _name_fix(file),
        )
    if not values.keys() & _SOURCES:
        near = _near(values, "dataset_path")
        what = f"but it has no 'dataset_path' key{_suggestion(near)}"
        return what, near or "task", "dataset_path: json"
    return _not_at_line_start("task", name)


_SOURCES = {"class", "custom_dataset", "dataset_path", "include", "output_type"}
"""Keys of which a task file has at least one."""


def _name_fix(file: YamlFile) -> str:
    return f"task: {file.path.stem}"


def _not_at_line_start(key: str, name: str) -> _Fault:
    what = f"but '{key}' does not begin its line, or its name is not on that line"
    return what, key, f"{key}: {name}"


def _gates(file: YamlFile) -> _Fault:
    if file.path.name in GATES_FILES:
        what = "which is read with the tasks in its folder and below, not on its own"
        return what, "gates", f"run {Place(file.path.parent)}"
    what = f"but only {' and '.join(GATES_FILES)} are read"
    return what, "gates", f"rename it to {GATES_FILES[0]}"


def _latticeflow(file: YamlFile) -> _Fault:
    return "but it has no 'key'", "definition", f"key: {file.path.stem}"


def _eval(file: YamlFile) -> _Fault:
    values = file.values
    if "prompt" not in values:
        near = nearest("prompt", [str(key) for key in values])
        what = f"but it has no 'prompt' key{_suggestion(near)}"
        return what, near, 'prompt: "{{question}}"'
    near = nearest("rows", [str(key) for key in values if key != "prompt"])
    near = near or nearest("dataset", [str(key) for key in values])
    what = f"but it has neither 'rows' nor 'dataset'{_suggestion(near)}"
    return what, near or "prompt", 'rows: [{question: "2 + 2", target: "4"}]'


_EXPLANATIONS = {
    Lookalike.EVAL: _eval,
    Lookalike.GROUP: _group,
    Lookalike.TASK: _task,
    Lookalike.GATES: _gates,
    Lookalike.LATTICEFLOW: _latticeflow,
}


def _near(values: Mapping[Any, Any], name: str) -> str:
    """Return a key that resembles another one."""
    known = [str(key) for key in values if key not in (*OWN_KEYS, *COMMON_KEYS)]
    exact = [key for key in known if key.casefold().strip() == name]
    return next(iter(exact), "") or nearest(name, known)


def _suggestion(near: str) -> str:
    return f"; did you mean {near!r}?" if near else ""


def _description(value: object) -> str:
    if isinstance(value, dict):
        return "a mapping"
    return (
        "a list" if isinstance(value, list) else "empty" if not value else repr(value)
    )


def _unreadable(fault: Problem, text: str) -> Problem | None:
    """Return the error of a file that is not valid YAML or not a mapping, if its
    outermost keys resemble an eval file."""
    keys = [(m.start(1) - m.start(), m[1]) for m in _KEY.finditer(text)]
    outermost = min((indent for indent, _ in keys), default=0)
    kind = looks_like({key: "" for indent, key in keys if indent == outermost})
    if not kind:
        return None
    what = f"looks like {kind}, but cannot be read: {fault.what}"
    return Problem(what, fault.where, fault.fix)


_KEY = re.compile(r"""^[ \t]*(?:-[ \t]+)?["']?(\w+)["']?[ \t]*:""", re.MULTILINE)


def _decoded(raw: bytes) -> bytes:
    """Return the text as UTF-8."""
    if raw.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return raw.decode("utf-16", "replace").encode()
    return raw
