"""lm-eval's groups (0.4.13): a mapping with ``group`` → a group with all its tasks.

A member is a name (of a task, group or tag), a name with keys that override those of
its tasks, or an inline task or group. The keys of a member override those of the
enclosing groups, and an outer group overrides an inner one (``tasks/_factory.py``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from pytest_evals.core.node_names import is_node_name
from pytest_evals.core.task import Aggregate, Group, IndexEntry, Task, TaskOptions
from pytest_evals.dialects.detect import TASK_KEYS
from pytest_evals.dialects.gates_section.entries import (
    metadata_of,
    metadata_warnings,
    own_gates,
)
from pytest_evals.dialects.task_index.lookup import TaskLookup
from pytest_evals.dialects.yaml_reader.includes import (
    override,
    read_with_includes,
    subsection,
)
from pytest_evals.dialects.yaml_reader.section import Section
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


class _Overrides(NamedTuple):
    """Keys that override those of tasks. ``origin`` is the place of the member in
    another file that introduced them; tasks that they change are reported there."""

    keys: YamlFile
    origin: Place | None = None


def read_group(
    file: YamlFile, options: TaskOptions, build: Callable[[YamlFile, str], Task]
) -> Group:
    """Read the group of a file. ``build``: builds a task from its keys and the name of
    the group that defines it."""
    name = file.values.get("group")
    if not _is_name(name):
        message = f"group: expected a name without '::', '[' and ']', not {name!r}"
        raise TaskFileError([Problem(message, file.place("group"), "group: my_group")])
    reader = _Reader(options, build, file.path)
    group = reader.group(file, str(name), _Overrides(_select_keys(file, ())))
    problems = [*reader.problems, *_conflicting_definitions(group)]
    if problems:
        raise TaskFileError(dict.fromkeys(problems))
    return replace(group, warnings=(*group.warnings, *_duplicate_warnings(group)))


def _duplicate_warnings(group: Group) -> Iterator[str]:
    # lm-eval counts a task as often as it occurs below a group.
    counts = Counter(task.name for task in group.tasks())
    for name, n in counts.items():
        if n > 1 and group.aggregates:
            yield (
                f"task {name!r} occurs {n} times in the group and is counted {n} times"
            )


class _Reader:
    def __init__(
        self, options: TaskOptions, build: Callable[[YamlFile, str], Task], path: Path
    ) -> None:
        self.library = options.library or TaskLookup(path.parent)
        self.problems: list[Problem] = []
        self.build = build
        self._options = options
        self._from_files: dict[Path, Task | Group] = {}
        self._open_groups: list[str] = []

    def from_file(self, entry: IndexEntry) -> Task | Group:
        assert entry.path is not None, "tags have been expanded"
        if entry.path not in self._from_files:
            file = read_with_includes(entry.path)
            self._from_files[entry.path] = (
                self.group(file, entry.name, _Overrides(_select_keys(file, ())))
                if entry.kind == "group"
                else self.build(file, "")
            )
        return self._from_files[entry.path]

    def group(self, file: YamlFile, name: str, over: _Overrides) -> Group:
        """Build a group; the keys of ``over`` override those of its tasks."""
        top = Section(file, self.problems)
        alias = top.text("group_alias")
        metadata = metadata_of(top, self._options.metadata)
        warnings = [*file.warnings]
        warnings += metadata_warnings(top)
        entries = _aggregate_entries(top)
        aggregates = tuple(_aggregate(entry, warnings) for entry in entries)
        gates = own_gates(top, name, metadata, "group")
        for gate in gates:
            if gate.is_about_documents:
                message = "must_pass and every apply to tasks, not to groups"
                fix = "move it to the task's file"
                self.problems.append(Problem(message, gate.source, fix))
        misspelled = _misspelled_keys(file)
        self.problems += misspelled.values()
        keys = file.values.keys() - misspelled.keys() - {*GROUP_KEYS}
        inherited = over._replace(keys=override(_select_keys(file, keys), over.keys))
        members = _Members(self, file, name, inherited, self.problems, warnings)
        if name in self._open_groups:
            path = " → ".join((*self._open_groups, name))
            message = f"the group contains itself: {path}"
            raise TaskFileError([Problem(message, file.place("group"))])
        self._open_groups.append(name)
        children = {child.name: child for child in members}
        self._open_groups.pop()
        group = Group(
            name=name,
            source=over.origin or file.place("group"),
            children=tuple(children.values()),
            aggregates=aggregates,
            gates=gates,
            alias=alias,
            version=str(metadata.get("version", "N/A")),
            warnings=tuple(warnings),
        )
        for entry, rule in zip(entries, aggregates, strict=True):
            _check_direction(entry, rule, group)
        return group


@dataclass(slots=True)
class _Members:
    """Members of one group, in order. ``over``: keys that override those of its
    tasks."""

    reader: _Reader
    file: YamlFile
    name: str
    over: _Overrides
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
            message = "a member must be a name or a mapping with 'task' or 'group', "
            message += f"not {shown!r}"
            raise TaskFileError([Problem(message, place, "- task: arc_easy")])
        part = subsection(self.file, "task", number)
        key = "group" if "group" in member else "task"
        name = member[key]
        if not _is_name(name):
            message = f"{key}: expected a name without '::', '[' and ']', not {name!r}"
            raise TaskFileError([Problem(message, place)])
        if key == "group" and "task" in member:
            yield self._inline_group(part, name, place)
        else:
            yield from self._by_name(name, place, self.over, part)

    def _inline_group(self, part: YamlFile, name: str, place: Place) -> Group:
        known = self.reader.library.find(name, self.file.path)
        if known is not None:
            self.warnings.append(
                f"{place}: the inline group {name!r} is different from the "
                f"{known.kind} of that name"
            )
        return self.reader.group(part, f"{self.name}::{name}", self.over)

    def _by_name(
        self, name: str, place: Place, over: _Overrides, part: YamlFile | None = None
    ) -> Iterator[Task | Group]:
        """The task, group or tag with a name, with overrides applied. ``over``: keys of
        the enclosing groups. ``part``: the member's own keys, if it has any."""
        library = self.reader.library
        entry = library.find(name, self.file.path)
        if entry is None:
            yield self._inline_task(name, place, part)
            return
        clash = library.clash(name, self.file.path)
        self.warnings += [f"{place}: {clash}"] if clash else []
        extra = None
        if part is not None:
            if entry.kind == "group":
                extra = _select_keys(part, [k for k in _GROUP_ONLY if k in part.values])
            dropped = (*_DROPPED, "task", *(extra.values if extra else ()))
            keys = [key for key in part.values if key not in dropped]
            selected = _select_keys(part, keys)
            over = over._replace(keys=override(over.keys, selected))
        changed = bool(over.keys.values or (extra and extra.values))
        if changed and over.origin is None:
            over = over._replace(origin=place)
        if entry.kind != "task" and part is not None and "task" in part.values:
            self.warnings.append(
                f"{place}: {name!r} is a {entry.kind}, so these keys apply to all its "
                "tasks; lm-eval 0.4.13 runs only one of them"
            )
        for one in self._expand_tag(entry):
            if changed:
                yield self._with_overrides(one, over, extra)
            else:
                yield self.reader.from_file(one)

    def _expand_tag(self, entry: IndexEntry) -> Iterator[IndexEntry]:
        if entry.kind != "tag":
            yield entry
        for name in entry.members:
            task = self.reader.library.find(name, self.file.path)
            if task is not None and task.kind == "task":
                yield task

    def _with_overrides(
        self, entry: IndexEntry, over: _Overrides, extra: YamlFile | None
    ) -> Task | Group:
        assert entry.path is not None and over.origin is not None
        base = read_with_includes(entry.path)
        if entry.kind == "group":
            file = override(base, extra) if extra else base
            return self.reader.group(file, entry.name, over)
        file = override(base, over.keys)
        return replace(self.reader.build(file, ""), source=over.origin)

    def _inline_task(self, name: str, place: Place, part: YamlFile | None) -> Task:
        """A task defined inside the group, with a unique name."""
        keys = part or YamlFile(path=self.file.path, values={})
        keys = override(self.over.keys, keys)
        keys = _select_keys(keys, [k for k in keys.values if k not in _DROPPED])
        if not any(key in keys.values for key in _TASK_DEFINING):
            raise TaskFileError([self._unknown_name(name, place)])
        named = YamlFile(
            path=self.file.path, values={"task": name}, lines={("task",): place}
        )
        task = self.reader.build(override(keys, named), self.name)
        return replace(task, source=self.over.origin or place)

    def _unknown_name(self, name: str, place: Place) -> Problem:
        known = sorted(set(self.reader.library.names(self.file.path)))
        hint = did_you_mean(name, known)
        return Problem(
            f"unknown task, group or tag {name!r}{hint}",
            place,
            "put its file in this folder, below it or in a parent folder, or pass its "
            "folder: --evals-include-path DIR",
        )


def _is_name(name: object) -> bool:
    return isinstance(name, str) and is_node_name(name)


def _select_keys(file: YamlFile, keys: Any) -> YamlFile:
    kept = set(keys)
    return YamlFile(
        path=file.path,
        values={key: file.values[key] for key in file.values if key in kept},
        lines={way: at for way, at in file.lines.items() if way[0] in kept},
    )


def _invalid_member_list(file: YamlFile, name: str, members: object) -> Problem:
    if isinstance(members, str):
        message = f"group: this file defines the task {members!r}, not a group"
        return Problem(message, file.place("group"), f"tag: {name}")
    message = f"task must be a list of the group's members, not {members!r}"
    return Problem(message, file.place("task"), "task: [arc_easy, hellaswag]")


def _check_direction(entry: Section, rule: Aggregate, group: Group) -> None:
    """The direction must match that of the tasks, because gates use the latter."""
    expected = rule.higher_is_better
    for task in group.tasks():
        for metric in task.metrics:
            actual = metric.higher_is_better
            named = metric.name == rule.metric and rule.takes(metric.filter)
            if named and None not in (expected, actual) and expected != actual:
                entry.problem(
                    "higher_is_better",
                    f"higher_is_better is {str(expected).lower()}, but "
                    f"{str(actual).lower()} for {rule.metric!r} in task {task.name!r}",
                    "remove it; a group uses the direction of its tasks",
                )
                return


def _misspelled_keys(file: YamlFile) -> dict[object, Problem]:
    problems: dict[object, Problem] = {}
    for key in file.values:
        hint = did_you_mean(str(key), GROUP_KEYS)
        if hint and key not in (*TASK_KEYS, *GROUP_KEYS):
            message = f"unknown group key {key!r}{hint}"
            problems[key] = Problem(message, file.place(key))
    return problems


def _aggregate_entries(top: Section) -> list[Section]:
    key = "aggregate_metric_list"
    if isinstance(top.values.get(key), dict):
        section = top.section(key)
        return [section] if section else []
    return top.entries(key)


def _aggregate(entry: Section, warnings: list[str]) -> Aggregate:
    metric = entry.raw("metric")
    if metric is None:
        entry.problem("metric", "the entry has no metric", "metric: acc")
    elif not isinstance(metric, str):
        message = f"no task has the metric {metric!r}"
        warnings.append(f"{entry.place('metric')}: {message}")
    aggregation = entry.raw("aggregation")
    if isinstance(aggregation, str) and aggregation != "mean":
        message = f"a group's aggregation must be mean, not {aggregation!r}"
        entry.problem("aggregation", message, "aggregation: mean")
    elif aggregation not in (None, "mean"):
        message = "ignored; the group uses the mean, as in lm-eval"
        warnings.append(f"{entry.place('aggregation')}: {message}")
    weighted = entry.raw("weight_by_size") if "weight_by_size" in entry else True
    if not isinstance(weighted, bool):
        message = (
            f"weight_by_size: {weighted!r} counts as {str(bool(weighted)).lower()}"
        )
        warnings.append(f"{entry.place('weight_by_size')}: {message}")
    better = entry.raw("higher_is_better")
    if better not in (None, True, False):
        message = f"higher_is_better must be true or false, not {better!r:.60}"
        entry.problem("higher_is_better", message, "remove it; the tasks define it")
    filters = entry.take("filter_list", (str, list), [])
    given = entry.values.get("filter_list") is not None
    entry.close("an entry of aggregate_metric_list")
    names = [filters] if isinstance(filters, str) else [str(one) for one in filters]
    return Aggregate(
        metric=str(metric),
        filters=tuple(names) if given else None,
        weighted=bool(weighted),
        higher_is_better=None if better is None else bool(better),
    )


def _conflicting_definitions(group: Group) -> Iterator[Problem]:
    """Tasks that occur twice in a group with different settings."""
    seen: dict[str, Task] = {}
    for task in group.tasks():
        first = seen.setdefault(task.name, task)
        if first.config != task.config:
            yield Problem(
                f"task {task.name!r} is in group {group.name!r} twice, with different "
                f"settings at {first.source}",
                task.source,
                "remove one of them",
            )
