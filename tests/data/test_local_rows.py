"""Rows of local files without the ``datasets`` library; the library is the oracle."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from pytest_evals.data.local_rows import read_local_rows

FILES = {
    "json": (
        '{"a": 1, "m": {"x": 1}, "l": [{"u": 1}, {"v": 2.5}], "s": {"x": 1}}\n'
        '{"a": 2.5, "m": {"y": null}, "z": "t", "l": [], "s": {"x": 0.5}}\n'
        '{"a": null, "m": null, "l": null, "t": [1, 2.5], "s": null}\n'
    ),
    "csv": "a,b,c,d,e,f,g\n1,1,True,x,,007,1e3\n2,,False,NA,,008,2\n3,2,,,,1_0,inf\n",
    "text": "a\nb\n\nc\n",
}


@pytest.mark.parametrize("reader", FILES)
def test_rows_equal_those_of_the_library(reader: str, tmp_path: Path) -> None:
    import datasets

    path = tmp_path / "rows"
    path.write_text(FILES[reader])
    library = datasets.load_dataset(
        reader, data_files={"test": str(path)}, cache_dir=str(tmp_path / "cache")
    )
    found = read_local_rows(reader, {"test": [path]}, {}, as_text=False)
    assert found == {"test": [*library["test"]]}


@pytest.mark.slow
def test_evals_run_without_the_library_and_name_it_for_parquet(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "datasets", None)
    rows = '{"q": "a", "more": {"x": 1}}\n{"q": "b"}\n'
    pytester.makefile(".jsonl", rows=rows, answers='{"regex": ".", "text": "a"}\n')
    entry = "dataset: {}\nprompt: '{{{{q}}}}'\ntarget: a\nscore: exact\n"
    pytester.makefile(".yaml", good=entry.format("rows.jsonl"))
    pytester.makefile(".yaml", bad=entry.format("rows.parquet"))
    pytester.makefile(".parquet", rows="")
    run = pytester.runpytest_inprocess("--model=scripted:answers.jsonl", "good.yaml")
    run.assert_outcomes(passed=2)
    run = pytester.runpytest_inprocess("--model=scripted:answers.jsonl", "bad.yaml")
    run.stdout.fnmatch_lines(
        [
            "*bad.yaml:1: the dataset 'parquet' needs datasets",
            "  fix: pip install*data*",
        ]
    )
