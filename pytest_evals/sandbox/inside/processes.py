"""The descendants of this process: their memory, and ending them all."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import suppress

from .limits import FIRST_UID

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
        return 0


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
