"""``python -m pytest_evals convert FILES -o evals``: suites from gate files of other
projects, with the bounds of their rules."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from pytest_evals.dialects.foreign_gates.converted import (
    CONVERTERS,
    Converted,
    UnconvertibleError,
)
from pytest_evals.dialects.foreign_gates.formats import FORMATS, format_of
from pytest_evals.dialects.yaml_reader.yaml_file import read_yaml
from pytest_evals.errors import EvalsError

_WRONG_USE = 2
"""Exit code for usage errors, as in argparse."""
_INCOMPLETE = 1
"""Exit code if a file was not converted."""


def main(prog: str, arguments: Sequence[str]) -> int:
    """Convert files and return the exit code."""
    known = ", ".join(one.owner for one in FORMATS if not one.reason)
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
    paths = [path for given in options.files for path in _files(given)]
    if not paths:
        sys.stderr.write("error: no YAML file is in the given folders\n")
        return _WRONG_USE
    faults = 0
    for path in paths:
        try:
            sys.stdout.write(_convert(path, options.output / path.stem))
        except (EvalsError, OSError) as error:
            sys.stderr.write(f"not converted: {path}: {error}\n")
            faults += 1
    return _INCOMPLETE if faults else 0


def _files(given: Path) -> list[Path]:
    if not given.is_dir():
        return [given]
    return sorted(p for p in given.rglob("*") if p.suffix in (".yaml", ".yml"))


def _convert(path: Path, folder: Path) -> str:
    """Write the suite of a file; return what is printed."""
    values = read_yaml(path).values
    found = format_of(values)
    if found is None:
        raise UnconvertibleError("not a gate file of a known project")
    if found.reason:
        raise UnconvertibleError(f"a gate file of {found.owner}: {found.reason}")
    try:
        suite = CONVERTERS[found.name](values, str(folder))
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        what = f"a gate file of {found.owner} with an unexpected value: {error!r}"
        raise UnconvertibleError(what) from None
    if folder.exists():
        raise UnconvertibleError(f"{str(folder)!r} exists\n  fix: remove it, or use -o")
    folder.mkdir(parents=True)
    (folder / "suite.yaml").write_text(_suite(path, found.owner, suite), "utf-8")
    if suite.gates:
        (folder / "gates.yaml").write_text(_gates(path, suite), "utf-8")
    lines = [f"{path} ({found.owner}) -> {folder}"]
    lines += [f"  not converted: {one}" for one in suite.left_out]
    lines += [f"  run: {one}" for one in suite.commands]
    return "\n".join([*lines, ""])


def _suite(path: Path, owner: str, suite: Converted) -> str:
    lines = [f"# From {path.name}, a gate file of {owner}. To run it:"]
    lines += [f"#   {one}" for one in suite.commands]
    lines += [f"# Not converted: {one}" for one in suite.left_out]
    lines += [f"group: {json.dumps(path.stem)}", "task:"]
    lines += [f"  - {json.dumps(dict(task))}" for task in suite.tasks]
    return "\n".join([*lines, ""])


def _gates(path: Path, suite: Converted) -> str:
    lines = [f"# From {path.name}: each bound is that of its rule.", "gates:"]
    for gate in suite.gates:
        lines += [f"  # {gate.origin}", f"  - {json.dumps(dict(gate.entry))}"]
    return "\n".join([*lines, ""])
