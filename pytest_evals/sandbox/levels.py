"""Levels of isolation, the command that starts a server at each, and the limits of a
program."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from pytest_evals.errors import EvalsError

LevelName = Literal["auto", "process", "bwrap", "docker", "off"]
LEVELS: tuple[LevelName, ...] = ("auto", "process", "bwrap", "docker", "off")
CONFINED = frozenset({"bwrap", "docker"})  # levels that are a security boundary
VERSION = 2  # version of the verdicts: increased when one could change
_INSIDE = Path(__file__).parent
_START = (
    "import sys; sys.path.insert(0, sys.argv[1]); from inside import server; "
    "sys.path.pop(0); server.main(sys.argv[2:])"
)
_MODULES = (
    *("bisect", "collections", "copy", "datetime", "functools", "heapq", "io"),
    *("itertools", "json", "math", "operator", "random", "re", "statistics", "string"),
    *("typing", "atexit", "linecache", "traceback", "ast", "socket", "shutil"),
)
"""Modules that contest programs import; a warm server loads them once."""
_ONE_THREAD = {
    f"{name}_NUM_THREADS": "1" for name in ("OMP", "OPENBLAS", "MKL", "NUMEXPR")
}
"""Libraries for linear algebra reserve memory for each thread."""
_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/etc/ld.so.cache")
_ALSO = ("/etc/alternatives", "/etc/localtime", "/nix/store")
_CAPABILITIES = ("SETUID", "SETGID", "CHOWN", "KILL", "DAC_OVERRIDE", "FOWNER")
"""Capabilities with which a server of root gives programs separate users. Programs
have none."""


class SandboxError(EvalsError):
    """The sandbox does not work on this machine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramLimits:
    """Limits that apply to a program; at the level ``off`` those of time and output."""

    wall_s: float = 10.0  # seconds until it is killed
    cpu_s: float = 10.0  # seconds of processor time of each process
    memory_bytes: int = 2 << 30
    """Address space of each process, and resident memory of all."""
    file_bytes: int = 64 << 20  # size of each file
    disk_bytes: int = 128 << 20  # size of all files in its folder
    processes: int = 64  # number of processes and threads
    open_files: int = 128  # number of open files of each process
    output_bytes: int = 4 << 20  # length of standard output, and of standard error

    def within(self, timeout: float) -> ProgramLimits:
        """Return the limits with another time limit, in seconds."""
        return replace(self, wall_s=timeout, cpu_s=timeout + 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerStart:
    """How a server of a level is started. ``one_job``: whether each program gets a new
    server."""

    level: LevelName
    command: tuple[str, ...]
    environment: Mapping[str, str]
    one_job: bool = False


def start_of(level: LevelName, image: str, limits: ProgramLimits) -> ServerStart:
    """Return how the servers of a level are started. ``level``: any level but ``auto``.
    ``image``: image of the level ``docker``; empty for Python's own of this version.
    Raises SandboxError if the level's program is not installed."""
    environment = {"PATH": os.defpath, "LANG": "C.UTF-8", "PYTHONHASHSEED": "0"}
    environment |= _ONE_THREAD
    if level == "docker":
        command = tuple(_docker(image, limits, environment))
        return ServerStart(level=level, command=command, environment={**os.environ})
    python = (sys.executable, "-s", "-P", "-c", _START, str(_INSIDE))
    if level == "bwrap":
        confined = (*_bwrap(limits, environment), *python)
        return ServerStart(level=level, command=confined, environment={}, one_job=True)
    if level == "off":
        environment = {**os.environ, **_ONE_THREAD}
    return ServerStart(
        level=level, command=(*python, *_MODULES), environment=environment
    )


def _bwrap(limits: ProgramLimits, environment: Mapping[str, str]) -> Iterator[str]:
    """The options of bubblewrap: namespaces, no rights, and the view of files."""
    yield _program("bwrap")
    yield from ("--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts")
    yield from ("--unshare-cgroup-try", "--die-with-parent", "--new-session")
    yield from ("--clearenv", "--cap-drop", "ALL")
    if os.geteuid() == 0:
        # The limit on processes does not apply to root in any namespace: programs get
        # another user of the machine instead, who has no rights.
        for name in _CAPABILITIES:
            yield from ("--cap-add", f"CAP_{name}")
    else:
        yield from ("--unshare-user", "--uid", "65534", "--gid", "65534")
        yield "--disable-userns"
    yield from _view()
    yield from ("--proc", "/proc", "--dev", "/dev")
    yield from ("--perms", "1777", "--size", str(limits.disk_bytes), "--tmpfs", "/tmp")
    yield from ("--remount-ro", "/", "--chdir", "/tmp", "--hostname", "sandbox")
    for name, value in environment.items():
        yield from ("--setenv", name, value)


def _view() -> Iterator[str]:
    """Mount an allow-list, read-only: system libraries and this interpreter."""
    for path in _SYSTEM:
        if os.path.islink(path):
            yield from ("--symlink", os.readlink(path), path)
        elif os.path.exists(path):
            yield from ("--ro-bind", path, path)
    for path in _ALSO:
        yield from ("--ro-bind-try", path, path)
    for path in (*_interpreter(), str(_INSIDE / "inside")):
        # A home folder above it is 0700, and programs have another user.
        for parent in reversed(Path(path).parents[:-1]):
            if not parent.is_relative_to("/usr"):
                yield from ("--perms", "0755", "--dir", str(parent))
        yield from ("--ro-bind", path, path)


def _interpreter() -> list[str]:
    """Folders of this interpreter and its packages that are not in the system's."""
    found: list[str] = []
    executable = Path(sys.executable)
    links = [executable.parent]
    while executable.is_symlink():
        executable = executable.parent / os.readlink(executable)
        links.append(Path(os.path.normpath(executable.parent)))
    for path in (sys.base_prefix, sys.prefix, sys.base_exec_prefix, *map(str, links)):
        for one in (path, os.path.realpath(path)):
            within = any(Path(one).is_relative_to(other) for other in ("/usr", *found))
            if not within and os.path.isdir(one) and one != "/":
                found.append(one)
    return found


def _docker(
    image: str, limits: ProgramLimits, environment: Mapping[str, str]
) -> Iterator[str]:
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    yield _program("docker", "podman")
    yield from ("run", "--rm", "--interactive", "--pull", "never")
    yield from ("--label", "pytest-model-evals")
    yield from ("--network", "none", "--read-only", "--cap-drop", "ALL")
    yield from ("--security-opt", "no-new-privileges", "--user", "65534:65534")
    yield from ("--memory", str(limits.memory_bytes + (256 << 20)))
    yield from ("--memory-swap", str(limits.memory_bytes + (256 << 20)))
    yield from ("--pids-limit", str(limits.processes + 8), "--cpus", "2")
    yield from ("--tmpfs", f"/tmp:rw,nosuid,nodev,mode=1777,size={limits.disk_bytes}")
    yield from ("--volume", f"{_INSIDE / 'inside'}:/sandbox/inside:ro")
    yield from ("--workdir", "/tmp", "--ipc", "none")
    for name, value in environment.items():
        if name != "PATH":
            yield from ("--env", f"{name}={value}")
    yield image or f"python:{version}-slim"
    yield from ("python", "-s", "-P", "-c", _START, "/sandbox", *_MODULES)


def _program(*names: str) -> str:
    found = next(filter(None, map(shutil.which, names)), None)
    if found is None:
        raise SandboxError(f"{' or '.join(names)} is not installed")
    return found
