"""The file of responses: a response is returned as it was stored, or not at all. A full
disk is simulated by a limit on file sizes."""

import dataclasses
import math
import os
import resource
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_evals.core.key import request_keys
from pytest_evals.core.request import Generate, Response
from pytest_evals.core.returned import RETURNED
from pytest_evals.masking.names import is_secret_name
from pytest_evals.store.responses import NAME, Responses
from pytest_evals.store.schema import SCHEMAS

MODEL = {"weights": "0a1b"}


def keys(n=1, start=0):
    return list(request_keys(Generate(f"prompt {i}") for i in range(start, start + n)))


def fill(base, n=1, fingerprint=MODEL):
    """Store ``n`` responses, ``text 0`` and so on, and close the file."""
    responses = Responses(base, fingerprint)
    for i, key in enumerate(keys(n)):
        responses.add(key, Response(text=f"text {i}"))
    responses.close()
    return base / NAME


def stored(base, n=1, fingerprint=MODEL):
    """Texts of the first ``n`` prompts that are stored."""
    responses = Responses(base, fingerprint)
    found = responses.read(keys(n))
    responses.close()
    return [found[key].text for key in keys(n) if key in found]


def test_stored_responses_are_available_in_the_next_session(tmp_path):
    fill(tmp_path, 3)
    assert stored(tmp_path, 5) == ["text 0", "text 1", "text 2"]


def test_another_model_has_other_responses(tmp_path):
    fill(tmp_path)
    assert stored(tmp_path, fingerprint={"weights": "ffff"}) == []
    assert stored(tmp_path, fingerprint={"weights": "0a1b", "dtype": "float16"}) == []


def test_more_keys_than_one_query_takes_are_all_found(tmp_path):
    fill(tmp_path, 1203)
    assert len(stored(tmp_path, 1203)) == 1203


VALUES = st.text() | st.integers(-9, 9) | st.none()
NAMES = st.text().filter(lambda name: not is_secret_name(name, loose=True))
"""Responses with secrets are not stored, and the strategy knows words of our code."""
MAPPING = st.dictionaries(NAMES, VALUES)
MAPPINGS = st.lists(MAPPING, max_size=3).map(tuple)
RESPONSES = st.builds(
    Response,
    text=st.text(st.characters(exclude_categories=())),
    logprob=st.none() | st.floats(allow_nan=False),
    greedy=st.none() | st.booleans(),
    n_prompt_tokens=st.integers(0),
    n_tokens=st.integers(0),
    n_truncated=st.integers(0),
    finish=st.sampled_from(["", "stop", "length", "refused"]),
    elapsed_s=st.floats(0, 1e6),
    latency_s=st.floats(0, 1e6),
    cost=st.none() | st.floats(0, 1e6),
    top_logprobs=st.lists(
        st.tuples(
            st.text(),
            st.lists(st.tuples(st.text(), st.floats(-1e6, 0)), max_size=3).map(tuple),
        ),
        max_size=3,
    ).map(tuple),
    **dict.fromkeys(("steps", "calls", "contexts", "messages"), MAPPINGS),
    data=VALUES | st.lists(VALUES),
    usage=st.none() | MAPPING,
    metadata=st.none() | MAPPING,
)


def test_the_strategy_of_the_next_test_knows_all_fields():
    known = {"text", "logprob", "greedy", "n_prompt_tokens", "n_tokens", "n_truncated"}
    known |= {"finish", "elapsed_s", "latency_s", "cost", "error"}
    known |= {"top_logprobs", *RETURNED}
    assert {field.name for field in dataclasses.fields(Response)} == known


@pytest.mark.slow
@settings(deadline=None, max_examples=40)
@given(st.lists(RESPONSES, max_size=8))
def test_a_response_comes_back_exactly(tmp_path_factory, given_responses):
    base = tmp_path_factory.mktemp("store")
    responses = Responses(base, MODEL)
    requested = keys(len(given_responses))
    for key, response in zip(requested, given_responses, strict=True):
        responses.add(key, response)
    found = responses.read(requested)
    responses.close()
    assert [found[key] for key in requested] == given_responses


def test_errors_and_nan_are_never_stored(tmp_path):
    responses = Responses(tmp_path, MODEL)
    requested = keys(3)
    responses.add(requested[0], Response(error="the server is down"))
    responses.add(requested[1], Response(logprob=math.nan))
    responses.add(requested[2], Response(logprob=-math.inf, greedy=False))
    assert list(responses.read(requested)) == [requested[2]]
    responses.close()


def test_a_repeated_request_replaces_the_stored_response(tmp_path):
    fill(tmp_path)
    responses = Responses(tmp_path, MODEL)
    responses.add(keys()[0], Response(text="fresh"))
    responses.close()
    assert stored(tmp_path) == ["fresh"]


def test_added_responses_are_committed_soon(tmp_path):
    """Without closing or flushing: it survives a process that is killed."""
    responses = Responses(tmp_path, MODEL)
    responses.add(keys()[0], Response(text="text 0"))
    until = time.monotonic() + 60
    while not stored(tmp_path) and time.monotonic() < until:
        time.sleep(0.1)
    assert stored(tmp_path) == ["text 0"]
    responses.close()


ADDS = """
import os, sys, time
from pathlib import Path
from pytest_evals.core.key import request_keys
from pytest_evals.core.request import Generate, Response
from pytest_evals.store.responses import Responses
r = Responses(Path(sys.argv[1]), {'weights': '0a1b'})
for i in range(10**6):
    (key,) = request_keys([Generate(f'prompt {i}')])
    r.add(key, Response(text=f'text {i}'))
    os.write(1, f'{time.time()}\\n'.encode())
    time.sleep(0.005)
"""


@pytest.mark.slow
@pytest.mark.parametrize("after_s", [0.2, 1.7])
def test_a_killed_process_loses_the_responses_of_the_last_tenth_of_a_second(
    tmp_path, after_s
):
    with subprocess.Popen(
        [sys.executable, "-c", ADDS, str(tmp_path)], stdout=subprocess.PIPE, text=True
    ) as process:
        first = process.stdout.readline()
        time.sleep(after_s)
        process.kill()
        killed = time.time()
        added = [float(line) for line in [first, *process.stdout.read().splitlines()]]
    slow_s = 0.1 * max(1.0, os.getloadavg()[0] / os.cpu_count())
    n_old = sum(moment < killed - 0.1 - slow_s for moment in added)
    assert len(stored(tmp_path, len(added))) >= n_old


def test_a_models_description_is_stored(tmp_path):
    responses = Responses(tmp_path, MODEL)
    assert responses.info is None
    responses.keep_info({"dtype": "float32", "tokens": [1, None]})
    responses.close()
    again = Responses(tmp_path, MODEL)
    assert again.info == {"dtype": "float32", "tokens": [1, None]}
    again.close()


@pytest.mark.slow
def test_many_processes_write_at_once_and_nothing_is_lost(tmp_path):
    code = (
        "import sys; from pathlib import Path\n"
        "from pytest_evals.core.key import request_keys\n"
        "from pytest_evals.core.request import Generate, Response\n"
        "from pytest_evals.store.responses import Responses\n"
        "start = int(sys.argv[2])\n"
        f"r = Responses(Path(sys.argv[1]), {MODEL!r})\n"
        "for i in range(start, start + 50):\n"
        "    (key,) = request_keys([Generate(f'prompt {i}')])\n"
        "    r.add(key, Response(text=f'text {i}'))\n"
        "    r.flush()\n"
        "r.close(); print(r.notes)"
    )
    base = tmp_path / ".evals"
    started = [
        subprocess.Popen(
            [sys.executable, "-c", code, str(base), str(50 * i)],
            stdout=subprocess.PIPE,
            text=True,
        )
        for i in range(4)
    ]
    assert [process.communicate()[0] for process in started] == ["[]\n"] * 4
    assert stored(base, 200) == [f"text {i}" for i in range(200)]
    left = {p.name for p in base.iterdir()} - {f"{NAME}-wal", f"{NAME}-shm"}
    assert left == {NAME, f"{NAME}-count", ".gitignore"}


def truncate(path):
    os.truncate(path, path.stat().st_size // 2)


def empty(path):
    path.write_bytes(b"")


def no_database(path):
    path.write_text("not a database, but long enough to be one " * 100)


def other_database(path):
    path.unlink()
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE responses (key, value)")
    connection.close()


def other_schema(path, version):
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(f"PRAGMA user_version = {SCHEMAS['responses'].current + 1}")
    connection.close()


def broken_header(path):
    with path.open("r+b") as file:
        file.write(b"SQLite format 9\0")


@pytest.mark.parametrize(
    ("damage", "why"),
    [
        (truncate, "database disk image is malformed"),
        (empty, "the file is empty"),
        (no_database, "file is not a database"),
        (broken_header, "file is not a database"),
        (other_database, "it is a database of something else"),
    ],
)
def test_a_file_that_cannot_be_trusted_is_set_aside(tmp_path, damage, why):
    path = fill(tmp_path, 200)
    damage(path)
    before = path.read_bytes()
    responses = Responses(tmp_path, MODEL)
    found = responses.read(keys(200))
    assert (0 < len(found) < 200) == (damage is truncate)
    responses.add(keys()[0], Response(text="new"))
    responses.close()
    assert stored(tmp_path) == ["new"]
    (aside,) = tmp_path.glob("responses-set-aside-*.sqlite")
    assert aside.read_bytes() == before
    (note,) = responses.notes
    assert note.startswith(f"'{path}' cannot be used: {why}")
    kept = f" with {len(found)} responses that are intact" if found else ""
    assert note.endswith(f"moved to '{aside}', and a new one was created{kept}")


def test_a_file_of_another_version_is_kept_next_to_a_new_one(tmp_path):
    """So switching between two versions pays for neither again."""
    path = fill(tmp_path, 20)
    ours = SCHEMAS["responses"].current
    other = ours + 1
    other_schema(path, other)
    before = path.read_bytes()
    new = Response(text="new")
    for kept in ({}, {keys()[0]: new}):
        responses = Responses(tmp_path, MODEL)
        assert responses.read(keys(20)) == kept
        responses.add(keys()[0], new)
        responses.close()
        (note,) = responses.notes
        own = tmp_path / f"responses-schema-{ours}.sqlite"
        assert note == (
            f"'{path}' has schema version {other}; this version of "
            f"pytest-model-evals reads version {ours}; it is not changed, and "
            f"responses are in '{own}'"
        )
    assert path.read_bytes() == before
    assert {file.name for file in tmp_path.glob("*.sqlite")} == {path.name, own.name}


def test_damage_in_the_middle_of_the_file_never_gives_a_wrong_answer(tmp_path):
    """All pages but the first are overwritten, one byte each at a damaging position."""
    path = fill(tmp_path, 300)
    raw = bytearray(path.read_bytes())
    for place in range(4096 + 50, len(raw), 511):
        raw[place] ^= 0x01
    path.write_bytes(raw)
    responses = Responses(tmp_path, MODEL)
    requested = keys(300)
    found = responses.read(requested)
    right = [Response(text=f"text {i}") for i in range(300)]
    for i, key in enumerate(requested):
        assert key not in found or found[key] == right[i]
        responses.add(key, right[i])
    responses.close()
    assert responses.notes
    assert stored(tmp_path, 300) == [f"text {i}" for i in range(300)]


def test_a_changed_row_is_a_cache_miss(tmp_path):
    path = fill(tmp_path, 2)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(
            "UPDATE responses SET response = replace(response, 'text 0', 'text 9')"
        )
    connection.close()
    responses = Responses(tmp_path, MODEL)
    assert list(responses.read(keys(2))) == keys(2)[1:]
    responses.close()
    assert responses.notes == [f"1 response in '{path}' was damaged and is sent again"]


def n_rows(path):
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute("SELECT count(*) FROM responses").fetchone()[0]


@pytest.mark.largest_file(65_536)
def test_a_full_disk_is_reported_with_the_number_of_responses_that_do_not_fit(tmp_path):
    path = fill(tmp_path)
    responses = Responses(tmp_path, MODEL)
    for i, key in enumerate(keys(9, start=1)):
        responses.add(key, Response(text="x" * 30_000 + str(i)))
        responses.flush()
    assert responses.read(keys())[keys()[0]].text == "text 0"
    responses.close()
    (note,) = responses.notes
    n_lost = 10 - n_rows(path)
    assert 0 < n_lost < 9
    assert note.startswith(f"{n_lost} responses are not stored: '{path}': ")


def test_responses_that_a_full_disk_refused_are_stored_when_there_is_space(tmp_path):
    responses = Responses(tmp_path, MODEL)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (40_000, hard))
    try:
        for key in keys(9):
            responses.add(key, Response(text="x" * 30_000))
            responses.flush()
        (note,) = responses.notes
        assert "responses are not stored" in note
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    responses.close()
    (note,) = responses.notes
    assert note.endswith("all responses are stored now")
    assert len(stored(tmp_path, 9)) == 9


def remove_folder(base):
    shutil.rmtree(base)


def remove_file(base):
    (base / NAME).unlink()


def replace_folder(base):
    base.rename(base.with_name("moved"))
    fill(base, 3, {"weights": "of another model"})


@pytest.mark.parametrize("change", [remove_folder, remove_file, replace_folder])
@pytest.mark.parametrize("is_late", [False, True])
def test_a_store_that_is_removed_during_a_run_is_written_again(
    tmp_path, change, is_late
):
    base = tmp_path / ".evals"
    responses = Responses(base, MODEL)
    for i, key in enumerate(keys(9)):
        responses.add(key, Response(text=f"text {i}"))
        responses.flush()
        if i == (8 if is_late else 4):
            change(base)
    responses.close()
    n = 9 if is_late else 5
    assert responses.notes == [
        f"'{base / NAME}' was removed or replaced during the run",
        f"{n} responses of this run were stored in '{base / NAME}' again",
    ]
    assert stored(base, 9) == [f"text {i}" for i in range(9)]


def test_a_removed_store_that_cannot_be_created_again_is_reported(tmp_path):
    base = tmp_path / ".evals"
    fill(base, 2)
    responses = Responses(base, MODEL)
    for i, key in enumerate(keys(6)[2:]):
        responses.add(key, Response(text=f"text {i}"))
    responses.flush()
    shutil.rmtree(base)
    base.write_text("")
    responses.close()
    first, second = responses.notes
    assert first.endswith("during the run; the responses of earlier runs are lost")
    assert second.startswith(f"4 responses are not stored: '{base / NAME}': ")


def test_two_processes_whose_store_is_removed_write_all_their_responses_again(tmp_path):
    """The one that closes the removed file last must not delete the new one's log."""
    base = tmp_path / ".evals"
    first, second = Responses(base, MODEL), Responses(base, MODEL)
    for i, key in enumerate(keys(4)):
        (first, second)[i % 2].add(key, Response(text=f"text {i}"))
    first.flush()
    second.flush()
    shutil.rmtree(base)
    first.add(keys(5)[4], Response(text="text 4"))
    first.flush()
    second.close()
    first.add(keys(6)[5], Response(text="text 5"))
    first.close()
    assert stored(base, 6) == [f"text {i}" for i in range(6)]


def test_a_place_that_cannot_be_made_is_noted(tmp_path):
    (tmp_path / "file").write_text("")
    responses = Responses(tmp_path / "file" / ".evals", MODEL)
    responses.add(keys()[0], Response(text="lost"))
    assert responses.read(keys()) == {}
    responses.close()
    (note,) = responses.notes
    assert note.startswith("1 response is not stored: ")


@pytest.fixture
def open_to_all():
    """A folder that others may read; pytest's folders are for their owner only."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)


READ_ONLY = """
import os, sys
from pathlib import Path
from pytest_evals.core.key import request_keys
from pytest_evals.core.request import Generate, Response
from pytest_evals.store.responses import Responses
if os.getuid() == 0:
    os.setuid(65534)  # root may write everywhere
r = Responses(Path(sys.argv[1]), {'weights': '0a1b'})
(key,) = request_keys([Generate('prompt 0')])
print(r.read([key])[key].text)
r.add(key, Response(text='new'))
r.close()
print(*r.notes)
"""


def test_a_store_that_is_read_only_is_read(open_to_all):
    base = open_to_all / ".evals"
    path = fill(base)
    base.chmod(0o555)
    path.chmod(0o444)
    done = subprocess.run(
        [sys.executable, "-c", READ_ONLY, str(base)], capture_output=True, text=True
    )
    base.chmod(0o755)
    assert done.returncode == 0, done.stderr
    text, note = done.stdout.splitlines()
    assert text == "text 0"
    assert note.startswith(f"1 response is not stored: '{path}': ")
    assert stored(base) == ["text 0"]


def test_reading_creates_no_file(tmp_path):
    responses = Responses(tmp_path / ".evals", MODEL, writes=False)
    assert responses.read(keys()) == {}
    responses.add(keys()[0], Response(text="no"))
    responses.close()
    assert not list(tmp_path.iterdir())
