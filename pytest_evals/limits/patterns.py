"""Regular expressions with a time limit and Python's own semantics.

A search that is sure to end soon runs in this process. Any other runs in a worker
process, which can be killed; calling it takes about 50 microseconds.
"""

from __future__ import annotations

import atexit
import marshal
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from threading import Lock
from typing import Any

from pytest_evals.errors import DocumentError
from pytest_evals.limits.pattern_helper import LENGTH, METHODS, MOST_CHARACTERS
from pytest_evals.limits.pattern_work import longest_text

SECONDS = 2.0
"""Processor time for one call."""
_STEPS = 1e8
"""Maximum steps in this process: less than a second."""


class PatternLimitError(DocumentError):
    """A regular expression exceeds the time limit or creates too long a string."""


@dataclass(frozen=True, slots=True)
class BoundedPattern:
    """A regular expression with a time limit.

    Args:
        regex: The pattern as compiled by ``re``.
        longest: Maximum string length that is searched in this process.
    """

    regex: re.Pattern[str]
    longest: int

    @property
    def pattern(self) -> str:
        """Return the source of the pattern."""
        return self.regex.pattern

    def findall(self, text: str) -> list[Any]:
        """Like ``re.Pattern.findall``; this and all other methods raise
        :class:`PatternLimitError` if the time limit is exceeded."""
        found: list[Any] = self._done("findall", text)
        return found

    def is_in(self, text: str) -> bool:
        """Return whether ``re.Pattern.search`` finds a match."""
        return bool(self._done("is_in", text))

    def matches(self, text: str) -> list[tuple[int, int, tuple[str, ...]]]:
        """Return start, end and groups of each match of ``re.Pattern.finditer``."""
        found: list[tuple[int, int, tuple[str, ...]]] = self._done("matches", text)
        return found

    def split(self, text: str) -> list[Any]:
        """Like ``re.Pattern.split``."""
        found: list[Any] = self._done("split", text)
        return found

    def sub(self, replacement: str, text: str, count: int = 0) -> str:
        """Like ``re.Pattern.sub``; the length of the result is limited."""
        groups = replacement.count("\\") * len(text)
        most = (len(text) + 1) * (len(replacement) + groups + 1)
        if len(text) <= self.longest and most <= MOST_CHARACTERS:
            return self.regex.sub(replacement, text, count)
        return str(self._asked("sub", replacement, text, count))

    def _done(self, method: str, text: str) -> Any:
        if len(text) <= self.longest:
            return METHODS[method](self.regex, text)
        return self._asked(method, text)

    def _asked(self, method: str, *arguments: str | int) -> Any:
        plain = [one if isinstance(one, int) else str(one) for one in arguments]
        asked = (SECONDS, self.pattern, self.regex.flags, method, plain)
        try:
            kind, found = _helper().ask(marshal.dumps(asked))
        except EOFError:
            kind = "TimeoutError"
        except OSError:  # this machine starts no process
            return METHODS[method](self.regex, *plain)
        if not kind:
            return found
        if kind == "IndexError":
            raise IndexError(found)
        if kind not in ("TimeoutError", "MemoryError", "RecursionError"):
            raise re.error(str(found))
        what = f"the regular expression {_short(self.pattern)}"
        n = max(len(one) for one in plain if isinstance(one, str))
        where = f"on a text of {n:,} characters"
        if kind != "TimeoutError":
            raise PatternLimitError(f"{what} needs too much memory {where}")
        raise PatternLimitError(
            f"{what} takes more than {SECONDS:g} s {where}; write it without "
            "repetition inside of repetition"
        )


def compiled(pattern: str, flags: int = 0) -> BoundedPattern:
    """Return the compiled pattern.

    Raises:
        re.error: It is not a valid regular expression.
    """
    try:
        return _compiled(pattern, int(flags))
    except (OverflowError, RecursionError, MemoryError) as error:
        raise re.error(str(error) or "it is too large", pattern) from None


@lru_cache(maxsize=1024)
def _compiled(pattern: str, flags: int) -> BoundedPattern:
    regex = re.compile(pattern, flags)
    return BoundedPattern(regex, longest_text(regex, _STEPS))


class _Helper:
    """The worker process; one call at a time."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._process: subprocess.Popen[bytes] | None = None

    def ask(self, request: bytes) -> tuple[str, Any]:
        """Return the reply to a request.

        Raises:
            EOFError: The process ended because the request exceeds a limit.
            OSError: It cannot be started.
        """
        with self._lock:
            if self._process is None or self._process.poll() is not None:
                self.end()
                self._process = _started()
            reply = b""
            try:
                reply = _exchanged(self._process, request)
            finally:
                if not reply:
                    self.end()
        found: tuple[str, Any] = marshal.loads(reply)
        return found

    def end(self) -> None:
        """End the process; the next request starts a new one."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            with process:
                process.wait()

    def leave(self) -> None:
        """Forget the process after a fork, because it belongs to the parent."""
        if self._process is not None:
            self._process.returncode = 0


def _exchanged(process: subprocess.Popen[bytes], request: bytes) -> bytes:
    requests, replies = process.stdin, process.stdout
    assert requests is not None and replies is not None
    try:
        requests.write(LENGTH.pack(len(request)) + request)
        requests.flush()
    except BrokenPipeError:
        raise EOFError from None
    head = replies.read(LENGTH.size)
    reply = replies.read(*LENGTH.unpack(head)) if len(head) == LENGTH.size else b""
    if not reply or len(reply) < LENGTH.unpack(head)[0]:
        raise EOFError
    return reply


def _started() -> subprocess.Popen[bytes]:
    script = Path(__file__).with_name("pattern_helper.py")
    return subprocess.Popen(
        [sys.executable, "-I", "-S", str(script)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )


@lru_cache(maxsize=1)
def _helper() -> _Helper:
    helper = _Helper()
    atexit.register(helper.end)
    return helper


def _leave() -> None:
    if _helper.cache_info().currsize:
        _helper().leave()
        _helper.cache_clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leave)


def _short(pattern: str) -> str:
    return repr(pattern if len(pattern) <= 80 else f"{pattern[:79]}…")
