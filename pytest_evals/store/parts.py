"""Parts of a run: the folder that a job with ``--evals-shard`` leaves for ``merge``.

| file                            | contents                                      |
|---------------------------------|-----------------------------------------------|
| ``results.json``, ``samples_*`` | as in the folder of every run                 |
| ``records.jsonl``               | the scores of each document                   |
| ``part.json``                   | which part it is; its tasks, model, machine;  |
|                                 | a checksum of each file. Written last         |

Everything in them is data: reading a part runs nothing. Options that write files or
allow code to run are not taken from a part: type them on the command line of the merge.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytest_evals.errors import StoreError
from pytest_evals.store.cache import file_hash
from pytest_evals.store.history import RESULTS, load_run, read_run
from pytest_evals.store.schema import schema_fault

PART, RECORDS, PARTS = "part.json", "records.jsonl", "parts.json"
_FIX = (
    "fix: pass the folders that --evals-run-dir or the results folder got from jobs "
    "with --evals-shard=K/N; a job that was killed leaves no part: run it again"
)


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


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredPart:
    """One part of a run. ``facts``: content of ``part.json``; ``results``: of
    ``results.json``."""

    path: Path
    facts: Mapping[str, Any]
    results: Mapping[str, Any]

    @property
    def model(self) -> str:
        """Return the name of its model; empty if the run has only one."""
        return str(self.facts.get("name", ""))

    @property
    def number(self) -> int:
        """Return which part this is, from 1."""
        return int(self.facts["part"])

    @property
    def n(self) -> int:
        """Return the number of parts."""
        return int(self.facts["parts"])

    @property
    def tasks(self) -> Mapping[str, Mapping[str, Any]]:
        """Return what identifies each task."""
        found: Mapping[str, Mapping[str, Any]] = self.facts["tasks"]
        return found

    def damage(self) -> list[str]:
        """Return the files that are missing or were changed since they were written,
        each as a sentence."""
        found = []
        if self.facts["checksum"] != checksum(self.facts):
            found.append(f"{self.path / PART}: was changed since its run")
        for name, expected in self.facts["files"].items():
            path = self.path / Path(name).name
            try:
                if file_hash(path) != expected:
                    found.append(f"{path}: was changed or cut off since its run")
            except OSError as error:
                found.append(f"{path}: cannot be read: {error.strerror}")
        return found


def checksum(facts: Mapping[str, Any]) -> str:
    """Return the checksum of ``part.json`` without its field ``checksum``."""
    rest = {name: value for name, value in facts.items() if name != "checksum"}
    return hashlib.sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()


def read_parts(paths: Iterable[Path]) -> list[StoredPart]:
    """Return the parts in these folders, in their order; ``StoreError`` if a folder
    contains no part, or one that cannot be read."""
    return [_read(folder) for path in paths for folder in _folders(path)]


def _folders(path: Path) -> Sequence[Path]:
    """Return the folders of parts in a folder: itself, or those below it."""
    try:
        is_folder = path.is_dir()
    except OSError as error:  # a name that no file can have
        raise StoreError(f"{path}: {error.strerror}") from None
    if not is_folder:
        raise StoreError(f"{path}: no such folder\n  {_FIX}")
    if (path / PART).is_file():
        return [path]
    found = sorted(one.parent for one in path.rglob(PART))
    if found:
        return found
    runs = sorted(one.parent for one in path.rglob(RESULTS))
    if not runs:
        raise StoreError(f"{path}: no part of a run in it\n  {_FIX}")
    shard = (load_run(runs[0]).results.get("options") or {}).get("shard")
    message = (
        f"part {shard} of a run has not ended" if shard else "a run, and not a part"
    )
    raise StoreError(f"{runs[0]}: {message}\n  {_FIX}")


def _read(folder: Path) -> StoredPart:
    path = folder / PART
    try:
        facts = json.loads(path.read_bytes())
    except OSError as error:
        raise StoreError(f"cannot read {str(path)!r}: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise StoreError(f"{path}: is damaged: {error}") from None
    if not isinstance(facts, dict):
        raise StoreError(f"{path}: is damaged: it is not an object")
    if fault := schema_fault("part", facts.get("schema_version"), path):
        raise StoreError(fault)
    wrong = [key for key, kind in _KINDS.items() if type(facts.get(key)) is not kind]
    if wrong:
        raise StoreError(f"{path}: is damaged: {wrong[0]!r} is missing or invalid")
    if not all(isinstance(one, dict) for one in facts["tasks"].values()):
        raise StoreError(f"{path}: is damaged: 'tasks' is invalid")
    if not 1 <= facts["part"] <= facts["parts"]:
        raise StoreError(f"{path}: is damaged: part {facts['part']}/{facts['parts']}")
    return StoredPart(path=folder, facts=facts, results=read_run(folder).results)


_KINDS = {
    "part": int,
    "parts": int,
    "tasks": dict,
    "files": dict,
    "models": dict,
    "command": dict,
    "warnings": list,
    "failed_tests": list,
    "cut": str,
    "partial": str,
    "checksum": str,
}
"""Fields of ``part.json`` that every reader needs."""


def pytest_arguments(command: Mapping[str, Any], path: Path) -> list[str]:
    """Return the arguments of pytest that a part was run with; ``StoreError`` if
    options are among them that are not taken from a file. ``command``: ``options``,
    which are ours, ``paths``, and those of :data:`SELECTING`: each a list of texts; an
    option without a value has an empty one. ``path``: its file, for messages."""
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
