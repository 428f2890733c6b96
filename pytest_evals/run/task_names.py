"""Names of tasks and groups: valid ones, and names with the folder of a file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeVar

from pytest_evals.core.node_names import document_id, is_node_name, unfit_id
from pytest_evals.core.task import Group, Task
from pytest_evals.errors import Place, Problem, TaskFileError

_Named = TypeVar("_Named", Task, Group)


def named(one: _Named, name: str) -> _Named:
    """The task or group under another name, which its alias begins with too."""
    folder = name[: -len(one.name)] if name.endswith(one.name) else ""
    return replace(one, name=name, alias=one.alias and folder + one.alias)


def with_member(group: Group, old: str, place: Place, name: str) -> Group:
    """The group with another name for the member that is defined in a place."""
    children: list[Task | Group] = []
    for child in group.children:
        is_meant = child.name == old and child.source == place
        if isinstance(child, Group):
            inner = with_member(child, old, place, name)
            children.append(named(inner, name) if is_meant else inner)
        else:
            children.append(named(child, name) if is_meant else child)
    return replace(group, children=tuple(children))


def check_names(task: Task, ids: Sequence[str]) -> None:
    """Reject names and ids that a node id cannot contain."""
    if not all(map(is_node_name, task.node_name.split("::"))):
        text = f"a task cannot be called {task.name!r}"
        fix = "give it a name without '::', '[', ']' and control characters"
        raise TaskFileError([Problem(text, task.source, fix)])
    if (bad := unfit_id(ids)) is not None:
        text = f"{task.name}: a document cannot have the id {bad!r}"
        fix = f"call it {document_id(bad) or '0'!r}"
        raise TaskFileError([Problem(text, task.source, fix)])


def twice(one: Task | Group, place: Place, *, is_group: bool) -> Problem:
    """The error of a name that is defined twice in a folder: a task, or a group if
    ``is_group``, has it already, at ``place``."""
    nouns = {True: "group", False: "task"}
    here = isinstance(one, Group)
    also = "" if is_group == here else f", which is now the name of a {nouns[here]}"
    return Problem(
        f"there is already a {nouns[is_group]} called {one.name!r}, at {place}{also}",
        one.source,
        "give one of them another name, or run one file",
    )
