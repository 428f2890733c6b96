"""Members of lm-eval's groups (0.4.13, ``tasks/_factory.py``).

A member is a name (of a task, group or tag), a name with keys that override those of
its tasks, or an inline task or group. The keys of a member override those of the
enclosing groups, and an outer group overrides an inner one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Protocol

from pytest_evals.core.group import Group
from pytest_evals.core.name_index import IndexEntry, NameIndex
from pytest_evals.core.node_names import is_node_name
from pytest_evals.core.task import Task
from pytest_evals.dialects.yaml_reader.includes import (
    override,
    read_with_includes,
    subsection,
)
from pytest_evals.dialects.yaml_reader.yaml_file import YamlFile
from pytest_evals.errors import Place, Problem, TaskFileError, did_you_mean

GROUP_KEYS = (
    "group", "group_alias", "task", "aggregate_metric_list", "metadata", "gates", "tag",
    "task_list",
)  # fmt: skip
"""Keys of a group that its tasks do not inherit."""
_DROPPED = ("group", "tag", "task_list")
"""Keys that lm-eval removes before it builds a task."""
_GROUP_ONLY = ("group_alias", "aggregate_metric_list", "gates")
"""Keys of a member that apply to a group defined in another file."""
_TASK_DEFINING = ("dataset_path", "custom_dataset", "class")
"""Any of these keys makes a mapping an inline task."""


class Overrides(NamedTuple):
    """Keys that override those of tasks.

    ``origin`` is the place of the member in another file that introduced them; tasks
    that they change are reported there.
    """

    keys: YamlFile
    origin: Place | None = None

    def with_member(self, part: YamlFile) -> Overrides:
        """Add the keys of a member, which override these."""
        return self._replace(keys=override(self.keys, part))


class MemberSource(Protocol):
    """Builds tasks and groups from keys and files."""

    library: NameIndex

    def task(self, file: YamlFile, group: str = "") -> Task:
        """Build a task from its keys; ``group`` is the group that defines it."""
        ...

    def group(self, file: YamlFile, name: str, over: Overrides) -> Group:
        """Build a group from its keys."""
        ...

    def from_file(self, entry: IndexEntry) -> Task | Group:
        """A task or group as its own file defines it.

        Raises:
            TaskFileError: The file is invalid, or the group contains itself.
        """
        ...


@dataclass(slots=True)
class Members:
    """Members of one group, in order.

    Args:
        over: Keys that override those of its tasks.
    """

    source: MemberSource
    file: YamlFile
    name: str
    over: Overrides
    problems: list[Problem]
    warnings: list[str] = field(default_factory=list)

    def __iter__(self) -> Iterator[Task | Group]:
        """All tasks and groups; invalid members become problems."""
        members = self.file.values.get("task")
        if isinstance(members, str) and not any(
            k in self.file.values for k in _TASK_DEFINING
        ):
            members = [members]
        if not isinstance(members, list):
            self.problems.append(_invalid_member_list(self.file, self.name, members))
            return
        for number, member in enumerate(members):
            try:
                yield from self._member(number, member)
            except TaskFileError as error:
                self.problems += error.problems

    def _member(self, number: int, member: Any) -> Iterator[Task | Group]:
        place = self.file.place("task", number)
        if isinstance(member, str):
            yield from self._by_name(member, place, self.over)
            return
        if not isinstance(member, dict) or not ("task" in member or "group" in member):
            shown = list(member) if isinstance(member, dict) else member
            what = (
                "a member must be a name or a mapping with 'task' or 'group', "
                f"not {shown!r}"
            )
            raise TaskFileError([Problem(what, place, "- task: arc_easy")])
        part = subsection(self.file, "task", number)
        key = "group" if "group" in member else "task"
        name = member[key]
        if not is_name(name):
            what = f"{key}: expected a name without '::', '[' and ']', not {name!r}"
            raise TaskFileError([Problem(what, place)])
        if key == "group" and "task" in member:
            yield self._inline_group(part, name, place)
        else:
            yield from self._by_name(name, place, self.over, part)

    def _inline_group(self, part: YamlFile, name: str, place: Place) -> Group:
        known = self.source.library.find(name, self.file.path)
        if known is not None:
            self.warnings.append(
                f"{place}: the inline group {name!r} is different from the "
                f"{known.kind} of that name"
            )
        return self.source.group(part, f"{self.name}::{name}", self.over)

    def _by_name(
        self, name: str, place: Place, over: Overrides, part: YamlFile | None = None
    ) -> Iterator[Task | Group]:
        """The task, group or tag with a name, with overrides applied.

        Args:
            over: Keys of the enclosing groups.
            part: The member's own keys, if it has any.
        """
        library = self.source.library
        entry = library.find(name, self.file.path)
        if entry is None:
            yield self._inline_task(name, place, part)
            return
        clash = library.clash(name, self.file.path)
        self.warnings += [f"{place}: {clash}"] if clash else []
        own = None
        if part is not None:
            if entry.kind == "group":
                own = select_keys(part, [k for k in _GROUP_ONLY if k in part.values])
            dropped = (*_DROPPED, "task", *(own.values if own else ()))
            keys = [key for key in part.values if key not in dropped]
            over = over.with_member(select_keys(part, keys))
        changed = bool(over.keys.values or (own and own.values))
        if changed and over.origin is None:
            over = over._replace(origin=place)
        if entry.kind != "task" and part is not None and "task" in part.values:
            self.warnings.append(
                f"{place}: {name!r} is a {entry.kind}, so these keys apply to all its "
                "tasks; lm-eval 0.4.13 runs only one of them"
            )
        for one in self._expand_tag(entry):
            if changed:
                yield self._with_overrides(one, over, own)
            else:
                yield self.source.from_file(one)

    def _expand_tag(self, entry: IndexEntry) -> Iterator[IndexEntry]:
        """The tasks of a tag; any other entry itself."""
        if entry.kind != "tag":
            yield entry
        for name in entry.members:
            task = self.source.library.find(name, self.file.path)
            if task is not None and task.kind == "task":
                yield task

    def _with_overrides(
        self, entry: IndexEntry, over: Overrides, own: YamlFile | None
    ) -> Task | Group:
        """A task or group of another file with overrides applied."""
        assert entry.path is not None and over.origin is not None
        base = read_with_includes(entry.path)
        if entry.kind == "group":
            file = override(base, own) if own else base
            return self.source.group(file, entry.name, over)
        file = override(base, over.keys)
        return replace(self.source.task(file), source=over.origin)

    def _inline_task(self, name: str, place: Place, part: YamlFile | None) -> Task:
        """A task defined inside the group, with a unique name."""
        keys = part or YamlFile(path=self.file.path, values={})
        keys = override(self.over.keys, keys)
        keys = select_keys(keys, [k for k in keys.values if k not in _DROPPED])
        if not any(key in keys.values for key in _TASK_DEFINING):
            raise TaskFileError([self._unknown_name(name, place)])
        named = YamlFile(
            path=self.file.path, values={"task": name}, lines={("task",): place}
        )
        task = self.source.task(override(keys, named), self.name)
        return replace(task, source=self.over.origin or place)

    def _unknown_name(self, name: str, place: Place) -> Problem:
        known = sorted(set(self.source.library.names(self.file.path)))
        hint = did_you_mean(name, known)
        return Problem(
            f"unknown task, group or tag {name!r}{hint}",
            place,
            "put its file in this folder, below it or in a parent folder, or pass its "
            "folder: --evals-include-path DIR",
        )


def is_name(name: object) -> bool:
    """Whether a group or task can have this name."""
    return isinstance(name, str) and is_node_name(name)


def select_keys(file: YamlFile, keys: Any) -> YamlFile:
    """The file with only the given keys."""
    kept = set(keys)
    return YamlFile(
        path=file.path,
        values={key: file.values[key] for key in file.values if key in kept},
        lines={way: at for way, at in file.lines.items() if way[0] in kept},
    )


def _invalid_member_list(file: YamlFile, name: str, members: object) -> Problem:
    if isinstance(members, str):
        what = f"group: this file defines the task {members!r}, not a group"
        return Problem(what, file.place("group"), f"tag: {name}")
    what = f"task must be a list of the group's members, not {members!r}"
    return Problem(what, file.place("task"), "task: [arc_easy, hellaswag]")
