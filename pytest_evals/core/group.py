"""A group: tasks and groups under one name, and their aggregated metrics."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from pytest_evals.core.gate import Gate
from pytest_evals.core.task import Task
from pytest_evals.errors import Place


@dataclass(frozen=True, slots=True, kw_only=True)
class Aggregate:
    """One metric of a group: the average of a metric over its tasks."""

    metric: str
    filters: tuple[str, ...] | None = None
    """Filter pipelines that are averaged, each separately; ``None`` for all filters of
    the tasks."""
    weighted: bool = True
    """Whether tasks are weighted by their numbers of documents; if not, all tasks have
    the same weight."""
    higher_is_better: bool | None = None
    """Direction if the tasks have none or different ones."""

    def takes(self, filter_: str) -> bool:
        """Whether the metric is averaged under this filter pipeline."""
        return self.filters is None or filter_ in self.filters


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """A group and its members."""

    name: str  # unique within the session, among tasks too
    source: Place  # file and line that define it
    children: tuple[Task | Group, ...] = ()  # its tasks and groups, with unique names
    aggregates: tuple[Aggregate, ...] = ()
    """Its metrics; without any, it is only a heading."""
    gates: tuple[Gate, ...] = ()  # gates on these metrics
    alias: str = ""  # name shown in tables
    version: str = "N/A"  # as in the file, as a string
    warnings: tuple[str, ...] = ()  # warnings about its file

    def tasks(self) -> Iterator[Task]:
        """All tasks of the group, in order; a task that belongs to several subgroups is
        repeated."""
        for child in self.children:
            if isinstance(child, Group):
                yield from child.tasks()
            else:
                yield child

    def groups(self) -> Iterator[Group]:
        """The group itself and all its subgroups, each before its members."""
        yield self
        for child in self.children:
            if isinstance(child, Group):
                yield from child.groups()
