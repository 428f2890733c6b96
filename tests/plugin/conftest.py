"""Whole runs through pytester, on a small suite with canned answers."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import yaml

N = 10
STUCK = """
import os
import time
import pytest
from pytest_evals import Response

class Stuck:
    name = "stuck"

    def answer(self, requests):
        for position, request in enumerate(requests):
            if position == {position}:
                open(f"ready-{{os.getpid()}}", "w").close()
                time.sleep(600)
            yield position, Response(text="a0")

@pytest.fixture(scope="session")
def eval_model():
    return Stuck()
"""


WITH_WORKERS = ("test_gates.py", "test_groups.py", "test_running.py", "test_xdist.py")
"""Modules whose variants with workers run before each release."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the test variants that repeat a suite with two workers: a quarter of the
    time. ``test_xdist.py`` contains the quick tests of workers."""
    for item in items:
        if item.path.parent == Path(__file__).parent and _has_workers(item):
            is_slow = item.path.name in WITH_WORKERS
            item.add_marker(pytest.mark.slow if is_slow else pytest.mark.nightly)


def _has_workers(item: pytest.Item) -> bool:
    values = getattr(getattr(item, "callspec", None), "params", {}).values()
    texts = [
        one if isinstance(one, str) else " ".join(map(str, one))
        for one in values
        if isinstance(one, str | list | tuple)
    ]
    return any(re.search(r"-n ?2", text) for text in texts)


class Suite:
    """A task file with ten questions, ``q0`` to ``q9``, whose answers are ``a0`` to
    ``a9``; and a model that answers them correctly, except selected ones."""

    def __init__(self, pytester: pytest.Pytester) -> None:
        self.pytester = pytester
        self.evals = pytester.mkdir("evals")
        pytester.makeini("[pytest]\n")
        self.task("quiz")
        self.knows()

    def task(self, name: str, **changes: object) -> Path:
        """Write a task file, ``evals/<name>.yaml``, and its data."""
        rows = [
            {"id": f"q{i}", "question": f"{name} {i}?", "answer": f"a{i}"}
            for i in range(N)
        ]
        lines = "".join(json.dumps(row) + "\n" for row in rows)
        (self.evals / f"{name}.jsonl").write_text(lines)
        config: dict[str, object] = {
            "task": name,
            "dataset_path": "json",
            "dataset_kwargs": {"data_files": {"test": f"{name}.jsonl"}},
            "test_split": "test",
            "output_type": "generate_until",
            "doc_to_text": "{{question}}",
            "doc_to_target": "{{answer}}",
            "metric_list": [{"metric": "exact_match"}],
        }
        config |= changes
        path = self.evals / f"{name}.yaml"
        path.write_text(yaml.safe_dump(config, sort_keys=False))
        return path

    def group(self, name: str, **keys: object) -> Path:
        """Write a group file, ``evals/<name>.yaml``, which averages exact_match."""
        config = {"group": name, "aggregate_metric_list": [{"metric": "exact_match"}]}
        path = self.evals / f"{name}.yaml"
        path.write_text(yaml.safe_dump({**config, **keys}, sort_keys=False))
        return path

    def knows(
        self,
        wrong: Iterable[int] = (),
        errors: Iterable[int] = (),
        tasks: Iterable[str] = ("quiz",),
    ) -> None:
        """Write the model's answers."""
        rules: list[dict[str, object]] = []
        for name in tasks:
            for i in range(N):
                rule: dict[str, object] = {"prompt": f"{name} {i}?", "text": f"a{i}"}
                if i in set(wrong):
                    rule["text"] = "nonsense"
                if i in set(errors):
                    rule = {"prompt": f"{name} {i}?", "error": "the server is down"}
                rules.append(rule)
        text = "".join(json.dumps(rule) + "\n" for rule in rules)
        (self.pytester.path / "answers.jsonl").write_text(text)

    def run(self, *arguments: str, model: str | None = "scripted:answers.jsonl"):
        """Run pytest over the suite, in this process; a model among the arguments
        replaces ``model``."""
        is_named = any("-model=" in str(one) for one in arguments)
        given = [f"--model={model}"] if model and not is_named else []
        return self.pytester.runpytest(*given, *arguments)

    def replaces_by_a_file(self, folder: str) -> None:
        """Replace a folder that a run writes to by a file while the suite runs."""
        self.pytester.makeconftest(f"""
            import pathlib, shutil

            def pytest_evals_requests(task, records):
                shutil.rmtree({folder!r})
                pathlib.Path({folder!r}).write_text("a file")
        """)

    def stops_at(self, position: int) -> None:
        """Give the suite a model that answers ``a0``, and waits forever at the request
        at this position."""
        self.pytester.makeconftest(STUCK.format(position=position))

    def start(self, *arguments: str, models: int = 1) -> subprocess.Popen[str]:
        """Start pytest as a separate process group, and wait until its models wait (see
        :meth:`stops_at`)."""
        process = subprocess.Popen(
            [sys.executable, "-m", "pytest", *arguments],
            cwd=self.pytester.path,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
            # a shell's background process ignores Ctrl-C, and so would this one
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )
        until = time.monotonic() + 100
        while time.monotonic() < until:
            if len(list(self.pytester.path.glob("ready-*"))) == models:
                break
            time.sleep(0.1)
        time.sleep(0.3)  # from the file to the pause
        return process

    def results(self) -> dict:
        """``results.json`` of the only run so far."""
        (path,) = self.pytester.path.glob(".evals/runs/*/results.json")
        return json.loads(path.read_text())

    def samples(self, task: str = "quiz") -> list[dict]:
        """Rows of a samples file of the only run so far."""
        (path,) = self.pytester.path.glob(f".evals/runs/*/samples_{task}.jsonl")
        return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.fixture
def suite(pytester: pytest.Pytester) -> Suite:
    return Suite(pytester)


@pytest.fixture
def server(monkeypatch):
    """A custom server that requires a key: the spec of its model, and the list of
    prompts that it received."""
    prompts = []

    class Writing(BaseHTTPRequestHandler):
        def do_POST(self):
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            prompt = body.get("prompt") or body["messages"][-1]["content"]
            prompts.append(prompt)
            choice = {"index": 0, "text": "a0", "finish_reason": "stop"}
            choice["message"] = {"role": "assistant", "content": "yes"}
            reply = json.dumps({"choices": [choice]}).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(reply)))
            self.end_headers()
            self.wfile.write(reply)

        def log_message(self, *words):
            pass

    monkeypatch.setenv("EVALS_TEST_KEY", "sk-test")
    with ThreadingHTTPServer(("127.0.0.1", 0), Writing) as running:
        threading.Thread(
            target=running.serve_forever, args=(0.02,), daemon=True
        ).start()
        url = f"http://127.0.0.1:{running.server_port}/v1"
        yield f"openai:gpt,base_url={url},api_key_env=EVALS_TEST_KEY", prompts
        running.shutdown()
