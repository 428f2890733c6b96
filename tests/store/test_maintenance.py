"""The commands on stored responses, also while another process writes some."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
import time
from contextlib import closing

import pytest

from pytest_evals.__main__ import main
from pytest_evals.core.key import request_keys
from pytest_evals.core.request import Generate, Response
from pytest_evals.store.cache import EncodedFiles
from pytest_evals.store.maintenance import opened, rows_of
from pytest_evals.store.responses import NAME, Responses

DAY_S = 86_400


def keys(names):
    return list(request_keys(Generate(f"prompt {name}") for name in names))


def fill(base, names, *, model="a", task="quiz", days=0.0, text="text {}"):
    """Store responses that were used some days ago."""
    responses = Responses(base, {"kind": "hf", "model": model})
    for name, key in zip(names, keys(names), strict=True):
        responses.add(key, Response(text=text.format(name), elapsed_s=time.time()))
    responses.use(keys(names), [task] * len(names))
    responses.close()
    with closing(sqlite3.connect(base / NAME)) as connection:
        for table, column in ("responses", "stored"), ("uses", "used"):
            connection.execute(
                f"UPDATE {table} SET {column} = {column} - ? "
                f"WHERE {column} > ? AND key IN ({','.join('?' * len(names))})",
                [days * DAY_S, time.time() - 60, *digests(base, names, model)],
            )
        connection.commit()


def digests(base, names, model="a"):
    responses = Responses(base, {"kind": "hf", "model": model}, writes=False)
    found = [key.digest(responses._hash) for key in keys(names)]
    responses.close()
    return found


def stored(base, names, model="a"):
    responses = Responses(base, {"kind": "hf", "model": model}, writes=False)
    found = responses.read(keys(names))
    notes = responses.notes
    responses.close()
    assert notes == []
    return [n for n, key in zip(names, keys(names), strict=True) if key in found]


def run(capsys, base, *arguments):
    """The exit code and the output of a command."""
    command, *others = arguments
    code = main(["store", command, "--dir", str(base), *others])
    out, err = capsys.readouterr()
    return code, out + err


def run_of(base, name, days, *, folder="runs", took_s=60):
    """A stored run that began some days ago."""
    place = base / folder / name
    place.mkdir(parents=True)
    (place / "samples_quiz.jsonl").write_text("")
    results = {
        "date": time.time() - days * DAY_S,
        "total_evaluation_time_seconds": str(took_s),
        "sample_files": {"quiz": "samples_quiz.jsonl"},
        "options": {},
    }
    (place / "results.json").write_text(json.dumps(results))


def test_sizes_are_shown_by_model_task_and_age(tmp_path, capsys):
    fill(tmp_path, "abc", days=3)
    fill(tmp_path, "de", model="b", task="zoo")
    run_of(tmp_path, "one", 3)
    EncodedFiles(tmp_path).write("ids", bytes(2000))
    code, out = run(capsys, tmp_path, "info")
    assert code == 0
    lines = [" ".join(line.split()) for line in out.splitlines()]
    assert lines[0].startswith(f"{tmp_path / NAME}: 5 responses, ")
    for expected in ("hf:a", "hf:b", "quiz 3", "zoo 2", "last day 2", "last week 3"):
        assert any(line.startswith(expected) for line in lines), expected
    assert any(line.startswith("runs: 1, ") for line in lines)
    assert "encoded requests: 1 file, 2.0 kB" in lines


def test_verify_checks_every_checksum_and_key(tmp_path, capsys):
    fill(tmp_path, "abcdef")
    code, out = run(capsys, tmp_path, "verify")
    assert (code, out.endswith("all 6 responses match their checksums and keys\n")) == (
        0,
        True,
    )
    with closing(sqlite3.connect(tmp_path / NAME)) as connection:
        connection.execute(
            "UPDATE responses SET response = replace(response, 'text c', 'text x')"
        )
        connection.execute(
            "UPDATE responses SET settings = replace(settings, '0', '1') "
            "WHERE rowid = 1"
        )
        connection.commit()
    code, out = run(capsys, tmp_path, "verify")
    assert code == 1
    assert "row 3: the response does not match its checksum" in out
    assert "row 1: the request does not match its key" in out
    assert "2 faults" in out


def damage(base, *statements):
    with closing(sqlite3.connect(base / NAME)) as connection:
        for statement in statements:
            connection.execute(statement)
        connection.commit()


def cut(base):
    raw = (base / NAME).read_bytes()
    (base / NAME).write_bytes(raw[:-2000])


def without_index(base):
    damage(
        base,
        "PRAGMA writable_schema = 1",
        "DELETE FROM sqlite_master WHERE name = 'sqlite_autoindex_responses_1'",
    )


DAMAGES = {
    "UPDATE responses SET {} WHERE rowid = 2": {
        "prompt = 7": "row 2: the request does not match its key",
        "prompt = 'text'": "row 2: the request does not match its key",
        "settings = x'ff'": "row 2: the request does not match its key",
        "settings = 7": "row 2: the request does not match its key",
        "response = 7": "row 2: the response does not match its checksum",
        "key = 'text'": "row 2: the response does not match its checksum",
        "key = zeroblob(32)": "row 2: the response does not match its checksum",
        "checksum = 'text'": "row 2: the response does not match its checksum",
        "model = 'text'": "1 response: the model is missing",
        "stored = 'text'": "",
        "stored = 1e300": "",
        "stored = -1e300": "",
    },
    "UPDATE models SET {}": {
        "fingerprint = 7": "model 1: does not match its checksums",
        "fingerprint = '{}'": "model 1: does not match its checksums",
        "info = '{'": "model 1: does not match its checksums",
        "info = 7": "model 1: does not match its checksums",
    },
    "UPDATE uses SET {}": {"task = x'ff'": "", "task = 7": "", "used = 'text'": ""},
    "DELETE FROM {}": {
        "responses WHERE rowid > 4": "the last 2 responses are missing",
        "models": "6 responses: the model is missing",
        "uses": "",
    },
}


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        (statement.replace("{}", value), expected)
        for statement, kinds in DAMAGES.items()
        for value, expected in kinds.items()
    ],
)
def test_every_command_reads_a_damaged_store_and_verify_finds_it(
    tmp_path, capsys, statement, expected
):
    fill(tmp_path, "abcdef")
    damage(tmp_path, statement)
    code, out = run(capsys, tmp_path, "verify")
    assert (code, expected in out) == (bool(expected), True)
    assert ("fix: " in out) == bool(expected)
    assert run(capsys, tmp_path, "info")[0] == 0
    assert run(capsys, tmp_path, "prune", "--older-than", "1d")[0] == 0
    path = tmp_path / "all.jsonl"
    code, out = run(capsys, tmp_path, "export", "-o", str(path))
    assert code == 0
    n = len([json.loads(line) for line in path.read_text().splitlines()])
    is_lost = expected.startswith(("row", "the last"))
    assert n == 6 - is_lost - (expected[:3] == "the")
    assert ("1 damaged" in out) == expected.startswith("row")


def test_deleted_rows_in_the_middle_are_as_pruned_ones(tmp_path, capsys):
    """Documented in ``docs/store.md``."""
    fill(tmp_path, "abcdef")
    damage(tmp_path, "DELETE FROM responses WHERE rowid = 3")
    code, out = run(capsys, tmp_path, "verify")
    assert (code, "all 5 responses match" in out) == (0, True)


@pytest.mark.parametrize("damaged", [cut, without_index])
def test_verify_names_damaged_pages_and_what_can_be_used(tmp_path, capsys, damaged):
    fill(tmp_path, "abcdef")
    damaged(tmp_path)
    code, out = run(capsys, tmp_path, "verify")
    assert code == 1
    assert "pages: database disk image is malformed" in out
    assert "1 fault; 6 responses can be used" in out


def test_a_damaged_store_is_repaired_by_merging_it_into_a_new_one(tmp_path, capsys):
    fill(old := tmp_path / "old", "abcdef", days=3)
    damage(old, "UPDATE responses SET prompt = 7 WHERE rowid = 2")
    without_index(old)
    renamed = (old / NAME).rename(tmp_path / "renamed.sqlite")
    code, out = run(capsys, old, "merge", str(renamed))
    assert code == 0
    assert "5 responses added, 0 were here already, 1 damaged left out" in out
    assert run(capsys, old, "verify")[0] == 0
    assert stored(old, "abcdef") == [*"acdef"]
    _, out = run(capsys, old, "info")
    assert "last week" in out  # with their last uses


@pytest.mark.parametrize("kind", ["folder", "link", "other version"])
def test_what_is_not_a_store_of_this_version_is_named(tmp_path, capsys, kind):
    path = tmp_path / NAME
    if kind == "folder":
        path.mkdir()
    elif kind == "link":
        path.symlink_to(tmp_path / "missing")
    else:
        fill(tmp_path, "a")
        damage(tmp_path, "PRAGMA user_version = 99")
    expected = f"{path}: not a file"
    if kind == "other version":
        expected = f"'{path}' has schema version 99; this version of "
    for command in (("verify",), ("info",), ("prune", "--older-than", "1d", "--yes")):
        code, out = run(capsys, tmp_path, *command)
        assert code == 2
        assert expected in out


def test_a_missing_store_is_not_created_by_a_merge_that_fails(tmp_path, capsys):
    assert run(capsys, tmp_path / "new", "merge", str(tmp_path / "missing"))[0] == 2
    assert not (tmp_path / "new").exists()


def test_prune_lists_first_and_deletes_with_yes(tmp_path, capsys):
    fill(tmp_path, "abc", days=40)
    fill(tmp_path, "de", days=1)
    arguments = ("prune", "--older-than", "30d")
    code, out = run(capsys, tmp_path, *arguments)
    assert code == 0
    assert "would delete 3 of 5 responses, " in out
    assert out.endswith("nothing was deleted: add --yes\n")
    assert stored(tmp_path, "abcde") == [*"abcde"]
    code, out = run(capsys, tmp_path, *arguments, "--yes")
    assert "deleted 3 of 5 responses, " in out
    assert stored(tmp_path, "abcde") == [*"de"]


def test_prune_by_model_and_by_size(tmp_path, capsys):
    fill(tmp_path, "ab", days=3)
    fill(tmp_path, "cd", model="b", days=2)
    fill(tmp_path, "ef", days=1)
    run(capsys, tmp_path, "prune", "--model", "hf:b*", "--yes")
    assert stored(tmp_path, "cd", "b") == []
    assert stored(tmp_path, "abef") == [*"abef"]
    with opened(tmp_path / NAME) as connection:
        size = sum(row.size for row in rows_of(connection))
    assert run(capsys, tmp_path, "prune", "--max-size", str(size - 1), "--yes")[0] == 0
    assert stored(tmp_path, "abef") in ([*"bef"], [*"aef"])


def test_prune_keeps_what_the_last_runs_and_baselines_use(tmp_path, capsys):
    fill(tmp_path, "a", days=9)
    run_of(tmp_path, "first", 9.0001)
    fill(tmp_path, "b", days=6)
    run_of(tmp_path, "second", 6.0001)
    run_of(tmp_path, "main", 6.0001, folder="baselines")
    fill(tmp_path, "c", days=4)
    run_of(tmp_path, "third", 4.0001)
    fill(tmp_path, "d", days=2)
    run_of(tmp_path, "fourth", 2.0001)
    code, out = run(capsys, tmp_path, "prune", "--unused-by", "9", "--yes")
    assert "has only 4 runs\ndeleted 0 of 4 responses" in out
    code, out = run(capsys, tmp_path, "prune", "--unused-by", "1", "--yes")
    assert code == 0
    assert stored(tmp_path, "abcd") == ["b", "d"]


def test_stores_of_several_machines_are_merged(tmp_path, capsys):
    """Equal replies that took another time are one; others are reported."""
    here, there = tmp_path / "here", tmp_path / "there"
    for place in (here, there):
        place.mkdir()
    fill(here, "ab")
    fill(there, "bc", task="zoo")
    fill(there, "xy", model="b")
    code, out = run(capsys, here, "merge", str(there))
    assert code == 0
    assert out == f"{there / NAME}: 3 responses added, 1 were here already\n"
    assert stored(here, "abc") == [*"abc"]
    assert stored(here, "xy", "b") == [*"xy"]
    other = tmp_path / "other"
    other.mkdir()
    fill(other, "a", text="quite another {}")
    code, out = run(capsys, here, "merge", str(other / NAME))
    assert "1 request with different replies; those here were kept" in out
    assert "quite another a" in out
    assert run(capsys, here, "verify")[0] == 0
    assert run(capsys, here, "merge", str(here))[0] == 2


def test_responses_are_exported_as_json_lines(tmp_path, capsys):
    fill(tmp_path, "ab")
    path = tmp_path / "all.jsonl"
    assert run(capsys, tmp_path, "export", "-o", str(path))[0] == 0
    found = [json.loads(line) for line in path.read_text().splitlines()]
    assert sorted(one["response"]["text"] for one in found) == ["text a", "text b"]
    assert {one["task"] for one in found} == {"quiz"}


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("info",), "no stored responses"),
        (("prune", "--yes"), "no stored responses"),
    ],
)
def test_a_folder_without_a_store_is_an_error(tmp_path, capsys, arguments, expected):
    code, out = run(capsys, tmp_path, *arguments)
    assert code == 2
    assert expected in out
    assert not (tmp_path / NAME).exists()


def test_prune_without_a_criterion_deletes_nothing(tmp_path, capsys):
    fill(tmp_path, "ab")
    code, out = run(capsys, tmp_path, "prune", "--yes")
    assert code == 2
    assert "give --older-than, --model, --max-size or --unused-by" in out
    assert stored(tmp_path, "ab") == [*"ab"]


WRITER = """
import sys, time
from pathlib import Path
from pytest_evals.core.key import request_keys
from pytest_evals.core.request import Generate, Response
from pytest_evals.store.responses import Responses

responses = Responses(Path(sys.argv[1]), {"kind": "hf", "model": "a"})
for i in range(300):
    (key,) = request_keys([Generate(f"prompt new {i}")])
    responses.add(key, Response(text=f"text {i}"))
    responses.use([key], ["zoo"])
    if i == 20:
        print("started", flush=True)
    time.sleep(0.005)
responses.close()
print(responses.notes, flush=True)
"""


@pytest.mark.slow
def test_a_store_is_pruned_verified_and_merged_while_a_run_writes(tmp_path, capsys):
    old = [f"old {i}" for i in range(200)]
    base, other = tmp_path / "base", tmp_path / "other"
    for place in (base, other):
        place.mkdir()
    fill(base, old, days=40)
    fill(other, "xyz")
    process = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(base)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "started\n"
    assert process.poll() is None
    code, out = run(capsys, base, "prune", "--older-than", "30d", "--yes")
    assert code == 0
    assert "deleted 200 of " in out
    assert run(capsys, base, "merge", str(other))[0] == 0
    assert run(capsys, base, "verify")[0] == 0
    rest, _ = process.communicate(timeout=120)
    assert rest == "[]\n"  # the run noticed nothing
    new = [f"new {i}" for i in range(300)]
    assert stored(base, [*old, *new, *"xyz"]) == [*new, *"xyz"]
    assert run(capsys, base, "verify")[0] == 0
