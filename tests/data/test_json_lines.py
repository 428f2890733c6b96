"""JSON lines are read without the ``datasets`` library only if the rows are the same;
the library is the oracle."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pytest_evals.data.local_rows import read_json_lines


def by_library(files: dict[str, Path], cache: Path) -> dict[str, list[dict[str, Any]]]:
    import datasets

    named = {split: str(path) for split, path in files.items()}
    found = datasets.load_dataset("json", data_files=named, cache_dir=str(cache))
    return {split: list(rows) for split, rows in found.items()}


def written(path: Path, *lines: str) -> Path:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


TEXT = st.one_of(
    st.text(max_size=8),
    st.sampled_from(
        ["2020-01-01", "2020-01-01 10:00:00", "12:30", "2020", "1", "true"]
    ),
)
SCALARS = {
    "text": TEXT,
    "whole": st.integers(-(2**63), 2**63 - 1),
    "number": st.floats(allow_nan=False, allow_infinity=False),
    "truth": st.booleans(),
    "mixed": st.one_of(st.integers(-5, 5), st.floats(-2, 2), st.none()),
    "none": st.none(),
}


@st.composite
def tables(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Rows whose columns mostly have one type each."""
    names = draw(st.lists(st.sampled_from("abcd"), unique=True, min_size=1))
    cells = {}
    for name in names:
        cell = SCALARS[draw(st.sampled_from(sorted(SCALARS)))]
        if draw(st.booleans()):
            cell = st.lists(cell, max_size=3)
        cells[name] = st.one_of(st.none(), cell) if draw(st.booleans()) else cell
    rows = st.lists(st.fixed_dictionaries(cells), min_size=1, max_size=5)
    return draw(rows)


@pytest.mark.slow
@settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(rows=tables(), escaped=st.booleans())
def test_rows_equal_those_of_the_library(
    tmp_path_factory: pytest.TempPathFactory, rows: list[dict[str, Any]], escaped: bool
) -> None:
    folder = tmp_path_factory.mktemp("rows")
    lines = [json.dumps(row, ensure_ascii=escaped) for row in rows]
    path = written(folder / "rows.jsonl", *lines)
    found = read_json_lines({"test": [path]})
    if found is not None:
        assert repr(found) == repr(by_library({"test": path}, folder / "cache"))


def test_plain_rows_are_read(tmp_path: Path) -> None:
    """Otherwise the test above would be vacuous."""
    rows = [
        {"q": "é ?", "choices": ["a", "b"], "n": 3, "x": 0.5, "ok": True, "no": None},
        {"q": "2 + 2", "choices": [], "n": -1, "x": 1.0, "ok": None, "no": 1},
    ]
    lines = [json.dumps(row, ensure_ascii=False) for row in rows]
    path = written(tmp_path / "rows.jsonl", *lines)
    assert read_json_lines({"test": [path]}) == {"test": rows}
    assert by_library({"test": path}, tmp_path / "cache") == {"test": rows}


@pytest.mark.parametrize(
    "lines",
    [
        ['{"a": 1}', '{"a": 1.5}'],
        ['{"a": 1}', '{"b": 1}'],
        ['{"a": 1, "b": 2}', '{"b": 1, "a": 2}'],
        ['{"a": 1, "a": 2}'],
        ['{"a": {"b": 1}}'],
        ['{"a": null}'],
        ['{"a": []}'],
        ['{"a": [1, null]}'],
        ['{"a": "2020-01-01"}'],
        ['{"a": 9223372036854775808}'],
        ['{"a": NaN}'],
        ['{"a": "\\ud800"}'],
        ['{"a": 1}', "", '{"a": 2}'],
        ['{"a": 1}', "2"],
        ['{"a": 1'],
        ['[{"a": 1}]'],
        ['{"messages": ["a"]}'],
    ],
    ids=lambda lines: " ".join(lines).replace("\\", "/"),
)
def test_lines_that_json_readers_may_read_differently_are_left_to_the_library(
    tmp_path: Path, lines: list[str]
) -> None:
    path = written(tmp_path / "rows.jsonl", *lines)
    assert read_json_lines({"test": [path]}) is None


def test_files_with_other_columns_or_kinds_are_left_to_the_library(
    tmp_path: Path,
) -> None:
    """The column types of the first split apply to all splits."""
    first = written(tmp_path / "a.jsonl", '{"a": 1}')
    other = written(tmp_path / "b.jsonl", '{"a": "x"}')
    assert read_json_lines({"test": [first], "dev": [other]}) is None
    assert read_json_lines({"test": [first, other]}) is None
    assert read_json_lines({"test": [first], "dev": [first]}) is not None


def test_other_files_are_left_to_the_library(tmp_path: Path) -> None:
    path = written(tmp_path / "rows.txt", '{"a": 1}')
    assert read_json_lines({"test": [path]}) is None
    assert read_json_lines({"test": [tmp_path / "*.jsonl"]}) is None
