"""Checks before a run that its results can be written. Permission bits are not used:
they do not apply to root."""

import os
import select
from pathlib import Path

import pytest

from pytest_evals.errors import StoreError
from pytest_evals.store.writable import check_base, check_empty, check_file, remove_made


def why_base(base: Path, *, stores: bool = True, save: str = "") -> str:
    with pytest.raises(StoreError) as caught:
        check_base(base, "--evals-dir", stores=stores, save=save)
    what, fix = str(caught.value).splitlines()
    assert fix.endswith("choose another place with --evals-dir")
    return what


def why_file(path: Path) -> str:
    with pytest.raises(StoreError) as caught:
        check_file(path, "--evals-json")
    return str(caught.value).splitlines()[0]


def tree(path: Path) -> list[str]:
    return sorted(str(one.relative_to(path)) for one in path.rglob("*"))


def test_a_results_folder_is_made_with_its_gitignore_and_no_draft(tmp_path):
    base = tmp_path / "new" / ".evals"
    check_base(base, "--evals-dir", stores=True, save="main")
    assert tree(base) == [".gitignore", "runs"]


def test_folders_created_for_a_run_that_writes_nothing_are_removed(tmp_path):
    base = tmp_path / "new" / ".evals"
    made = check_base(base, "--evals-dir", stores=True)
    (base / "runs" / "mine").write_text("")
    remove_made(made)
    assert tree(base) == [".gitignore", "runs", "runs/mine"]
    (base / "runs" / "mine").unlink()
    remove_made(made)
    assert tree(tmp_path) == []


def test_a_file_in_the_way_is_named(tmp_path):
    taken = tmp_path / "taken"
    taken.write_text("")
    assert why_base(taken).endswith(f"'{taken}': it is a file, not a folder")
    below = taken / "a" / "b"
    assert why_base(below).endswith(f"'{below}': '{taken}' is a file, not a folder")
    assert why_file(below).endswith(f"'{taken}' is a file, not a folder")


def test_a_link_to_nowhere_is_named_with_where_it_points(tmp_path):
    link = tmp_path / "link"
    link.symlink_to("nowhere/.evals")
    message = "is a link to 'nowhere/.evals', which is not there"
    assert why_base(link).endswith(f"'{link}': it {message}")
    assert why_base(link / "below").endswith(f"'{link}' {message}")
    assert why_file(link).endswith(f"'{link}': it {message}")


def test_a_link_to_itself_and_a_name_that_is_too_long_are_refused(tmp_path):
    loop = tmp_path / "loop"
    loop.symlink_to("loop")
    assert "is a link to 'loop'" in why_base(loop)
    assert why_base(tmp_path / ("n" * 300)).endswith("File name too long")
    assert why_file(tmp_path / ("n" * 300)).endswith("File name too long")
    with pytest.raises(StoreError, match="File name too long"):
        check_empty(tmp_path / ("n" * 300), "--evals-run-dir")


@pytest.mark.parametrize("name", ["runs", "baselines"])
def test_folders_in_the_results_folder_are_checked_too(tmp_path, name):
    base = tmp_path / ".evals"
    base.mkdir()
    (base / name).symlink_to(tmp_path / "nowhere")
    assert f"{name}': it is a link to" in why_base(base, save="main")
    assert tree(base) == [name]


def test_another_file_in_place_of_the_cache_is_an_error(tmp_path):
    path = tmp_path / "responses.sqlite"
    path.mkdir()
    assert why_base(tmp_path).endswith(f"'{path}': Is a directory")
    check_base(tmp_path, "--evals-dir", stores=False)
    path.rmdir()
    path.symlink_to("nowhere")
    assert "is a link to 'nowhere', which is not there" in why_base(tmp_path)


def test_a_baseline_that_is_not_saved_needs_no_room(tmp_path):
    base = tmp_path / ".evals"
    base.mkdir()
    (base / "baselines").write_text("")
    assert "is a file, not a folder" in why_base(base, save="main")
    check_base(base, "--evals-dir", stores=True)
    assert (base / "baselines").is_file()


@pytest.mark.largest_file(0)
def test_a_full_disk_is_refused_and_nothing_is_left(tmp_path):
    assert why_base(tmp_path / "a" / "b").endswith("File too large")
    assert why_file(tmp_path / "a" / "b" / "c.json").endswith("File too large")
    assert tree(tmp_path) == []


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
def test_a_full_device_is_refused_and_others_are_not_written_to():
    assert why_file(Path("/dev/full")).endswith("No space left on device")
    check_file(Path("/dev/null"), "--evals-json")


def test_a_pipe_is_not_opened(tmp_path):
    """A reader would see its end."""
    path = tmp_path / "pipe"
    os.mkfifo(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    end = select.poll()
    end.register(reader)
    check_file(path, "--evals-json")
    assert end.poll(0) == []
    os.close(os.open(path, os.O_WRONLY))  # as a writer that ends
    assert end.poll(0) == [(reader, select.POLLHUP)]
    os.close(reader)


def test_an_earlier_file_and_the_target_of_a_link_stay_as_they_are(tmp_path):
    real, link = tmp_path / "real.json", tmp_path / "link.json"
    real.write_text("{}")
    link.symlink_to(real)
    check_file(link, "--evals-json")
    assert (link.is_symlink(), real.read_text()) == (True, "{}")
    assert tree(tmp_path) == ["link.json", "real.json"]


def test_a_link_whose_target_can_be_made_is_taken(tmp_path):
    link = tmp_path / "link.json"
    link.symlink_to(tmp_path / "real.json")
    check_file(link, "--evals-json")
    assert tree(tmp_path) == ["link.json"]


def test_a_folder_in_place_of_a_file_is_an_error(tmp_path):
    assert why_file(tmp_path).endswith(f"'{tmp_path}': it is a folder")


@pytest.mark.parametrize("name", ["responses.sqlite", "responses.sqlite-wal"])
def test_a_device_in_place_of_the_store_or_its_log_is_an_error(tmp_path, name):
    (tmp_path / name).symlink_to("/dev/null")
    assert why_base(tmp_path).endswith(
        f"'{tmp_path / name}': it is a device, not a file"
    )
    check_base(tmp_path, "--evals-dir", stores=False)
