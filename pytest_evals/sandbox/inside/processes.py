"""Limits of a process, set in the process itself before it runs a program; the
descendants of this process: their memory, and ending them all."""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import cache
from typing import Any

_PDEATHSIG, _DUMPABLE, _KEEPCAPS, _NO_NEW_PRIVS, _SUBREAPER = 1, 4, 8, 38, 36
_AMBIENT, _AMBIENT_RAISE = 47, 2
_READ_SEARCH = 2  # CAP_DAC_READ_SEARCH: read files regardless of their permissions
FIRST_UID = 0x6000_0000  # first number of users that exist on no machine
_VERSION_3 = 0x20080522


def prctl(option: int, *values: int) -> bool:
    """Call ``prctl``; return whether it worked, which it does on Linux only."""
    if sys.platform != "linux":
        return False
    call = ctypes.CDLL(None, use_errno=True).prctl
    rest = [ctypes.c_ulong(value) for value in (*values, 0, 0, 0, 0)[:4]]
    return bool(call(option, *rest) == 0)


def adopt_orphans() -> None:
    """Become the parent of descendants whose own parent ends."""
    prctl(_SUBREAPER, 1)


def hide_memory() -> None:
    """Refuse ptrace and ``/proc`` access by processes of the same user."""
    prctl(_DUMPABLE, 0)


def die_with_parent(parent: int) -> None:
    """End when the server ends."""
    prctl(_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def drop_root(uid: int) -> None:
    """Become an unprivileged user, if this is root. The limit on processes is not
    applied to root. An interpreter in root's home would be unreadable afterwards: then
    the right to read files is kept. ``uid``: the user; 0 if there is no other."""
    if os.geteuid() != 0 or not uid:
        prctl(_NO_NEW_PRIVS, 1)
        return
    reads = interpreter_is_readable()
    if not reads:
        prctl(_KEEPCAPS, 1)
    with suppress(PermissionError):  # of namespaces without groups
        os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)
    if not reads:
        _keep_only(_READ_SEARCH)
    prctl(_NO_NEW_PRIVS, 1)


def unprivileged_users() -> tuple[int, int]:
    """Return users of a program and of its tests: numbers that exist on no machine, or
    in a namespace with fewer users its last ones; 0 if it has root only."""
    first = FIRST_UID + os.getpid() % 0x1000_0000
    try:
        with open("/proc/self/uid_map", encoding="ascii") as file:
            ranges = [[int(word) for word in line.split()] for line in file]
    except OSError:
        return first, first + 0x1000_0000
    if any(low <= FIRST_UID and low + n > 2 * FIRST_UID for low, _, n in ranges):
        return first, first + 0x1000_0000
    last = max((low + n - 1 for low, _, n in ranges), default=0)
    return last, max(0, last - 1)


@cache
def interpreter_is_readable() -> bool:
    """Return whether every user can read the interpreter."""
    return all(map(_is_readable_by_all, (os.__file__, sys.executable)))


def _is_readable_by_all(path: str) -> bool:
    path = os.path.realpath(path)
    while path != os.path.dirname(path):
        path = os.path.dirname(path)
        if not os.stat(path).st_mode & 0o001:
            return False
    return True


def _keep_only(capability: int) -> None:
    bits = 1 << capability
    head = (ctypes.c_uint32 * 2)(_VERSION_3, 0)
    # Effective, permitted and inheritable of the capabilities 0 to 31, then 32 to 63.
    sets = (ctypes.c_uint32 * 6)(bits, bits, bits, 0, 0, 0)
    ctypes.CDLL(None).capset(head, sets)
    prctl(_AMBIENT, _AMBIENT_RAISE, capability)


def apply_limits(limits: Mapping[str, Any], n_threads: int) -> None:
    """Set the limits of this process and its descendants. ``limits``: fields of
    ``ProgramLimits``. ``n_threads``: threads that the user runs already, which count as
    processes."""
    cpu = max(1, int(limits["cpu_s"]))
    for name, soft, hard in (
        ("RLIMIT_CORE", 0, 0),
        ("RLIMIT_CPU", cpu, cpu + 1),
        ("RLIMIT_FSIZE", limits["file_bytes"], limits["file_bytes"]),
        ("RLIMIT_NOFILE", limits["open_files"], limits["open_files"]),
        ("RLIMIT_MEMLOCK", 0, 0),
        ("RLIMIT_MSGQUEUE", 0, 0),
        ("RLIMIT_NPROC", *[n_threads + limits["processes"]] * 2),
        ("RLIMIT_AS", limits["memory_bytes"], limits["memory_bytes"]),
    ):
        number = getattr(resource, name, None)
        if number is None:
            continue
        ceiling = resource.getrlimit(number)[1]
        if ceiling != resource.RLIM_INFINITY:
            soft, hard = min(soft, ceiling), min(hard, ceiling)
        resource.setrlimit(number, (soft, hard))


_PAGE = os.sysconf("SC_PAGE_SIZE")
_KILL_S = 10.0


def children(pid: int) -> list[int]:
    """Return the children of a process; on Linux only, elsewhere none."""
    if not _HAS_CHILDREN:
        return [one for one, parent in _parents() if parent == pid]
    try:
        with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
            return [int(word) for word in file.read().split()]
    except (OSError, ValueError):
        return []


_HAS_CHILDREN = os.path.exists(f"/proc/self/task/{os.getpid()}/children")


def _parents() -> Iterator[tuple[int, int]]:
    """Yield all processes with their parents, for kernels without lists of children."""
    names = os.listdir("/proc") if os.path.isdir("/proc") else []
    for name in filter(str.isdigit, names):
        with suppress(OSError, ValueError, IndexError):
            with open(f"/proc/{name}/stat", "rb") as file:
                words = file.read().rpartition(b")")[2].split()
            yield int(name), int(words[1])


def descendants(pid: int) -> Iterator[int]:
    """Yield all descendants of a process, parents first."""
    for child in children(pid):
        yield child
        yield from descendants(child)


def memory(pid: int) -> int:
    """Return the resident memory of a process without shared pages, in bytes."""
    try:
        with open(f"/proc/{pid}/statm", encoding="ascii") as file:
            words = file.read().split()
        return (int(words[1]) - int(words[2])) * _PAGE
    except (OSError, ValueError, IndexError):
        return 0  # it has ended


def n_threads(uid: int) -> int:
    """Return the number of threads of a user; an upper limit outside Linux."""
    if sys.platform != "linux":
        return 4096
    total = 0
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                if os.stat(f"/proc/{name}").st_uid == uid:
                    total += len(os.listdir(f"/proc/{name}/task"))
            except OSError:
                continue
    return total


def end_all(uid: int, groups: list[int]) -> None:
    """Kill and reap every descendant. One that does not end in time, as in a system
    call of a broken disk, is tried again after the next program. ``uid``: the user of
    the descendants, if they have one of their own; else 0. ``groups``: process groups
    of the children, for systems without ``/proc``."""
    end = time.monotonic() + _KILL_S
    for group in groups:
        _kill(-group, signal.SIGKILL)
    while not _reaped() or children(os.getpid()):
        if time.monotonic() > end:
            return
        found = [one for one in descendants(os.getpid()) if one not in groups]
        if found and uid >= FIRST_UID:  # others may have processes of their own
            _kill_user(uid)
        # Stopped first: a stopped process does not fork while the others are killed.
        for number in (signal.SIGSTOP, signal.SIGKILL):
            for pid in found:
                _kill(pid, number)
        time.sleep(0.0005)


def _kill_user(uid: int) -> None:
    """Kill all processes of a user at once, from a process of this user."""
    pid = os.fork()
    if pid == 0:
        try:
            os.setresuid(uid, uid, uid)
            if os.getuid() == os.geteuid() == uid != 0:  # -1 as root is everybody
                os.kill(-1, signal.SIGKILL)
        finally:
            os._exit(0)
    os.waitpid(pid, 0)


def _kill(pid: int, number: int) -> None:
    with suppress(ProcessLookupError, PermissionError):  # it has ended
        os.kill(pid, number)


def _reaped() -> bool:
    """Reap ended children; return whether no child is left."""
    while True:
        try:
            pid, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return True
        if pid == 0:
            return False
