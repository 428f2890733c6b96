"""The command line of a part of a run as data, and the arguments of pytest that repeat
it.

Options that write files or allow code to run are not taken from a file: type them
on the command line of the merge.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pytest_evals.errors import StoreError

LEFT_OUT = frozenset(
    {
        *("shard", "merge", "run-dir", "dir", "json", "html", "markdown", "export"),
        *("save-baseline", "save-failed", "cache-info", "plan", "validate"),
        *("write-out", "fast-path", "ray", "only", "allow-unsafe-code", "sandbox"),
        *("allow-server-commands", "latticeflow-allow-code"),
    }
)
"""Options of one job, and those that only a person may give."""
SELECTING = {
    "keyword": "-k",
    "markexpr": "-m",
    "deselect": "--deselect=",
    "ignore": "--ignore=",
    "ignore_glob": "--ignore-glob=",
}
"""pytest's own options that select, and how they are written before a value."""
_NAME = re.compile(r"[a-z][a-z-]*")


def pytest_arguments(command: Mapping[str, Any], path: Path) -> list[str]:
    """Return the arguments of pytest that a part was run with.

    Args:
        command: ``options``, which are ours, ``paths``, and those of :data:`SELECTING`:
            each a list of texts; an option without a value has an empty one.
        path: The file that the command was read from, for messages.

    Raises:
        StoreError: It is none, or names options that are not taken from a file.
    """
    arguments = []
    for name, values in _lists(command.get("options"), path):
        if name in LEFT_OUT or not _NAME.fullmatch(name):
            raise StoreError(f"{path}: is damaged: option {name!r}")
        flag = f"--evals-{name}"
        arguments += [f"{flag}={value}" for value in values] if values else [flag]
    paths: list[str] = []
    given = {key: value for key, value in command.items() if key != "options"}
    for name, values in _lists(given, path):
        if name == "paths":
            paths = values
        elif name in SELECTING:
            arguments += [f"{SELECTING[name]}{value}" for value in values]
        else:
            raise StoreError(f"{path}: is damaged: selection by {name!r}")
    if any(one.startswith(("-", "@")) for one in paths):
        raise StoreError(f"{path}: is damaged: a path begins with - or @")
    return [*arguments, *paths]


def _lists(found: object, path: Path) -> Iterator[tuple[str, list[str]]]:
    if not isinstance(found, dict):
        raise StoreError(f"{path}: is damaged: 'command' is invalid")
    for name, values in found.items():
        is_list = isinstance(values, list)
        if not is_list or not all(isinstance(one, str) for one in values):
            raise StoreError(f"{path}: is damaged: 'command' is invalid")
        yield name, values
