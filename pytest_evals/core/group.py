"""A group: tasks and groups under one name, and their aggregated metrics."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from pytest_evals.core.gate import Gate
from pytest_evals.core.task import Task
from pytest_evals.errors import Place


@dataclass(frozen=True, slots=True, kw_only=True)
class Aggregate:
    """One metric of a group: the average of a metric over its tasks.

    Args:
        metric: Name of the metric.
        filters: Filter pipelines that are averaged, each separately; ``None`` for all
            filters of the tasks.
        weighted: Whether tasks are weighted by their numbers of documents; if not, all
            tasks have the same weight.
        higher_is_better: Direction if the tasks have none or different ones.
    """

    metric: str
    filters: tuple[str, ...] | None = None
    weighted: bool = True
    higher_is_better: bool | None = None

    def takes(self, filter_: str) -> bool:
        """Whether the metric is averaged under this filter pipeline."""
        return self.filters is None or filter_ in self.filters


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """A group and its members.

    Args:
        name: Unique within the session, among tasks too.
        source: File and line that define it.
        children: Its tasks and groups, with unique names.
        aggregates: Its metrics; without any, it is only a heading.
        gates: Gates on these metrics.
        alias: Name shown in tables.
        version: As in the file, as a string.
        warnings: Warnings about its file.
    """

    name: str
    source: Place
    children: tuple[Task | Group, ...] = ()
    aggregates: tuple[Aggregate, ...] = ()
    gates: tuple[Gate, ...] = ()
    alias: str = ""
    version: str = "N/A"
    warnings: tuple[str, ...] = ()

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
