"""Datasets of all kinds, and the selection of samples."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pytest_evals.core.task import TaskOptions
from pytest_evals.errors import Place, TaskFileError
from pytest_evals.guests.latticeflow.entities import Entities
from pytest_evals.guests.latticeflow.generator import _balanced_product
from pytest_evals.guests.latticeflow.loader import load_tasks
from pytest_evals.guests.latticeflow.suite import EntitySuite


def rows(folder: Path, source: str, **options: Any) -> list[dict[str, Any]]:
    """The rows of a dataset with that source."""
    text = f"key: data\ndisplay_name: D\n{source}\n"
    (folder / "data.yaml").write_text(text)
    entities = Entities(root=folder)
    suite = EntitySuite(
        entities=entities, options=TaskOptions(base=str(folder), **options)
    )
    return suite.rows("data", Place(folder / "task.yaml", 1))


@pytest.fixture
def lines(tmp_path: Path) -> Path:
    path = tmp_path / "rows.jsonl"
    given = [{"n": 1, "word": "a"}, {"n": 2}, {"n": "3", "word": None}]
    path.write_text("\ufeff" + "\n\n".join(map(json.dumps, given)) + "\n")
    return path


def test_rows_of_json_lines_are_unchanged(lines: Path) -> None:
    """Keys may differ; without ids the position is the id."""
    assert rows(lines.parent, "source: {type: local, file_path: rows.jsonl}") == [
        {"n": 1, "word": "a", "sample_id": "0"},
        {"n": 2, "sample_id": "1"},
        {"n": "3", "word": None, "sample_id": "2"},
    ]


def test_ids_are_positions_before_the_filters(lines: Path) -> None:
    source = (
        "source:\n  type: local\n  file_path: rows.jsonl\n  filters:\n"
        '    - {op: greater_than, expression: "{{ n }}", value: 1}\n'
        '    - {op: not_equals, expression: "{{ sample.sample_id }}", value: 0}\n'
    )
    assert [row["sample_id"] for row in rows(lines.parent, source)] == ["1", "2"]


def test_the_old_key_for_a_file_and_cells_as_texts(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("n\n1\n")
    assert rows(tmp_path, "file_path: x.csv")[0]["n"] == 1
    assert rows(tmp_path, "file_path: x.csv", typed_csv=False)[0]["n"] == "1"


def test_a_part_of_a_split_of_a_dataset(lines: Path) -> None:
    """The ``datasets`` library reads it, here from a folder."""
    folder = lines.parent / "hub"
    folder.mkdir()
    (folder / "test.jsonl").write_text('{"n": 1}\n{"n": 2}\n{"n": 3}\n')
    source = f"source: {{type: huggingface, path: '{folder}', split: 'test[1:]'}}"
    assert [row["n"] for row in rows(lines.parent, source)] == [2, 3]
    with pytest.raises(TaskFileError, match="has no split 'dev'"):
        rows(lines.parent, source.replace("test[1:]", "dev"))


def test_a_folder_of_texts(tmp_path: Path) -> None:
    (tmp_path / "texts").mkdir()
    (tmp_path / "texts" / "a.md").write_text("A")
    source = "source: {type: folder, directory_path: texts, extension: MD}"
    assert [row["content"] for row in rows(tmp_path, source)] == ["A"]


def test_combinations_use_every_row_alike_often_from_the_start() -> None:
    """By hand: side by side, then the shorter one shifted."""
    left = [{"l": i, "both": "left"} for i in range(3)]
    right = [{"r": i, "both": "right"} for i in range(2)]
    found = list(_balanced_product([left, right]))
    assert [(row["l"], row["r"]) for row in found] == [
        (0, 0),
        (1, 1),
        (2, 0),
        (0, 1),
        (1, 0),
        (2, 1),
    ]
    assert {row["both"] for row in found} == {"right"}
    swapped = [(row["l"], row["r"]) for row in _balanced_product([right, left])]
    assert sorted(swapped) == sorted((row["l"], row["r"]) for row in found)


RUN = """
datasets:
  - {{key: d, display_name: D, source: {{type: local, file_path: rows.jsonl}}}}
tasks:
  - {{key: t, display_name: T, description: D, definition: {{dataset: {{key: d}}}}}}
evaluation:
  key: e
  display_name: E
  num_samples: 2
  {more}
  task_specifications:
    - {{task_key: t}}
    - {{task_key: t, num_samples: 3}}
run_config: {run}
"""


@pytest.mark.parametrize(
    ("more", "run", "expected"),
    [
        ("", "{}", [["0", "1"], ["0", "1", "2"]]),
        ("", "{num_samples: 1}", [["0"], ["0", "1", "2"]]),
        ("mode: debug", "{}", [["0", "1"], ["0", "1", "2"]]),
    ],
)
def test_a_specification_takes_its_own_number_of_samples_first(
    lines: Path, more: str, run: str, expected: list[list[str]]
) -> None:
    path = lines.parent / "run.yaml"
    path.write_text(RUN.format(more=more, run=run))
    tasks = load_tasks(path, TaskOptions())
    assert [task.name for task in tasks] == ["t_1", "t_2"]
    assert [list(task.rows.ids()) for task in tasks] == expected
    limited = load_tasks(path, TaskOptions(limit=1))
    assert [list(task.rows.ids()) for task in limited] == [["0"], ["0"]]


def test_random_samples_are_the_same_each_time_and_keep_their_order(
    tmp_path: Path,
) -> None:
    lines = "".join(f'{{"n": {n}}}\n' for n in range(50))
    (tmp_path / "rows.jsonl").write_text(lines)
    path = tmp_path / "run.yaml"
    text = RUN.format(more="subsampling: random", run="{num_samples: 9}")
    path.write_text(text.replace("num_samples: 3", "num_samples: 20"))
    few, many = ([*t.rows.indices()] for t in load_tasks(path, TaskOptions()))
    again, _ = ([*t.rows.indices()] for t in load_tasks(path, TaskOptions(seed=7)))
    assert few == again == sorted(few) and len(few) == 9 and few != [*range(9)]
    assert {*few} < {*many}
