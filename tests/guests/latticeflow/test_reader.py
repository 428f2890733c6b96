"""YAML as LatticeFlow reads it: facts of its client 3.17.0 (reference: its measured
behaviour), with lines."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_evals.dialects.yaml_reader.yaml_file import YamlFile
from pytest_evals.errors import EvalsError, Place, TaskFileError
from pytest_evals.guests.latticeflow.reader import Environment, read_entity_file


def read(folder: Path, **files: str) -> YamlFile:
    """Write the file ``main`` and others."""
    for name, text in files.items():
        path = folder / name.replace("__", "/").replace("_py", ".py")
        path = path if path.suffix else path.with_suffix(".yaml")
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    return read_entity_file(folder / "main.yaml", folder)


def test_include_is_text_without_white_space_around(tmp_path: Path) -> None:
    """The included file is never parsed; it is next to the file with the tag."""
    file = read(
        tmp_path,
        main="a: {$ref: sub/part.yaml}\n",
        sub__part="b: !include code_py\nc: !include 'code.py'\n".replace("_py", ".py"),
        sub__code_py="\n\n  x: 1\ny: 2\n\n",
    )
    assert file.values == {"a": {"b": "x: 1\ny: 2", "c": "x: 1\ny: 2"}}
    assert file.text_place("a", "b") == Place(tmp_path / "sub" / "code.py", 3)
    assert file.place("a", "b") == Place(tmp_path / "sub" / "part.yaml", 1)


def test_a_quoted_include_is_only_a_text(tmp_path: Path) -> None:
    file = read(tmp_path, main='a: "!include x.py"\n')
    assert file.values == {"a": "!include x.py"}
    assert "is quoted" in file.warnings[0]


def test_ref_alone_is_replaced_by_the_content_of_the_file(tmp_path: Path) -> None:
    file = read(tmp_path, main="a:\n  - $ref: ./part.yaml\n", part="[1, 2]\n")
    assert file.values == {"a": [[1, 2]]}


def test_keys_of_the_referenced_file_override_those_next_to_ref(tmp_path: Path) -> None:
    file = read(
        tmp_path,
        main="a:\n  x: 1\n  y: {z: 1}\n  $ref: part.yaml\n",
        part="y: {w: 2}\n",
    )
    assert file.values == {"a": {"x": 1, "y": {"w": 2}}}
    assert file.place("a", "y", "w") == Place(tmp_path / "part.yaml", 1)
    assert ("a", "y", "z") not in file.lines


def test_ref_next_to_keys_needs_a_mapping(tmp_path: Path) -> None:
    with pytest.raises(
        TaskFileError, match=r"next to other keys must refer to a mapping"
    ):
        read(tmp_path, main="a:\n  x: 1\n  $ref: part.yaml\n", part="[1]\n")


@pytest.mark.parametrize(
    ("ref", "what"),
    [("https://x.org/a.yaml", "is not a local file"), ("x#y", "path of a file")],
)
def test_refs_to_other_places_are_refused(tmp_path: Path, ref: str, what: str) -> None:
    with pytest.raises(TaskFileError, match=what):
        read(tmp_path, main=f"a:\n  $ref: '{ref}'\n")


def test_values_that_begin_with_a_dollar_come_from_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EVALS_ONE", "1")
    monkeypatch.delenv("EVALS_TWO", raising=False)
    monkeypatch.delenv("EVALS_NONE", raising=False)
    (tmp_path / ".env").write_text("# a note\nexport EVALS_TWO='two words'\n")
    file = read(
        tmp_path,
        main="a: $EVALS_ONE\nb: ${EVALS_TWO}/x\nc: $EVALS_NONE\n"
        "d: [$EVALS_ONE]\ne: x$EVALS_ONE\nf: $EVALS_ONE and more\ng: openai$gpt\n",
    )
    assert file.values == {
        "a": "1",
        "b": "two words/x",
        "c": "$EVALS_NONE",
        "d": ["$EVALS_ONE"],
        "e": "x$EVALS_ONE",
        "f": "$EVALS_ONE and more",
        "g": "openai$gpt",
    }
    assert len(file.warnings) == 1
    assert "the environment variable EVALS_NONE is not set" in file.warnings[0]


def test_an_environment_file_that_is_not_utf_8_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("EVALS_TWO", raising=False)
    (tmp_path / ".env").write_bytes("EVALS_TWO='größer'\n".encode("latin-1"))
    with pytest.raises(TaskFileError, match=r"\.env: the file is not UTF-8"):
        read(tmp_path, main="a: $EVALS_TWO\n")


def test_the_text_of_a_block_begins_below_its_key(tmp_path: Path) -> None:
    file = read(tmp_path, main="a: 1\nb: |  # code\n  x\n  y\nc: >-\n  z\n")
    assert file.text_place("b").line == 3
    assert file.text_place("c").line == 6
    assert file.text_place("a").line == 1


def test_every_placeholder_is_named_by_its_way(tmp_path: Path) -> None:
    with pytest.raises(TaskFileError) as caught:
        read(tmp_path, main="a:\n  - {b: '((TODO)) soon'}\nc: ((TODO))\n")
    whats = [problem.message for problem in caught.value.problems]
    assert whats == ["a[0].b still contains ((TODO))", "c still contains ((TODO))"]


@pytest.mark.parametrize("name", [".env", "rows.yaml"])
def test_secrets_in_the_files_are_masked_in_errors(tmp_path: Path, name: str) -> None:
    secret = "Tr0ub4dor-and-3"
    texts = {
        ".env": f"MY_TOKEN={secret}\n",
        "rows.yaml": f"source: {{type: url, url: 'http://me:{secret}@host/rows.csv'}}\n",
    }
    (tmp_path / name).write_text(texts[name])
    if name == ".env":
        Environment(tmp_path).get("NO_SUCH_VARIABLE")
    else:
        read_entity_file(tmp_path / name)
    assert secret not in str(EvalsError(f"cannot fetch with {secret}"))
