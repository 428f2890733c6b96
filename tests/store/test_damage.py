"""Damage to the file of responses: a stored response is returned as it was written, or
its request is sent again; no exception is raised."""

import random
import sqlite3
import subprocess
import sys
from contextlib import closing

import pytest

from pytest_evals.core.key import request_keys
from pytest_evals.core.request import Generate, Response
from pytest_evals.errors import StoreError
from pytest_evals.store.nearest import nearest
from pytest_evals.store.responses import NAME, Responses, model_hash
from pytest_evals.store.rows import row_checksum

MODEL = {"weights": "0a1b"}
INFO = {"dtype": "float32"}
KEYS = list(request_keys(Generate(f"prompt {i}") for i in range(12)))
RIGHT = [
    Response(text=f"what? {i} é\ufffd", finish="stop", n_tokens=i) for i in range(12)
]


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The bytes of a store with twelve responses."""
    base = tmp_path_factory.mktemp("whole")
    responses = Responses(base, MODEL)
    for key, response in zip(KEYS, RIGHT, strict=True):
        responses.add(key, response)
    responses.keep_info(INFO)
    responses.close()
    return (base / NAME).read_bytes()


def use(base):
    """Use a store as a session does: read, and add missing responses.

    Returns:
        The stored responses, the model's description, and notes.
    """
    responses = Responses(base, MODEL)
    found = responses.read(KEYS)
    info = responses.info
    for key, response in zip(KEYS, RIGHT, strict=True):
        if key not in found:
            responses.add(key, response)
    responses.keep_info(INFO)
    responses.close()
    return found, info, responses.notes


def changed(found):
    """Positions of responses that are not as they were written."""
    return [i for i, key in enumerate(KEYS) if key in found and found[key] != RIGHT[i]]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_no_flipped_bit_raises_or_changes_an_answer(tmp_path, whole, seed):
    draw = random.Random(seed)
    places = [i for i, byte in enumerate(whole) if byte]
    # the schema is small and the most important part
    places += [i for i in places if i < 4096] * 2
    for n in range(80):
        place, bit = draw.choice(places), draw.randrange(8)
        base = tmp_path / str(n)
        base.mkdir()
        raw = bytearray(whole)
        raw[place] ^= 1 << bit
        (base / NAME).write_bytes(raw)
        found, info, _ = use(base)
        where = f"bit {bit} of byte {place}"
        assert changed(found) == [], where
        assert info in (None, INFO), where
        again, info, _ = use(base)
        assert changed(again) == [], where
        assert info in (None, INFO), where
        other = KEYS[0]._replace(settings=KEYS[0].settings.replace("256", "257"))
        try:
            near = nearest(base, other, MODEL)
        except StoreError:
            continue
        if near is not None:
            assert near.settings == (("max_tokens", 257, 256),), where
            assert near.model == (), where


@pytest.mark.parametrize("seed", range(2))
def test_no_overwritten_block_raises_or_changes_an_answer(tmp_path, whole, seed):
    draw = random.Random(seed)
    for n in range(25):
        base = tmp_path / str(n)
        base.mkdir()
        raw = bytearray(whole)
        start = draw.randrange(len(raw))
        length = draw.choice([2, 16, 512, 4096])
        raw[start : start + length] = draw.randbytes(length)
        (base / NAME).write_bytes(raw[: draw.choice([len(raw), start + length])])
        found, info, _ = use(base)
        assert changed(found) == [], (start, length)
        assert info in (None, INFO)


def test_an_undecodable_byte_is_not_a_cache_hit(tmp_path, whole):
    raw = bytearray(whole)
    for i in range(12):
        raw[raw.index(b"what? %d " % i) + 4] ^= 0x80
    (tmp_path / NAME).write_bytes(raw)
    found, _, notes = use(tmp_path)
    assert found == {}
    assert notes == [
        f"12 responses in '{tmp_path / NAME}' were damaged and are sent again"
    ]
    assert use(tmp_path)[0] == dict(zip(KEYS, RIGHT, strict=True))


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("key", "'text'"),
        ("key", "7"),
        ("response", "'null'"),
        ("response", "7"),
        ("response", "X'ff'"),
        ("response", "'[1'"),
        ("checksum", "'text'"),
        ("checksum", "checksum + 4294967296"),
        ("checksum", "1.5"),
        ("prompt", "'text'"),
        ("prompt", "X'00'"),
        ("settings", "X'ff'"),
        ("settings", "replace(settings, '256', '257')"),
    ],
)
def test_a_row_with_a_changed_value_is_not_used(tmp_path, whole, column, value):
    path = tmp_path / NAME
    path.write_bytes(whole)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(
            f"UPDATE responses SET {column} = {value} WHERE key = ?",
            [KEYS[3].digest(model_hash(MODEL))],
        )
    connection.close()
    found, _, notes = use(tmp_path)
    assert KEYS[3] not in found
    assert changed(found) == []
    assert len(found) == 11
    if column != "key":
        assert notes == [f"1 response in '{path}' was damaged and is sent again"]
    assert use(tmp_path)[0] == dict(zip(KEYS, RIGHT, strict=True))


@pytest.mark.parametrize("value", ["7", "'text'", "X'ff'"])
def test_rows_of_another_type_do_not_stop_the_search_for_the_nearest(
    tmp_path, whole, value
):
    path = tmp_path / NAME
    path.write_bytes(whole)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(f"UPDATE responses SET settings = {value}")
        connection.execute(f"UPDATE models SET fingerprint = {value}")
    connection.close()
    assert nearest(tmp_path, KEYS[0], MODEL) is None


@pytest.mark.parametrize(
    "old",
    [b"responsesresponses", b"key BLOB", b"hash BLOB", b"CREATE TABLE models", b"id I"],
)
@pytest.mark.parametrize("flip", [0x01, 0x80])
def test_a_damaged_schema_is_set_aside(tmp_path, whole, old, flip):
    raw = bytearray(whole)
    assert raw.count(old) == 1
    raw[raw.index(old)] ^= flip
    (tmp_path / NAME).write_bytes(raw)
    found, _, notes = use(tmp_path)
    assert changed(found) == []
    (aside,) = tmp_path.glob("responses-set-aside-*.sqlite")
    assert aside.read_bytes() == raw
    (note,) = notes
    assert note.startswith(f"'{tmp_path / NAME}' cannot be used: ")
    assert use(tmp_path)[0] == dict(zip(KEYS, RIGHT, strict=True))


def test_only_the_responses_of_damaged_pages_are_lost(tmp_path):
    """Twelve responses of 300 bytes are in one page."""
    keys = list(request_keys(Generate(f"prompt {i}") for i in range(1500)))
    responses = Responses(tmp_path, MODEL)
    for key in keys:
        responses.add(key, Response(text="x" * 200))
    responses.use(keys, ["quiz"] * len(keys))
    responses.close()
    path = tmp_path / NAME
    raw = bytearray(path.read_bytes())
    leaves = [i for i in range(0, len(raw), 4096) if raw.count(b"xxx", i, i + 4096)]
    for place in (leaves[0], leaves[9], leaves[40], leaves[-2]):
        raw[place : place + 4096] = b"\x42" * 4096
    path.write_bytes(raw)
    responses = Responses(tmp_path, MODEL)
    n_lost = len(keys) - len(responses.read(keys))
    responses.close()
    assert 0 < n_lost <= 4 * 16
    assert "a new one was created with 14" in responses.notes[0]
    with closing(sqlite3.connect(path)) as connection:
        ((n,),) = connection.execute("SELECT count(*) FROM uses")
    assert n == len(keys) - n_lost


@pytest.mark.parametrize("column", ["settings", "prompt"])
def test_damaged_requests_of_unknown_models_are_not_copied(tmp_path, whole, column):
    (tmp_path / NAME).write_bytes(whole)
    with closing(sqlite3.connect(tmp_path / NAME)) as connection, connection:
        connection.execute(f"UPDATE responses SET {column} = 7 WHERE rowid = 3")
        connection.execute("DELETE FROM models")
        connection.execute("CREATE TABLE uses (other)")  # so it is set aside
    connection.close()
    responses = Responses(tmp_path, MODEL)
    responses.use(KEYS, ["quiz"] * len(KEYS))
    responses.close()
    assert "with 11 responses that are intact" in " ".join(responses.notes)
    assert len(use(tmp_path)[0]) == 11


@pytest.mark.parametrize("value", ["[1]", "null", '"text"'])
def test_a_response_that_is_not_an_object_is_not_used(tmp_path, whole, value):
    (tmp_path / NAME).write_bytes(whole)
    digest = KEYS[3].digest(model_hash(MODEL))
    with closing(sqlite3.connect(tmp_path / NAME)) as connection:
        connection.execute(
            "UPDATE responses SET response = ?, checksum = ? WHERE key = ?",
            [value, row_checksum(digest, value.encode()), digest],
        )
        connection.commit()
    assert {*use(tmp_path)[0]} == {*KEYS} - {KEYS[3]}
    assert {*use(tmp_path)[0]} == {*KEYS}


@pytest.mark.parametrize("place", [18, 19])
def test_a_file_format_of_an_unknown_version_is_set_aside(tmp_path, whole, place):
    """SQLite opens the first of these two for reading only."""
    raw = bytearray(whole)
    raw[place] = 0x42
    (tmp_path / NAME).write_bytes(raw)
    use(tmp_path)
    assert use(tmp_path)[0] == dict(zip(KEYS, RIGHT, strict=True))
    assert len([*tmp_path.glob("responses-set-aside-*.sqlite")]) == 1


def test_descriptions_of_models_are_read_from_older_caches(tmp_path, whole):
    path = tmp_path / NAME
    path.write_bytes(whole)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("""UPDATE models SET info = '{"dtype": "float16"}'""")
    connection.close()
    assert use(tmp_path)[1] == {"dtype": "float16"}


OTHER_PROCESS = """
import sys
from pathlib import Path
from pytest_evals.store.responses import Responses
Responses(Path(sys.argv[1]), {"weights": "other"}).close()
"""


def test_a_second_store_in_a_process_does_not_drop_the_locks_of_the_first(tmp_path):
    """POSIX releases all locks of a process on a file as soon as it closes that file.
    The next process that ended then deleted the log, including all later responses."""
    first = Responses(tmp_path, MODEL)
    first.add(KEYS[0], RIGHT[0])
    first.flush()
    Responses(tmp_path, {"weights": "of the judge"}).close()
    subprocess.run([sys.executable, "-c", OTHER_PROCESS, str(tmp_path)], check=True)
    first.add(KEYS[1], RIGHT[1])
    first.flush()
    found, _, notes = use(tmp_path)  # the state if the first were killed now
    assert notes == []
    assert {*found} == {KEYS[0], KEYS[1]}
    first.close()
    assert first.notes == []
