"""Combines YAML files: includes, and keys of one file over those of another."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

from pytest_evals.dialects.yaml_reader.yaml_file import (
    GATES,
    METADATA,
    Step,
    YamlFile,
    has_other_gates,
    read_yaml,
    with_gates_of,
)
from pytest_evals.errors import Place, Problem, TaskFileError, similar_file

MOST_INCLUDED = 50  # maximum length of a chain of files that include one another


def read_with_includes(path: Path) -> YamlFile:
    """Return the mapping of a file with its includes.

    The file's own keys override included ones, and later includes override earlier
    ones. Values are never merged: the last one is used as a whole, including ``null``;
    but other metadata does not remove ``metadata.gates``. ``task_list`` of an included
    file is ignored. Raises TaskFileError as for :func:`read_yaml`, for any of the
    files; or the includes are circular.
    """
    return _resolve(read_yaml(path), (), {})


def subsection(file: YamlFile, *steps: Step) -> YamlFile:
    """Return a mapping inside a file, with its includes, as a separate file."""
    return _resolve(replace(file.inside(*steps), path=file.path), (), {})


def override(base: YamlFile, upper: YamlFile) -> YamlFile:
    """Return a file with another one's keys over those of ``base``, not merged."""
    values, lines = dict(base.values), dict(base.lines)
    replaced = _override(values, lines, upper)
    return YamlFile(
        path=base.path,
        values=values,
        lines=lines,
        warnings=tuple(dict.fromkeys([*base.warnings, *upper.warnings, *replaced])),
    )


def _resolve(
    file: YamlFile, chain: tuple[Path, ...], done: dict[Path, YamlFile]
) -> YamlFile:
    """Return the file with its includes; each included file is resolved once
    (``done``)."""
    targets = _includes(file)
    here = (*chain, file.path.resolve()) if targets else chain
    values: dict[Any, Any] = {}
    lines: dict[tuple[Step, ...], Place] = {}
    warnings: list[str] = []
    for number, target in enumerate(targets):
        place = file.place("include", number)
        if not os.path.isfile(target):
            hint = similar_file(target)
            message = f"include: file not found: {str(Place(target))!r}{hint}"
            fix = "give a path relative to this file"
            raise TaskFileError([Problem(message, place, fix)])
        if target.resolve() in here:
            names = " includes ".join(p.name for p in (*here, target))
            fix = "remove one of these includes"
            raise TaskFileError([Problem(f"circular includes: {names}", place, fix)])
        if len(here) > MOST_INCLUDED:
            message = f"more than {MOST_INCLUDED} files include one another in a chain"
            fix = "include the files that are needed directly"
            raise TaskFileError([Problem(message, place, fix)])
        real = target.resolve()
        if real not in done:
            done[real] = _resolve(read_yaml(target), here, done)
            done[real].values.pop("task_list", None)
        part = done[real]
        warnings += [*part.warnings, *_override(values, lines, part)]
    warnings += _override(values, lines, file)
    values.pop("include", None)
    return YamlFile(
        path=file.path,
        values=values,
        lines=lines,
        warnings=tuple(dict.fromkeys([*warnings, *file.warnings])),
    )


def _includes(file: YamlFile) -> list[Path]:
    given = file.values.get("include")
    if given is None:
        return []
    paths = []
    for entry in given if isinstance(given, list) else [given]:
        if not isinstance(entry, str) or not entry:
            message = f"include: expected a path, not {entry!r}"
            raise TaskFileError([Problem(message, file.place("include"))])
        folder = file.place("include").path.parent
        paths.append(folder / os.path.expanduser(entry))
    return paths


def _override(
    values: dict[Any, Any], lines: dict[tuple[Step, ...], Place], upper: YamlFile
) -> list[str]:
    """Replace keys by those of another file, in place; return warnings about gates that
    are replaced by others."""
    lower = YamlFile(path=upper.path, values=dict(values), lines=dict(lines))
    hidden = upper.values.keys() & values.keys()
    for steps in [steps for steps in lines if steps[0] in hidden]:
        del lines[steps]
    values.update(upper.values)
    lines.update(upper.lines)
    if METADATA in hidden:
        values[METADATA] = with_gates_of(lower.values[METADATA], values[METADATA])
        if values[METADATA] is not upper.values[METADATA]:
            kept = (METADATA, GATES)
            lines.update({k: at for k, at in lower.lines.items() if k[:2] == kept})
    return [
        f"{upper.place(*steps)}: {'.'.join(steps)} replaces the gates of "
        f"{lower.place(*steps)}"
        for steps in ((GATES,), (METADATA, GATES))
        if has_other_gates(lower.values, upper.values, steps)
    ]
