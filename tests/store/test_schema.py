"""Stored files of other schema versions: read, rejected or preserved."""

import json
from pathlib import Path

import pytest

from pytest_evals.errors import StoreError
from pytest_evals.store.baselines import (
    find_baseline,
    save_baseline,
    save_flip_rates,
    stored_flip_rate,
)
from pytest_evals.store.cache import FileHashes, read_cache, write_cache
from pytest_evals.store.history import earlier_runs, last_run, read_run
from pytest_evals.store.schema import SCHEMAS, schema_fault
from pytest_evals.store.writable import check_base

NEWER = SCHEMAS["results"].current + 1
OURS = f"this version of pytest-model-evals reads version {SCHEMAS['results'].current}"


def write_run(folder: Path, version: object, date: float = 1.0) -> Path:
    """A run with one document; ``None`` for a file without a version."""
    folder.mkdir(parents=True)
    results = {
        "date": date,
        "options": {"model": "hf:mine"},
        "sample_files": {"quiz": "samples_quiz.jsonl"},
    }
    if version is not None:
        results["schema_version"] = version
    (folder / "results.json").write_text(json.dumps(results))
    (folder / "samples_quiz.jsonl").write_text('{"doc_id": 0, "id": "a"}\n')
    return folder


@pytest.mark.parametrize("version", [None, SCHEMAS["results"].current])
def test_a_run_of_this_version_or_of_none_is_read(tmp_path, version):
    run = read_run(write_run(tmp_path / "run", version))
    assert [row["id"] for row in run.rows("quiz")] == ["a"]


def test_a_newer_run_is_refused_with_both_versions_and_the_fix(tmp_path):
    path = write_run(tmp_path / ".evals" / "baselines" / "main", NEWER)
    with pytest.raises(StoreError) as caught:
        find_baseline(tmp_path / ".evals", "main", tmp_path)
    assert str(caught.value) == (
        f"'{path / 'results.json'}' has schema version {NEWER}; {OURS}\n"
        "  fix: update pytest-model-evals"
    )


def test_an_older_file_is_refused_once_its_version_is_no_longer_read(monkeypatch):
    schemas = {**SCHEMAS, "results": SCHEMAS["results"]._replace(current=4, oldest=3)}
    monkeypatch.setattr("pytest_evals.store.schema.SCHEMAS", schemas)
    path = Path("results.json")
    assert [schema_fault("results", n, path) for n in (3, 4)] == ["", ""]
    for found, shown in ((2, 2), (None, 1)):
        assert schema_fault("results", found, path) == (
            f"'results.json' has schema version {shown}; this version of "
            "pytest-model-evals reads versions 3 to 4\n"
            "  fix: write it again, with this version of pytest-model-evals"
        )


@pytest.mark.parametrize("version", ["0.3.0", True, 1.5, [1], 0, -1])
def test_a_version_that_cannot_be_ours_is_refused(tmp_path, version):
    with pytest.raises(StoreError, match="schema version"):
        read_run(write_run(tmp_path / "run", version))


def test_a_newer_baseline_is_not_replaced(tmp_path):
    base = tmp_path / ".evals"
    path = write_run(base / "baselines" / "main", NEWER)
    before = {one: one.read_bytes() for one in path.iterdir()}
    run = read_run(write_run(tmp_path / "run", None))
    with pytest.raises(StoreError, match="cannot replace the baseline 'main'"):
        save_baseline(base, "main", run)
    with pytest.raises(StoreError, match="cannot replace the baseline 'main'"):
        check_base(base, "--evals-dir", stores=True, save="main")
    assert {one: one.read_bytes() for one in path.iterdir()} == before
    save_baseline(base, "other", run)


def test_a_damaged_baseline_is_replaced(tmp_path):
    path = write_run(tmp_path / ".evals" / "baselines" / "main", NEWER)
    (path / "results.json").write_text("{")
    run = read_run(write_run(tmp_path / "run", None))
    save_baseline(tmp_path / ".evals", "main", run)
    assert [*find_baseline(tmp_path / ".evals", "main", tmp_path).rows("quiz")]


def test_a_newer_run_is_left_out_but_not_where_it_is_the_last_one(tmp_path):
    write_run(tmp_path / "runs" / "1", None, date=1.0)
    newer = write_run(tmp_path / "runs" / "2", NEWER, date=2.0)
    assert [run.path.name for run in earlier_runs(tmp_path)] == ["1"]
    with pytest.raises(StoreError, match=str(newer)):
        last_run(tmp_path, "hf:mine")
    assert last_run(tmp_path, "hf:other") is None


def test_newer_noise_is_not_used_and_not_written_over(tmp_path):
    folder = tmp_path / "baselines" / "main"
    folder.mkdir(parents=True)
    save_flip_rates(folder, {"quiz": {"acc,none": {"flip_rate": 0.25}}})
    assert stored_flip_rate(tmp_path, "main", "quiz", "acc") == 0.25
    noise = folder / "noise.json"
    newer = {**json.loads(noise.read_text()), "schema_version": NEWER}
    noise.write_text(json.dumps(newer))
    assert stored_flip_rate(tmp_path, "main", "quiz", "acc") is None
    with pytest.raises(StoreError, match=f"schema version {NEWER}"):
        save_flip_rates(folder, {"quiz": {}})
    assert json.loads(noise.read_text()) == newer


def test_noise_without_a_version_is_kept(tmp_path):
    folder = tmp_path / "baselines" / "main"
    folder.mkdir(parents=True)
    old = {"quiz": {"acc,none": {"flip_rate": 0.25}}}
    (folder / "noise.json").write_text(json.dumps(old))
    save_flip_rates(folder, {"sums": {"acc,none": {"flip_rate": 0.5}}})
    assert stored_flip_rate(tmp_path, "main", "quiz", "acc") == 0.25
    assert stored_flip_rate(tmp_path, "main", "sums", "acc") == 0.5


def test_a_cache_of_another_version_is_made_again(tmp_path):
    write_cache(tmp_path, "a.json", "hashes", {"a": 1})
    assert read_cache(tmp_path, "a.json", "hashes") == {"a": 1}
    path = tmp_path / "cache" / "a.json"
    newer = SCHEMAS["hashes"].current + 1
    path.write_text(json.dumps({"a": 1, "schema_version": newer}))
    assert read_cache(tmp_path, "a.json", "hashes") == {}


def test_hashes_that_were_kept_without_a_version_are_used(tmp_path):
    weights = tmp_path / "weights"
    weights.write_bytes(b"one")
    stat = weights.stat()
    mark = [stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns]
    (tmp_path / "cache").mkdir()
    kept = {str(weights.resolve()): [mark, "0a1b"]}
    (tmp_path / "cache" / "hashes.json").write_text(json.dumps(kept))
    assert FileHashes(tmp_path)(weights) == "0a1b"
