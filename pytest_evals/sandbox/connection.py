"""One server process of the sandbox, and jobs for it."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from pytest_evals.sandbox.inside.values import frame, read_frame
from pytest_evals.sandbox.levels import SandboxError, ServerStart

_START_S = 60.0
_GRACE_S = 30.0
"""Seconds beyond the time limit in which a server ends all processes and replies."""


class ServerEnded(Exception):
    """The server ended while it ran a program."""


class ServerConnection:
    """A server process. Raises :class:`SandboxError` if it does not start."""

    def __init__(self, start: ServerStart) -> None:
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed in `close`
        try:
            self._process = subprocess.Popen(
                start.command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._errors,
                env=dict(start.environment),
                cwd="/",
                bufsize=0,
                start_new_session=True,
            )
        except OSError as error:
            raise SandboxError(str(error)) from None
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._in = self._process.stdin.fileno()
        self._out = self._process.stdout.fileno()
        os.set_blocking(self._in, False)
        try:
            self._reply(_START_S)
        except ServerEnded:
            self.close()
            raise SandboxError(self.complaint or "it ended at once") from None

    def run(
        self, mode: str, limits: Mapping[str, Any], codes: Sequence[Any]
    ) -> dict[str, Any]:
        """Run a job; return the server's reply. Raises ServerEnded if a program ended
        the server."""
        header = frame({"mode": mode, "limits": dict(limits)})
        try:
            self._send(b"".join([header, *map(frame, codes)]))
            return self._reply(limits["wall_s"] + _GRACE_S)
        except (OSError, ServerEnded):
            self.close()
            raise ServerEnded from None

    def _send(self, data: bytes) -> None:
        """Write a job; a program may end before its tests are written."""
        view = memoryview(data)
        end = time.monotonic() + _START_S
        while view:
            _, ready, _ = select.select([], [self._in], [], 1)
            if ready:
                view = view[os.write(self._in, view) :]
            elif time.monotonic() > end or self._process.poll() is not None:
                raise ServerEnded

    def _reply(self, seconds: float) -> dict[str, Any]:
        if not select.select([self._out], [], [], seconds)[0]:
            raise ServerEnded
        try:
            reply = read_frame(self._out)
        except (EOFError, ValueError):
            raise ServerEnded from None
        assert isinstance(reply, dict)
        return reply

    complaint = ""
    """The line on standard error with the reason for its end, once it is closed."""

    def close(self) -> None:
        """End the server, and with it all that it started."""
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()
        try:
            self._process.wait(0.5)
        except subprocess.TimeoutExpired:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        with self._errors as file:
            file.seek(0)
            text = file.read(65536).decode("utf-8", "replace").strip()
        lines = text.split("\n")
        self.complaint = lines[-1 if text.startswith("Traceback") else 0]
