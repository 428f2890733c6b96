"""Programs run in isolation and end with all that they started."""

# ruff: noqa: E501 - programs, a line each

import os
import time
from pathlib import Path

import pytest

from pytest_evals.sandbox.levels import ProgramLimits
from pytest_evals.sandbox.runner import Sandbox

MB = 1 << 20


def running(word):
    """Processes of this machine with a word on their command line."""
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            text = Path("/proc", name, "cmdline").read_text(errors="replace")
        except OSError:
            continue
        if word in text:
            found.append(int(name))
    return found


def test_a_program_gets_its_input_and_files_and_nothing_of_the_session(sandbox):
    os.environ["SANDBOX_SECRET"] = "hunter2hunter2"
    try:
        result = sandbox.run(
            "import os, sys\n"
            "print(input(), open('data/a.txt').read(), os.environ.get('SANDBOX_SECRET'))\n"
            "print(os.getcwd() == os.environ['HOME'], sorted(os.listdir('.')))\n"
            "print('é', file=sys.stderr); sys.exit(3)",
            stdin="one\ntwo\n",
            files={"data/a.txt": "file"},
        )
    finally:
        del os.environ["SANDBOX_SECRET"]
    assert result.stdout == "one file None\nTrue ['data']\n"
    assert (result.stderr, result.exit_code, result.reason) == ("é\n", 3, "")
    assert not result.ok
    both = {"stdin": "a\n", "files": {".stdin": "b"}}
    result = sandbox.run("print(input(), open('.stdin').read())", **both)
    assert result.stdout == "a b\n"


def test_a_traceback_has_the_lines_of_the_program_only(sandbox):
    result = sandbox.run("def f():\n    return 1 / 0\nf()\n")
    assert result.exit_code == 1
    assert '  File "program.py", line 2, in f\n    return 1 / 0\n' in result.stderr
    assert result.stderr.count("File") == 2


def test_programs_do_not_see_each_other(sandbox):
    sandbox.run("import math; math.pi = 3; open('left', 'w').write('x')")
    result = sandbox.run("import math, os; print(math.pi > 3.1, os.listdir('.'))")
    assert result.stdout == "True []\n"


@pytest.mark.parametrize(
    ("code", "limits", "reason"),
    [
        ("import time; time.sleep(60)", {"wall_s": 0.5}, "timeout"),
        (
            "import signal, time\nfor n in (2, 15): signal.signal(n, signal.SIG_IGN)\n"
            "time.sleep(60)",
            {"wall_s": 0.5},
            "timeout",
        ),
        (
            "while True:\n    try:\n        while True: pass\n"
            "    except BaseException: pass",
            {"wall_s": 20, "cpu_s": 1},
            "timeout",
        ),
        ("while True: print('x' * 1000)", {"output_bytes": MB}, "output"),
        (
            "import time\nfor n in range(99):\n"
            "    open(str(n), 'wb').write(b'x' * (1 << 20)); time.sleep(0.01)\n"
            "time.sleep(60)",
            {"disk_bytes": 8 * MB, "wall_s": 30},
            "disk",
        ),
        (
            "import os, time\nfor n in range(4):\n    if os.fork() == 0: break\n"
            "x = b'x' * (90 << 20); time.sleep(60)",
            {"memory_bytes": 256 * MB, "wall_s": 30},
            "memory",
        ),
    ],
    ids=["sleep", "ignores-signals", "spins", "output", "many-files", "many-children"],
)
@pytest.mark.slow
def test_a_program_is_ended_at_a_limit(sandbox, code, limits, reason):
    start = time.monotonic()
    result = sandbox.run(code, limits=ProgramLimits(**limits))
    assert (result.reason, result.exit_code in (None, -24)) == (reason, True)
    assert len(result.stdout) <= MB
    assert time.monotonic() - start < 40


@pytest.mark.slow
def test_a_program_is_refused_more_memory_files_and_processes(sandbox):
    allocation = sandbox.run("x = bytearray(10 << 30)")
    assert "MemoryError" in allocation.stderr
    large = sandbox.run("open('x', 'wb').write(b'x' * (80 << 20))")
    assert "File too large" in large.stderr
    bomb = (
        "import os, time\nn = 0\ntry:\n    while n < 300:\n"
        "        if os.fork() == 0: time.sleep(60)\n        n += 1\n"
        "except OSError: print('refused', n)"
    )
    result = sandbox.run(bomb, limits=ProgramLimits(processes=20))
    assert result.stdout.startswith("refused"), result
    assert int(result.stdout.split()[1]) < 200  # threads of the user may end


@pytest.mark.slow
def test_a_fork_bomb_ends_and_leaves_nothing(sandbox):
    bomb = "import os, sys\nsys.argv[0] = 'x'\nwhile True:\n    try: os.fork()\n    except OSError: pass"
    start = time.monotonic()
    result = sandbox.run(bomb, limits=ProgramLimits(processes=20, wall_s=1, cpu_s=1))
    assert not result.ok
    assert time.monotonic() - start < 30
    assert sandbox.run("print(1)").stdout == "1\n"


def test_a_daemon_neither_delays_the_result_nor_survives(sandbox):
    word = f"sandbox-daemon-{os.getpid()}"
    daemon = (
        "import os, sys, subprocess\n"
        f"subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(300)', {word!r}],"
        " start_new_session=True)\n"
        "if os.fork() == 0:\n    os.setsid()\n    if os.fork() == 0:\n"
        "        while True: pass\n    os._exit(0)\n"
        "print('done')"
    )
    start = time.monotonic()
    assert sandbox.run(daemon).stdout == "done\n"
    assert time.monotonic() - start < 60
    assert running(word) == []


def test_functions_are_called_with_data_and_return_data(sandbox):
    code = "class Solution:\n    def twice(self, x):\n        return {'a': (x, x)}"
    assert sandbox.call(code, "twice", [[1]], ProgramLimits()) == (
        True,
        {"a": ([1], [1])},
    )
    forges = (
        "import os\ndef f():\n    for n in range(3, 9):\n"
        "        try: os.write(n, b'[' * 60000)\n        except OSError: pass"
    )
    for code in ("f = lambda: object()", forges):
        assert sandbox.call(code, "f", [], ProgramLimits()) == (False, None)


def test_the_self_test_names_the_level_that_does_not_work(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    auto = Sandbox("auto")
    assert auto.level == "process"
    assert "bwrap is not installed" in auto.fallback
    broken = tmp_path / "bwrap"
    broken.write_text(
        "#!/bin/sh\necho 'bwrap: setting up uid map: denied' >&2; exit 1\n"
    )
    broken.chmod(0o755)
    auto = Sandbox("auto")
    assert auto.level == "process"
    assert auto.fallback.endswith("bwrap: setting up uid map: denied")
