"""Interrupts at random moments of runs with slow consumers: every response that was
sent is stored, and the next run of the same command does not send its request again.

``python -m tests.fuzz.interrupts --seed 7 --rounds 200``; ``--round 12`` repeats one.

A run is forked from this process; its server, or its application, writes one line when
it has sent a response. The run ends by a signal, by ``-x``, by an error or by itself,
while hooks, scorers and judges hold its main thread.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

from tests.fuzz.running import prepare

N = 60
"""Documents of a run."""
WALL_S = 90 * max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))
KILLED_S = 0.1
"""Age in seconds of responses that a killed process may lose."""
TURNS = 3
"""Messages of the user in a conversation."""
JURY = ("j1", "j2", "j3")
TALKS = ("turns", "session", "user")
APPS = {"function": "respond", "coroutine": "respond_async", "session": "Session"}
EXPECTED = {"turns": N * TURNS, "session": N * TURNS, "jury": N * len(JURY)}
EXPECTED |= {"user": N * (2 * TURNS + 1)}  # the last message of a user is the mark
"""Responses of a complete run of conversations and juries."""
SLOW_S = 0.25 * max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))
"""What a busy machine may add to it: the response is logged before it is received."""
SERVER = (
    f"TURNS = {TURNS}"
    + """
import json, os, random, sys, time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *given):
        pass

    def do_GET(self):
        self.send({"data": [{"id": "m"}]})

    def do_POST(self):
        _, log, delay_ms, failing, *_ = self.path.split("/")
        given = json.loads(self.rfile.read(int(self.headers["content-length"])))
        time.sleep(random.expovariate(1000 / int(delay_ms)) if int(delay_ms) else 0)
        if random.randrange(100) < int(failing):
            return self.send({"error": {"message": "busy"}}, random.choice([429, 500]))
        verdict = '{"reason": "It is.", "pass": true}'
        text = verdict if "Is it good?" in str(given) else "a"
        if given["model"] == "user":
            n = sum(one["role"] == "assistant" for one in given["messages"])
            goal = given["messages"][0]["content"].split("goal: ")[1].split()[0]
            text = f"{goal}, message {n}" if n < TURNS else "[done]"
        if given.get("stream"):
            parts = [
                {"choices": [{"index": 0, "delta": {"content": text}}]},
                {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]},
            ]
            lines = [f"data: {json.dumps(part)}\\n\\n" for part in parts]
            body = "".join([*lines, "data: [DONE]\\n\\n"]).encode()
        elif "chat" in self.path:
            message = {"role": "assistant", "content": text}
            choice = {"index": 0, "finish_reason": "stop", "message": message}
            body = json.dumps({"choices": [choice]}).encode()
        else:
            choice = {"index": 0, "finish_reason": "stop", "text": text}
            body = json.dumps({"choices": [choice]}).encode()
        self.send(body)
        with open(f"{sys.argv[1]}/{log}", "a") as stream:
            stream.write(f"{time.time()}\\n")

    def send(self, body, status=200):
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        is_events = data.startswith(b"data:")
        kind = "text/event-stream" if is_events else "application/json"
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256

    def handle_error(self, *given):
        pass

server = Server(("127.0.0.1", 0), Handler)
print(server.server_address[1], flush=True)
server.serve_forever()
"""
)
APP = """
import asyncio, os, random, time

def log():
    descriptor = os.open({log!r}, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(descriptor, f"{{time.time()}}\\n".encode())
    os.close(descriptor)

def respond(prompt):
    time.sleep(random.expovariate(1000 / {delay_ms}))
    log()
    return "a"

async def respond_async(prompt):
    await asyncio.sleep(random.expovariate(1000 / {delay_ms}))
    log()
    return "a"

respond.version = respond_async.version = "1"

class Session:
    version = "1"

    def __init__(self):
        self.n = 0

    def respond(self, messages):
        self.n += 1
        assert self.n == sum(one["role"] == "user" for one in messages)
        return respond("")

    def restore(self, messages):
        self.n = sum(one["role"] == "user" for one in messages)
"""
CONFTEST = """
import time

n_reports = n_scored = 0

def pytest_runtest_logreport(report):
    global n_reports
    n_reports += report.when == "call"
    if n_reports == {hold_at} and report.when == "call":
        time.sleep({hold_s})
        if {raises}:
            raise RuntimeError("an error in a hook")

def pytest_evals_score(record, task):
    time.sleep({score_s})
"""
SCRIPT = """
import sys
from pathlib import Path
sys.path.insert(0, ".")
import conftest
from pytest_evals import evaluate
try:
    evaluate("t.yaml", {model!r}, folder=".evals", plugins=[conftest]{judge})
except KeyboardInterrupt:
    sys.exit(130)
"""


@dataclass(frozen=True)
class Round:
    """One run and the moment of its end. ``end`` is ``int``, ``term``, ``kill``,
    ``double``, ``x``, ``error`` or ``itself``."""

    seed: int
    number: int
    model: str
    end: str
    how: str
    delay_ms: int
    failing: int
    hold_at: int
    hold_s: float
    score_s: float
    after_s: float

    @classmethod
    def make(cls, seed: int, number: int) -> Round:
        """The round of a seed and a number."""
        rng = random.Random(f"{seed} {number}")
        kinds = ["chat", "completions", "stream", "function", "coroutine", "judge"]
        kinds += EXPECTED
        ends = [*["int"] * 6, *["term"] * 2, *["kill"] * 2, "double", "x", "error"]
        model, end = rng.choice(kinds), rng.choice([*ends, "itself"])
        ways = [*["pytest"] * 5, "workers"]
        if end in ("int", "itself"):
            ways.append("script")
        return cls(
            seed=seed,
            number=number,
            model=model,
            end=end,
            how=rng.choice(ways),
            delay_ms=rng.choice([2, 10, 40, 200]),
            failing=rng.choice([0, 0, 0, 10, 40]),
            hold_at=rng.randrange(1, N),
            hold_s=rng.choice([0.0, 0.2, 1.0]),
            score_s=rng.choice([0.0, 0.0, 0.01, 0.1]),
            after_s=rng.expovariate(3),
        )


@contextmanager
def server(logs: Path) -> Iterator[str]:
    """Start the server of all rounds; yields its address."""
    command = [sys.executable, "-c", SERVER, str(logs)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield f"http://127.0.0.1:{process.stdout.readline().strip()}"
        finally:
            process.kill()


def run(one: Round, address: str, logs: Path) -> str:
    """Run a round; returns what is wrong, or nothing."""
    log = logs / f"{one.seed}-{one.number}"
    log.touch()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        command = _write(one, folder, address, log)
        pid = _fork(one, folder, command)
        killed_at = _end(one, pid, log)
        code = _wait(pid, log)
        output = (folder / "output").read_text(errors="replace")
        if code is None:
            return f"it did not end:\n{output[-2000:]}"
        time.sleep(0.3)  # replies that nobody waits for
        sent = [float(line) for line in log.read_text().splitlines()]
        stored = _stored(folder)
        allowed = 0
        if killed_at:
            sent = [moment for moment in sent if moment < killed_at]
            allowed = sum(m > killed_at - KILLED_S - SLOW_S for m in sent)
        print(f"{one.number}: {one.end} {one.model} {one.how}", end="; ")
        print(f"{len(sent)} sent, {stored} stored, exit code {code}", flush=True)
        if code == 4 or not log.stat().st_size:
            return f"nothing was sent:\n{output[-2000:]}"
        if not len(sent) - allowed <= stored:
            return f"{len(sent)} responses sent, {stored} stored:\n{output[-2000:]}"
        if not killed_at and (shown := _shown_traceback(one, output)):
            return f"{shown}:\n{output[-2000:]}"
        if one.model in EXPECTED:
            return _resumed(one, folder, command, log)
    return ""


def _resumed(one: Round, folder: Path, command: list[str], log: Path) -> str:
    """Run the same command to its end; returns what is wrong, or nothing."""
    n_before = _settled(log)
    expected = EXPECTED[one.model] - _stored(folder)
    expected += EXPECTED[one.model] // N * (one.end == "x")  # of one more row
    (folder / "conftest.py").write_text("")
    if one.how == "script":
        script = (folder / "script.py").read_text()
        (folder / "script.py").write_text(script.replace("[conftest]", "()"))
    kept = [part for part in command if part not in ("-x", "--evals-strict")]
    code = _wait(_fork(one, folder, kept), log)
    output = (folder / "output").read_text(errors="replace")
    n_sent = _settled(log) - n_before
    print(f"{one.number}: resumed; {n_sent} sent, exit code {code}", flush=True)
    if code or n_sent != expected:
        return f"{n_sent} sent by the next run, not {expected}:\n{output[-2000:]}"
    return ""


def _settled(log: Path) -> int:
    """The number of responses that were sent, when no more of them are on their way."""
    size = -1
    while size != (size := log.stat().st_size):
        time.sleep(1.5)
    return len(log.read_text().splitlines())


def _write(one: Round, folder: Path, address: str, log: Path) -> list[str]:
    """Write the files of a round; returns its command."""
    rows = [_row(one, f"q{i}", "a") for i in range(N)]
    if one.end == "x":
        rows.append(_row(one, "w", "no"))
    base = f"{address}/{log.name}/{one.delay_ms}/{one.failing}/v1"

    def served(name: str, more: str = ",api=chat") -> str:
        return f"openai:{name},base_url={base},max_retries=20{more}"

    app = APP.format(log=str(log), delay_ms=one.delay_ms)
    (folder / "app.py").write_text(app)
    model, judge = "scripted:echo", served("m") if one.model == "judge" else ""
    if one.model in APPS:
        model = f"python:app:{APPS[one.model]}"
    elif one.model in ("completions", "stream"):
        model = served("m", ",api=chat,stream=true" * (one.model == "stream"))
    elif one.model not in ("judge", "jury"):
        model = served("m")
    eval_ = {**_keys(one, served), "rows": rows}
    lines = [f"{key}: {json.dumps(value)}\n" for key, value in eval_.items()]
    (folder / "t.yaml").write_text("".join(lines))
    (folder / "conftest.py").write_text(
        CONFTEST.format(
            hold_at=one.hold_at,
            hold_s=one.hold_s,
            score_s=one.score_s if one.how != "workers" else min(one.score_s, 0.02),
            raises=one.end == "error",
        )
    )
    if one.how == "script":
        given = f", judge={judge!r}" if judge else ""
        (folder / "script.py").write_text(SCRIPT.format(model=model, judge=given))
        return []
    command = ["-p", "pytest_evals.plugin.hooks", "t.yaml", f"--model={model}"]
    if judge:
        command.append(f"--evals-judge={judge}")
    if one.how == "workers":
        command += ["-p", "xdist.plugin", "-n", "2"]
    return command + ["-x", "--evals-strict"] * (one.end == "x")


def _keys(one: Round, served: Callable[[str], str]) -> dict[str, object]:
    """The keys of the eval of a round, without its rows."""
    if one.model == "user":
        user = {"goal": "{{q}}", "model": served("user"), "max_turns": 9}
        return {"user": user, "score": ["checks"]}
    if one.model in TALKS:
        return {"score": ["checks"]}
    judge: dict[str, object] = {"rubric": "Is it good?"}
    if one.model == "jury":
        judge["models"] = [*map(served, JURY)]
    is_judged = one.model in ("judge", "jury")
    scores = [{"judge": judge} if is_judged else "exact"]
    return {"prompt": "{{q}}", "target": "{{a}}", "score": scores}


def _row(one: Round, id_: str, expected: str) -> dict[str, object]:
    if one.model not in TALKS:
        return {"id": id_, "q": id_, "a": expected}
    row = {"id": id_, "q": id_, "checks": [{"contains": expected}]}
    turns = {"turns": [f"{id_}, message {n}" for n in range(TURNS)]}
    return row if one.model == "user" else row | turns


def _fork(one: Round, folder: Path, command: list[str]) -> int:
    sys.stdout.flush()
    pid = os.fork()
    if pid:
        return pid
    code = 99
    try:
        os.setsid()
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        output = os.open(folder / "output", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        for stream in (1, 2):
            os.dup2(output, stream)
        os.chdir(folder)
        sys.path.insert(0, str(folder))
        os.environ |= {"OPENAI_API_KEY": "k"}
        if one.how == "script":
            exec(compile((folder / "script.py").read_text(), "script.py", "exec"), {})
            code = 0
        else:
            import pytest

            sys.argv = ["pytest", *command]
            ignored = ["-W", "ignore::pytest.PytestAssertRewriteWarning"]
            code = int(pytest.main([*command, *ignored]))
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else 1
    except BaseException:  # noqa: BLE001 - as the interpreter would
        sys.excepthook(*sys.exc_info())  # type: ignore[arg-type]
        code = 130
    finally:
        for stream in (sys.stdout, sys.stderr):
            with suppress(Exception):
                stream.flush()
        os._exit(code)


def _end(one: Round, pid: int, log: Path) -> float:
    """Send the signals of a round; returns when the process was killed, or 0."""
    if one.end in ("x", "error", "itself"):
        return 0.0
    deadline = time.monotonic() + WALL_S
    while not log.stat().st_size and time.monotonic() < deadline:
        if os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT):
            return 0.0
        time.sleep(0.005)
    time.sleep(one.after_s)
    sent = {"term": signal.SIGTERM, "kill": signal.SIGKILL}.get(one.end, signal.SIGINT)
    with suppress(ProcessLookupError):
        if sent == signal.SIGTERM or one.how == "script":
            os.kill(pid, sent)
        else:
            os.killpg(pid, sent)
        killed_at = time.time()
        if one.end == "double":
            time.sleep(one.after_s)
            os.killpg(pid, sent)
    return killed_at if one.end in ("kill", "double") else 0.0


def _wait(pid: int, log: Path) -> int | None:
    """The exit code of a process; ``None`` if it has to be killed: it does not end, and
    sends nothing."""
    deadline, size = time.monotonic() + WALL_S, 0
    while time.monotonic() < deadline:
        if size != (size := log.stat().st_size):
            deadline = time.monotonic() + WALL_S
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    with suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return None


def _stored(folder: Path) -> int:
    path = folder / ".evals" / "responses.sqlite"
    if not path.exists():
        return 0
    with closing(sqlite3.connect(path, timeout=30)) as connection:
        return int(connection.execute("SELECT count(*) FROM responses").fetchone()[0])


def _shown_traceback(one: Round, output: str) -> str:
    if one.end == "error":
        return ""
    found = re.search("Traceback|INTERNALERROR|Exception ignored", output)
    return found[0] if found else ""


def main() -> int:
    """Run the rounds of the command line; return 1 if one of them failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.interrupts")
    parser.add_argument("--seed", type=int, help="any number; a new one by default")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--round", type=int, help="run this one only")
    given = parser.parse_args()
    seed = random.randrange(10**6) if given.seed is None else given.seed
    numbers = range(given.rounds) if given.round is None else [given.round]
    prepare()
    import_module("pytest_evals.models.openai.model")
    import_module("pytest_evals.models.python.model")
    import_module("httpx")
    failed = []
    with tempfile.TemporaryDirectory() as logs, server(Path(logs)) as address:
        for number in numbers:
            one = Round.make(seed, number)
            fault = run(one, address, Path(logs))
            if fault:
                failed.append(number)
                print(f"=== {one}\n{fault}\n", flush=True)
    print(f"seed {seed}: {len(numbers)} rounds, {len(failed)} failed: {failed}")
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
