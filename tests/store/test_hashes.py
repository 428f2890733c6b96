"""Hashes of files are cached, and recomputed for a file that has changed."""

import hashlib
import os
import time

import pytest

from pytest_evals.store import cache as hashes
from pytest_evals.store.cache import FileHashes


@pytest.fixture
def weights(tmp_path):
    path = tmp_path / "model.safetensors"
    path.write_bytes(b"one")
    return path


def sha(data):
    return hashlib.sha256(data).hexdigest()


def count_reads(monkeypatch):
    read = []
    whole = hashlib.file_digest

    def counted(stream, name):
        read.append(stream.name)
        return whole(stream, name)

    monkeypatch.setattr(hashlib, "file_digest", counted)
    return read


def test_a_file_that_stays_is_read_once(tmp_path, weights, monkeypatch):
    monkeypatch.setattr(hashes, "SETTLED_S", -1.0)
    read = count_reads(monkeypatch)
    assert FileHashes(tmp_path)(weights) == sha(b"one")
    assert FileHashes(tmp_path)(weights) == sha(b"one")
    assert len(read) == 1


def test_a_changed_file_is_detected_even_if_size_and_time_are_restored(
    tmp_path, weights, monkeypatch
):
    monkeypatch.setattr(hashes, "SETTLED_S", -1.0)
    before = weights.stat()
    FileHashes(tmp_path)(weights)
    time.sleep(0.05)
    weights.write_bytes(b"two")
    os.utime(weights, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert FileHashes(tmp_path)(weights) == sha(b"two")


def test_the_hash_of_a_recently_changed_file_is_not_cached(
    tmp_path, weights, monkeypatch
):
    read = count_reads(monkeypatch)
    for _ in range(2):
        FileHashes(tmp_path)(weights)
    assert len(read) == 2


@pytest.mark.parametrize("text", ["", "[]", '{"a": 1}', "{"])
def test_a_damaged_cache_is_ignored(tmp_path, weights, text):
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / "hashes.json").write_text(text.replace("a", str(weights)))
    assert FileHashes(tmp_path)(weights) == sha(b"one")


def test_nothing_is_remembered_where_nothing_can_be_written(tmp_path, weights):
    (tmp_path / "file").write_text("")
    assert FileHashes(tmp_path / "file")(weights) == sha(b"one")
