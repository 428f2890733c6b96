"""Writing files. Full disks are simulated by a limit on file sizes, and by /dev/full;
an unwritable folder by a file in its place, since root may write everywhere."""

import json
import os
from pathlib import Path

import pytest

from pytest_evals.errors import StoreError
from pytest_evals.store.files import append_lines, write_json

FULL = Path("/dev/full")


def test_json_is_written_with_its_folders_and_replaces_an_existing_file(tmp_path):
    path = tmp_path / "a" / "b" / "results.json"
    write_json(path, {"n": 1})
    write_json(path, {"text": "ü⏎", "n": 2})
    assert json.loads(path.read_text("utf-8")) == {"text": "ü⏎", "n": 2}
    assert [p.name for p in path.parent.iterdir()] == ["results.json"]


def test_the_file_may_be_read_by_those_whom_the_umask_allows(tmp_path):
    old = os.umask(0o027)
    try:
        write_json(tmp_path / "results.json", {})
    finally:
        os.umask(old)
    assert (tmp_path / "results.json").stat().st_mode & 0o777 == 0o640


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_values_that_are_not_json_are_rejected_before_any_write(tmp_path, value):
    path = tmp_path / "results.json"
    write_json(path, {"n": 1})
    with pytest.raises(ValueError, match="Out of range float"):
        write_json(path, {"n": value})
    assert json.loads(path.read_text()) == {"n": 1}


@pytest.mark.largest_file(4096)
def test_a_full_disk_leaves_the_old_file_and_no_draft(tmp_path):
    path = tmp_path / "results.json"
    write_json(path, {"n": 1})
    with pytest.raises(StoreError) as caught:
        write_json(path, {"text": "x" * 2 * 4096}, "--evals-dir")
    assert str(caught.value) == (
        f"cannot write '{path}': File too large\n"
        "  fix: make room or make it writable, or choose another place with --evals-dir"
    )
    assert json.loads(path.read_text()) == {"n": 1}
    assert [p.name for p in tmp_path.iterdir()] == ["results.json"]


@pytest.mark.largest_file(4096)
def test_lines_that_do_not_fit_are_taken_away_again(tmp_path):
    path = tmp_path / "samples.jsonl"
    append_lines(path, ['{"n": 1}', '{"n": 2}'], "--evals-dir")
    with pytest.raises(StoreError, match="File too large"):
        append_lines(path, ['{"n": 3}', "x" * 4096], "--evals-dir")
    assert path.read_text() == '{"n": 1}\n{"n": 2}\n'


@pytest.mark.skipif(not FULL.exists(), reason="this system has no /dev/full")
def test_a_device_is_written_to_and_never_replaced():
    with pytest.raises(StoreError, match="No space left on device"):
        write_json(FULL, {"n": 1})
    assert FULL.is_char_device()
    write_json(Path("/dev/null"), {"n": 1})
    assert Path("/dev/null").is_char_device()


def test_a_link_stays_a_link(tmp_path):
    real = tmp_path / "real.json"
    link = tmp_path / "link.json"
    link.symlink_to(real)
    write_json(link, {"n": 1})
    assert link.is_symlink()
    assert json.loads(real.read_text()) == {"n": 1}


def test_a_file_in_place_of_a_folder_is_an_error(tmp_path):
    (tmp_path / "out").write_text("")
    with pytest.raises(StoreError) as caught:
        write_json(tmp_path / "out" / "results.json", {})
    assert str(caught.value) == (
        f"cannot make the folder '{tmp_path / 'out'}': it is a file, not a folder\n"
        "  fix: make room or make it writable, or choose another place with "
        "--evals-json"
    )


def test_a_folder_in_place_of_the_file_is_an_error(tmp_path):
    with pytest.raises(StoreError, match="Is a directory"):
        write_json(tmp_path, {})
    assert not list(tmp_path.iterdir())
