"""Files that would take exponential time or overflow the stack: one problem with its
line, within seconds."""

import re
import time
from pathlib import Path

import pytest

from pytest_evals.dialects.yaml_reader.includes import read_with_includes
from pytest_evals.dialects.yaml_reader.yaml_file import read_yaml
from pytest_evals.errors import EvalsError, Place, TaskFileError
from pytest_evals.guests.latticeflow.prompts.templates import (
    compile_template as lattice,
)
from pytest_evals.guests.latticeflow.reader import read_entity_file
from pytest_evals.prompts.fields import compile_template

MERGES = "a0: &a0 {x: 1}\n" + "".join(
    f"a{i}: &a{i} {{<<: [*a{i - 1}, *a{i - 1}]}}\n" for i in range(1, 40)
)
ALIASES = "b0: &b0 [1, 1, 1, 1]\n" + "".join(
    f"b{i}: &b{i} [{', '.join([f'*b{i - 1}'] * 10)}]\n" for i in range(1, 12)
)
DEEP = (
    "x: " + "[" * 100_000 + "]" * 100_000,
    "x: " + "{a: " * 50_000 + "1" + "}" * 50_000,
    "x: " + "[" * 100_000,
    "x:\n  " + "- " * 100_000 + "1",
)


@pytest.mark.slow
@pytest.mark.parametrize("read", [read_yaml, read_entity_file])
@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        (MERGES, 18, "merge keys expand to more than 100,000 pairs"),
        (ALIASES, 6, "aliases expand to more than 1,000,000 values"),
        *((text, 1, "nested more than 100 levels deep") for text in DEEP[:3]),
        (DEEP[3], 2, "nested more than 100 levels deep"),
    ],
    ids=["merges", "aliases", "brackets", "braces", "open", "dashes"],
)
def test_a_bomb_is_one_problem_with_its_line(tmp_path, read, text, line, message):
    path = tmp_path / "bomb.yaml"
    path.write_text(text)
    start = time.process_time()
    with pytest.raises(TaskFileError, match=message) as caught:
        read(path)
    assert time.process_time() - start < 20
    assert re.match(rf".*bomb\.yaml:{line}: ", str(caught.value))


@pytest.mark.parametrize("read", [read_yaml, read_entity_file])
@pytest.mark.parametrize(
    "text", ["0x" + "f" * 5000, "1" + "0" * 5000, "[1, 0b" + "1" * 20_000 + "]"]
)
def test_an_integer_that_python_cannot_print_is_one_problem_with_its_line(
    tmp_path, read, text
):
    path = tmp_path / "large.yaml"
    path.write_text(f"a: 1\nb: {text}\n")
    with pytest.raises(TaskFileError, match=r"large\.yaml:2: .*digit"):
        read(path)


def test_merge_keys_and_anchors_of_usual_size_have_the_meaning_of_yaml(tmp_path):
    path = tmp_path / "task.yaml"
    path.write_text(
        "base: &base {a: 1, b: 2}\nmore: &more {<<: *base, b: 3}\n"
        "last: {<<: [*more, *base], c: 4}\nlist: [*base, *base]\n"
    )
    values = read_yaml(path).values
    assert values["last"] == {"a": 1, "b": 3, "c": 4}
    assert values["list"] == [{"a": 1, "b": 2}] * 2


def test_files_that_are_included_twice_at_each_level_are_read_once(tmp_path):
    """2^40 paths lead to the last file."""
    for i in range(40):
        text = f"include: [u{i + 1}.yaml, u{i + 1}.yaml]\nk{i}: {i}\n"
        (tmp_path / f"u{i}.yaml").write_text(text)
    (tmp_path / "u40.yaml").write_text("last: 1\ntask_list: [a]\n")
    found = read_with_includes(tmp_path / "u0.yaml")
    assert found.values == {"last": 1, **{f"k{i}": i for i in range(40)}}
    assert found.place("last") == Place(tmp_path / "u40.yaml", 1)


def test_a_long_chain_of_includes_is_one_problem(tmp_path):
    for i in range(2000):
        (tmp_path / f"c{i}.yaml").write_text(f"include: c{i + 1}.yaml\n")
    (tmp_path / "c2000.yaml").write_text("x: 1\n")
    with pytest.raises(TaskFileError, match="more than 50 files include one another"):
        read_with_includes(tmp_path / "c0.yaml")


@pytest.mark.parametrize(
    "text",
    [
        "{% if q %}" * 200 + "x" + "{% endif %}" * 200,
        "{{ " + "(" * 2000 + "q" + ")" * 2000 + " }}",
        "{{ " + "[" * 3000 + "]" * 3000 + " }}",
        "{{ " + "not " * 5000 + "q }}",
    ],
    ids=["ifs", "parentheses", "lists", "nots"],
)
def test_a_template_that_is_nested_too_deeply_is_invalid(text):
    with pytest.raises(EvalsError, match="nested too deeply to be compiled"):
        compile_template(text)
    with pytest.raises(TaskFileError, match="nested too deeply to be compiled"):
        lattice(text, Place(Path("t.yaml"), 1), "query")


def test_references_of_entities_that_double_at_each_level_are_one_problem(tmp_path):
    for i in range(30):
        ref = f'{{"$ref": "e{i + 1}.yaml"}}'
        (tmp_path / f"e{i}.yaml").write_text(f"a: {ref}\nb: {ref}\n")
    (tmp_path / "e30.yaml").write_text("x: 1\n")
    with pytest.raises(
        TaskFileError, match="more than 1,000 referenced files"
    ) as caught:
        read_entity_file(tmp_path / "e0.yaml")
    assert len(str(caught.value).splitlines()) < 10


def test_a_long_chain_of_references_is_one_problem(tmp_path):
    for i in range(1000):
        (tmp_path / f"e{i}.yaml").write_text(f"a: {{$ref: e{i + 1}.yaml}}\n")
    (tmp_path / "e1000.yaml").write_text("x: 1\n")
    with pytest.raises(TaskFileError, match="more than 50 files refer to one another"):
        read_entity_file(tmp_path / "e0.yaml")
