"""Earlier runs, read from their folders. A truncated line, left by a killed writer or a
full disk, is a missing document."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pytest_evals.core.gate import Gate
from pytest_evals.core.node_names import names_by_folder
from pytest_evals.errors import StoreError
from pytest_evals.store.schema import schema_fault

RESULTS = "results.json"
_ROW = re.compile(rb'\{"doc_id": ?\d+, ?"id": ?("(?:[^"\\\\]|\\\\.)*")')
_TOKENS = re.compile(rb'"tokens": ?\{"prompt": ?(\d+), ?"answer": ?(\d+)')
BYTES = 4  # Bytes of text a token has about
GENERATED = 16  # Tokens of a prompt that take about as long as one generated token


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlierRun:
    """A stored run or baseline. ``results``: content of ``results.json``."""

    path: Path
    results: Mapping[str, Any]

    @property
    def schema_fault(self) -> str:
        """Return why this version cannot read the run; empty if it can."""
        found = self.results.get("schema_version")
        return schema_fault("results", found, self.path / RESULTS)

    @property
    def tasks(self) -> tuple[str, ...]:
        """Return the names of the tasks with stored documents."""
        return tuple(self._files())

    def rows(self, task: str) -> Iterator[dict[str, Any]]:
        """Yield one row for each document of a task: the first one if filters produce
        several. Raises ``StoreError`` if the file cannot be read."""
        seen: set[object] = set()
        for row in self.all_rows(task):
            if row["doc_id"] not in seen:
                seen.add(row["doc_id"])
                yield row

    def all_rows(self, task: str) -> Iterator[dict[str, Any]]:
        """Yield a task's documents, with one row for each filter; ``StoreError`` if the
        file cannot be read."""
        path = self.samples_file(task)
        if path is None:
            return
        try:
            with path.open("rb") as lines:
                yield from filter(None, map(_row, lines))
        except FileNotFoundError:
            return
        except OSError as error:
            raise StoreError(f"cannot read {str(path)!r}: {error.strerror}") from error

    def samples_file(self, task: str) -> Path | None:
        """Return the file of a task's documents; ``None`` without one."""
        name = self._files().get(task)
        return self.path / Path(name).name if isinstance(name, str) else None

    def number(self, gate: Gate) -> float | None:
        """The value of a gate's metric, ``None`` if it is missing or ambiguous."""
        results = self.results.get("results")
        numbers = results.get(gate.task) if isinstance(results, dict) else None
        found = [
            value
            for key, value in (numbers if isinstance(numbers, dict) else {}).items()
            if key.partition(",")[0] == gate.metric
            and gate.filter in ("", key.partition(",")[2])
        ]
        is_number = len(found) == 1 and isinstance(found[0], int | float)
        return float(found[0]) if is_number else None

    @property
    def shard(self) -> str:
        """Return which part of a run this is, as ``K/N``; empty for a whole run."""
        options = self.results.get("options")
        found = options.get("shard") if isinstance(options, dict) else None
        return found if isinstance(found, str) else ""

    def _files(self) -> Mapping[str, Any]:
        found = self.results.get("sample_files")
        return found if isinstance(found, dict) else {}


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryRun(EarlierRun):
    """A run in memory. ``documents``: task → its rows, as in samples files."""

    documents: Mapping[str, Sequence[dict[str, Any]]]

    @property
    def tasks(self) -> tuple[str, ...]:
        """Names of the tasks with documents."""
        return tuple(self.documents)

    def all_rows(self, task: str) -> Iterator[dict[str, Any]]:
        """A task's documents, with one row for each filter."""
        yield from self.documents.get(task, ())


def read_run(path: Path) -> EarlierRun:
    """Return the run in a folder; ``StoreError`` if it does not exist, cannot be read,
    or has another schema version."""
    run = load_run(path)
    if run.schema_fault:
        raise StoreError(run.schema_fault)
    return run


def load_run(path: Path) -> EarlierRun:
    """Return the run in a folder, for any schema version; ``StoreError`` if it does not
    exist or cannot be read."""
    place = path / RESULTS
    try:
        found = json.loads(place.read_bytes())
    except OSError as error:
        raise StoreError(f"cannot read {str(place)!r}: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise StoreError(f"{str(place)!r} is not a results file: {error}") from None
    if not isinstance(found, dict):
        raise StoreError(f"{str(place)!r} is not a results file")
    return EarlierRun(path=path, results=found)


_BY_TASK = (
    *("results", "groups", "group_subtasks", "configs", "versions", "n-shot"),
    *("higher_is_better", "n-samples", "task_hashes", "judged", "judge_errors"),
    *("counts", "sample_files", "node_ids"),
)
"""Sections of ``results.json`` with an entry for each task or group."""


def with_names_of(
    run: EarlierRun,
    node_ids: Mapping[str, str],
    is_other: Callable[[str], bool] = lambda nodeid: False,
) -> EarlierRun:
    """Return a run whose tasks have the names that another run gives to the same node
    ids. Tasks with the same name in several folders are named by folder only in runs
    that contain several of them. ``node_ids``: of the other run, by name. ``is_other``:
    whether a node id is that of another task, and not of one whose file was moved: then
    a task of the same name is not the same one."""
    known = run.results.get("node_ids")
    stored = known if isinstance(known, dict) else {}
    names = {nodeid: name for name, nodeid in node_ids.items()}
    new = {
        old: names.get(nodeid) or (_by_folder(nodeid) if is_other(nodeid) else old)
        for old, nodeid in stored.items()
        if isinstance(nodeid, str) and node_ids.get(old) != nodeid
    }
    if all(old == name for old, name in new.items()):
        return run

    def renamed(section: Any) -> Any:
        if not isinstance(section, dict):
            return section
        return {new.get(key, key): value for key, value in section.items()}

    results = {k: renamed(v) if k in _BY_TASK else v for k, v in run.results.items()}
    if isinstance(gates := run.results.get("gates"), list):
        results["gates"] = [
            {**gate, "task": new.get(gate.get("task"), gate.get("task"))}
            for gate in gates
        ]
    return replace(run, results=results)


def with_tasks(run: EarlierRun, names: Mapping[str, str]) -> EarlierRun:
    """Return a run with some of its tasks, under other names. ``names``: name in the
    run → new name."""

    def chosen(section: Any) -> Any:
        known = section if isinstance(section, dict) else {}
        return {names[key]: value for key, value in known.items() if key in names}

    results = {k: chosen(v) if k in _BY_TASK else v for k, v in run.results.items()}
    gates = run.results.get("gates")
    results["gates"] = [
        {**gate, "task": names[gate["task"]]}
        for gate in (gates if isinstance(gates, list) else ())
        if gate.get("task") in names
    ]
    return replace(run, results=results)


def _by_folder(nodeid: str) -> str:
    return names_by_folder(nodeid.rpartition("::")[2], nodeid)[-1]


def last_run(base: Path, model: str) -> EarlierRun | None:
    """Return the newest readable run of a model that is not a part; ``None`` if
    missing. ``model``: the ``--model`` option, as stored in results files. Raises
    ``StoreError`` if it has another schema version."""
    for run in _stored(base):
        options = run.results.get("options")
        if isinstance(options, dict) and options.get("model") == model:
            return read_run(run.path)
    return None


def earlier_runs(base: Path, most: int | None = None) -> list[EarlierRun]:
    """Yield all readable runs of this schema version, the newest first, without parts
    of runs. ``most``: maximum number of folders, the newest by name; ``None`` for all.
    """
    return [run for run in _stored(base, most) if not run.schema_fault]


def _stored(base: Path, most: int | None = None) -> list[EarlierRun]:
    try:
        folders = [path for path in (base / "runs").iterdir() if path.is_dir()]
    except OSError:
        return []
    if most is not None:
        folders = sorted(folders, key=lambda path: path.name, reverse=True)[:most]
    found = []
    for folder in folders:
        with suppress(StoreError):
            run = load_run(folder)
            date = run.results.get("date")
            if isinstance(date, int | float) and run.tasks and not run.shard:
                found.append((date, folder.name, run))
    return [run for *_, run in sorted(found, key=lambda one: one[:2], reverse=True)]


def _row(line: bytes) -> dict[str, Any] | None:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        return None
    whole = isinstance(row, dict) and "doc_id" in row and "id" in row
    return row if whole else None


def recorded_costs(run: EarlierRun, tasks: Iterable[str]) -> dict[str, dict[str, int]]:
    """Task → id of a document → its cost, in the unit of sizes of rows (bytes of a
    prompt), by which shards are cut. Only documents with generated tokens have one: of
    the others, the size of the row is as good, and is known without reading a file."""
    found = {}
    for task in tasks:
        if (path := run.samples_file(task)) is not None and (costs := _costs(path)):
            found[task] = costs
    return found


def _costs(path: Path) -> dict[str, int]:
    costs: dict[str, int] = {}
    with suppress(OSError), path.open("rb") as lines:
        for line in lines:
            if not costs and not _generates(line):
                return {}
            row, tokens = _ROW.match(line), _TOKENS.findall(line)
            if row and tokens:  # a row of a dataset may have such a field: ours is last
                prompt, answer = map(int, tokens[-1])
                costs[json.loads(row[1])] = BYTES * (prompt + GENERATED * answer)
    return costs


def _generates(line: bytes) -> bool:
    """Whether a document was sent as a generation, or in several requests."""
    try:
        row = json.loads(line)
        sent = row["arguments"].get("gen_args_0", {}).get("arg_1")
    except (ValueError, RecursionError, KeyError, AttributeError, TypeError):
        return False
    return isinstance(sent, dict) or bool(row.get("exchanges"))
