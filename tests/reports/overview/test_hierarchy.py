"""The order of groups and tasks in a table."""

from __future__ import annotations

from pathlib import Path

from pytest_evals.core.result import GroupResult
from pytest_evals.core.task import Group
from pytest_evals.errors import Place
from pytest_evals.reports.overview.rows import ordered


def test_groups_come_first_each_with_all_it_holds_then_the_other_tasks(make):
    """lm-eval 0.4.13, utils.py, make_table: lm_eval.md, 6.5."""
    names = ("zoo", "art", "law", "bio")
    tasks = {name: make.result(make.task(name)) for name in names}

    def group(name, *children):
        return Group(name=name, source=Place(Path("g.yaml")), children=children)

    inner = group("inner", tasks["law"].task, tasks["bio"].task)
    outer = group("outer", tasks["zoo"].task, inner)
    groups = tuple(GroupResult(group=one, tasks=()) for one in (inner, outer))
    run = make.run(*tasks.values(), groups=groups)
    listed = [
        (getattr(one.result, "group", None) or one.result.task, one.depth)
        for one in ordered(run)
    ]
    assert [(one.name, depth) for one, depth in listed] == [
        ("outer", 0),
        ("inner", 1),
        ("bio", 2),
        ("law", 2),
        ("zoo", 1),
        ("art", 0),
    ]
