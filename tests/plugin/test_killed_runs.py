"""A run that is killed at any moment can be resumed."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pytest_evals.core.key import request_keys
from pytest_evals.core.request import Generate
from pytest_evals.store.responses import NAME, Responses

N = 2000
SOME = (1, 90, 350)
MANY = (1, 20, 90, 250, 350, 500, *(3 * n for n in range(14)))
"""The number of requests after which each run is killed."""
MOST_LOST = 200
"""The last requests, which may be lost. Those before them must be stored: these take at
least 0.4 s, and responses are written in batches of a tenth of a second. The rest is a
margin for slow machines."""

PROMPTS = [f"q{i:04}" for i in range(N)]
LINE = len("q0000\n")

CONFTEST = """
import os
import time
from pathlib import Path

import pytest

from pytest_evals import Response

HERE = Path(__file__).parent


class Slow:
    name = "slow"
    fingerprint = {"version": 1}

    def answer(self, requests):
        log = os.open(HERE / "requests.txt", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        for position, request in enumerate(requests):
            os.write(log, f"{request.prompt}\\n".encode())
            time.sleep(0.002)
            yield position, Response(text=request.prompt[::-1], n_tokens=1)


@pytest.fixture(scope="session")
def eval_model():
    return Slow()
"""


class KilledSuite:
    """A folder with a suite, whose runs are killed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "pytest.ini").write_text("[pytest]\n")
        (folder / "conftest.py").write_text(CONFTEST)
        (folder / "quiz.yaml").write_text(
            "task: quiz\ndataset_path: json\n"
            "dataset_kwargs: {data_files: {test: quiz.jsonl}}\n"
            "test_split: test\noutput_type: generate_until\n"
            "doc_to_text: '{{question}}'\ndoc_to_target: '{{answer}}'\n"
            "generation_kwargs: {until: ['.'], max_gen_toks: 8}\n"
            "metric_list: [{metric: exact_match}]\n"
        )
        rows = [{"question": p, "answer": p[::-1]} for p in PROMPTS]
        (folder / "quiz.jsonl").write_text("\n".join(map(json.dumps, rows)))
        self.log = folder / "requests.txt"
        self.read = 0

    def start(self) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
        return subprocess.Popen(
            [*command, "quiz.yaml"],
            cwd=self.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def sent(self) -> list[str]:
        """The prompts sent since the last call, in order."""
        raw = self.log.read_bytes() if self.log.exists() else b""
        prompts = raw[self.read :].decode().splitlines()
        self.read = len(raw)
        return prompts

    def wait_for(self, n_requests: int, process: subprocess.Popen[str]) -> None:
        """Wait until this run has sent this many requests, or is over."""
        while process.poll() is None:
            size = self.log.stat().st_size if self.log.exists() else 0
            if size - self.read >= n_requests * LINE:
                return
            time.sleep(0.005)

    def committed(self) -> set[str]:
        """Prompts whose responses are in the file."""
        if not (self.folder / ".evals" / NAME).exists():
            return set()
        keys = list(request_keys(Generate(p, (".",), 8) for p in PROMPTS))
        fingerprint = {"given": "slow", "version": 1}
        store = Responses(self.folder / ".evals", fingerprint, writes=False)
        found = store.read([key for key in keys if key is not None])
        store.close()
        assert not store.notes
        return {p for p, key in zip(PROMPTS, keys, strict=True) if key in found}

    def samples(self) -> str:
        runs = sorted(self.folder.glob(".evals/runs/*"), key=os.path.getmtime)
        return (runs[-1] / "samples_quiz.jsonl").read_text()


@pytest.mark.slow
@pytest.mark.parametrize(
    "killed_at",
    [
        pytest.param(SOME, id="3 kills"),
        pytest.param(MANY, id="20 kills", marks=pytest.mark.nightly),
    ],
)
def test_a_killed_run_never_repeats_answered_requests(tmp_path, killed_at):
    calm = tmp_path / "calm"
    killed = tmp_path / "killed"
    calm.mkdir()
    killed.mkdir()
    undisturbed = KilledSuite(calm)
    undisturbed.start().communicate()
    suite = KilledSuite(killed)
    chance = random.Random(1)
    safe: set[str] = set()
    for n_requests in killed_at:
        process = suite.start()
        suite.wait_for(n_requests, process)
        time.sleep(chance.random() * 0.15)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        sent = suite.sent()
        assert not safe & set(sent), "sent although it was stored"
        now = suite.committed()
        owed = set(sent[:-MOST_LOST])
        assert safe | owed <= now, "lost"
        safe = now
    assert len(safe) > sum(max(0, n - MOST_LOST) for n in killed_at)
    last = suite.start()
    output, _ = last.communicate()
    assert last.returncode == 0, output
    assert set(suite.sent()) == set(PROMPTS) - safe
    assert f"{N} passed" in output
    assert suite.samples() == undisturbed.samples()
