"""``<< config.x >>``: substitution into strings, in Python's spelling, which Jinja also
reads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_evals.dialects.yaml_reader.yaml_file import YamlFile
from pytest_evals.errors import Problem
from pytest_evals.guests.latticeflow.reader import Values, substitute

CONFIG: dict[str, Any] = {
    "n": 3,
    "x": 0.5,
    "flag": True,
    "none": None,
    "word": "it's",
    "list": ["a", 1],
    "map": {"a": False},
    "with-dash_1": "ok",
}


@pytest.mark.parametrize("name", CONFIG)
@pytest.mark.parametrize(
    "form", ["<<config.{}>>", "  << config.{} >>\n", "<<  config.{}>>"]
)
def test_a_value_that_is_the_whole_text_keeps_its_type(name: str, form: str) -> None:
    assert Values(CONFIG).fill(form.format(name)) == CONFIG[name]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{% if << config.flag >> %}", "{% if True %}"),
        ("x = << config.none >>", "x = None"),
        ("{{ sample.<< config.word >> }}", "{{ sample.it's }}"),
        ("<< config.n >> of << config.x >>", "3 of 0.5"),
        ("for w in << config.list >>", "for w in ['a', 1]"),
        ("y = << config.map >>", "y = {'a': False}"),
        ("a << b >> c << other.x >>", "a << b >> c << other.x >>"),
    ],
)
def test_a_value_inside_of_a_text_is_written_as_python_writes_it(
    text: str, expected: str
) -> None:
    assert Values(CONFIG).fill(text) == expected


@given(st.text())
def test_texts_without_holes_stay(text: str) -> None:
    if "config." not in text and "secrets." not in text:
        assert Values(CONFIG).fill(text) == text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('sample["<< config.left >>"]', 'sample["left"]'),
        ("samples['<< config.left >>'][0]", "samples['left'][0]"),
        ("{{ sample.<< config.left >>.answer }}", "{{ sample.left.answer }}"),
        ("{{ sample.<< config.other >> }}", "{{ sample.col }}"),
        ("rows of << config.left >>", "rows of letters"),
        ("resample['<< config.left >>']", "resample['letters']"),
    ],
)
def test_a_hole_that_picks_an_aligned_dataset_is_its_own_name(
    text: str, expected: str
) -> None:
    values = Values({"left": "letters", "other": "col"}, aligned=["left"])
    assert values.fill(text) == expected


def test_secrets_are_only_in_allowed_places() -> None:
    secrets = {"KEY": "hidden"}
    assert Values({}, secrets.get).fill("Bearer << secrets.KEY >>") == ("Bearer hidden")
    with pytest.raises(ValueError, match="models, adapters and generators"):
        Values({}).fill("<< secrets.KEY >>")
    with pytest.raises(ValueError, match="set the environment variable OTHER"):
        Values({}, secrets.get).fill("<< secrets.OTHER >>")


def test_only_the_part_that_is_meant_is_filled() -> None:
    values = {"a": {"b": ["<< config.n >>"]}, "c": "<< config.n >>"}
    file = YamlFile(path=Path("x.yaml"), values=values)
    problems: list[Problem] = []
    filled = substitute(file, "a", Values(CONFIG), problems)
    assert filled.values == {"a": {"b": [3]}, "c": "<< config.n >>"}
    assert file.values["a"] == {"b": ["<< config.n >>"]} and not problems
