"""Rows of JSON files must be objects; other files are rejected before a library reads
them."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pytest_evals.data.local_rows import LARGEST
from pytest_evals.data.rows import RowsError, Table
from pytest_evals.data.source_paths import Source, encoding_error
from pytest_evals.data.sources import load
from pytest_evals.errors import Place, TaskFileError

GOOD = '{"q": "x", "a": "y"}'
BRACKETS = "[" * 100_000 + "]" * 100_000
DEEP = f'{{"q": {BRACKETS}}}'


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def refused(folder: Path, path: str = "json", **arguments: Any) -> str:
    """The error message about the dataset, without the place in the task file."""
    here = Place(folder / "toy.yaml", 3)
    with pytest.raises(TaskFileError) as error:
        load(made(folder, path, **arguments))
    return str(error.value).removeprefix(f"{here}: ")


def made(folder: Path, path: str = "json", **arguments: Any) -> Source:
    here = Place(folder / "toy.yaml", 3)
    return Source(
        path=path, arguments=arguments, place=here, data_place=here, base=folder
    )


@pytest.mark.parametrize(
    ("odd", "shown"),
    [("null", "null"), ("3", "3"), ('"x"', '"x"'), ("[1]", "[1]"), ("true", "true")],
)
@pytest.mark.parametrize("before", [0, 2])
def test_a_row_that_is_not_an_object_is_refused_with_its_line(
    folder: Path, odd: str, shown: str, before: int
) -> None:
    """pyarrow ends the process if the first row is null, and makes an empty row of any
    later one."""
    lines = [GOOD] * before + [odd, GOOD]
    (folder / "data.jsonl").write_text("\n".join(lines))
    assert refused(folder, data_files={"test": "data.jsonl"}) == (
        f"data.jsonl:{before + 1}: each row must be a JSON object, not {shown}"
    )


@pytest.mark.parametrize(
    "line", [DEEP, BRACKETS, '{"q":' * 100_000 + "1" + "}" * 100_000]
)
def test_values_without_end_of_nesting_are_refused(folder: Path, line: str) -> None:
    """100,000 brackets overflow pyarrow's stack."""
    (folder / "data.jsonl").write_text(f"{GOOD}\n{line}\n")
    assert refused(folder, data_files={"test": "data.jsonl"}) == (
        "data.jsonl:2: values are nested more than 100 levels deep"
    )


@pytest.mark.slow
def test_no_row_reaches_pyarrow_however_large_the_file_is(folder: Path) -> None:
    """Files of more than a few megabytes are read by the library alone. Runs in a
    separate process, since the fault is a signal."""
    lines = [GOOD] * (LARGEST // len(GOOD)) + [DEEP]
    (folder / "data.jsonl").write_text("\n".join(lines))
    code = (
        "from pathlib import Path\n"
        "from pytest_evals.errors import Place\n"
        "from pytest_evals.data.sources import Source, load\n"
        "at = Place(Path('toy.yaml'), 3)\n"
        "files = {'data_files': 'data.jsonl'}\n"
        "load(Source(path='json', arguments=files, place=at, data_place=at,"
        " base=Path.cwd()))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=folder
    )
    assert done.returncode == 1
    assert f"data.jsonl:{len(lines)}: values are nested" in done.stderr


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            f"[{GOOD},\n{GOOD},\nnull]",
            "data.json:3: each row must be a JSON object, not",
        ),
        ("[1, 2]", "data.json:1: each row must be a JSON object, not 1"),
        ('["a",\n{}]', 'data.json:1: each row must be a JSON object, not "a"'),
        (f"[{GOOD}\n{GOOD}]", "data.json:2: invalid JSON: Expecting ',' or ']'"),
        ("[[[", "data.json:1: invalid JSON: Expecting value (column 4)"),
        ("{\n" + GOOD + "\n" + GOOD, "data.json:1: invalid JSON: Expecting property"),
        ('{"q": \n' + GOOD + "\n" + GOOD, "data.json:1: invalid JSON: Expecting val"),
        (GOOD + '\n{"q": \n' + GOOD, "data.json:2: invalid JSON: Expecting value"),
        (f"[{GOOD}]\n{GOOD}", "data.json:1: each row must be a JSON object, not ["),
        (GOOD + "\n" + GOOD[:-1], "data.json:2: invalid JSON: Expecting ',' delim"),
        ('{"q": ' + "1" * 5000 + "}", "data.json:1: invalid JSON: an integer of more"),
        (GOOD + "\n\0\0", "data.json:2: invalid JSON: Expecting value (column 1)"),
    ],
)
def test_bad_json_names_the_line_of_the_data_file(
    folder: Path, text: str, message: str
) -> None:
    (folder / "data.json").write_text(text)
    assert refused(folder, data_files="data.json").startswith(message)


@pytest.mark.parametrize(
    ("ending", "packed"),
    [(".gz", gzip.compress), (".bz2", bz2.compress), (".xz", lzma.compress)],
)
def test_a_compressed_file_is_looked_into(
    folder: Path, ending: str, packed: Any
) -> None:
    name = f"data.jsonl{ending}"
    (folder / name).write_bytes(packed(f"{GOOD}\nnull\n".encode()))
    assert refused(folder, data_files=name) == (
        f"{name}:2: each row must be a JSON object, not null"
    )
    (folder / name).write_bytes(packed(f"{GOOD}\n".encode() + b'{"q": "\xe9"}'))
    assert encoding_error(name) == (Place(Path(name), 2), 0xE9)
    (folder / name).write_bytes(packed(f"{GOOD}\n".encode()))
    assert list(load(made(folder, data_files=name))["train"]) == [json.loads(GOOD)]


@pytest.mark.parametrize("line", ["null", DEEP])
@pytest.mark.parametrize("way", ["path", "data_dir"])
def test_files_of_a_folder_are_guarded_and_named_too(
    folder: Path, line: str, way: str
) -> None:
    (folder / "data").mkdir()
    (folder / "data" / "a.jsonl").write_text(f"{GOOD}\n")
    (folder / "data" / "b.jsonl").write_text(f"{line}\n{GOOD}\n")
    message = (
        refused(folder, "./data") if way == "path" else refused(folder, data_dir="data")
    )
    assert message.startswith("data/b.jsonl:1: ")


def test_the_rows_of_a_field_are_objects_too(folder: Path) -> None:
    (folder / "data.json").write_text('{"v": [1, 2],\n"data": [\n{"q": "x"},\nnull]}')
    given = {"data_files": "data.json", "field": "data"}
    assert refused(folder, **given).startswith("data.json:4: each row must be")
    (folder / "data.json").write_text('{"v": [1, 2], "data": [{"q": "x"}]}')
    assert list(load(made(folder, **given))["train"]) == [{"q": "x"}]


def test_files_that_need_the_library_are_read_by_it(folder: Path) -> None:
    """An object on several lines, several on one line, numbers that are not JSON, and
    arrays of strings, which the library stores in the column ``text``."""
    readable = {
        '{"q":\n"x"}\n{"q": "y"}': [{"q": "x"}, {"q": "y"}],
        '{"q": "x"}{"q": "y"}\n\n': [{"q": "x"}, {"q": "y"}],
        '{"q": -Infinity}': [{"q": float("-inf")}],
        '["x", "y"]': [{"text": "x"}, {"text": "y"}],
        '\ufeff{"q": "x"}': [{"q": "x"}],
        '[{"q": "x"}]': [{"q": "x"}],
    }
    for number, (text, rows) in enumerate(readable.items()):
        (folder / f"{number}.json").write_text(text)
        found = load(made(folder, data_files=f"{number}.json"))
        assert list(found["train"]) == rows


def test_another_encoding_of_the_task_file_counts(folder: Path) -> None:
    (folder / "data.jsonl").write_bytes('{"q": "é"}\nnull\n'.encode("latin-1"))
    given = {"data_files": "data.jsonl", "encoding": "latin-1"}
    assert refused(folder, **given).startswith("data.jsonl:2: each row must be")


@pytest.mark.parametrize("row", [None, 3, "ab", ["ab", "cd"], [1], b"ab"])
@pytest.mark.parametrize("rows", [lambda row: [{"q": "x"}, row], lambda row: row])
def test_rows_of_python_are_mappings(rows: Any, row: Any) -> None:
    """``dict(["ab", "cd"])`` is a mapping too, of ``a`` to ``b``."""
    with pytest.raises(RowsError, match=r"must be a (list of )?mapping"):
        Table(rows(row))


@pytest.mark.parametrize("key", [10**400, 1, None, ("a", "b")])
def test_columns_of_rows_of_python_have_names(key: Any) -> None:
    with pytest.raises(RowsError, match="row 1 has a column whose name is not text"):
        Table([{"q": "x"}, {"q": "y", key: 1}])
