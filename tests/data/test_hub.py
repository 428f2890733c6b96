"""Behaviour when the Hub cannot be reached."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from textwrap import dedent

import datasets
import pytest
from huggingface_hub import constants

from pytest_evals.data import hub
from pytest_evals.data.source_paths import Source, resolve
from pytest_evals.errors import Place


@pytest.fixture
def clock(monkeypatch):
    """Elapsed seconds, as a list of one number."""
    seconds = [1000.0]
    monkeypatch.setattr(hub.time, "monotonic", lambda: seconds[0])
    monkeypatch.setattr(hub, "_servers", {})
    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    return seconds


def sends_request(*, of_hub: bool = True) -> bool:
    with hub.reading_datasets(of_hub=of_hub):
        return not (datasets.config.HF_HUB_OFFLINE or constants.HF_HUB_OFFLINE)


def fail(error: Exception, *, of_hub: bool = True) -> None:
    with pytest.raises(type(error)), hub.reading_datasets(of_hub=of_hub):
        raise error


def test_an_unreachable_hub_is_retried_after_a_minute(clock):
    assert sends_request()
    fail(ConnectionError("Couldn't reach 'cais/mmlu' on the Hub"))
    assert not sends_request()
    assert not (datasets.config.HF_HUB_OFFLINE or constants.HF_HUB_OFFLINE)
    clock[0] += 30
    away = pytest.raises(ConnectionError, match="unreachable a short time ago")
    with away, hub.reading_datasets(of_hub=True):
        raise ConnectionError("OfflineModeIsEnabled")
    clock[0] += 31
    assert sends_request()


def test_each_further_failure_doubles_the_time_without_requests(clock):
    for minutes in (1, 2, 4):
        fail(ConnectionError("Couldn't reach 'cais/mmlu' on the Hub"))
        clock[0] += 60 * minutes - 1
        assert not sends_request()
        clock[0] += 2
        assert sends_request()


def test_a_hub_that_does_not_reply_is_asked_once(clock, monkeypatch):
    """As on a network that drops packets: the library would try for minutes."""
    monkeypatch.setattr(hub, "PROBE_S", 0.05)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        silent.settimeout(1)
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        monkeypatch.setattr(constants, "ENDPOINT", url)
        assert not sends_request()
        silent.accept()[0].close()
        silent.settimeout(0.1)
        assert not sends_request()
        with pytest.raises(TimeoutError):
            silent.accept()
    clock[0] += 61
    assert sends_request()  # a server that refuses connections fails at once


@pytest.mark.parametrize(
    ("error", "of_hub"),
    [
        (ValueError("no such split"), True),
        (ConnectionError("some other server"), False),
    ],
)
def test_only_a_fault_of_the_way_to_the_hub_counts(clock, error, of_hub):
    fail(error, of_hub=of_hub)
    assert sends_request()


def test_code_of_users_does_not_wait_for_an_unreachable_hub(clock):
    with pytest.raises(ConnectionError), hub.sparing_hub():
        raise ConnectionError("Couldn't reach 'cais/mmlu' on the Hub")
    with hub.sparing_hub():
        assert datasets.config.HF_HUB_OFFLINE
        assert constants.HF_HUB_OFFLINE
    assert sends_request() is False


def test_a_server_of_files_that_was_unreachable_is_not_contacted_again(
    clock, monkeypatch
):
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    files = ["zip://rows.jsonl::http://127.0.0.1:9/rows.zip"]
    hub.refuse_away(files)
    assert hub.is_offline(files)
    with pytest.raises(ConnectionError, match=r"127\.0\.0\.1:9 was unreachable"):
        hub.refuse_away(files)
    hub.refuse_away(["http://127.0.0.1:10/rows.zip"])
    clock[0] += 61
    hub.refuse_away(files)


def test_a_folder_within_a_dataset_of_the_hub_is_not_a_local_folder(tmp_path):
    place = Place(tmp_path / "task.yaml", 2)
    source = Source(
        path="acme/set",
        arguments={"data_dir": "german"},
        place=place,
        data_place=place,
        base=tmp_path,
    )
    assert resolve(source).arguments == {"data_dir": "german"}
    (tmp_path / "german").mkdir()
    assert resolve(source).arguments == {"data_dir": str(tmp_path / "german")}


def test_requests_to_other_servers_are_independent_of_the_hub(clock):
    fail(ConnectionError("Couldn't reach 'cais/mmlu' on the Hub"))
    assert sends_request(of_hub=False)


def test_a_server_of_files_that_does_not_reply_is_offline(monkeypatch):
    class Missing(BaseHTTPRequestHandler):
        def do_HEAD(self):
            self.send_error(404)

        def log_message(self, *words):
            pass

    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with ThreadingHTTPServer(("127.0.0.1", 0), Missing) as server:
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}/rows.jsonl"
        assert not hub.is_offline([url])
        server.shutdown()
    assert hub.is_offline(["rows.jsonl", url])
    assert not hub.is_offline(["rows.jsonl"])


class _Hub(BaseHTTPRequestHandler):
    """A Hub with the dataset ``acme/prices``, a CSV file."""

    protocol_version = "HTTP/1.1"
    cells = b"id,q,price,days\n007,a,4.90,30\n01067,NA,10.00,\n"

    def reply(self, body, status=200):
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(raw)))
        self.send_header("ETag", f'"{len(raw)}"')
        self.send_header("X-Repo-Commit", "a" * 40)
        if status != 200:
            self.send_header("X-Error-Code", "EntryNotFound")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(raw)

    def do_GET(self):
        name = self.path.partition("?")[0].rpartition("/")[2]
        files = {"prices.csv": self.cells, "README.md": b"# Prices"}
        if "/resolve/" in self.path and name in files:
            self.reply(files[name])
        elif "/revision/" in self.path:
            self.reply({"id": "acme/prices", "sha": "a" * 40, "siblings": []})
        elif "/tree/" in self.path and name == "a" * 40:
            listed = [(key, {"size": len(raw)}) for key, raw in files.items()]
            entry = {"type": "file", "oid": "1"}
            self.reply([{"path": key, **entry, **size} for key, size in listed])
        else:
            self.reply({}, 404)

    do_HEAD = do_GET

    def log_message(self, *words):
        pass


@pytest.mark.slow
def test_cells_of_csv_files_of_the_hub_are_the_text_that_was_written(tmp_path):
    """Also without a network, from the copy of the first run; other dialects have the
    types of the ``datasets`` library."""
    code = """
    import json
    import sys
    from pathlib import Path
    from pytest_evals.data.sources import load
    from pytest_evals.data.source_paths import Source
    from pytest_evals.errors import Place

    place = Place(Path("task.yaml").absolute(), 1)
    for text in json.loads(sys.argv[1]):
        source = Source(path="acme/prices", arguments={}, place=place,
                        data_place=place, base=Path.cwd(), as_text=text)
        print(json.dumps([*load(source)["train"]]))
    """
    variables = {**os.environ, "HF_HOME": str(tmp_path), "NO_PROXY": "127.0.0.1"}
    written = [
        {"id": "007", "q": "a", "price": "4.90", "days": "30"},
        {"id": "01067", "q": "NA", "price": "10.00", "days": ""},
    ]
    typed = [
        {"id": 7, "q": "a", "price": 4.9, "days": 30.0},
        {"id": 1067, "q": None, "price": 10.0, "days": None},
    ]

    def rows(*as_text, **more):
        command = [sys.executable, "-c", dedent(code), json.dumps(as_text)]
        done = subprocess.run(
            command, env=variables | more, capture_output=True, text=True, cwd=tmp_path
        )
        return [json.loads(x) for x in done.stdout.splitlines()], done.stderr

    with ThreadingHTTPServer(("127.0.0.1", 0), _Hub) as server:
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}"
        assert rows(True, False, HF_ENDPOINT=url)[0] == [written, typed]
        server.shutdown()
    assert rows(True, False, HF_HUB_OFFLINE="1")[0] == [written, typed]
    for copy in tmp_path.glob("datasets/*/default-*"):
        shutil.rmtree(copy)
    found, error = rows(False, True, HF_HUB_OFFLINE="1")
    assert found == [typed]
    assert "only a copy with converted values, such as 4.9 for 4.90" in error


def test_the_proxy_of_a_silent_hub_is_named(clock, monkeypatch):
    monkeypatch.setattr(hub, "PROBE_S", 0.05)
    monkeypatch.setattr(constants, "ENDPOINT", "https://hub.test")
    monkeypatch.delenv("NO_PROXY")
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("https_proxy", raising=False)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setenv("HTTPS_PROXY", f"127.0.0.1:{silent.getsockname()[1]}")
        away = pytest.raises(ConnectionError, match="through the proxy in HTTPS_PROXY")
        with away, hub.reading_datasets(of_hub=True):
            raise ConnectionError("OfflineModeIsEnabled")
