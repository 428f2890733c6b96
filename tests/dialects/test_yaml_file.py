"""YAML files with lines, includes and ``!function``."""

import pytest
import yaml

from pytest_evals.dialects.yaml_reader.includes import read_with_includes
from pytest_evals.dialects.yaml_reader.yaml_file import FunctionRef, read_yaml
from pytest_evals.errors import Place, TaskFileError

YAML_1_1 = """\
task: toy
on: yes
version: 1.0
octal: 010
date: 2024-01-02
nothing: ~
text: |
  two
  lines
quoted: "no"
base: &base {a: 1, b: 2}
child:
  <<: *base
  b: 3
again: [*base, *base]
set: !!set {x, y}
"""


def write(folder, **files):
    for name, text in files.items():
        (folder / f"{name}.yaml").write_text(text)
    return folder / "a.yaml"


def failure(function, path):
    with pytest.raises(TaskFileError) as error:
        function(path)
    return str(error.value)


def test_values_are_those_of_safe_load(tmp_path):
    path = write(tmp_path, a=YAML_1_1)

    assert read_yaml(path).values == yaml.safe_load(YAML_1_1)


def test_every_value_has_its_line(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = write(
        tmp_path, a="task: x\nmetric_list:\n  - metric: acc\n\n  - metric: f1\n"
    )

    file = read_yaml(path)

    assert str(file.place("metric_list")) == "a.yaml:2"
    assert str(file.place("metric_list", 1)) == "a.yaml:5"
    assert str(file.place("metric_list", 1, "metric")) == "a.yaml:5"
    assert str(file.place("metric_list", 0, "absent")) == "a.yaml:3"
    assert str(file.place("absent")) == "a.yaml"


def test_a_key_given_twice_keeps_its_last_value_with_a_warning(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    file = read_yaml(write(tmp_path, a="task: x\ntag: one\ntag: two\n"))

    assert file.values == {"task": "x", "tag": "two"}
    assert file.warnings == (
        "a.yaml:3: 'tag' is a duplicate key; the last value is used",
    )


def test_gates_given_twice_are_an_error_since_some_would_be_lost(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = "task: x\nmetadata:\n  gates: [acc >= 0.5]\n  gates: [acc >= 0.1]\n"
    with pytest.raises(TaskFileError) as caught:
        read_yaml(write(tmp_path, a=text))
    expected = (
        "a.yaml:4: 'gates' is a duplicate key\n  fix: list all gates under one key"
    )
    assert str(caught.value) == expected


def test_a_merged_key_may_be_overridden_without_warning(tmp_path):
    assert read_yaml(write(tmp_path, a=YAML_1_1)).warnings == ()


def test_a_function_stays_a_name(tmp_path):
    path = write(tmp_path, a="task: x\nprocess_docs: !function utils.process\n")

    assert read_yaml(path).values["process_docs"] == FunctionRef(
        Place(path, 2), "utils.process"
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: [1\nb: 2\n", "a.yaml:2: invalid YAML: "),
        ("a: 1\nb: !fun x.y\n", "a.yaml:2: unknown YAML tag '!fun'; did you mean"),
        ("a: !!python/name:os.system\n", "a.yaml:1: invalid YAML: could not "),
        ("- a\n- b\n", "a.yaml:1: expected a mapping, not a list"),
        ("a: &x\n  b: *x\n", "a.yaml:1: an alias is inside its own anchor"),
        ("a: 1\n---\nb: 2\n", "a.yaml:2: invalid YAML: expected a single document"),
        ("? [a]\n: 1\n", "a.yaml:1: a list or mapping cannot be a key"),
        ("a: !function {x: y}\n", "a.yaml:1: !function needs module.name"),
    ],
)
def test_a_file_that_is_not_a_mapping_is_reported_with_its_place(
    tmp_path, monkeypatch, text, message
):
    monkeypatch.chdir(tmp_path)

    assert failure(read_yaml, write(tmp_path, a=text)).startswith(message)


def test_a_binary_file_is_reported(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.yaml").write_bytes(b"task: \xff\xfe\x00")

    assert "a.yaml:1: the file is not UTF-8" in failure(read_yaml, tmp_path / "a.yaml")


def test_own_keys_beat_included_ones_as_wholes(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = write(
        tmp_path,
        a="include: [b.yaml, c.yaml]\nmetadata:\n  version: 2\nsplit: null\n",
        b="metadata: {version: 1, note: x}\nsplit: test\nfrom: b\n",
        c="from: c\nonly:\n  - 1\n",
    )

    file = read_with_includes(path)

    assert file.values == {
        "metadata": {"version": 2},
        "split": None,
        "from": "c",
        "only": [1],
    }
    assert str(file.place("only", 0)) == "c.yaml:3"
    assert str(file.place("metadata", "note")) == "a.yaml:2"


def test_includes_are_relative_to_the_file_that_includes(tmp_path):
    (tmp_path / "base").mkdir()
    (tmp_path / "base" / "_template").write_text("include: more.yaml\nx: 1\n")
    write(tmp_path / "base", more="y: 2\n")
    path = write(tmp_path, a="include: base/_template\n")

    assert read_with_includes(path).values == {"x": 1, "y": 2}


def test_two_files_may_include_the_same_third(tmp_path):
    path = write(
        tmp_path,
        a="include: [b.yaml, c.yaml]\n",
        b="include: d.yaml\n",
        c="include: d.yaml\n",
        d="x: 1\n",
    )

    assert read_with_includes(path).values == {"x": 1}


def test_files_that_include_each_other_are_an_error(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = write(tmp_path, a="include: b.yaml\n", b="x: 1\ninclude: a.yaml\n")

    assert failure(read_with_includes, path) == (
        "b.yaml:2: circular includes: a.yaml includes b.yaml includes a.yaml\n"
        "  fix: remove one of these includes"
    )


def test_an_include_that_is_not_there_is_an_error(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    assert failure(
        read_with_includes, write(tmp_path, a="task: x\ninclude: b.yaml\n")
    ) == (
        "a.yaml:2: include: file not found: 'b.yaml'\n"
        "  fix: give a path relative to this file"
    )


def test_aliases_that_unfold_without_end_are_refused(tmp_path):
    """Nine levels of nine aliases would be 387 million values."""
    levels = ["a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1]"]
    levels += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 9)]
    path = tmp_path / "bomb.yaml"
    path.write_text("\n".join(levels))
    with pytest.raises(TaskFileError, match="expand to more than 1,000,000 values"):
        read_yaml(path)


@pytest.mark.parametrize("depth", [3000, 20_000])
def test_values_nested_too_deeply_are_one_problem(depth, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = write(tmp_path, a=f"task: x\nmetadata: {'[' * depth}{']' * depth}\n")

    assert "values are nested" in failure(read_yaml, path)


def test_values_are_nested_a_hundred_levels_deep_and_no_more(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    allowed = write(tmp_path, a=f"task: x\nmetadata: {'[' * 99}1{']' * 99}\n")
    assert read_yaml(allowed).values["task"] == "x"

    path = write(tmp_path, a=f"task: x\nmetadata:\n  {'[' * 100}1{']' * 100}\n")
    assert failure(read_yaml, path) == (
        "a.yaml:3: values are nested more than 100 levels deep"
    )


def test_another_encoding_is_a_problem_with_its_line(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "a.yaml"
    path.write_bytes(b"task: x\n# caf\xe9\ntag: y\n")

    assert failure(read_yaml, path) == (
        "a.yaml:2: the file is not UTF-8 (byte 0xe9)\n  fix: convert it, for example: "
        "iconv -f latin1 -t utf-8 old > new"
    )


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_the_encodings_of_yaml_are_read(encoding, tmp_path):
    path = tmp_path / "a.yaml"
    path.write_text("task: café\n", encoding=encoding)

    assert read_yaml(path).values == {"task": "café"}


def test_task_list_of_an_included_file_stays_there(tmp_path):
    """As in lm-eval 0.4.13, ``tasks/_yaml_loader.py``; no key uses it."""
    path = write(tmp_path, a="include: b.yaml\nx: 1\n", b="task_list: [t]\ny: 2\n")
    assert read_with_includes(path).values == {"x": 1, "y": 2}

    write(tmp_path, a="include: b.yaml\ntask_list: [u]\n")
    assert read_with_includes(path).values == {"task_list": ["u"], "y": 2}
    assert read_yaml(tmp_path / "b.yaml").values == {"task_list": ["t"], "y": 2}
