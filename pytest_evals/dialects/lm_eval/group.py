"""lm-eval's groups (0.4.13): a mapping with ``group`` → a group with all its tasks.

Reads the keys of the group itself; :mod:`pytest_evals.dialects.lm_eval.members` reads
its members.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from pytest_evals.core.group import Aggregate, Group
from pytest_evals.core.name_index import IndexEntry
from pytest_evals.core.task import Task, TaskOptions
from pytest_evals.dialects.detect import TASK_KEYS
from pytest_evals.dialects.gates_section.entries import (
    metadata_of,
    metadata_warnings,
    own_gates,
)
from pytest_evals.dialects.lm_eval.members import (
    GROUP_KEYS,
    Members,
    Overrides,
    is_name,
    select_keys,
)
from pytest_evals.dialects.task_index.lookup import TaskLookup
from pytest_evals.dialects.yaml_reader.includes import override, read_with_includes
from pytest_evals.dialects.yaml_reader.section import Section
from pytest_evals.dialects.yaml_reader.yaml_file import YamlFile
from pytest_evals.errors import Problem, TaskFileError, did_you_mean


def read_group(
    file: YamlFile, options: TaskOptions, build: Callable[[YamlFile, str], Task]
) -> Group:
    """Read the group of a file.

    Args:
        build: Builds a task from its keys and the name of the group that defines it.
    """
    name = file.values.get("group")
    if not is_name(name):
        what = f"group: expected a name without '::', '[' and ']', not {name!r}"
        raise TaskFileError([Problem(what, file.place("group"), "group: my_group")])
    reader = _Reader(options, build, file.path)
    group = reader.group(file, str(name), Overrides(select_keys(file, ())))
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
    """Reads a group and its members; collects problems."""

    def __init__(
        self,
        options: TaskOptions,
        build: Callable[[YamlFile, str], Task],
        path: Path,
    ) -> None:
        self.library = options.library or TaskLookup(path.parent)
        self.problems: list[Problem] = []
        self._build = build
        self._options = options
        self._from_files: dict[Path, Task | Group] = {}
        self._open_groups: list[str] = []

    def task(self, file: YamlFile, group: str = "") -> Task:
        return self._build(file, group)

    def from_file(self, entry: IndexEntry) -> Task | Group:
        assert entry.path is not None, "tags have been expanded"
        if entry.path not in self._from_files:
            file = read_with_includes(entry.path)
            if entry.kind == "group":
                member: Task | Group
                member = self.group(file, entry.name, Overrides(select_keys(file, ())))
            else:
                member = self.task(file)
            self._from_files[entry.path] = member
        return self._from_files[entry.path]

    def group(self, file: YamlFile, name: str, over: Overrides) -> Group:
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
                what = "must_pass and every apply to tasks, not to groups"
                fix = "move it to the task's file"
                self.problems.append(Problem(what, gate.source, fix))
        misspelled = _misspelled_keys(file)
        self.problems += misspelled.values()
        keys = file.values.keys() - misspelled.keys() - {*GROUP_KEYS}
        inherited = over._replace(keys=override(select_keys(file, keys), over.keys))
        members = Members(self, file, name, inherited, self.problems, warnings)
        if name in self._open_groups:
            path = " → ".join((*self._open_groups, name))
            what = f"the group contains itself: {path}"
            raise TaskFileError([Problem(what, file.place("group"))])
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
    """Unknown keys that resemble a group's keys."""
    problems: dict[object, Problem] = {}
    for key in file.values:
        hint = did_you_mean(str(key), GROUP_KEYS)
        if hint and key not in (*TASK_KEYS, *GROUP_KEYS):
            what = f"unknown group key {key!r}{hint}"
            problems[key] = Problem(what, file.place(key))
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
        what = f"no task has the metric {metric!r}"
        warnings.append(f"{entry.place('metric')}: {what}")
    aggregation = entry.raw("aggregation")
    if isinstance(aggregation, str) and aggregation != "mean":
        what = f"a group's aggregation must be mean, not {aggregation!r}"
        entry.problem("aggregation", what, "aggregation: mean")
    elif aggregation not in (None, "mean"):
        what = "ignored; the group uses the mean, as in lm-eval"
        warnings.append(f"{entry.place('aggregation')}: {what}")
    weighted = entry.raw("weight_by_size") if "weight_by_size" in entry else True
    if not isinstance(weighted, bool):
        what = f"weight_by_size: {weighted!r} counts as {str(bool(weighted)).lower()}"
        warnings.append(f"{entry.place('weight_by_size')}: {what}")
    better = entry.raw("higher_is_better")
    if better not in (None, True, False):
        what = f"higher_is_better must be true or false, not {better!r:.60}"
        entry.problem("higher_is_better", what, "remove it; the tasks define it")
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
