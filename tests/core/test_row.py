"""Reads of a row are recorded, whichever dict method Python code uses."""

from __future__ import annotations

import copy
import json
import pickle

import jinja2
import pytest

from pytest_evals.core.doc import ALL, WatchedRow, field_hash, handed, watch

ROW = {"a": 1, "b": {"c": [2]}}


@pytest.mark.parametrize(
    "read",
    [
        lambda row: row["a"],
        lambda row: row.get("a", 0),
        lambda row: "a" in row,
        lambda row: row.pop("a"),
        lambda row: row.setdefault("a", 0),
        lambda row: row.copy()["a"],
        lambda row: copy.copy(row)["a"],
        lambda row: copy.deepcopy(row)["a"],
        lambda row: "{a}".format_map(row),
        lambda row: "%(a)s" % row,  # noqa: UP031
        lambda row: jinja2.Template("{{ row.a }}{{ row['a'] }}").render(row=row),
        lambda row: handed(row)["a"],
    ],
)
def test_a_field_that_is_read_is_known_and_no_other(read):
    row = watch(ROW)
    read(row)
    assert row.reads == {"a"}


@pytest.mark.parametrize(
    "read",
    [
        dict,
        list,
        str,
        repr,
        json.dumps,
        pickle.dumps,
        lambda row: {**row},
        lambda row: row | {},
        lambda row: {} | row,
        lambda row: dict(**row),
        lambda row: {}.update(row),
        lambda row: [*row.items()],
        lambda row: [*row.values()],
        lambda row: [*reversed(row)],
        lambda row: row == ROW,
        lambda row: row != ROW,
        lambda row: jinja2.Template("{{ a }}").render(row),
        lambda row: "{a}".format(**row),
    ],
)
def test_code_that_takes_the_whole_row_reads_all_fields(read):
    row = watch(ROW)
    read(row)
    assert ALL in row.reads


@pytest.mark.parametrize("read", [len, bool, type, watch, lambda row: row.update(z=1)])
def test_code_that_uses_no_value_records_no_reads(read):
    row = WatchedRow(ROW)
    read(row)
    assert row.reads == set()


def test_a_watched_row_is_the_row_for_every_reader():
    row = watch(ROW)
    assert isinstance(row, dict)
    assert row == ROW
    assert {**row} == dict(row) == ROW
    assert json.dumps(row) == json.dumps(ROW)
    assert str(row) == str(ROW)
    assert type(pickle.loads(pickle.dumps(row))) is dict
    with pytest.raises(KeyError, match="missing"):
        row["missing"]


def test_code_of_a_task_file_gets_a_copy_that_it_may_change():
    row = watch(ROW)
    mine = handed(row)
    mine["a"] = 5
    assert (row["a"], mine["a"]) == (1, 5)


def test_reads_after_scoring_do_not_count():
    row = watch(ROW)
    row["a"]
    row.end_of_scoring()
    row["b"]
    assert row.scored == ("a",)


def test_a_row_that_scoring_never_got_has_no_reads_unlike_one_that_it_ignored():
    ignored, unknown = watch(ROW), watch(ROW)
    handed(ignored)
    for row in (ignored, unknown):
        row.end_of_scoring()
    assert (ignored.scored, unknown.scored) == ((), None)


def test_the_hash_of_a_field_depends_on_its_value_and_not_on_the_order_of_keys():
    one, other = {"f": {"a": 1, "b": 2}}, {"f": {"b": 2, "a": 1}}
    assert field_hash(one, "f") == field_hash(other, "f")
    assert field_hash({"f": None}, "f") != field_hash({}, "f") == ""
