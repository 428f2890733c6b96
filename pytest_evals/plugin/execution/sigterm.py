"""SIGTERM ends a session like Ctrl-C: responses are stored and the summary is shown.

A single worker of pytest-xdist that receives SIGTERM, such as from an out-of-memory
guard, still exits by the signal, so that its shard runs again; but it first sends its
reports and stores its responses.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Generator
from typing import Any

import pytest

from pytest_evals.plugin.session import EvalSession


class SigtermHandler:
    """Handles SIGTERM, as a pytest plugin."""

    def __init__(self, session: EvalSession) -> None:
        """Install the handler, unless another one is installed."""
        self._session = session
        self._pid = os.getpid()
        self._came = False
        in_main = threading.current_thread() is threading.main_thread()
        self._listens = in_main and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
        if self._listens:
            signal.signal(signal.SIGTERM, self._interrupt)

    def _interrupt(self, number: int, frame: object) -> None:
        if os.getpid() != self._pid:
            _exit_by_sigterm()  # a fork of this process, by user code
        self._came = True
        self._ignore()
        raise KeyboardInterrupt("SIGTERM")

    def _ignore(self) -> None:
        """Ignore further signals while the session ends: ``timeout`` sends SIGTERM to
        the process and to its group, and GitHub sends it some seconds after SIGINT."""
        if self._listens:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtestloop(self) -> Generator[None, Any, Any]:
        """Exit a worker by the signal; its reports are sent by then."""
        try:
            return (yield)
        except KeyboardInterrupt:
            if self._came and self._session.assignment is not None:
                self._session.run.inference.answers.close()
                _exit_by_sigterm()
            raise

    @pytest.hookimpl
    def pytest_keyboard_interrupt(self) -> None:
        """Ignore SIGTERM while the session ends."""
        self._ignore()

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self) -> None:
        """Ignore SIGTERM while results are written."""
        self._ignore()

    @pytest.hookimpl(trylast=True)
    def pytest_unconfigure(self) -> None:
        """Restore the default handler."""
        if self._listens:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _exit_by_sigterm() -> None:
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    os.kill(os.getpid(), signal.SIGTERM)
