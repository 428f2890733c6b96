"""A warm server: forks a process for each program, enforces its limits, ends all of
its descendants, and reports.

Jobs arrive on descriptor 0 as a header, which is read here, and the code, which only
the forked processes read. Replies leave on a copy of descriptor 1. The server has one
thread and runs one job at a time.
"""

from __future__ import annotations

import gc
import importlib
import os
import select
import signal
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import lru_cache
from typing import Any, NamedTuple

from . import program
from .processes import (
    adopt_orphans,
    descendants,
    end_all,
    hide_memory,
    interpreter_is_readable,
    memory,
    n_threads,
    unprivileged_users,
)
from .values import frame, read_frame, write_all

_POLL_S = 0.002  # interval at which a process without a descriptor is checked
_CONTROL = 0  # descriptor of jobs; the session has ended when it is closed
_LONGEST_REPORT = 1 << 24
_PEEK = os.WEXITED | os.WNOHANG | os.WNOWAIT
_WATCH_S = 0.05  # interval at which memory and disk are measured


class ForkedProcess(NamedTuple):
    """A process of a program or its tests. ``handle``: its descriptor, -1 without one;
    ``report``: the pipe of its report."""

    pid: int
    handle: int
    report: int


class ProgramRun:
    """One program with its tests."""

    def __init__(self, header: Mapping[str, Any]) -> None:
        self.mode: str = header["mode"]
        self.limits: Mapping[str, Any] = header["limits"]
        self.folder = _new_folder()
        self.uid = self._uid_of_tests = 0
        self._outputs: dict[int, bytearray] = {}
        self._report = bytearray()
        self._processes: list[ForkedProcess] = []
        self.reason = ""
        self._start = time.monotonic()

    def run(self) -> dict[str, Any]:
        """Run it to its end; return the reply."""
        try:
            code = self._run()
        finally:
            end_all(self.uid, [one.pid for one in self._processes])
            _remove(self.folder)
        self._drain()
        for _, handle, report in self._processes:
            os.close(report)
            if handle >= 0:
                os.close(handle)
        for descriptor in self._outputs:
            os.close(descriptor)
        out, err = (one.decode("utf-8", "replace") for one in self._outputs.values())
        return {
            "exit": code,
            "reason": self.reason,
            "wall_s": time.monotonic() - self._start,
            "stdout": out,
            "stderr": err,
            "report": self._report.hex(),
        }

    def _run(self) -> int | None:
        out, err = os.pipe(), os.pipe()
        self._outputs = {out[0]: bytearray(), err[0]: bytearray()}
        if os.geteuid() == 0:
            self.uid, self._uid_of_tests = unprivileged_users()
        counted = 0 if self.uid else _threads_of(os.getuid(), int(time.monotonic()))
        writers = (out[1], err[1])
        if self.mode == "tests":
            import socket

            ends = [one.detach() for one in socket.socketpair()]
            self._fork("serve", ends[0], writers, counted)
            os.close(ends[0])
            self._fork("tests", ends[1], writers, counted)
            os.close(ends[1])
        else:
            self._fork(self.mode, -1, writers, counted)
        for writer in writers:
            os.close(writer)
        return self._watch(self._processes[-1])

    def _fork(
        self, mode: str, peer: int, writers: tuple[int, int], counted: int
    ) -> None:
        """Fork a process and wait until it has read its code."""
        reader, writer = os.pipe()
        parent = os.getpid()
        pid = os.fork()
        if pid == 0:
            # Tests get a user of their own: the program cannot signal them.
            uid = self._uid_of_tests if mode == "tests" else self.uid
            program.run(
                mode,
                program.ProgramSetup(
                    report=writer,
                    peer=peer,
                    output=writers,
                    folder=self.folder if mode != "tests" else "/",
                    uid=uid,
                    n_threads=counted,
                    parent=parent,
                    limits=self.limits,
                ),
            )
        os.close(writer)
        read_frame(reader)
        self._processes.append(ForkedProcess(pid, _pidfd(pid), reader))

    def _watch(self, main: ForkedProcess) -> int | None:
        """Wait for the main process; return its exit code, negative for a signal."""
        poll = select.poll()
        poll.register(_CONTROL, select.POLLHUP)
        if main.handle >= 0:
            poll.register(main.handle, select.POLLIN)
        for descriptor in (*self._outputs, main.report):
            poll.register(descriptor, select.POLLIN)
        end = self._start + self.limits["wall_s"]
        watch = self._start + _WATCH_S
        while not self.reason:
            now = time.monotonic()
            if now >= end:
                self.reason = "timeout"
                break
            if now >= watch:
                watch = now + max(_WATCH_S, 10 * self._measure())
            pause = min(end, watch) - now
            if main.handle < 0:
                pause = min(pause, _POLL_S)
            ready = poll.poll(max(1, 1000 * pause))
            for descriptor in self._exhausted(ready, main):
                poll.unregister(descriptor)
            if _has_ended(main, ready):
                return self._exit_code(main)
        return None

    def _exhausted(
        self, ready: list[tuple[int, int]], main: ForkedProcess
    ) -> Iterator[int]:
        """Read available data; yield descriptors at their end. Ends this process if the
        session has ended."""
        for descriptor, event in ready:
            if descriptor == _CONTROL:
                if event & (select.POLLHUP | select.POLLERR):
                    end_all(self.uid, [])
                    _remove(self.folder)
                    os._exit(1)
            elif descriptor != main.handle and not self._read(descriptor):
                yield descriptor

    def _exit_code(self, main: ForkedProcess) -> int:
        _, status = os.waitpid(main.pid, 0)
        code = os.waitstatus_to_exitcode(status)
        if code == -signal.SIGXCPU:
            self.reason = "timeout"
        return code

    def _read(self, descriptor: int) -> bool:
        """Read available data; return whether more may come."""
        data = os.read(descriptor, 65536)
        kept, most = self._report, _LONGEST_REPORT
        if descriptor in self._outputs:
            kept, most = self._outputs[descriptor], self.limits["output_bytes"]
        kept += data[: most - len(kept)]
        if len(kept) >= most:
            self.reason = "output"
        return bool(data)

    def _drain(self) -> None:
        """Read the rest of the output, once nobody writes any more."""
        for descriptor in (*self._outputs, self._processes[-1].report):
            while self.reason != "output" and select.select([descriptor], [], [], 0)[0]:
                if not self._read(descriptor):
                    break

    def _measure(self) -> float:
        """Compare memory and disk with their limits; return the seconds it took."""
        start = time.monotonic()
        if self.limits["enforced"]:
            found = list(descendants(os.getpid()))
            if len(found) > self.limits["processes"] + len(self._processes):
                self.reason = "processes"
            elif sum(map(memory, found)) > self.limits["memory_bytes"]:
                self.reason = "memory"
            elif _disk(self.folder) > self.limits["disk_bytes"]:
                self.reason = "disk"
        return time.monotonic() - start


def _has_ended(process: ForkedProcess, ready: list[tuple[int, int]]) -> bool:
    if process.handle < 0:
        return os.waitid(os.P_PID, process.pid, _PEEK) is not None
    return any(descriptor == process.handle for descriptor, _ in ready)


def _pidfd(pid: int) -> int:
    """Return a descriptor of a process; -1 where the system has none."""
    try:
        return os.pidfd_open(pid)
    except (OSError, AttributeError):
        return -1


def _disk(folder: str) -> int:
    total = 0
    for root, _, files in os.walk(folder):
        for name in files:
            with suppress(OSError):
                total += os.lstat(os.path.join(root, name)).st_blocks * 512
    return total


def _new_folder() -> str:
    base = os.environ.get("TMPDIR", "/tmp")
    folder = os.path.join(base, f"program-{os.urandom(8).hex()}")
    os.mkdir(folder, 0o700)
    return folder


def _remove(folder: str) -> None:
    """Remove a program's folder; symbolic links are not followed."""
    with suppress(OSError):
        os.rmdir(folder)
        return
    import shutil

    shutil.rmtree(folder, ignore_errors=True)


_threads_of = lru_cache(maxsize=1)(lambda uid, second: n_threads(uid))
"""Counts a user's threads, once a second."""


def main(modules: list[str]) -> None:
    """Answer jobs until the session closes the pipe. ``modules``: imported once, for
    programs that import them."""
    sys.stdout.flush()
    replies = os.dup(1)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    hide_memory()
    adopt_orphans()
    interpreter_is_readable()  # computed once, not in each process
    for name in modules:
        with suppress(ImportError):
            importlib.import_module(name)
    if modules:
        # Forked processes do not write to the pages of these objects.
        gc.collect()
        gc.freeze()
    write_all(replies, frame({"ready": True}))
    while True:
        try:
            header = read_frame(_CONTROL)
        except EOFError:
            return
        write_all(replies, frame(ProgramRun(header).run()))
