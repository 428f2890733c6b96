"""Secrets are inserted wherever options and files may contain one; no output of a run
contains any of them."""

from __future__ import annotations

import json
import os
import re
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml

from pytest_evals import OptionError, TaskOptions, evaluate

pytestmark = pytest.mark.slow


PLANTED = "PLANTED"
OUT = (
    "-vv",
    "-rA",
    "--showlocals",
    "--durations=3",
    "--junitxml=out/junit.xml",
    "--evals-junit=docs",
    "--evals-json=out/results.json",
    "--evals-html=out/report.html",
    "--evals-markdown=out/summary.md",
    "--log-file=out/log.txt",
    "--log-level=DEBUG",
    "--evals-max-errors=100%",
)


class Echo(BaseHTTPRequestHandler):
    """A server that repeats its requests, and rejects the third question. Under
    ``/brief`` it answers without repeating anything."""

    def do_POST(self) -> None:
        raw = self.rfile.read(int(self.headers["content-length"])).decode()
        body = json.loads(raw)
        prompt = body.get("prompt") or body["messages"][-1]["content"]
        output = f"a0 {raw} {self.headers} {self.path}"
        if self.path.startswith("/brief") and "2?" not in str(prompt):
            output = "a0"
        reply: dict[str, Any] = {
            "choices": [
                {
                    "text": output,
                    "message": {"role": "assistant", "content": output},
                    "finish_reason": "stop",
                }
            ]
        }
        if "2?" in str(prompt):
            reply = {"error": {"message": output}}
        data = json.dumps(reply).encode()
        self.send_response(400 if "error" in reply else 200)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Echo)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    yield server.server_port
    server.shutdown()
    server.server_close()


def start(suite: Any, *arguments: str, **environment: str) -> str:
    """Both output streams of a run."""
    (suite.pytester.path / "out").mkdir(exist_ok=True)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *arguments],
        cwd=suite.pytester.path,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=300,
    )
    return done.stdout + done.stderr


def run_here(suite: Any, *arguments: str) -> str:
    """Both output streams of a run in this process."""
    result = suite.pytester.runpytest("-p", "no:cacheprovider", *arguments)
    return f"{result.stdout}\n{result.stderr}"


def leaks(folder: Path) -> dict[str, set[str]]:
    """Results files that contain secrets on disk."""
    found = {}
    for place in (folder / ".evals", folder / "out"):
        for path in place.rglob("*"):
            raw = path.read_bytes() if path.is_file() else b""
            if PLANTED.encode() in raw or PLANTED in str(path.relative_to(folder)):
                start = raw.find(PLANTED.encode())
                found[str(path)] = {raw[max(start - 40, 0) : start + 40].decode()}
    return found


@pytest.fixture
def planted(suite):
    """A task whose file has secrets in its metadata."""
    suite.task(
        "quiz",
        metadata={
            "version": 1,
            "api_key": "PLANTED-file-1",
            "max_tokens": 77,
            "list": [{"clientSecret": "PLANTED-nested-2"}],
            "url": "https://me:PLANTED-url-3@host/?token=PLANTED-query-4",
            "text": "password=PLANTED-pair-5",
            "header": "Authorization: Bearer PLANTED-header-6",
            "json": '{"api_key": "PLANTED-json-7"}',
            "gates": ["exact_match >= 0.1"],
        },
    )
    return suite


def options() -> list[str]:
    return [
        "--evals-metadata=api_key=PLANTED-option-8,deep={'secret': 'PLANTED-deep-9'}",
        "--evals-latticeflow-config=api_token=PLANTED-config-10",
    ]


def spec(port: int) -> str:
    body = {
        "api_key": "PLANTED-body-11",
        "deep": [{"token": "PLANTED-token-12"}],
        "headers": [["Authorization", "Bearer PLANTED-bearer-13"]],
        "text": json.dumps({"password": 'PLANTED-"quoted"-14'}),
    }
    url = f"http://me:PLANTED-pass-15@127.0.0.1:{port}/v1?api-key=PLANTED-query-16"
    return f"openai:m,base_url={url},extra_body={json.dumps(body)}"


@pytest.mark.parametrize("workers", ["-n0", "-n2"])
def test_no_output_of_a_run_against_a_server_has_a_secret(planted, port, workers):
    model = f"--model={spec(port)}"
    suite = planted
    environment = {
        "OPENAI_API_KEY": "sk-PLANTED-17",
        "GITHUB_ACTIONS": "true",
        "GITHUB_STEP_SUMMARY": str(suite.pytester.path / "out/step.md"),
    }
    output = start(suite, "evals", model, workers, *options(), *OUT, **environment)
    assert PLANTED not in output
    assert leaks(suite.pytester.path) == {}
    # outputs were shown and written
    folder = suite.pytester.path
    assert "the server returned 400" in output
    assert "***" in output
    for name in ("junit.xml", "results.json", "report.html", "summary.md", "step.md"):
        assert (folder / "out" / name).stat().st_size > 500
    assert "HTTP Request" in (folder / "out/log.txt").read_text() or workers == "-n2"
    results = json.loads((folder / "out/results.json").read_text())
    assert results["options"]["metadata"]["api_key"] == "***"
    metadata = results["configs"]["quiz"]["metadata"]
    assert metadata["list"] == [{"clientSecret": "***"}]
    assert metadata["max_tokens"] == 77
    with (
        closing(sqlite3.connect(folder / ".evals/responses.sqlite")) as connection,
        connection,
    ):
        rows = connection.execute("SELECT response FROM responses").fetchall()
    assert rows == []  # the server repeats its key in each answer
    assert re.search(r"\d responses? contains? a secret", output)


@pytest.mark.parametrize(
    "mode",
    [
        ["--evals-plan"],
        ["--evals-validate"],
        ["--evals-write-out=1"],
        ["--evals-cache-info=evals/quiz.yaml::quiz[q1]"],
        ["--evals-repeatability=2"],
        ["--collect-only"],
    ],
)
def test_no_other_mode_shows_a_secret(planted, port, monkeypatch, mode):
    model = f"--model={spec(port)}"
    monkeypatch.setenv("OPENAI_API_KEY", "")
    output = run_here(planted, "evals", model, *options(), *mode)
    assert PLANTED not in output
    assert "quiz" in output
    assert leaks(planted.pytester.path) == {}


@pytest.mark.parametrize(
    "wrong",
    [
        "--evals-metadata={'api_key': 'PLANTED-wrong-18'",
        '--evals-metadata={"api_key": "brief"',
        "--evals-gen-kwargs=api_key=PLANTED-wrong-19,x",
        "--evals-latticeflow-config=x=1,y",
        "--model=openai:m,api_key=PLANTED-wrong-20",
        "--model=openai:m,extra_body={'api_key': 'PLANTED-wrong-21'",
        "--model=openai:m,extra_body=[1],token=PLANTED-wrong-22",
        "--model=nothing:m,password=PLANTED-wrong-23",
        "--model=openai:m,base_url=me:PLANTED-24@host,password=PLANTED-wrong-24",
        "--model=openai:m,base_url=http://me:PLANTED-25@127.0.0.1:1/v1,max_retries=0",
    ],
)
def test_no_message_about_an_option_repeats_a_secret(suite, wrong):
    output = run_here(suite, "evals", wrong, "-x")
    assert PLANTED not in output
    assert "brief" not in output
    assert "ERROR" in output or "FAILED" in output


CONFTEST = """
import os
import warnings
import pytest
from pytest_evals import Response

class Mine:
    name = "mine"
    fingerprint = {"weights": 3, "server": {"api_key": os.environ["MINE"]}}
    info = {"server": {"token": os.environ["MINE"] + "-27"}, "max_tokens": 5}
    notes = [f"sent with {os.environ['MINE']}"]

    def answer(self, requests):
        warnings.warn(f"password is {os.environ['MINE']}")
        print("key", os.environ["MINE"])
        for position, request in enumerate(requests):
            options = dict(request.options)
            text = f"a{position} {options}" if position else "a0"
            if position == 2:
                yield position, Response(error=f"refused: {options}")
            else:
                yield position, Response(text=text)

@pytest.fixture(scope="session")
def eval_model():
    return Mine()

def pytest_evals_score(record, task):
    if record.index == 4:
        key = os.environ["MINE"]
        raise ValueError(f"{key} is not valid")
"""


@pytest.mark.parametrize("workers", ["-n0", "-n2"])
def test_no_output_of_a_run_with_a_custom_model_has_a_secret(suite, workers):
    suite.task(
        "quiz",
        generation_kwargs={"max_gen_toks": 9, "api_key": "PLANTED-file-28"},
        filter_list=[{"name": "x", "filter": [{"function": "take_first"}]}],
    )
    suite.pytester.makeconftest(CONFTEST)
    more = "--evals-gen-kwargs=api_key=PLANTED-option-29"
    output = start(suite, "evals", workers, more, *OUT, MINE="PLANTED-mine-26")
    assert PLANTED not in output
    assert leaks(suite.pytester.path) == {}
    assert "*** is not valid" in output
    results = json.loads((suite.pytester.path / "out/results.json").read_text())
    given = results["configs"]["quiz"]["generation_kwargs"]
    assert given["api_key"] == "***"
    assert given["max_gen_toks"] == 9
    assert results["model_info"] == {"server": {"token": "***"}, "max_tokens": 5}


def test_a_baseline_has_no_secret_and_can_be_compared_with(suite):
    suite.task("quiz", generation_kwargs={"until": ["."], "api_key": "PLANTED-file-30"})
    suite.pytester.makeconftest(CONFTEST.replace("position == 2", "position == 99"))
    suite.pytester.path.joinpath("conftest.py").write_text(
        suite.pytester.path.joinpath("conftest.py")
        .read_text()
        .replace("record.index == 4", "record.index == 99")
    )
    start(suite, "evals", "--evals-save-baseline=main", MINE="PLANTED-mine-26")
    output = start(suite, "evals", "--evals-compare=main", MINE="PLANTED-mine-26")
    assert "compared with main" in output
    assert PLANTED not in output
    assert (suite.pytester.path / ".evals/baselines/main/results.json").is_file()
    assert leaks(suite.pytester.path) == {}


def test_a_new_key_uses_the_same_responses_and_another_argument_does_not(suite, port):
    suite.task("quiz")

    def usage_line(key: str, n: int = 1) -> str:
        body = json.dumps({"api_key": key, "n_probes": n})
        url = f"http://127.0.0.1:{port}/brief"
        model = f"--model=openai:m,base_url={url},extra_body={body}"
        output = run_here(suite, "evals", model, "--evals-max-errors=100%")
        return next(
            line for line in output.splitlines() if line.startswith("responses:")
        )

    assert usage_line("PLANTED-old-31") == "responses: 10 sent"
    assert usage_line("PLANTED-new-32").startswith("responses: 1 sent, 9 reused")
    assert usage_line("PLANTED-new-32", n=2) == "responses: 10 sent"
    assert leaks(suite.pytester.path) == {}


LATTICEFLOW = {
    "models/served.yaml": """
        key: served
        display_name: Served
        max_concurrent_requests: 2
        config:
          connection_type: custom_connection
          adapter: {key: "latticeflow$openai_chat_completion"}
          url: "http://127.0.0.1:PORT/complete?key=PLANTED-query-33"
          api_key: "<< secrets.LOCAL >>"
          model_key: tiny
          custom_headers:
            X-Api-Key: "<< secrets.FROM_ENVIRONMENT >>"
            Cookie: "PLANTED-cookie-34"
            X-Purpose: testing
        secrets: {LOCAL: "PLANTED-local-35"}
    """,
    "datasets/q.yaml": """
        key: q
        display_name: Q
        source:
          type: inline
          samples: []
    """,
}


@pytest.mark.guests
def test_no_output_of_latticeflows_files_has_a_secret(pytester, port):
    project = Path(__file__).parents[1] / "task_files" / "valid" / "latticeflow"
    evals = pytester.path / "evals"
    for path in project.rglob("*"):
        if path.is_file():
            place = evals / path.relative_to(project)
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(path.read_bytes())
    model = yaml.safe_load(LATTICEFLOW["models/served.yaml"].replace("PORT", str(port)))
    model["key"] = "offline-echo"
    (evals / "models/offline_echo.yaml").write_text(yaml.safe_dump(model))

    class Here:
        """The part of a suite that :func:`start` needs."""

    Here.pytester = pytester  # type: ignore[attr-defined]
    environment = {"FROM_ENVIRONMENT": "PLANTED-environment-36"}
    output = start(Here, "evals/run.yaml", *OUT, **environment)
    assert PLANTED not in output
    assert "a0" in output
    assert leaks(pytester.path) == {}


def test_evaluate_returns_and_writes_no_secret(planted, port, monkeypatch):
    monkeypatch.chdir(planted.pytester.path)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-PLANTED-37")
    metadata = {"api_key": "PLANTED-option-38", "max_tokens": 5}
    result = evaluate(
        "evals/quiz.yaml",
        spec(port),
        TaskOptions(metadata=metadata),
        folder=".evals",
    )
    assert PLANTED not in repr(result) + str(result.options) + str(result.model_info)
    assert result.options["metadata"] == {"api_key": "***", "max_tokens": 5}
    assert PLANTED not in str([record.responses for record in result.tasks[0].records])
    assert leaks(planted.pytester.path) == {}
    with pytest.raises(OptionError) as info:
        evaluate("evals/quiz.yaml", "openai:m,auth_token=PLANTED-wrong-39,x")
    assert PLANTED not in str(info.value)


APP = """
import json
import logging
import os
import warnings
{top}

def answer(prompt):
    os.environ["SET_IN_CALL_TOKEN"] = "-".join(["PLANTED", "call", "44"])
    keys = [v for k, v in sorted(os.environ.items()) if v.startswith("PLANTED")]
    n = int(prompt.split()[1].strip("?"))
    if n == 1:
        raise ValueError(f"no {{keys}}")
    if n == 2:
        warnings.warn(f"sent {{keys}}")
        logging.getLogger("app").warning("sent %s", keys)
        print("sent", keys)
    if n == 3:
        return json.dumps(keys)
    if n == 4:
        return "x" * 50 + keys[0]
    if n == 5:
        return keys[0]
    return f"a{{n}}"

answer.version = "1"
"""
ENVIRONMENT = {"APP_API_KEY": "PLANTED-environment-41", "SMTP_PASS": "PLANTED-pass-42"}
CONFTEST_SETS = """
import os
os.environ["LATE_SECRET"] = "-".join(["PLANTED", "conftest", "43"])
"""


@pytest.fixture
def application(suite):
    """A task whose model is an application that shows its keys; the reference answer to
    the question 5 is the first one."""
    rows = [
        {"id": f"q{i}", "question": f"quiz {i}?", "answer": f"a{i}"} for i in range(7)
    ]
    rows[5]["answer"] = "PLANTED-environment-41"
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    (suite.evals / "quiz.jsonl").write_text(lines)
    suite.pytester.makeconftest(CONFTEST_SETS)
    (suite.pytester.path / "app.py").write_text(APP.format(top=""))
    return suite


def values_of(suite: Any) -> dict[str, Any]:
    """The score of each document in the newest run."""
    run = max((suite.pytester.path / ".evals/runs").iterdir())
    lines = (run / "samples_quiz.jsonl").read_text().splitlines()
    rows = map(json.loads, lines)
    return {row["id"]: row.get("exact_match") for row in rows}


@pytest.mark.parametrize("workers", ["-n0", "-n2"])
def test_no_output_of_an_application_has_its_keys_and_scores_use_its_answers(
    application, workers
):
    command = ["evals", "--model=python:app:answer", workers, *OUT]
    output = start(application, *command, **ENVIRONMENT)
    folder = application.pytester.path
    assert PLANTED not in output
    assert leaks(folder) == {}
    assert "3 responses contain a secret" in output or workers == "-n2"
    assert "responses contain a secret" in output or "response contains" in output
    expected = {f"q{i}": 1.0 for i in range(7)} | {"q1": None, "q3": 0.0, "q4": 0.0}
    assert values_of(application) == expected
    assert "sent [" in (folder / "out/log.txt").read_text() or workers == "-n2"
    again = start(application, *command, **ENVIRONMENT)
    assert PLANTED not in again
    assert "4 sent, 3 reused" in again  # and the error
    assert values_of(application) == expected


@pytest.mark.parametrize("flag", ["-q", "-vv", "--tb=long", "--showlocals"])
def test_a_baseline_of_an_application_has_no_key(application, monkeypatch, flag):
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    save = ["--evals-save-baseline=main", "--evals-save-failed"]
    model = "--model=python:app:answer"
    output = run_here(application, "evals", model, flag, *save, "-p", "cacheprovider")
    assert PLANTED not in output
    assert (application.pytester.path / ".evals/baselines/main/results.json").is_file()
    assert leaks(application.pytester.path) == {}


_RAISE = "import os\nraise ImportError('no ' + os.environ['APP_API_KEY'])"
IMPORTS = {
    "app.py": _RAISE,
    "conftest.py": _RAISE.replace("ImportError", "KeyError"),
    "evals/conftest.py": _RAISE,
    "evals/helpers.py": _RAISE,
    "evals/test_own.py": f"import pytest_evals\n{_RAISE}",
}


@pytest.mark.parametrize("place", sorted(IMPORTS))
def test_an_import_error_does_not_show_a_key(application, place):
    application.task("quiz", doc_to_text="FUNCTION")
    path = application.evals / "quiz.yaml"
    text = "!function helpers.text" if "helpers" in place else "'{{question}}'"
    path.write_text(path.read_text().replace("FUNCTION", text))
    (application.pytester.path / place).write_text(IMPORTS[place])
    output = start(application, "evals", "--model=python:app:answer", **ENVIRONMENT)
    assert PLANTED not in output
    assert "no ***" in output


def test_sessions_without_evals_show_their_output_unchanged(pytester, monkeypatch):
    monkeypatch.setenv("APP_API_KEY", "PLANTED-environment-41")
    pytester.makepyfile("import os\ndef test(): assert os.environ['APP_API_KEY'] == 1")
    result = pytester.runpytest()
    result.stdout.fnmatch_lines(["E*PLANTED-environment-41*"])


def test_evaluate_scores_answers_with_keys_and_returns_them_masked(
    application, monkeypatch
):
    monkeypatch.chdir(application.pytester.path)
    monkeypatch.setenv("APP_API_KEY", "PLANTED-environment-41")
    names = iter(["a0", "PLANTED-environment-41"])

    def model(prompt: str) -> str:
        return next(names)

    rows = [
        {"prompt": "0?", "target": "a0"},
        {"prompt": "1?", "target": "PLANTED-environment-41"},
    ]
    result = evaluate(rows, model)
    assert [record.correct for record in result.tasks[0].records] == [True, True]
    responses = [record.responses[0].text for record in result.tasks[0].records]
    assert responses == ["a0", "***"]
    assert PLANTED not in repr(result)
