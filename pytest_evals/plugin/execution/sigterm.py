"""SIGTERM ends a session as Ctrl-C does: with its summary, and with the answers stored.

A worker of pytest-xdist that is sent one by itself, as by a guard of the machine's
memory, dies of it as before, so that its shard runs again; but it first says and stores
what it knows.
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
    """One object a session, as a pytest plugin."""

    def __init__(self, session: EvalSession) -> None:
        """Listen, where nobody else does: a handler that is there already has its
        reason."""
        self._session = session
        self._pid = os.getpid()
        self._came = False
        in_main = threading.current_thread() is threading.main_thread()
        self._listens = in_main and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
        if self._listens:
            signal.signal(signal.SIGTERM, self._interrupt)

    def _interrupt(self, number: int, frame: object) -> None:
        if os.getpid() != self._pid:
            _die()  # a copy of this process, as user code may make, is none of ours
        self._came = True
        self._ignore()
        raise KeyboardInterrupt("SIGTERM")

    def _ignore(self) -> None:
        """``timeout`` sends the signal to a process and to its group, and GitHub sends
        it some seconds after the one of Ctrl-C: a session that ends already is left to
        it."""
        if self._listens:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtestloop(self) -> Generator[None, Any, Any]:
        """Let a worker die of its own signal; its last words are said by then."""
        try:
            return (yield)
        except KeyboardInterrupt:
            if self._came and self._session.orders is not None:
                self._session.run.inference.answers.close()
                _die()
            raise

    @pytest.hookimpl
    def pytest_keyboard_interrupt(self) -> None:
        """The session ends."""
        self._ignore()

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self) -> None:
        """Results are being written."""
        self._ignore()

    @pytest.hookimpl(trylast=True)
    def pytest_unconfigure(self) -> None:
        """Leave all as it was."""
        if self._listens:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _die() -> None:
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    os.kill(os.getpid(), signal.SIGTERM)
