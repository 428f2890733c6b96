"""Group files: members, overrides, and errors in them."""

from __future__ import annotations

import json
from textwrap import dedent

import pytest

from pytest_evals.core.task import Group, TaskOptions
from pytest_evals.dialects.lm_eval.task import load_tasks
from pytest_evals.dialects.task_index.lookup import TaskLookup
from pytest_evals.errors import TaskFileError

TASK = """\
task: {name}
tag: letters
dataset_path: json
dataset_kwargs: {{data_files: {{test: rows.jsonl}}}}
test_split: test
doc_to_text: "{{{{q}}}}"
doc_to_target: "{{{{a}}}}"
metadata: {{version: 1}}
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rows.jsonl").write_text(json.dumps({"q": "1?", "a": "1"}) + "\n")
    for name in ("a", "b"):
        (tmp_path / f"{name}.yaml").write_text(TASK.format(name=name))
    return tmp_path


def read(folder, text) -> Group:
    path = folder / "g.yaml"
    path.write_text(dedent(text))
    options = TaskOptions(library=TaskLookup(folder))
    (group,) = load_tasks(path, options)
    return group


def problems(folder, text) -> str:
    with pytest.raises(TaskFileError) as error:
        read(folder, text)
    return str(error.value)


def test_a_tag_selects_its_tasks_in_the_order_of_their_names(folder):
    group = read(folder, "group: g\ntask: [letters]\n")
    assert [task.name for task in group.children] == ["a", "b"]
    assert group.children[0].source.path == folder / "a.yaml"


def test_keys_of_a_member_beat_those_of_groups_and_outer_beat_inner_groups(folder):
    (folder / "inner.yaml").write_text(
        "group: inner\ntask: [a, {task: b, description: member}]\n"
        "description: inner\nfewshot_delimiter: inner\n"
    )
    group = read(
        folder,
        """\
        group: g
        task: [inner]
        description: outer
        """,
    )
    a, b = group.tasks()
    assert (a.config["description"], b.config["description"]) == ("outer", "member")
    assert a.config["fewshot_delimiter"] == "inner"
    assert a.config["metadata"] == {"version": 1}


def test_overrides_of_a_group_have_the_place_of_the_member(folder):
    group = read(folder, "group: g\ntask:\n- a\n- {task: b, description: B}\n")
    assert str(group.children[0].source) == "a.yaml:1"
    assert str(group.children[1].source) == "g.yaml:4"


def test_keys_of_a_group_or_tag_go_to_all_its_tasks_with_a_warning(folder):
    """lm-eval 0.4.13 gives all of them the same name (lm_eval.md, 11.2)."""
    group = read(folder, "group: g\ntask: [{task: letters, description: D}]\n")
    assert [task.name for task in group.children] == ["a", "b"]
    assert {task.config["description"] for task in group.children} == {"D"}
    (warning,) = group.warnings
    assert "'letters' is a tag, so these keys apply to all its tasks" in warning


def test_a_known_group_with_members_of_its_own_is_another_group(folder):
    (folder / "known.yaml").write_text("group: known\ntask: [a]\n")
    group = read(folder, "group: g\ntask: [{group: known, task: [b]}]\n")
    (inner,) = group.children
    assert inner.name == "g::known"
    assert [task.name for task in inner.tasks()] == ["b"]
    assert "is different from the group of that name" in group.warnings[0]


def test_a_task_that_is_inline_in_a_group_may_include(folder):
    (folder / "base").write_text(TASK.format(name="base"))
    group = read(
        folder, "group: g\ntask: [{task: own, include: base, description: D}]\n"
    )
    (task,) = group.children
    assert task.name == "g::own"
    assert task.rows.ids()
    assert task.config["task"] == "g::own"


def test_one_bare_entry_aggregates_too(folder):
    group = read(
        folder,
        """\
        group: g
        task: a
        aggregate_metric_list: {metric: acc, filter_list: none, weight_by_size: truez}
        """,
    )
    (rule,) = group.aggregates
    assert (rule.metric, rule.filters, rule.weighted) == ("acc", ("none",), True)
    assert "'truez' counts as true" in group.warnings[0]


SEED = """\
group: nli_and_more
task:
  - group: nli_tasks
    task: [a, b]
    aggregate_metric_list:
      - metric: exact_match
        aggregation: mean
        higher_is_better: {better}
"""
"""The seed's example of an inline group, with other tasks."""


def test_a_number_of_a_group_may_name_its_direction(folder):
    (inner,) = read(folder, SEED.format(better="true")).children
    (rule,) = inner.aggregates
    assert (rule.metric, rule.higher_is_better) == ("exact_match", True)


@pytest.mark.parametrize(
    ("better", "message"),
    [
        ("false", "higher_is_better is false, but true for 'exact_match' in task"),
        ("up", "higher_is_better must be true or false, not 'up'"),
    ],
)
def test_a_direction_that_is_not_that_of_the_tasks_is_refused(folder, better, message):
    assert f"g.yaml:8: {message}" in problems(folder, SEED.format(better=better))


def test_a_task_that_is_reached_twice_counts_twice_with_a_warning(folder):
    group = read(
        folder,
        "group: g\ntask: [a, {group: i, task: [a]}]\n"
        "aggregate_metric_list: {metric: acc}\n",
    )
    assert group.warnings == (
        "task 'a' occurs 2 times in the group and is counted 2 times",
    )


def test_all_problems_of_a_group_are_reported_at_once(folder):
    assert problems(
        folder,
        """\
        group: g
        task:
          - nothing
          - {dataset_path: json}
          - task: a
            descripton: D
        aggregate_metric_list:
          - {metric: acc, aggregation: median}
          - {metrics: acc}
        agregate_metric_list: []
        gates: [{must_pass: [x]}]
        """,
    ).splitlines() == [
        "g.yaml:3: unknown task, group or tag 'nothing'",
        "  fix: put its file in this folder, below it or in a parent folder, or pass "
        "its folder: --evals-include-path DIR",
        "g.yaml:4: a member must be a name or a mapping with 'task' or 'group', not "
        "['dataset_path']",
        "  fix: - task: arc_easy",
        "g.yaml:6: a task file has no key 'descripton'; did you mean 'description'?",
        "g.yaml:8: a group's aggregation must be mean, not 'median'",
        "  fix: aggregation: mean",
        "g.yaml:9: an entry of aggregate_metric_list has no key 'metrics'; did you "
        "mean 'metric'?",
        "g.yaml:10: unknown group key 'agregate_metric_list'; did you mean "
        "'aggregate_metric_list'?",
        "g.yaml:11: must_pass and every apply to tasks, not to groups",
        "  fix: move it to the task's file",
    ]


def test_a_group_inside_itself_is_an_error(folder):
    (folder / "h.yaml").write_text("group: h\ntask: [g]\n")
    assert "the group contains itself: g → h → g" in problems(
        folder, "group: g\ntask: [h]\n"
    )


def test_a_task_with_two_settings_in_one_group_is_an_error(folder):
    text = problems(
        folder,
        "group: g\ntask:\n- a\n- {group: i, task: [{task: a, description: D}]}\n",
    )
    assert text.startswith("g.yaml:4: task 'a' is in group 'g' twice, with different")


def test_group_in_the_file_of_a_task_is_an_old_way_to_write_a_tag(folder):
    """In 0.4.13 such a file is an empty group."""
    assert problems(folder, f"group: old\n{TASK.format(name='x')}").splitlines()[
        :2
    ] == [
        "g.yaml:1: group: this file defines the task 'x', not a group",
        "  fix: tag: old",
    ]
