"""``python -m pytest_evals convert FILES -o evals``: suites from gate files of other
projects, with the bounds of their rules."""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from textwrap import shorten
from typing import Any

from pytest_evals.dialects.detect import as_utf8
from pytest_evals.dialects.foreign_gates.converted import CONVERTERS
from pytest_evals.dialects.foreign_gates.formats import (
    FORMATS,
    SGLANG,
    GateFormat,
    check_forms,
    format_of,
    usual,
)
from pytest_evals.dialects.foreign_gates.sglang import is_sglang_test, read_sglang
from pytest_evals.dialects.foreign_gates.suite import Converted, UnconvertibleError
from pytest_evals.dialects.yaml_reader.yaml_file import YamlParser, bytes_of
from pytest_evals.errors import EvalsError
from pytest_evals.reports.escape import one_line, safe_lines

_WRONG_USE = 2
"""Exit code for usage errors, as in argparse."""
_SEPARATOR = re.compile(rb"(?:^%YAML [^\r\n]*\r?\n)?^---(?=\s|$)", re.MULTILINE)
_EMPTY = re.compile(rb"(?:\s|#[^\r\n]*|^\.\.\.)*", re.MULTILINE)
_VARIABLE = re.compile(r"\$\{[^}]*\}|\$[A-Za-z_]\w*")
_INCOMPLETE = 1
"""Exit code if a file was not converted."""


def main(prog: str, arguments: Sequence[str]) -> int:
    """Convert files and return the exit code."""
    known = ", ".join(dict.fromkeys(one.owner for one in FORMATS if not one.reason))
    parser = argparse.ArgumentParser(
        prog=f"{prog} convert",
        description=f"Write suites from gate files of {known}. "
        "Existing files are not overwritten.",
    )
    add = parser.add_argument
    add("files", metavar="FILE", type=Path, nargs="+", help="a file, or a folder")
    add(
        "-o",
        "--output",
        metavar="DIR",
        type=Path,
        default=Path("evals"),
        help="folder in which each file becomes a folder (default: evals)",
    )
    options = parser.parse_args(arguments)
    paths = [pair for given in options.files for pair in _files(given)]
    if not paths:
        sys.stderr.write("error: no gate file is in the given folders\n")
        return _WRONG_USE
    faults = 0
    for path, name in paths:
        try:
            sys.stdout.write(_convert(path, options.output / name))
        except (EvalsError, OSError) as error:
            sys.stderr.write(
                f"not converted: {path}: {str(error).removeprefix(f'{path}: ')}\n"
            )
            faults += 1
    return _INCOMPLETE if faults else 0


def _files(given: Path) -> list[tuple[Path, Path]]:
    """The files, each with the folder of its suite below the output."""
    if not given.is_dir():
        return [(given, Path(given.stem))]
    found = sorted(p for p in given.rglob("*") if p.is_file() and _may_have_gates(p))
    return [(path, path.relative_to(given).with_suffix("")) for path in found]


def _may_have_gates(path: Path) -> bool:
    if path.suffix.lower() in (".yaml", ".yml"):
        return True
    return path.suffix == ".py" and is_sglang_test(path)


def _convert(path: Path, folder: Path) -> str:
    """Write the suite of a file; return what is printed."""
    values, found = _read(path)
    try:
        check_forms(values)
        suite = CONVERTERS[found.name](values, str(folder), path.stem)
    except UnconvertibleError as error:
        raise UnconvertibleError(f"a gate file of {found.owner}: {error}") from None
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        message = f"no key {error}" if isinstance(error, KeyError) else str(error)
        raise UnconvertibleError(f"a gate file of {found.owner}: {message}") from None
    for variable in dict.fromkeys(_VARIABLE.findall(" ".join(suite.commands))):
        suite.left_out.append(f"{variable} in the command: write its value instead")
    if folder.exists():
        raise UnconvertibleError(f"{str(folder)!r} exists\n  fix: remove it, or use -o")
    folder.mkdir(parents=True)
    text = _suite(path, found.owner, suite)
    (folder / "suite.yaml").write_text(text, "utf-8")
    if suite.gates:
        (folder / "gates.yaml").write_text(_gates(path, suite), "utf-8")
    lines = [f"{path} ({found.owner}) -> {folder}"]
    lines += [f"  not converted: {one_line(one)}" for one in suite.left_out]
    lines += ["  run: " + "\n".join(safe_lines(one)) for one in suite.commands]
    return "\n".join([*lines, ""])


def _read(path: Path) -> tuple[Mapping[str, Any], GateFormat]:
    if path.suffix == ".py":
        return read_sglang(path), SGLANG
    documents = [*map(usual, _documents(path))]
    formats = [(values, found) for values in documents if (found := format_of(values))]
    if not formats:
        keys = ", ".join(str(key) for one in documents for key in one)
        message = f"its keys are not those of a known project: {shorten(keys, 200)}\n"
        message += "  fix: name a gate file of a project that docs/gate_files.md lists"
        raise UnconvertibleError(message)
    if len(formats) > 1:
        message = f"it has {len(formats)} documents with gates\n  fix: a file for each"
        raise UnconvertibleError(message)
    ((values, found),) = formats
    if found.reason:
        raise UnconvertibleError(f"a gate file of {found.owner}: {found.reason}")
    return values, found


def _documents(path: Path) -> list[Mapping[str, Any]]:
    """The documents of a file that are not empty."""
    parts = _SEPARATOR.split(as_utf8(bytes_of(path)))
    filled = [part for part in parts if not _EMPTY.fullmatch(part)]
    if len(filled) < 2:
        return [YamlParser(path).read(b"".join(filled)).values]
    return [YamlParser(path).read(part).values for part in filled]


def _suite(path: Path, owner: str, suite: Converted) -> str:
    lines = [f"# From {path.name}, a gate file of {owner}. To run it:"]
    lines += [f"#   {one}" for each in suite.commands for one in safe_lines(each)]
    lines += [f"# Not converted: {one_line(one)}" for one in suite.left_out]
    if suite.file is None:
        names = [task["task"] for task in suite.tasks]
        group = f"{path.stem}-suite" if path.stem in names else path.stem
        lines += [f"group: {json.dumps(group)}", "task:"]
        lines += [f"  - {json.dumps(dict(task))}" for task in suite.tasks]
    else:
        lines += [f"{key}: {json.dumps(value)}" for key, value in suite.file.items()]
    return "\n".join([*lines, ""])


def _gates(path: Path, suite: Converted) -> str:
    lines = [f"# From {path.name}: each bound is that of its rule.", "gates:"]
    for gate in suite.gates:
        lines += [f"  # {one_line(gate.origin)}", f"  - {json.dumps(dict(gate.entry))}"]
    return "\n".join([*lines, ""])
