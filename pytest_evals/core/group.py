"""A group: tasks and groups under one name, and the numbers that they add up to."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from pytest_evals.core.gate import Gate
from pytest_evals.core.task import Task
from pytest_evals.errors import Place


@dataclass(frozen=True, slots=True, kw_only=True)
class Aggregate:
    """One number of a group: the average of a metric over its tasks.

    Args:
        metric: Name of the metric.
        filters: Filter pipelines under which it is averaged, each by itself; ``None``
            for all that a task has it under.
        weighted: Whether a task counts as many times as it has documents; if not, all
            tasks count the same.
        higher_is_better: Direction where the tasks have none or different ones.
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
    """A group, with all that it holds.

    Args:
        name: Unique within the session, among tasks too.
        source: File and line that define it.
        children: Its tasks and groups, no two with the same name.
        aggregates: Its numbers; without any, it is only a heading.
        gates: Claims about these numbers.
        alias: Name shown in tables.
        version: As the file gives it, as text.
        warnings: What is odd about it.
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
        """All tasks below it, in order; a task that is reached on several ways comes
        several times."""
        for child in self.children:
            if isinstance(child, Group):
                yield from child.tasks()
            else:
                yield child

    def groups(self) -> Iterator[Group]:
        """The group itself and all groups below it, each before those that it holds."""
        yield self
        for child in self.children:
            if isinstance(child, Group):
                yield from child.groups()
