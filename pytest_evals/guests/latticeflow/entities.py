"""Index of the entities of a folder: tasks, datasets, models and other keyed objects.

A key in a file is looked up in the run file that uses it, then in the file's own folder
and its subfolders, then in the parent folder and its subfolders, and so on up to the
root of the suite.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from pytest_evals.dialects.detect import YAML_SUFFIXES, may_hold_entities, raw_of
from pytest_evals.dialects.yaml_reader.yaml_file import Step, YamlFile
from pytest_evals.errors import Place, Problem, TaskFileError, unknown_name
from pytest_evals.guests.latticeflow.reader import read_entity_file

Kind = Literal[
    "task", "dataset", "model", "adapter", "generator", "policy", "evaluation", "run"
]
LISTS: Mapping[str, Kind] = {
    "model_adapters": "adapter",
    "models": "model",
    "dataset_generators": "generator",
    "datasets": "dataset",
    "tasks": "task",
    "policies": "policy",
}
"""Key of a run file's list → kind of its entries."""
PROVIDER = "$provider"


@dataclass(frozen=True, slots=True, kw_only=True)
class Entity:
    """One entity."""

    kind: Kind
    key: str  # empty if it is missing or not a string
    file: YamlFile  # its keys and values
    place: Place


_RUN_ONLY = LISTS.keys() - {"tasks", "policies"} | {"evaluation"}
"""Keys that identify a run file; it may have others."""
_SHAPES: tuple[tuple[Kind, frozenset[str]], ...] = (
    ("adapter", frozenset({"process_input", "process_output"})),
    ("dataset", frozenset({"source", "generator_specification", "file_path"})),
    ("model", frozenset({"config"})),
    ("policy", frozenset({"rules"})),
)


def kind_of(values: Mapping[Any, Any]) -> Kind | None:
    """Return the kind of a mapping from its keys; ``None`` if it is not an entity."""
    if "task_specifications" in values:
        return "evaluation"
    named = {"key", "display_name", "definition"} & values.keys()
    if _RUN_ONLY & values.keys() or ("tasks" in values and not named):
        return "run"
    if "definition" in values:
        definition = values["definition"]
        is_generator = isinstance(definition, dict) and "synthesizers" in definition
        return "generator" if is_generator else "task"
    for kind, keys in _SHAPES:
        if keys & values.keys() and named:
            return kind
    return None


def entities_in(file: YamlFile) -> Iterator[Entity]:
    """Yield the entity of a file; for a run file, also all entities that it lists."""
    kind = kind_of(file.values)
    if kind is None:
        return
    yield _entity(kind, file, ())
    if kind != "run":
        return
    for name, member in LISTS.items():
        listed = file.values.get(name)
        for number, entry in enumerate(listed if isinstance(listed, list) else []):
            if isinstance(entry, dict):
                yield _entity(member, file, (name, number))


def _entity(kind: Kind, file: YamlFile, steps: tuple[Step, ...]) -> Entity:
    part = file.inside(*steps) if steps else file
    if kind == "model" and isinstance(part.values.get(PROVIDER), str):
        part = _expand_provider(part)
    key = part.values.get("key")
    place = part.lines.get(("key",)) or file.place(*steps)
    name = key if isinstance(key, str) else ""
    return Entity(kind=kind, key=name, file=part, place=place)


def _expand_provider(part: YamlFile) -> YamlFile:
    """Expand ``$provider: openai/gpt-4.1-nano`` to a model. Its key combines provider
    and model, with dashes in place of characters that keys cannot contain."""
    provider, _, model = part.values[PROVIDER].partition("/")
    name = re.sub(r"[^a-z0-9_-]+", "-", model.lower())
    key = f"{provider}${re.sub('-+', '-', name).strip('-')}"
    config = {
        "connection_type": "provider_connection",
        "provider_id": provider,
        "model_key": model,
    }
    others = {k: v for k, v in part.values.items() if k != PROVIDER}
    values = {"key": key, "display_name": key, "config": config, **others}
    return replace(part, values=values)


@dataclass(slots=True)
class Entities:
    """All entities of a suite; folders are read on first use."""

    root: Path  # of the suite; folders above it are not searched
    base: Path | None = None  # folder of the .env file
    skips: Callable[[Path], bool] = lambda path: False  # folders that are not entered
    parameters: set[str] = field(default_factory=set)
    """Keys that tasks and evaluations declare, of those read so far."""
    _files: dict[Path, Sequence[Entity] | TaskFileError] = field(default_factory=dict)
    _trees: dict[Path, list[Path]] = field(default_factory=dict)

    def in_file(self, path: Path) -> Sequence[Entity]:
        """Return the entities of a file, the file itself first."""
        found = self._read(path.absolute())
        if isinstance(found, TaskFileError):
            raise found
        return found

    def find(
        self, kind: Kind, key: str, near: Path, listed: Sequence[Entity] = ()
    ) -> Entity | None:
        """Return the entity with a key, or ``None``. Several at the same distance from
        the file that contains the reference are a ``TaskFileError``; those of a run
        file (``listed``) have precedence over all others."""
        mine = [one for one in listed if one.kind == kind and one.key == key]
        if mine:  # a run file can refer to one file twice
            return _only([*{one.place: one for one in mine}.values()], key)
        for folder in self._levels(near):
            found = [one for one in self._below(folder, kind) if one.key == key]
            if found:
                return _only(found, key)
        return None

    def unknown_key(
        self, kind: Kind, key: str, near: Path, listed: Sequence[Entity] = ()
    ) -> str:
        """Return the error message for an unknown key: a similar key or the list of
        known keys, and unreadable files, which might define it."""
        names = [one.key for one in listed if one.kind == kind]
        for folder in self._levels(near):
            names += [one.key for one in self._below(folder, kind)]
        known = sorted({name for name in names if name})
        unread = [
            str(found.problems[0]).partition("\n")[0]
            for found in self._files.values()
            if isinstance(found, TaskFileError)
        ]
        lost = f"; files that cannot be read: {'; '.join(unread[:3])}" if unread else ""
        return f"{unknown_name(kind, key, known)}{lost}"

    def all(self, kind: Kind, near: Path) -> list[Entity]:
        """Return all entities of a kind in the folder of a file and below it."""
        return list(self._below(near.absolute().parent, kind))

    def runs(self, places: Iterable[Path]) -> Iterator[Entity]:
        """Yield all run files and evaluations among files and folders."""
        kinds: tuple[Kind, ...] = ("run", "evaluation")
        for place in places:
            for path in self._tree(place) if os.path.isdir(place) else [place]:
                yield from (one for one in self._readable(path) if one.kind in kinds)

    def _levels(self, near: Path) -> Iterator[Path]:
        folder = near.absolute().parent
        yield folder
        while folder != self.root and folder.is_relative_to(self.root):
            folder = folder.parent
            yield folder

    def _below(self, folder: Path, kind: Kind) -> Iterator[Entity]:
        """Yield a folder's entities, each once although run files refer to some."""
        seen: set[Place] = set()
        for path in self._tree(folder):
            for one in self._readable(path):
                if one.kind == kind and one.place not in seen:
                    seen.add(one.place)
                    yield one

    def _readable(self, path: Path) -> Sequence[Entity]:
        found = self._read(path)
        return () if isinstance(found, TaskFileError) else found

    def _tree(self, folder: Path) -> list[Path]:
        if folder not in self._trees:
            self._trees[folder] = list(self._walk(folder))
        return self._trees[folder]

    def _walk(self, folder: Path) -> Iterator[Path]:
        for here, folders, names in os.walk(folder):
            folders[:] = sorted(
                name
                for name in folders
                if not name.startswith(".")
                and name not in ("__pycache__", "node_modules")
                and not self.skips(Path(here, name))
            )
            for name in sorted(names):
                path = Path(here, name)
                if name.endswith(YAML_SUFFIXES) and may_hold_entities(raw_of(path)):
                    yield path

    def _read(self, path: Path) -> Sequence[Entity] | TaskFileError:
        if path not in self._files:
            try:
                file = read_entity_file(path, self.base)
                self._files[path] = tuple(entities_in(file))
            except TaskFileError as error:
                self._files[path] = error
        return self._files[path]


def _only(found: Sequence[Entity], key: str) -> Entity:
    first, *others = found
    if others:
        places = ", ".join(str(one.place) for one in others)
        message = f"there is another {first.kind} called {key!r}, at {places}"
        fix = "give one of them another key"
        raise TaskFileError([Problem(message, first.place, fix)])
    return first
