"""User errors and the parts that their messages must contain, from the YAML files next
to this module.

A file lists cases::

    - mistake: a misspelt key           # also the id of the test
      base: quiz                        # files that `edit` changes; see BASES
      edit: {quiz.yaml: [old, new]}     # replaces text in a file of the base
      files: {name: text}               # further files
      run: --evals-limit=2 .            # arguments of pytest
      server: {status: 404, body: text} # replies of `{url}`
      env: {NAME: value}
      unset: [NAME]
      shows: [parts of the message]     # in order, whitespace is ignored
      rating: 3                         # see README.md
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import yaml

FOLDER = Path(__file__).parent
ROWS = "".join(
    f'{{"id": "q{i}", "q": "Question {i}?", "a": "a{i}"}}\n' for i in range(4)
)
QUIZ = """\
task: quiz
dataset_path: json
dataset_kwargs:
  data_files:
    test: rows.jsonl
test_split: test
output_type: generate_until
doc_to_text: "{{q}}"
doc_to_target: "{{a}}"
generation_kwargs:
  until: ["\\n"]
metric_list:
  - metric: exact_match
"""
CHOICES = """\
task: choices
dataset_path: json
dataset_kwargs:
  data_files:
    test: rows.jsonl
test_split: test
output_type: multiple_choice
doc_to_text: "{{q}}"
doc_to_choice: ["yes", "no"]
doc_to_target: 0
metric_list:
  - metric: acc
"""
NATIVE = """\
prompt: "{{q}}"
dataset: rows.jsonl
target: a
score: exact
"""
PYTHON = """\
import pytest_evals as ev

@ev.eval(score=ev.exact())
def bot():
    yield ev.case("Question 0?", target="a0")
"""
LIGHTEVAL = """\
from pathlib import Path

from lighteval.metrics.metrics import Metrics
from lighteval.tasks.lighteval_task import LightevalTaskConfig
from lighteval.tasks.requests import Doc


def prompt(line, task_name=None):
    return Doc(task_name=task_name, query=line["q"], choices=[line["a"]], gold_index=0)


quiz = LightevalTaskConfig(
    name="quiz",
    prompt_function=prompt,
    hf_repo=str(Path(__file__).parent / "rows"),
    hf_subset="default",
    evaluation_splits=["test"],
    generation_size=5,
    stop_sequence=["\\n"],
    metrics=[Metrics.exact_match],
)
TASKS_TABLE = [quiz]
"""
LATTICEFLOW = """\
key: quiz
display_name: Quiz
description: Questions.
tasks: [chat_completion]
definition:
  dataset: {key: rows}
  solver:
    type: single_turn_solver
    input_builder:
      type: generic
      template: '{"messages": [{"role": "user", "content": {{ sample.q | tojson }}}]}'
  scorers:
    - type: string_equals
      key: exact
      ground_truth: "{{ sample.a }}"
"""
DATASET = """\
key: rows
display_name: Rows
description: Rows.
source: {type: local, file_path: rows.jsonl}
"""
BASES: Mapping[str, Mapping[str, str]] = {
    "quiz": {"quiz.yaml": QUIZ, "rows.jsonl": ROWS},
    "choices": {"choices.yaml": CHOICES, "rows.jsonl": ROWS},
    "native": {"quiz.yaml": NATIVE, "rows.jsonl": ROWS},
    "python": {"test_bot.py": PYTHON},
    "lighteval": {"eval_quiz.py": LIGHTEVAL, "rows/test.jsonl": ROWS},
    "latticeflow": {
        "quiz.yaml": LATTICEFLOW,
        "rows.yaml": DATASET,
        "rows.jsonl": ROWS,
    },
    "": {},
}


@dataclass(frozen=True)
class Case:
    """A mistake; the fields are the keys of the YAML files."""

    mistake: str
    shows: list[str] = field(default_factory=list)
    base: str = ""
    edit: Mapping[str, list[str]] = field(default_factory=dict)
    files: Mapping[str, str | bytes] = field(default_factory=dict)
    run: str = "."
    model: str = "scripted:echo"
    server: Mapping[str, Any] = field(default_factory=dict)
    env: Mapping[str, str] = field(default_factory=dict)
    unset: list[str] = field(default_factory=list)
    rating: int | None = None


def load(paths: Iterable[Path] | None = None) -> list[Case]:
    """Return the cases of all files, or of some."""
    found = sorted(FOLDER.glob("*.yaml")) if paths is None else paths
    return [
        Case(**entry) for path in found for entry in yaml.safe_load(path.read_text())
    ]


@contextmanager
def prepared(case: Case, folder: Path) -> Iterator[list[str]]:
    """Write the files of a case and start its server; the value is the command line."""
    files: dict[str, str | bytes] = {**BASES[case.base]}
    for name, (old, new) in case.edit.items():
        text = files[name]
        assert isinstance(text, str)
        assert old in text, f"{case.mistake}: {old!r} is not in {name}"
        files[name] = text.replace(old, new, 1)
    for name, text in {**files, **case.files}.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
    model = [f"--model={case.model}"] if case.model else []
    with _served(case.server) as url:
        yield [one.replace("{url}", url) for one in [*model, *case.run.split()]]


@contextmanager
def _served(reply: Mapping[str, Any]) -> Iterator[str]:
    """Start a server that sends one reply to each request; the value is its URL."""
    if not reply:
        yield ""
        return

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            self.do_GET()

        def do_GET(self) -> None:
            body = str(reply.get("body", "")).encode()
            self.send_response(reply.get("status", 200))
            for name, value in reply.get("headers", {}).items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Print nothing."""

    class Server(ThreadingHTTPServer):
        def handle_error(self, *_: object) -> None:
            """Print nothing when a client closes its connection early."""

    server = Server(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1"
    finally:
        server.shutdown()
        server.server_close()


def missing(case: Case, output: str) -> list[str]:
    """Return the parts that the output does not contain in this order."""
    text = " ".join(output.split())
    absent, start = [], 0
    for part in case.shows:
        at = text.find(" ".join(part.split()), start)
        if at < 0:
            absent.append(part)
        else:
            start = at
    return absent
