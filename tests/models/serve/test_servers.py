"""Servers that are started for a run, by whole sessions in processes of their own."""

import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

FAKE = Path(__file__).with_name("fake_server.py")
COMMAND = f"{sys.executable} {FAKE} --port {{port}}"
SUITE = """\
task: capitals
rows:
  - {question: "Capital of France?", target: Paris}
  - {question: "Capital of Italy?", target: Rome}
prompt: "{{question}}"
score: exact
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "evals").mkdir()
    (tmp_path / "evals/capitals.yaml").write_text(SUITE)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("STARTS", str(tmp_path / "starts"))
    yield tmp_path
    for pid in starts():
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def starts():
    path = Path(os.environ["STARTS"])
    return [int(line) for line in path.read_text().split()] if path.exists() else []


def session(*arguments, command=COMMAND, more="api=chat"):
    words = [sys.executable, "-m", "pytest", f"--model=serve:{command},{more}"]
    return [*words, "evals", *arguments]


def run(*arguments, **settings):
    done = subprocess.run(
        session(*arguments, **settings), capture_output=True, text=True, timeout=300
    )
    return done.returncode, done.stdout + done.stderr


def is_alive(pid):
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return False
    return state != "Z"


def wait_until(holds, limit_s=60.0):
    end = time.monotonic() + limit_s
    while not holds() and time.monotonic() < end:
        time.sleep(0.05)
    return holds()


@pytest.mark.slow
def test_a_server_is_started_for_missing_responses_and_ended_with_the_session(folder):
    code, output = run()
    assert "2 passed" in output
    assert code == 0
    (pid,) = starts()
    assert not is_alive(pid)
    (log,) = folder.glob(".evals/runs/*/server.log")
    assert log.read_text().startswith("starting --port ")
    code, output = run()
    assert "2 reused from the store" in output
    assert len(starts()) == 1


@pytest.mark.slow
def test_workers_share_one_server(folder):
    code, output = run("-n", "2")
    assert code == 0, output
    (pid,) = starts()
    assert not is_alive(pid)


def supervisors():
    """The process that a session has started, and its child."""
    found = subprocess.run(
        ["ps", "-eo", "pid,ppid,args"], capture_output=True, text=True
    )
    mark = f"STARTS={os.environ['STARTS']}".encode()
    pids = []
    for line in found.stdout.splitlines():
        pid, _, command = line.split(maxsplit=2)
        if "supervisor.py" in command:
            with suppress(OSError):
                if mark in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
                    pids.append(int(pid))
    return sorted(pids)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
@pytest.mark.parametrize("which", [0, 1])
def test_no_process_is_left_when_a_supervisor_is_killed(folder, monkeypatch, which):
    monkeypatch.setenv("LOADS_S", "600")
    process = subprocess.Popen(session(), stdout=subprocess.DEVNULL)
    assert wait_until(starts)
    both = supervisors()
    assert len(both) == 2
    os.kill(both[which], signal.SIGKILL)
    process.kill()
    process.wait(60)
    assert wait_until(lambda: not processes_of_the_test())


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_no_process_is_left_when_the_session_is_killed(folder, monkeypatch, number):
    monkeypatch.setenv("CHILD", str(folder / "child"))
    monkeypatch.setenv("LOADS_S", "600")
    process = subprocess.Popen(session(), stdout=subprocess.DEVNULL)
    assert wait_until((folder / "child").exists)
    assert wait_until(lambda: (folder / "child").read_text())
    os.kill(process.pid, number)
    process.wait(60)
    child = int((folder / "child").read_text())
    pids = [*starts(), child]
    assert wait_until(lambda: not any(map(is_alive, pids))), pids


def killed_at_random(rng, *arguments):
    """Kill a session, or one of its workers, at a random moment; wait for its end."""
    process = subprocess.Popen(
        session(*arguments), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    with suppress(subprocess.TimeoutExpired):
        process.wait(rng.uniform(0.5, 8.0))
    number = rng.choice([signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
    if process.poll() is None:
        listed = subprocess.run(
            ["ps", "-o", "pid=", "--ppid", str(process.pid)], capture_output=True
        )
        children = [int(one) for one in listed.stdout.split()]
        if arguments and children and rng.random() < 0.5:
            with suppress(ProcessLookupError):
                os.kill(rng.choice(children), signal.SIGKILL)
            with suppress(subprocess.TimeoutExpired):
                process.wait(10)  # it waits for a server that loads
        process.send_signal(number)
    try:
        process.wait(90)
    finally:
        process.kill()


def processes_of_the_test():
    """Sessions, workers, supervisors, servers and their children: all have ``STARTS``
    in their environment."""
    mark = f"STARTS={os.environ['STARTS']}".encode()
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            variables = (folder / "environ").read_bytes().split(b"\0")
            if mark in variables and int(folder.name) != os.getpid():
                found.append((folder / "cmdline").read_bytes())
    return found


def ports(folder):
    logs = [*folder.glob(".evals/runs/*/server.log")]
    words = [one.read_text().split() for one in logs]
    return [int(one[2]) for one in words if one[:2] == ["starting", "--port"]]


def is_open(port):
    with socket.socket() as one:
        return one.connect_ex(("127.0.0.1", port)) == 0


@pytest.mark.nightly
def test_no_process_and_no_port_is_left_after_random_kills(folder, monkeypatch):
    """``KILLS`` and ``KILLS_SEED`` change their number and their moments."""
    monkeypatch.setenv("CHILD", str(folder / "child"))
    rng = random.Random(int(os.environ.get("KILLS_SEED", "1")))
    for number in range(int(os.environ.get("KILLS", "50"))):
        monkeypatch.setenv("LOADS_S", rng.choice(["0", "2", "600"]))
        killed_at_random(rng, *rng.choice([(), ("-n", "2")]))
        has_ended = wait_until(lambda: not processes_of_the_test())
        assert has_ended, (number, processes_of_the_test())
        assert not any(map(is_open, ports(folder))), number
        shutil.rmtree(folder / ".evals", ignore_errors=True)


@pytest.mark.nightly
def test_a_server_that_ignores_the_signal_is_killed(folder, monkeypatch):
    monkeypatch.setenv("STUBBORN", "1")
    code, output = run()
    assert code == 0, output
    (pid,) = starts()
    assert not is_alive(pid)


@pytest.mark.slow
def test_a_server_that_ends_before_it_is_ready_is_one_error_with_its_log(
    folder, monkeypatch
):
    monkeypatch.setenv("NEVER", "1")
    code, output = run()
    assert code == pytest.ExitCode.USAGE_ERROR
    assert "the server ended before it was ready, with exit status 4" in output
    assert output.count("no such model") == 1
    assert len(starts()) == 1


@pytest.mark.slow
def test_a_server_that_is_not_ready_in_time_is_ended(folder, monkeypatch):
    monkeypatch.setenv("LOADS_S", "600")
    code, output = run(more="api=chat,startup_timeout=0.5")
    assert code == pytest.ExitCode.USAGE_ERROR
    assert "the server is not ready after 0.5 s" in output
    assert not is_alive(starts()[0])


@pytest.mark.slow
def test_a_server_that_dies_in_the_run_is_an_error_with_its_log(folder, monkeypatch):
    monkeypatch.setenv("DIE_AFTER", "1")
    code, output = run(more="api=chat,concurrency=1")
    assert code == 1
    assert "the server ended, with exit status 3" in output
    assert "CUDA out of memory" in output


@pytest.mark.slow
def test_a_server_that_dies_is_started_again_as_often_as_asked(folder, monkeypatch):
    monkeypatch.setenv("DIE_AFTER", "1")
    code, output = run(more="api=chat,concurrency=1,restart=1")
    assert code == 0, output
    assert len(starts()) == 2


TAKEN_ONCE = """
import os, subprocess, sys
from pathlib import Path

fake, port = sys.argv[1], sys.argv[-1]
with Path("ports").open("a") as file:
    file.write(f"{port}\\n")
if not Path("other").exists():
    command = [sys.executable, fake, "--port", port]
    other = subprocess.Popen(command, env={"VERSION": "other"}, start_new_session=True)
    Path("other").write_text(str(other.pid))
    os.environ["LOADS_S"] = sys.argv[2]
os.execv(sys.executable, [sys.executable, fake, "--port", port])
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
@pytest.mark.parametrize("loads_s", [0.5, 30.0])
def test_a_free_port_that_another_process_takes_meanwhile_is_replaced(folder, loads_s):
    """The other process answers, so its responses would be taken for the model's. The
    server ends as soon as it finds the port taken, which is before or after that."""
    (folder / "once.py").write_text(TAKEN_ONCE)
    command = f"{sys.executable} once.py {FAKE} {loads_s} --port {{port}}"
    try:
        code, output = run(command=command)
    finally:
        with suppress(FileNotFoundError):
            os.kill(int((folder / "other").read_text()), signal.SIGKILL)
    assert code == 0, output
    # The first may be killed before it notes its start, so its command notes the port.
    first, second = (folder / "ports").read_text().split()
    assert first != second
    (results,) = (folder / ".evals/runs").glob("*/results.json")
    server = json.loads(results.read_text())["model_info"]["server"]
    assert server["version"] == "1.0"


@pytest.mark.slow
def test_a_command_with_an_argument_that_is_given_twice_is_a_usage_error(folder):
    code, output = run(command=f"{COMMAND} --set x=1,api=2", more="api=chat")
    assert code == pytest.ExitCode.USAGE_ERROR
    assert "ERROR: the model's argument 'api' is given twice" in output


@pytest.mark.slow
def test_a_fixed_port_of_another_process_is_an_error(folder):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    other = subprocess.Popen([sys.executable, FAKE, "--port", str(port)])
    try:
        assert wait_until(lambda: is_open(port))
        code, output = run(command=f"{sys.executable} {FAKE} --port {port}")
    finally:
        other.kill()
        other.wait()
    assert code == 4
    assert f"port {port} is used by another process: " in output
    assert "fix: end it, or write {port} instead of the number" in output
    assert starts() == [other.pid]


@pytest.mark.slow
def test_responses_of_another_version_are_not_mixed(folder, monkeypatch):
    assert run()[0] == 0
    with (folder / "evals/capitals.yaml").open("a") as file:
        file.write("description: one more\n")
    suite = SUITE.replace(
        "prompt", '  - {question: "Capital of Spain?", target: "?"}\nprompt'
    )
    (folder / "evals/capitals.yaml").write_text(suite)
    monkeypatch.setenv("VERSION", "2.0")
    code, output = run()
    assert code != 0
    assert "is another version or model than the one whose responses" in output
    code, output = run()
    assert code == 0
    assert "3 sent" in output


@pytest.mark.slow
def test_a_command_of_a_file_needs_a_permission_of_the_command_line(folder):
    ini = folder / "pytest.ini"
    spec = f"serve:{COMMAND},api=chat"
    plain = [sys.executable, "-m", "pytest", "evals"]
    allow = "--evals-allow-server-commands"

    def tried(*arguments):
        words = [*plain, *arguments]
        done = subprocess.run(words, capture_output=True, text=True, timeout=300)
        return done.returncode, done.stdout + done.stderr

    ini.write_text(f"[pytest]\nevals_model = {spec}\n")
    code, output = tried()
    assert code == pytest.ExitCode.USAGE_ERROR
    assert "not from the command line" in output
    ini.write_text(f"[pytest]\nevals_model = {spec}\naddopts = {allow}\n")
    code, output = tried()
    assert code == pytest.ExitCode.USAGE_ERROR
    assert "write it on the command line" in output
    ini.write_text("[pytest]\n")
    task = folder / "evals/capitals.yaml"
    task.write_text(f"{SUITE}model: '{spec}'\n")
    code, output = tried()
    assert code != 0
    assert "would execute a command that a file names" in output
    assert not starts()
    code, output = tried(allow)
    assert code == 0, output


@pytest.mark.slow
def test_a_container_is_removed_by_its_name(folder, monkeypatch):
    docker = folder / "docker"
    docker.write_text(
        f'#!/bin/sh\necho "$@" >> {folder}/calls\n'
        'test "$1" = rm && exit\n'
        f"while [ $# -gt 1 ]; do shift; done\n"
        f"exec {sys.executable} {FAKE} --port $1\n"
    )
    docker.chmod(0o755)
    code, output = run(command=f"{docker} run -p {{port}}:8000 image {{port}}")
    assert code == 0, output
    ran, *_, removed = (folder / "calls").read_text().splitlines()
    name = ran.split()[ran.split().index("--name") + 1]
    assert removed == f"rm -f {name}"
