"""CSV files and folders of text files as rows."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest

from pytest_evals.errors import Place
from pytest_evals.guests.latticeflow.tables import folder_rows, read_csv

CSV = Path("x.csv")


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        (["1", "-2", ""], [1, -2, None]),
        (["1", "2.5"], [1.0, 2.5]),
        (["1e3", ".5"], [1000.0, 0.5]),
        (["true", "FALSE", ""], [True, False, None]),
        (["true", "1"], ["true", "1"]),
        (["007", "1"], ["007", "1"]),
        (["1_000", "2"], ["1_000", "2"]),
        (["nan", "1"], ["nan", "1"]),
        (["9" * 30, "1"], [float("9" * 30), 1.0]),
        (["x", ""], ["x", None]),
    ],
)
def test_a_column_has_one_type(cells: list[str], expected: list[Any]) -> None:
    text = "c,other\n" + "".join(f"{cell},x\n" for cell in cells)
    found = [row["c"] for row in read_csv(CSV, text)]
    assert found == expected
    assert [type(one) for one in found] == [type(one) for one in expected]
    plain = [row["c"] for row in read_csv(CSV, text, typed=False)]
    assert plain == cells


def test_ids_stay_texts_and_short_lines_lack_their_last_cells() -> None:
    rows = read_csv(CSV, 'sample_id,a,b\n01,"x, ""y""\nz",\n2,1\n\n')
    assert rows == [
        {"sample_id": "01", "a": 'x, "y"\nz', "b": None},
        {"sample_id": "2", "a": "1", "b": None},
    ]


def test_a_cell_may_be_long() -> None:
    text = "x" * 200_000
    assert read_csv(CSV, f"a,b\n{text},1\n") == [{"a": text, "b": 1}]


def test_a_folder_gives_a_row_for_each_text_file(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "b.md").write_text("---\ntitle: T\ncontent: no\n---\nbody\n")
    (tmp_path / "a.TXT").write_text("---\n: broken: [\n---\ntext")
    (tmp_path / "sub" / "c.md").write_text("c")
    (tmp_path / "d.pdf").write_bytes(b"%PDF")
    rows = folder_rows(tmp_path, "", Place(CSV))
    assert [row["file_name"] for row in rows] == ["a.TXT", "b.md", "c.md"]
    assert rows[0]["content"] == "---\n: broken: [\n---\ntext"
    digest = hashlib.sha256((tmp_path / "b.md").read_bytes()).hexdigest()
    assert rows[1] == {
        "title": "T",
        "content": "body\n",
        "sample_id": digest,
        "file_name": "b.md",
    }
    assert [row["file_name"] for row in folder_rows(tmp_path, "md", Place(CSV))] == [
        "b.md",
        "c.md",
    ]
