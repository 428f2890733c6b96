"""The index of task names of a directory tree: scanned, resolved, cached on disk."""

from __future__ import annotations

import json
import os

import pytest

from pytest_evals.dialects.task_index.index import LEAST, Scanner, scan
from pytest_evals.dialects.task_index.lookup import TaskLookup


@pytest.mark.parametrize(
    ("text", "keys"),
    [
        ("task: a\ntag: [x, y]\ndoc: 'b", {"task": "a"}),
        ("task: a\nx: 1\ntag: [x, y]\n", {"task": "a", "tag": ["x", "y"]}),
        ("group: 'g'\ntask:\n- task: c\n  x: 1\n", {"group": "g", "task": True}),
        ("class: !function m.f\ntag: no\n", {"class": True, "tag": True}),
        ("base: &b {tag: t}\n<<: *b\ntask: null\n", {"tag": "t", "task": None}),
        ('# note\n---\n"task": q\ntask: r\n', {"task": "r"}),
        ("- task: a\n", None),
        ("", {}),
    ],
)
def test_the_keys_of_a_file_are_those_of_yaml(tmp_path, text, keys):
    (tmp_path / "a.yaml").write_text(text)
    assert scan(tmp_path / "a.yaml") == keys


def write(folder, **files):
    folder.mkdir(exist_ok=True, parents=True)
    for name, text in files.items():
        (folder / f"{name}.yaml").write_text(text)
    return folder


def test_names_tags_and_groups_come_from_files_and_their_includes(tmp_path):
    write(tmp_path, a="include: base\ntask: a\n", g="group: g\ntask: [a]\n", b="x: 1\n")
    write(tmp_path / "sub", c="include: ../base\ntask: c\ntag: null\n")
    (tmp_path / "base").write_text("tag: [t]\noutput_type: multiple_choice\n")
    index = Scanner().index(tmp_path)
    assert sorted(index) == ["a", "c", "g", "t"]
    assert index.find("g").kind == "group"
    assert index.find("t").members == ("a",)
    assert index.find("c").path == tmp_path / "sub" / "c.yaml"


def test_the_first_definition_in_the_order_of_paths_counts(tmp_path):
    write(tmp_path, b="task: x\n", a="task: x\n", c="task: y\ntag: x\n")
    index = Scanner().index(tmp_path)
    assert index.find("x").path == tmp_path / "a.yaml"
    assert "'x' is defined twice" in index.clash("x")
    assert index.clash("y") == ""


def test_a_diamond_of_includes_is_fine_and_a_circle_is_left_out(tmp_path):
    write(tmp_path, a="include: [b.yaml, c.yaml]\ntask: a\n")
    write(tmp_path, b="include: d.yaml\n", c="include: d.yaml\n", d="tag: deep\n")
    write(tmp_path, e="include: f.yaml\ntask: e\n", f="include: e.yaml\n")
    assert sorted(Scanner().index(tmp_path)) == ["a", "deep"]


@pytest.fixture
def large(tmp_path):
    """A tree large enough to be cached, of files that were written long ago."""
    root = tmp_path / "tasks"
    write(root, **{f"t{i}": f"task: t{i}\ntag: all\n" for i in range(LEAST)})
    return root


def settled(monkeypatch):
    monkeypatch.setattr("pytest_evals.dialects.task_index.index.SETTLED_S", -3600.0)


def test_a_cached_index_is_used_and_updated_when_a_file_changes(
    large, tmp_path, monkeypatch
):
    settled(monkeypatch)
    kept = tmp_path / "kept"
    first = sorted(Scanner(cache=kept).index(large))
    (file,) = (kept / "cache").iterdir()
    again = Scanner(cache=kept)
    assert sorted(again.index(large)) == first
    assert again.known == {}  # no file was read
    (large / "t7.yaml").write_text("task: other\n")
    (large / "t8.yaml").unlink()
    found = Scanner(cache=kept).index(large)
    assert "other" in found
    assert "t7" not in found
    assert "t8" not in found
    assert json.loads(file.read_text())["schema_version"]


def test_a_file_of_the_same_size_and_time_is_read_again_if_it_is_another(
    large, tmp_path, monkeypatch
):
    settled(monkeypatch)
    Scanner(cache=tmp_path / "kept").index(large)
    path = large / "t5.yaml"
    times = path.stat()
    path.write_text(path.read_text().replace("t5", "u5"))
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert "u5" in Scanner(cache=tmp_path / "kept").index(large)


def test_recently_written_files_are_not_cached(large, tmp_path):
    """Two changes within one clock tick cannot be distinguished."""
    Scanner(cache=tmp_path / "kept").index(large)
    assert not [*tmp_path.glob("kept/cache/*")]


@pytest.mark.parametrize(
    "damage",
    [
        lambda kept: "",
        lambda kept: "{",
        lambda kept: "[]",
        lambda kept: json.dumps(kept | {"version": 1}),
        lambda kept: json.dumps(kept | {"files": {}}),
        lambda kept: json.dumps(kept | {"files": dict.fromkeys(kept["files"], 3)}),
        lambda kept: json.dumps(
            kept
            | {"files": {k: [v[0], {"task": 1.5}] for k, v in kept["files"].items()}}
        ),
    ],
)
def test_a_damaged_file_is_ignored(large, tmp_path, damage, monkeypatch):
    settled(monkeypatch)
    Scanner(cache=tmp_path / "kept").index(large)
    (file,) = (tmp_path / "kept" / "cache").iterdir()
    file.write_text(damage(json.loads(file.read_text())))
    assert len(list(Scanner(cache=tmp_path / "kept").index(large))) == LEAST + 1


def test_an_included_file_is_followed_wherever_it_is(large, tmp_path, monkeypatch):
    settled(monkeypatch)
    kept = tmp_path / "kept"
    write(large, asking="include: ../outside/base\ntask: asking\n")
    assert "asking" not in Scanner(cache=kept).index(large)
    base = tmp_path / "outside" / "base"
    base.parent.mkdir()
    base.write_text("tag: one\n")
    assert Scanner(cache=kept).index(large).find("one").members == ("asking",)
    base.write_text("tag: other\n")
    assert "one" not in Scanner(cache=kept).index(large)
    base.unlink()
    assert "asking" not in Scanner(cache=kept).index(large)


def test_a_cached_index_equals_the_first_one(large, tmp_path, monkeypatch):
    settled(monkeypatch)
    write(large, g="group: g\ntask: [t1]\n", twice="task: t1\n", z="task: all\n")
    kept = tmp_path / "kept"
    first, again = Scanner(cache=kept).index(large), Scanner(cache=kept).index(large)
    assert [*first] == [*again]
    for name in first:
        assert first.find(name) == again.find(name)
        assert first.clash(name) == again.clash(name)
    assert "t1" in first.clash("t1")


def test_a_place_that_cannot_be_written_costs_nothing_but_time(large, tmp_path):
    (tmp_path / "file").write_text("")
    assert "t1" in Scanner(cache=tmp_path / "file" / "kept").index(large)


def test_names_are_looked_up_from_the_near_to_the_far(tmp_path):
    root = write(tmp_path / "suite", far="task: far\n", x="task: x\n")
    near = write(root / "a", x="task: x\n", near="task: near\n")
    other = write(root / "b", y="task: y\n")
    one = write(tmp_path / "one", x="task: x\n", z="task: z\n")
    two = write(tmp_path / "two", z="task: z\n")
    library = TaskLookup(root, [one, two])
    file = near / "group.yaml"
    assert library.find("x", file).path == near / "x.yaml"
    assert library.find("far", file).path == root / "far.yaml"
    assert library.find("y", file).path == other / "y.yaml"
    assert library.find("z", file).path == two / "z.yaml"
    assert library.find("x", two / "group.yaml").path == one / "x.yaml"
    assert library.find("nothing", file) is None
