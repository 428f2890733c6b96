"""lm-eval's groups (0.4.13): a mapping with ``group`` → a group with all its tasks.

Here are the keys of a group itself; its members are the business of
:mod:`pytest_evals.dialects.lm_eval.members`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from pytest_evals.core.group import Aggregate, Group
from pytest_evals.core.library import Entry
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
    Over,
    is_name,
    only,
)
from pytest_evals.dialects.task_index.lookup import TaskLibrary
from pytest_evals.dialects.yaml_reader.section import Section
from pytest_evals.dialects.yaml_reader.yaml_file import YamlFile, laid_over, resolved
from pytest_evals.errors import Problem, TaskFileError, did_you_mean


def read_group(
    file: YamlFile, options: TaskOptions, build: Callable[[YamlFile, str], Task]
) -> Group:
    """The group of a file.

    Args:
        file: Its keys, with those that it includes.
        options: What the command line changes in every task.
        build: Keys of a task, and the group that defines it or nothing → the task.

    Raises:
        TaskFileError: With all problems of the file and of its members.
    """
    name = file.values.get("group")
    if not is_name(name):
        what = f"group: a name without '::', '[' and ']' is wanted, not {name!r}"
        raise TaskFileError([Problem(what, file.place("group"), "group: my_group")])
    reader = _Reader(options, build, file.path)
    group = reader.group(file, str(name), Over(only(file, ())))
    problems = [*reader.problems, *_doubles(group)]
    if problems:
        raise TaskFileError(dict.fromkeys(problems))
    return replace(group, warnings=(*group.warnings, *_counted_twice(group)))


def _counted_twice(group: Group) -> Iterator[str]:
    """As by lm-eval, whose groups add up whatever is below them."""
    counts = Counter(task.name for task in group.tasks())
    for name, n in counts.items():
        if n > 1 and group.aggregates:
            yield f"task {name!r} is in the group {n} times, and counts {n} times"


class _Reader:
    """One file's group with whatever is below it; problems are collected."""

    def __init__(
        self,
        options: TaskOptions,
        build: Callable[[YamlFile, str], Task],
        path: Path,
    ) -> None:
        self.library = options.library or TaskLibrary(path.parent)
        self.problems: list[Problem] = []
        self._build = build
        self._options = options
        self._plain: dict[Path, Task | Group] = {}
        self._open: list[str] = []

    def task(self, file: YamlFile, group: str = "") -> Task:
        return self._build(file, group)

    def plain(self, entry: Entry) -> Task | Group:
        assert entry.path is not None, "a tag is expanded before"
        if entry.path not in self._plain:
            file = resolved(entry.path)
            if entry.kind == "group":
                found: Task | Group
                found = self.group(file, entry.name, Over(only(file, ())))
            else:
                found = self.task(file)
            self._plain[entry.path] = found
        return self._plain[entry.path]

    def group(self, file: YamlFile, name: str, over: Over) -> Group:
        """A group of its keys; those of ``over`` beat what it gives to its tasks."""
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
                what = "must_pass and every are about a task, not about a group"
                fix = "write it into the file of the task"
                self.problems.append(Problem(what, gate.source, fix))
        misspelt = _misspelt(file)
        self.problems += misspelt.values()
        keys = file.values.keys() - misspelt.keys() - {*GROUP_KEYS}
        down = over._replace(keys=laid_over(only(file, keys), over.keys))
        members = Members(self, file, name, down, self.problems, warnings)
        if name in self._open:
            way = " → ".join((*self._open, name))
            what = f"the group holds itself: {way}"
            raise TaskFileError([Problem(what, file.place("group"))])
        self._open.append(name)
        children = {child.name: child for child in members}
        self._open.pop()
        found = Group(
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
            _check_direction(entry, rule, found)
        return found


def _check_direction(entry: Section, rule: Aggregate, group: Group) -> None:
    """A direction must be that of the tasks, which is what gates go by."""
    wanted = rule.higher_is_better
    for task in group.tasks():
        for metric in task.metrics:
            theirs = metric.higher_is_better
            named = metric.name == rule.metric and rule.takes(metric.filter)
            if named and None not in (wanted, theirs) and wanted != theirs:
                entry.problem(
                    "higher_is_better",
                    f"higher_is_better: {str(wanted).lower()}, but it is "
                    f"{str(theirs).lower()} for {rule.metric!r} in task {task.name!r}",
                    "leave it out here; a group takes the direction of its tasks",
                )
                return


def _misspelt(file: YamlFile) -> dict[object, Problem]:
    """Keys that are no task's, and look like those of a group."""
    found: dict[object, Problem] = {}
    for key in file.values:
        hint = did_you_mean(str(key), GROUP_KEYS)
        if hint and key not in (*TASK_KEYS, *GROUP_KEYS):
            what = f"a group has no key {key!r}{hint}"
            found[key] = Problem(what, file.place(key))
    return found


def _aggregate_entries(top: Section) -> list[Section]:
    key = "aggregate_metric_list"
    if isinstance(top.values.get(key), dict):
        section = top.section(key)
        return [section] if section else []
    return top.entries(key)


def _aggregate(entry: Section, warnings: list[str]) -> Aggregate:
    metric = entry.raw("metric")
    if metric is None:
        entry.problem("metric", "the entry names no metric", "metric: acc")
    elif not isinstance(metric, str):
        what = f"no task has a metric called {metric!r}"
        warnings.append(f"{entry.place('metric')}: {what}")
    aggregation = entry.raw("aggregation")
    if isinstance(aggregation, str) and aggregation != "mean":
        what = f"the aggregation of a group is mean, not {aggregation!r}"
        entry.problem("aggregation", what, "aggregation: mean")
    elif aggregation not in (None, "mean"):
        what = "the group is averaged all the same, as by lm-eval"
        warnings.append(f"{entry.place('aggregation')}: {what}")
    weighted = entry.raw("weight_by_size") if "weight_by_size" in entry else True
    if not isinstance(weighted, bool):
        what = f"weight_by_size: {weighted!r} counts as {str(bool(weighted)).lower()}"
        warnings.append(f"{entry.place('weight_by_size')}: {what}")
    better = entry.raw("higher_is_better")
    if better not in (None, True, False):
        what = f"higher_is_better is true or false, not {better!r:.60}"
        entry.problem("higher_is_better", what, "leave it out; the tasks define it")
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


def _doubles(group: Group) -> Iterator[Problem]:
    """A task that is reached on two ways must be the same on both."""
    seen: dict[str, Task] = {}
    for task in group.tasks():
        first = seen.setdefault(task.name, task)
        if first.config != task.config:
            yield Problem(
                f"task {task.name!r} is in group {group.name!r} twice, here with other "
                f"settings than at {first.source}",
                task.source,
                "leave one of them out",
            )
