"""Whole runs against a real server, ``transformers serve``, with the bundled model: the
texts are those of the same model in this process."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest

for library in ("fastapi", "uvicorn"):
    pytest.importorskip(library, reason="transformers[serving] is not installed")

pytestmark = pytest.mark.slow
START_S = 240


@pytest.fixture(scope="module")
def server(tiny_model_path, tmp_path_factory):
    """The address of a server that has the bundled model."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    command = [
        *(sys.executable, "-m", "transformers.cli.transformers", "serve"),
        *(str(tiny_model_path), "--device", "cpu", "--dtype", "float32"),
        *("--host", "127.0.0.1", "--port", str(port)),
    ]
    path = tmp_path_factory.mktemp("served") / "log"
    with path.open("wb") as log:
        process = subprocess.Popen(
            command,
            stdout=log,
            stderr=log,
            env={**os.environ, "HF_HUB_OFFLINE": "1", "PYTHONWARNINGS": "ignore"},
        )
    try:
        _wait(process, port, path)
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        process.kill()
        process.wait()


def _wait(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    until = time.monotonic() + START_S
    while time.monotonic() < until and process.poll() is None:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=2):
                return
        except (urllib.error.URLError, OSError):
            time.sleep(0.3)
    pytest.fail(f"transformers serve did not start:\n{log.read_text()}")


@pytest.fixture
def texts_of(pytester, example_suites):
    """A function from a model and options to what it writes for a task's documents, and
    their scores."""

    def texts(model, *options):
        folder = pytester.path / f"run-{len(list(pytester.path.iterdir()))}"
        result = pytester.runpytest(
            example_suites / "lm_eval" / "addition.yaml",
            *(f"--model={model}", "--evals-limit=12", f"--evals-dir={folder}"),
            *options,
        )
        assert "errors" not in result.parseoutcomes()
        (path,) = folder.glob("runs/*/samples_addition.jsonl")
        rows = [json.loads(line) for line in path.read_text().splitlines()]
        return [(row["id"], row["resps"], row["exact_match"]) for row in rows]

    return texts


@pytest.mark.parametrize("chat", [False, True], ids=["completions", "chat"])
def test_a_server_writes_what_the_model_writes_in_this_process(
    server, texts_of, tiny_model_path, chat
):
    options = ["--evals-apply-chat-template"] if chat else []
    served = texts_of(f"openai:{tiny_model_path},base_url={server}", *options)
    assert served == texts_of(f"hf:{tiny_model_path},dtype=float32", *options)
    assert len(served) >= 12


def test_a_server_without_log_probabilities_is_one_error(
    server, pytester, example_suites, tiny_model_path
):
    """It leaves out what it does not know, and answers with a text."""
    result = pytester.runpytest(
        example_suites / "lm_eval" / "capitals.yaml",
        f"--model=openai:{tiny_model_path},base_url={server}",
        *("--evals-limit=12", f"--evals-dir={pytester.path / 'results'}"),
    )
    assert result.parseoutcomes() == {"failed": 1, "skipped": 14}
    result.stdout.fnmatch_lines(["*cannot score texts, as tasks with log-likelih*"])
