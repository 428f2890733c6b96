"""The table of attacks in ``docs/sandbox.md``: each cell is an attack.

Programs print ESCAPED if they succeed; some are seen from outside.
"""

# ruff: noqa: E501 - programs, a line each

import os
import re
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from pytest_evals.sandbox.levels import ProgramLimits

PAGE = Path(__file__).parents[2] / "docs/sandbox.md"
LIMITS = ProgramLimits(wall_s=8, cpu_s=4, memory_bytes=1 << 30, disk_bytes=16 << 20)
SECRET = "sandbox-secret-4711"

PRINTED = {
    "fork bomb": "import os, time\nfor n in range(300):\n    if os.fork() == 0: time.sleep(60)\nprint('ESCAPED')",
    "allocate 10 GB": "x = bytearray(10 << 30); print('ESCAPED')",
    "read the environment": f"import os\nif '{SECRET}' in str(os.environ): print('ESCAPED')",
    "read the session's environment in `/proc`": f"""
import os
for name in filter(str.isdigit, os.listdir('/proc')):
    try:
        if '{SECRET}' in open(f'/proc/{{name}}/environ').read(): print('ESCAPED')
    except OSError: pass
""",
    "trace its supervisor": """
import ctypes, os, time
libc = ctypes.CDLL(None, use_errno=True)
libc.ptrace.argtypes = [ctypes.c_long] * 4
if libc.ptrace(16, os.getppid(), 0, 0) == 0: print('ESCAPED')
try:
    open(f'/proc/{os.getppid()}/mem', 'rb'); print('ESCAPED')
except OSError: pass
""",
}
ENDED = {
    "allocate 10 GB in several processes": "import os, time\nfor n in range(7):\n    if os.fork() == 0: break\nx = b'x' * (200 << 20); time.sleep(60)",
    "endless output": "while True: print('x' * 10000)",
    "sleep, signals ignored": "import signal, time\nfor n in (1, 2, 15): signal.signal(n, signal.SIG_IGN)\ntime.sleep(60)",
}


def table():
    text = PAGE.read_text(encoding="utf-8").partition("\n| attack |")[2]
    rows = text.partition("\n\n")[0].splitlines()[2:]
    cells = [re.split(r"\s*\|\s*", row.strip("| "), maxsplit=3) for row in rows]
    return {attack: (process, confined) for attack, process, confined, *_ in cells}


def written(sandbox):
    file = Path(f"/tmp/sandbox-written-{os.getpid()}")
    sandbox.run(f"open({str(file)!r}, 'w').write('x')")
    escaped = file.exists()
    file.unlink(missing_ok=True)
    return escaped


def disk_filled(sandbox):
    file = Path(f"/tmp/sandbox-filled-{os.getpid()}")
    code = f"for n in range(2):\n    open({str(file)!r} + str(n), 'wb').write(b'x' * (12 << 20))"
    sandbox.run(code, limits=LIMITS)
    files = [*file.parent.glob(f"{file.name}*")]
    for one in files:
        one.unlink()
    return len(files) == 2


def own_disk_filled(sandbox):
    code = "for n in range(200):\n    open(str(n), 'wb').write(b'x' * (1 << 20))\nimport time; time.sleep(1); print('ESCAPED')"
    result = sandbox.run(code, limits=LIMITS)
    return "ESCAPED" in result.stdout


def linked(sandbox):
    folder = Path(f"/tmp/sandbox-linked-{os.getpid()}")
    folder.mkdir(mode=0o777)
    (folder / "kept").write_text("x")
    sandbox.run(f"import os; os.symlink({str(folder)!r}, 'link'); open('a', 'w')")
    escaped = not (folder / "kept").exists()
    (folder / "kept").unlink(missing_ok=True)
    folder.rmdir()
    return escaped


def file_read(sandbox):
    file = Path(f"/tmp/sandbox-read-{os.getpid()}")
    file.write_text("ESCAPED")
    file.chmod(0o644)
    result = sandbox.run(f"print(open({str(file)!r}).read())")
    file.unlink()
    return "ESCAPED" in result.stdout


def connected(sandbox):
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = server.getsockname()
        code = (
            f"import socket; socket.create_connection({address!r}, 2); print('ESCAPED')"
        )
        return "ESCAPED" in sandbox.run(code).stdout


def killed(sandbox):
    victim = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    code = f"import os; os.kill({victim.pid}, 9)"
    sandbox.run(code)
    with suppress(subprocess.TimeoutExpired):
        victim.wait(0.5)
    escaped = victim.poll() is not None
    victim.kill()
    victim.wait()
    return escaped


def daemon_left(sandbox):
    word = f"sandbox-daemon-{os.getpid()}-left"
    sandbox.run(
        f"import subprocess, sys\nsubprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)', {word!r}], start_new_session=True)"
    )
    for name in filter(str.isdigit, os.listdir("/proc")):
        with suppress(OSError):
            if word.encode() in Path("/proc", name, "cmdline").read_bytes():
                os.kill(int(name), 9)
                return True
    return False


SEEN = {
    "write to other folders": written,
    "fill the disk elsewhere": disk_filled,
    "fill the disk in its folder": own_disk_filled,
    "link to a file outside, deleted at the end": linked,
    "read your files": file_read,
    "connect to loopback": connected,
    "kill your processes": killed,
    "leave a daemon behind": daemon_left,
}


def escapes(sandbox, attack):
    if attack in SEEN:
        return SEEN[attack](sandbox)
    if attack in ENDED:
        result = sandbox.run(ENDED[attack], limits=LIMITS)
        return not result.reason or len(result.stdout) > LIMITS.output_bytes
    return "ESCAPED" in sandbox.run(PRINTED[attack], limits=LIMITS).stdout


def test_the_page_lists_every_attack():
    assert set(table()) == {*PRINTED, *ENDED, *SEEN}


@pytest.mark.slow
@pytest.mark.parametrize("level", ["process", "bwrap", "docker"])
@pytest.mark.parametrize("attack", table())
def test_a_cell_of_the_page_holds(sandbox_at, attack, level):
    sandbox = sandbox_at(level)
    os.environ["SANDBOX_ATTACK"] = SECRET
    # /proc has the environment with which a process started.
    code = f"import time; time.sleep(60)  # {SECRET}"
    bystander = subprocess.Popen([sys.executable, "-c", code])
    try:
        escaped = escapes(sandbox, attack)
    finally:
        del os.environ["SANDBOX_ATTACK"]
        bystander.kill()
        bystander.wait()
    cell = table()[attack][level != "process"]
    expected = cell == "not stopped" or (cell == "only for root" and os.geteuid() != 0)
    assert escaped is expected, cell
