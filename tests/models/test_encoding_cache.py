"""Encoded requests that are kept in files equal those that are encoded again."""

from __future__ import annotations

import os
import time

import numpy as np
import pytest

from pytest_evals.core.request import Generate, Loglikelihood, Message, Rolling
from pytest_evals.masking.registry import learn_secret
from pytest_evals.models.engine.in_process_model import BackgroundEncoder
from pytest_evals.models.tokens.request_encoder import (
    InvalidRequestError,
    RequestEncoder,
    TokenPair,
)
from pytest_evals.store import cache as store
from pytest_evals.store.cache import EncodedFiles, encoded_files

SHOT = "the cat sat on the mat and the dog in the fog. yes\n\n" * 20


def requests(n: int = 200) -> list[object]:
    """Choices, texts and generations, with texts that tokenizers find difficult."""
    found: list[object] = [Loglikelihood("", "hello"), Loglikelihood("  ", " a")]
    for i in range(n):
        context = f"{SHOT}is {i} a number, 'ü' or 東京 {'cat ' * (i % 7)}?"
        found += [Loglikelihood(context, end) for end in (" yes", " no", "")]
    found += [Rolling(SHOT), Generate(SHOT), Generate((Message("user", SHOT),))]
    return found


def encoded(encoder: RequestEncoder, asked: list[object], files=None) -> list[object]:
    """Token ids of each request, or the error; by a new instance."""
    background = BackgroundEncoder(encoder)
    if files is not None:
        background.keep(files)
    by_position = {}
    for some in background.take(asked).encoded():
        for i, ids in some.items():
            if isinstance(ids, TokenPair):
                by_position[i] = ids.context.tolist(), ids.continuation.tolist()
            else:
                is_error = isinstance(ids, InvalidRequestError)
                by_position[i] = str(ids) if is_error else ids.tolist()
    return [by_position[i] for i in range(len(asked))]


@pytest.fixture
def counted(opened, monkeypatch):
    """An encoder, and the number of pairs that it has encoded."""
    encoder, pairs = opened("gpt2")._encoder, []
    encode = encoder.pairs

    def counting(asked):
        pairs.extend(asked)
        return encode(asked)

    monkeypatch.setattr(encoder, "pairs", counting)
    return encoder, pairs


def valid(n: int = 200) -> list[Loglikelihood]:
    return [one for one in requests(n) if getattr(one, "continuation", "") > " b"]


def test_kept_ids_equal_encoded_ones_for_all_kinds_of_requests(opened, tmp_path):
    for kind in ("gpt2", "llama"):
        encoder = opened(kind)._encoder
        expected = encoded(encoder, requests())
        for _ in range(2):
            assert encoded(encoder, requests(), EncodedFiles(tmp_path)) == expected


def test_a_second_run_encodes_only_new_prompts(counted, tmp_path):
    encoder, pairs = counted
    first = encoded(encoder, valid(), EncodedFiles(tmp_path))
    assert len(pairs) == len(valid())
    pairs.clear()
    assert encoded(encoder, valid(), EncodedFiles(tmp_path)) == first
    assert len(pairs) == 1  # one is compared with what was kept
    pairs.clear()
    more = [Loglikelihood("a new one", " yes"), *valid()]
    assert encoded(encoder, more, EncodedFiles(tmp_path))[1:] == first
    assert len(pairs) < len(more) // 2


def test_damaged_cut_and_exchanged_files_are_encoded_again(counted, tmp_path):
    encoder, _ = counted
    expected = encoded(encoder, valid(), EncodedFiles(tmp_path))
    paths = [one.path for one in encoded_files(tmp_path)]
    assert len(paths) > 2
    for damage in (b"", b"short", b"\0" * 40, paths[0].read_bytes()):
        for path in paths:
            path.write_bytes(damage)
        assert encoded(encoder, valid(), EncodedFiles(tmp_path)) == expected
    whole = paths[1].read_bytes()
    for place in (0, 40, len(whole) - 1):
        bad = bytearray(whole)
        bad[place] ^= 1
        paths[1].write_bytes(bytes(bad))
        assert encoded(encoder, valid(), EncodedFiles(tmp_path)) == expected
    for path in paths:
        path.unlink()
    assert encoded(encoder, valid(), EncodedFiles(tmp_path)) == expected


def test_files_of_another_tokenizer_are_not_used(opened, tmp_path):
    one, other = opened("gpt2")._encoder, opened("llama")._encoder
    encoded(one, valid(), EncodedFiles(tmp_path))
    expected = encoded(other, valid())
    assert encoded(other, valid(), EncodedFiles(tmp_path)) == expected
    assert len({one.path.name[:16] for one in encoded_files(tmp_path)}) == 2


def test_ids_that_the_model_does_not_know_are_errors_with_kept_ones_too(
    opened, tmp_path
):
    encoder = opened("gpt2", anew=True)._encoder
    encoded(encoder, valid(), EncodedFiles(tmp_path))
    largest = int(np.max(encoder.encode([SHOT])[SHOT]))
    small = RequestEncoder(encoder.tokenizer, encoder._settings, largest)
    expected = encoded(small, valid())
    assert "the model knows only" in expected[-1]
    assert encoded(small, valid(), EncodedFiles(tmp_path)) == expected


def test_prompts_with_a_secret_are_not_kept(opened, tmp_path):
    secret = "kFj39dkeWq82nfpZ"
    learn_secret(secret)
    asked = [Loglikelihood(f"{one.context} {secret}", " yes") for one in valid()]
    encoded(opened("gpt2")._encoder, asked, EncodedFiles(tmp_path))
    assert not encoded_files(tmp_path)


@pytest.mark.slow
def test_the_least_recently_used_files_are_deleted(tmp_path, monkeypatch):
    monkeypatch.setattr(store, "MOST_BYTES", 80_000)
    files = EncodedFiles(tmp_path)
    for number in range(30):
        files.write(f"{number:02}", bytes(10_000))
        time.sleep(0.01)
        files.read("00")
    left = {one.path.name for one in encoded_files(tmp_path)}
    assert {"00", "29"} <= left
    assert len(left) <= 8
    os.utime(tmp_path / store.FOLDER / "00", (0, 0))
    EncodedFiles(tmp_path).write("new", b"new")
    assert not (tmp_path / store.FOLDER / "00").exists()


def test_a_folder_that_cannot_be_written_changes_nothing(counted, tmp_path):
    encoder, _ = counted
    (tmp_path / "cache").write_text("a file")
    expected = encoded(encoder, valid())
    assert encoded(encoder, valid(), EncodedFiles(tmp_path)) == expected
