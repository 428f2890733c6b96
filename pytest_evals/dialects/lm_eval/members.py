"""The members of lm-eval's groups (0.4.13, ``tasks/_factory.py``).

A member is a name (of a task, a group or a tag), a name with keys that override those
of its tasks, or a task or group that stands in the group as a whole. The keys of a
member beat those of the groups around it, and an outer group beats an inner one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Protocol

from pytest_evals.core.group import Group
from pytest_evals.core.library import Entry, Library
from pytest_evals.core.node_names import is_node_name
from pytest_evals.core.task import Task
from pytest_evals.dialects.yaml_reader.yaml_file import (
    YamlFile,
    laid_over,
    part_of,
    resolved,
)
from pytest_evals.errors import Place, Problem, TaskFileError, did_you_mean

GROUP_KEYS = (
    "group",
    "group_alias",
    "task",
    "aggregate_metric_list",
    "metadata",
    "gates",
    "tag",
    "task_list",
)
"""Keys of a group that none of its tasks gets."""
_DROPPED = ("group", "tag", "task_list")
"""Keys that lm-eval takes out of a task before it is built."""
_OF_KNOWN_GROUP = ("group_alias", "aggregate_metric_list", "gates")
"""Keys of a member that are about a group which stands elsewhere."""
_WHOLE = ("dataset_path", "custom_dataset", "class")
"""One of these makes a mapping a task of its own."""


class Over(NamedTuple):
    """Keys that beat those of tasks.

    ``origin`` is the member of another file that they came in with: whatever they
    change is defined there.
    """

    keys: YamlFile
    origin: Place | None = None

    def under(self, part: YamlFile) -> Over:
        """These keys with those of a member put over them."""
        return self._replace(keys=laid_over(self.keys, part))


class MemberSource(Protocol):
    """Where members come from."""

    library: Library

    def task(self, file: YamlFile, group: str = "") -> Task:
        """A task of its keys; ``group`` is the group that defines it, if one does.

        Raises:
            TaskFileError: The keys make no task.
        """
        ...

    def group(self, file: YamlFile, name: str, over: Over) -> Group:
        """A group of its keys."""
        ...

    def plain(self, entry: Entry) -> Task | Group:
        """A task or a group as its own file has it.

        Raises:
            TaskFileError: The file cannot be used, or the group is inside itself.
        """
        ...


@dataclass(slots=True)
class Members:
    """The members of one group, one after the other.

    Args:
        source: Where they come from.
        file: The keys of the group.
        name: Its name.
        over: Keys that beat those of its tasks.
        problems: What is wrong with members is added here.
        warnings: What is odd about them is added here.
    """

    source: MemberSource
    file: YamlFile
    name: str
    over: Over
    problems: list[Problem]
    warnings: list[str] = field(default_factory=list)

    def __iter__(self) -> Iterator[Task | Group]:
        """All tasks and groups; those that cannot be had are problems."""
        members = self.file.values.get("task")
        if isinstance(members, str) and not any(k in self.file.values for k in _WHOLE):
            members = [members]
        if not isinstance(members, list):
            self.problems.append(_no_list(self.file, self.name, members))
            return
        for number, member in enumerate(members):
            try:
                yield from self._member(number, member)
            except TaskFileError as error:
                self.problems += error.problems

    def _member(self, number: int, member: Any) -> Iterator[Task | Group]:
        place = self.file.place("task", number)
        if isinstance(member, str):
            yield from self._named(member, place, self.over)
            return
        if not isinstance(member, dict) or not ("task" in member or "group" in member):
            shown = list(member) if isinstance(member, dict) else member
            what = f"a member is a name, or keys with 'task' or 'group', not {shown!r}"
            raise TaskFileError([Problem(what, place, "- task: arc_easy")])
        part = part_of(self.file, "task", number)
        key = "group" if "group" in member else "task"
        name = member[key]
        if not is_name(name):
            what = f"{key}: a name without '::', '[' and ']' is wanted, not {name!r}"
            raise TaskFileError([Problem(what, place)])
        if key == "group" and "task" in member:
            yield self._group_of_its_own(part, name, place)
        else:
            yield from self._named(name, place, self.over, part)

    def _group_of_its_own(self, part: YamlFile, name: str, place: Place) -> Group:
        known = self.source.library.find(name, self.file.path)
        if known is not None:
            self.warnings.append(
                f"{place}: the group {name!r} that stands here is not the {known.kind} "
                "of that name"
            )
        return self.source.group(part, f"{self.name}::{name}", self.over)

    def _named(
        self, name: str, place: Place, over: Over, part: YamlFile | None = None
    ) -> Iterator[Task | Group]:
        """Whatever a name stands for, changed by what is over it.

        Args:
            name: The name.
            place: Where it stands.
            over: Keys of the groups around it.
            part: Its own keys, where it has any.
        """
        library = self.source.library
        entry = library.find(name, self.file.path)
        if entry is None:
            yield self._task_of_its_own(name, place, part)
            return
        clash = library.clash(name, self.file.path)
        self.warnings += [f"{place}: {clash}"] if clash else []
        own = None
        if part is not None:
            if entry.kind == "group":
                own = only(part, [k for k in _OF_KNOWN_GROUP if k in part.values])
            dropped = (*_DROPPED, "task", *(own.values if own else ()))
            keys = [key for key in part.values if key not in dropped]
            over = over.under(only(part, keys))
        changed = bool(over.keys.values or (own and own.values))
        if changed and over.origin is None:
            over = over._replace(origin=place)
        if entry.kind != "task" and part is not None and "task" in part.values:
            self.warnings.append(
                f"{place}: {name!r} is a {entry.kind}, so all its tasks get these keys;"
                " lm-eval 0.4.13 runs one of them only"
            )
        for one in self._expanded(entry):
            yield self._changed(one, over, own) if changed else self.source.plain(one)

    def _expanded(self, entry: Entry) -> Iterator[Entry]:
        """A tag as its tasks; anything else as it is."""
        if entry.kind != "tag":
            yield entry
        for name in entry.members:
            found = self.source.library.find(name, self.file.path)
            if found is not None and found.kind == "task":
                yield found

    def _changed(self, entry: Entry, over: Over, own: YamlFile | None) -> Task | Group:
        """A task or a group of another file, defined anew by the keys over it."""
        assert entry.path is not None and over.origin is not None
        base = resolved(entry.path)
        if entry.kind == "group":
            file = laid_over(base, own) if own else base
            return self.source.group(file, entry.name, over)
        file = laid_over(base, over.keys)
        return replace(self.source.task(file), source=over.origin)

    def _task_of_its_own(self, name: str, place: Place, part: YamlFile | None) -> Task:
        """A task that is written into the group, under a name that nothing else has."""
        keys = part or YamlFile(path=self.file.path, values={})
        keys = laid_over(self.over.keys, keys)
        keys = only(keys, [k for k in keys.values if k not in _DROPPED])
        if not any(key in keys.values for key in _WHOLE):
            raise TaskFileError([self._nothing_called(name, place)])
        named = YamlFile(
            path=self.file.path, values={"task": name}, lines={("task",): place}
        )
        task = self.source.task(laid_over(keys, named), self.name)
        return replace(task, source=self.over.origin or place)

    def _nothing_called(self, name: str, place: Place) -> Problem:
        known = sorted(set(self.source.library.names(self.file.path)))
        hint = did_you_mean(name, known)
        return Problem(
            f"no task, group or tag called {name!r}{hint}",
            place,
            "write its file below this folder or one above it, or name the folder that "
            "has it: --evals-include-path DIR",
        )


def is_name(name: object) -> bool:
    """Whether a group or a task can be called so."""
    return isinstance(name, str) and is_node_name(name)


def only(file: YamlFile, keys: Any) -> YamlFile:
    """The file with some of its keys."""
    kept = set(keys)
    return YamlFile(
        path=file.path,
        values={key: file.values[key] for key in file.values if key in kept},
        lines={way: at for way, at in file.lines.items() if way[0] in kept},
    )


def _no_list(file: YamlFile, name: str, members: object) -> Problem:
    if isinstance(members, str):
        what = f"group: this is the file of a task, {members!r}, and no group"
        return Problem(what, file.place("group"), f"tag: {name}")
    what = f"a group lists its members under 'task', not {members!r}"
    return Problem(what, file.place("task"), "task: [arc_easy, hellaswag]")
