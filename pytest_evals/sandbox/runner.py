"""Run programs in isolation, several at once."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, Protocol, TypeVar

from pytest_evals.errors import EvalsError
from pytest_evals.sandbox.connection import ServerConnection, ServerEnded
from pytest_evals.sandbox.inside.values import decode, has_no_data
from pytest_evals.sandbox.levels import (
    CONFINED,
    LevelName,
    ProgramLimits,
    SandboxError,
    ServerStart,
    start_of,
)
from pytest_evals.sandbox.source_scan import needs_one_process

S = TypeVar("S")
T = TypeVar("T")

_MEND = {"bwrap": "install bubblewrap", "docker": "start its daemon and pull the image"}
"""Level → what makes it work."""
CONSENT = (
    "pass --evals-allow-unsafe-code to run it on this machine with your permissions"
)
"""How code may run without a security boundary."""
_LONGEST_STORED = 1 << 18  # characters; results with more output run again


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeResult:
    """How a program ended."""

    stdout: str  # standard output, truncated at the limit
    stderr: str  # standard error, likewise
    exit_code: int | None  # exit code; negative for a signal; ``None`` if it was killed
    reason: str
    """``timeout``, ``memory``, ``processes``, ``disk``, ``output`` or ``supervisor`` if
    a limit ended it; else empty."""
    seconds: float  # duration
    level: str  # the level of isolation

    @property
    def ok(self) -> bool:
        """Whether it ended on its own with exit code 0."""
        return not self.reason and self.exit_code == 0


class Verdicts(Protocol):
    """Verdicts and results of earlier runs. A job is the JSON of a program with all
    that its result depends on."""

    def find(self, level: str, jobs: Sequence[str]) -> list[str | None]:
        """Return the stored text of each job."""

    def keep(self, level: str, job: str, text: str) -> None:
        """Store the text of a job."""


class Sandbox:
    """Runs programs at one level of isolation. ``level``: ``auto`` for ``bwrap`` where
    it works, else ``process``. ``image``: image of the level ``docker``. ``consents``:
    whether code may run without a security boundary."""

    def __init__(
        self, level: LevelName = "auto", *, image: str = "", consents: bool = False
    ) -> None:
        self.consents = consents
        self.limits = ProgramLimits()
        self.n_programs = 0
        self.verdicts: Verdicts | None = None
        """Stored verdicts; ``None`` without a store."""
        self.is_expected = False
        """Whether a task runs programs, here or in another process of the session."""
        self._requested, self._image = level, image
        self._idle: list[ServerConnection] = []
        # Programs run in several threads, which share the servers and the store.
        self._lock, self._stored_lock = threading.Lock(), threading.Lock()
        self._owner = os.getpid()

    @cached_property
    def _start(self) -> ServerStart:
        """How servers start; the level is tried once. Raises SandboxError if the
        requested level does not work."""
        if self._requested != "auto":
            return self._tried(self._requested)
        try:
            return self._tried("bwrap")
        except SandboxError as error:
            self.fallback = str(error)
        return self._tried("process")

    fallback = ""  # why ``auto`` does not use ``bwrap``

    def _tried(self, level: LevelName) -> ServerStart:
        try:
            start = start_of(level, self._image, self.limits)
            if level in CONFINED:
                self._idle.append(ServerConnection(start))
        except SandboxError as error:
            message = f"the sandbox {level!r} does not work here: {error}"
            if level == self._requested:
                message += f"\n  fix: {_MEND[level]}, or pass --evals-sandbox=auto"
            raise SandboxError(message) from None
        return start

    @property
    def level(self) -> LevelName:
        """The level in force."""
        return self._start.level

    @property
    def is_boundary(self) -> bool:
        """Whether the level is a security boundary."""
        return self.level in CONFINED

    def may_run(self, *, consents: bool) -> bool:
        """Return whether a task may run programs of a model here. ``consents``: whether
        the task's options allow it at every level."""
        self.is_expected = True
        return consents or self.consents or self.is_boundary

    def check_consent(self) -> None:
        """Require consent for code that a model wrote. Raises EvalsError if the level
        is not a security boundary, and consent is missing."""
        if not (self.consents or self.is_boundary):
            why = f": {self.fallback}" if self.fallback else ""
            raise EvalsError(
                f"code written by a model would run without a security boundary{why}\n"
                f"  fix: {self.remedy}"
            )

    @property
    def remedy(self) -> str:
        """How programs can be allowed: with consent, or at a level that is a security
        boundary, if its program is installed or can be."""
        remedies = []
        if sys.platform == "linux" and not shutil.which("bwrap"):
            remedies.append("install bubblewrap, which isolates it")
        elif self._requested in ("process", "off") and shutil.which("bwrap"):
            remedies.append("--evals-sandbox=bwrap to isolate it")
        if shutil.which("docker") or shutil.which("podman"):
            remedies.append("--evals-sandbox=docker")
        return ", or ".join([CONSENT, *remedies])

    def run(
        self,
        code: str,
        *,
        stdin: str = "",
        files: Mapping[str, str | bytes] | None = None,
        limits: ProgramLimits | None = None,
    ) -> CodeResult:
        """Run a complete program."""
        data = {
            name: (text.encode() if isinstance(text, str) else text).hex()
            for name, text in (files or {}).items()
        }
        job = {"code": code, "stdin": stdin, "files": data}
        reply = self._stored("script", limits, job)
        return CodeResult(
            stdout=reply["stdout"],
            stderr=reply["stderr"],
            exit_code=reply["exit"],
            reason=reply["reason"],
            seconds=reply["wall_s"],
            level=self.level,
        )

    def call(
        self, code: str, name: str, arguments: Sequence[Any], limits: ProgramLimits
    ) -> tuple[bool, Any]:
        """Call a function of a program with JSON values; return whether it returned
        plain data, and the data."""
        job = {"code": code, "call": name, "arguments": list(arguments)}
        reply = self._stored("call", limits, job)
        if reply["reason"]:
            return False, None
        try:
            return True, decode(reply["report"]["value"], has_no_data)
        except (ValueError, KeyError, TypeError, RecursionError):
            return False, None

    def test(self, code: str, tests: str, timeout: float) -> str:
        """Run tests of a program; return ``passed``, ``timed out`` or ``failed:
        REASON``."""
        limits = self.limits.within(timeout)
        if not needs_one_process(tests):
            codes = [{"code": code}, {"tests": tests}]
            verdict = self._verdict(self._job("tests", limits, codes))
            if not verdict.startswith("cannot cross"):
                return verdict
        secret = secrets.token_hex()
        job = {"code": code, "tests": tests, "secret": secret}
        return self._verdict(self._job("together", limits, [job]), secret)

    def test_all(self, pairs: Sequence[tuple[str, str]], timeout: float) -> list[str]:
        """Run tests of several programs, as many at once as there are processors."""
        jobs = [json.dumps([*pair, timeout]) for pair in pairs]
        known = self._find(jobs)

        def tested(at: int) -> str:
            text = self.test(*pairs[at], timeout)
            if text != "timed out":
                self._keep(jobs[at], text)
            return text

        new = [at for at, text in enumerate(known) if text is None]
        made = dict(zip(new, in_parallel(tested, new), strict=True))
        return [made[at] if text is None else text for at, text in enumerate(known)]

    def _find(self, jobs: Sequence[str]) -> list[str | None]:
        if self.verdicts is None:
            return [None] * len(jobs)
        with self._stored_lock:
            return self.verdicts.find(self.level, jobs)

    def _keep(self, job: str, text: str) -> None:
        if self.verdicts is not None and len(text) <= _LONGEST_STORED:
            with self._stored_lock:
                self.verdicts.keep(self.level, job, text)

    def _stored(
        self, mode: str, limits: ProgramLimits | None, job: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Return the stored reply to a job, or run it. Timeouts depend on the machine's
        load and are not stored."""
        name = json.dumps([mode, job, (limits or self.limits).wall_s])
        (text,) = self._find([name])
        if text is not None:
            return dict(json.loads(text))
        reply = self._job(mode, limits, [job])
        if reply["reason"] not in ("timeout", "supervisor"):
            self._keep(name, json.dumps(reply))
        return reply

    def _verdict(self, reply: Mapping[str, Any], secret: str | None = None) -> str:
        if reply["reason"] == "timeout":
            return "timed out"
        report = reply["report"]
        text = report.get("outcome") if isinstance(report, dict) else None
        if not isinstance(text, str) or (secret and report.get("secret") != secret):
            return f"failed: {reply['reason'] or 'the program ended before its tests'}"
        return text

    def _job(
        self, mode: str, limits: ProgramLimits | None, codes: Sequence[Any]
    ) -> dict[str, Any]:
        values = {**asdict(limits or self.limits), "enforced": self.level != "off"}
        self.n_programs += 1
        for _ in range(2):  # once more, if something else ended the server
            connection = self._connection()
            try:
                reply = connection.run(mode, values, codes)
            except ServerEnded:
                continue
            self._release(connection)
            return {**reply, "report": _report(bytes.fromhex(reply["report"]))}
        message = "the program ended the process that supervises it"
        return {
            "exit": None, "reason": "supervisor", "stdout": "", "wall_s": 0.0,
            "stderr": message, "report": None,
        }  # fmt: skip

    def _connection(self) -> ServerConnection:
        start = self._start
        with self._lock:
            if self._owner != os.getpid():  # a forked process has its own servers
                self._idle, self._owner = [], os.getpid()
            if self._idle:
                return self._idle.pop()
        return ServerConnection(start)

    def _release(self, connection: ServerConnection) -> None:
        if self._start.one_job:
            connection.close()
            return
        with self._lock:
            self._idle.append(connection)

    def close(self) -> None:
        """End all servers."""
        with self._lock:
            idle, self._idle = self._idle, []
        for one in idle if self._owner == os.getpid() else ():
            one.close()


def in_parallel(function: Callable[[S], T], given: Sequence[S]) -> list[T]:
    """Call a function that waits for programs for each argument, as many at once as
    there are processors."""
    with ThreadPoolExecutor(max(1, min(len(given), _processors()))) as pool:
        return [*pool.map(function, given)]


def _processors() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _report(data: bytes) -> Any:
    """Return the JSON that a program's process wrote; ``None`` if it is invalid."""
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return None
