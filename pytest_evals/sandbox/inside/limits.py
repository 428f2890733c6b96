"""Limits of a process, set in the process itself before it runs a program."""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import sys
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from typing import Any

_PDEATHSIG, _DUMPABLE, _KEEPCAPS, _NO_NEW_PRIVS, _SUBREAPER = 1, 4, 8, 38, 36
_AMBIENT, _AMBIENT_RAISE = 47, 2
_READ_SEARCH = 2
"""CAP_DAC_READ_SEARCH: read files regardless of their permissions."""
FIRST_UID = 0x6000_0000
"""First number of users that exist on no machine."""
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
    """Become an unprivileged user, if this is root.

    The limit on processes is not applied to root. An interpreter in root's home would
    be unreadable afterwards: then the right to read files is kept.

    ``uid``: the user; 0 if there is no other."""
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
