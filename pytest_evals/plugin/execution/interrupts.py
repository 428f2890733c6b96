"""Ctrl-C and SIGTERM end a session in order: nothing further is sent, the responses to
requests in flight are stored, and the summary is shown. Another Ctrl-C ends the wait
for these responses.

A single worker of pytest-xdist that receives SIGTERM, such as from an out-of-memory
guard, still exits by the signal, so that its shard runs again; but it first sends its
reports and stores its responses.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Generator
from contextlib import ExitStack, suppress
from pathlib import Path
from types import TracebackType
from typing import Any

import pytest

from pytest_evals.core.threads import interrupt_main, repeating_interrupts
from pytest_evals.errors import plural
from pytest_evals.plugin.session import EvalSession

INTERRUPTED = "interrupted"
"""File next to the stop file of workers: the controller was interrupted. It contains
the number of seconds that workers may wait for requests in flight."""
SIGTERM_S = 8.0
"""Seconds to wait for requests in flight after SIGTERM; Docker kills after 10."""
_LOOK_S = 0.2  # seconds between two looks of a worker for that file


class Interrupts:
    """Handles SIGTERM and repeated Ctrl-C, as a pytest plugin."""

    def __init__(self, session: EvalSession) -> None:
        """Install the handler of SIGTERM, unless another one is installed."""
        self._session = session
        self._pid = os.getpid()
        self._terminated = self._waits = False
        self._ended = threading.Event()
        in_main = threading.current_thread() is threading.main_thread()
        self._listens = in_main and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
        if self._listens:
            signal.signal(signal.SIGTERM, self._terminate)
        self._closing = ExitStack()
        self._closing.enter_context(repeating_interrupts())

    def _terminate(self, number: int, frame: object) -> None:
        """End the run, or the wait for requests in flight. Further signals are ignored:
        ``timeout`` sends SIGTERM to the process and to its group, and GitHub sends it
        some seconds after SIGINT."""
        if os.getpid() != self._pid:
            _exit_by_sigterm()  # a fork of this process, by user code
        if self._terminated or (self._ended.is_set() and not self._waits):
            return
        self._terminated = True
        for one in self._session.all:
            one.run.inference.limit_s = SIGTERM_S
        raise KeyboardInterrupt("SIGTERM")

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtestloop(self) -> Generator[None, Any, Any]:
        """Send nothing further at the end; exit a worker by SIGTERM, as its reports are
        sent by then."""
        assignment = self._session.assignment
        if assignment is not None:
            self._watch(Path(assignment.stop).with_name(INTERRUPTED))
        try:
            return (yield)
        except KeyboardInterrupt:
            one_line_for_interrupts(self._session)
            if self._terminated and assignment is not None:
                for one in self._session.all:
                    one.run.inference.close()
                _exit_by_sigterm()
            raise
        finally:
            self._ended.set()
            for one in self._session.all:
                one.run.inference.stop_sending()

    @pytest.hookimpl(tryfirst=True)
    def pytest_keyboard_interrupt(
        self, excinfo: pytest.ExceptionInfo[BaseException]
    ) -> None:
        """Drop the frames that a signal reached between two lines: Python has no line
        for them, and pytest fails to show them."""
        excinfo.traceback = excinfo.traceback.filter(
            lambda entry: (entry._rawentry.tb_lineno or 0) > 0
        )

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_sessionfinish(self) -> Generator[None, Any, Any]:
        """Show that the session waits for requests in flight."""
        self._ended.set()
        one_line_for_interrupts(self._session)
        for one in self._session.all:
            one.run.inference.on_wait = self._show_wait
        return (yield)

    def _show_wait(self, n_requests: int) -> None:
        self._waits = True
        terminal = self._session.config.pluginmanager.getplugin("terminalreporter")
        if terminal is not None:
            requests = plural(n_requests, "request")
            terminal.ensure_newline()
            terminal.write_line(
                f"waiting up to {self._session.run.inference.limit_s:g} s for the "
                f"responses to {requests} in flight; Ctrl-C ends the wait"
            )

    def _watch(self, interrupted: Path) -> None:
        """Interrupt this worker when the controller is interrupted, even while it waits
        for a response."""

        def look() -> None:
            while not self._ended.wait(_LOOK_S):
                if interrupted.exists():
                    with suppress(OSError, ValueError):
                        limit_s = float(interrupted.read_text())
                        for one in self._session.all:
                            one.run.inference.limit_s = limit_s
                    interrupt_main()
                    return

        threading.Thread(target=look, name="evals-stop", daemon=True).start()

    @pytest.hookimpl(trylast=True)
    def pytest_unconfigure(self) -> None:
        """Restore the default handlers."""
        self._closing.close()
        if self._listens:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)


def one_line_for_interrupts(session: EvalSession) -> None:
    """Let a Ctrl-C while results are written end the process with one line instead of a
    traceback; in a worker, with none."""
    previous = sys.__excepthook__
    is_worker = session.assignment is not None

    def show(
        kind: type[BaseException], error: BaseException, trace: TracebackType | None
    ) -> None:
        if not issubclass(kind, KeyboardInterrupt):
            previous(kind, error, trace)
        elif not is_worker:
            sys.stderr.write(
                "\ninterrupted while results were written: received responses are "
                "stored, results may be incomplete\n"
            )

    sys.excepthook = show


def _exit_by_sigterm() -> None:
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    os.kill(os.getpid(), signal.SIGTERM)
