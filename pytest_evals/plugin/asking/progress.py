"""The line that shows how far inference is.

On a terminal it is repainted in place, at most ten times a second; elsewhere a plain
line comes every half minute, so that a log of CI shows life.
"""

from __future__ import annotations

import os
import time

import pytest

from pytest_evals.plugin.asking.models import Models
from pytest_evals.reports.progress import progress_line

__all__ = ["Progress"]

REPAINT_S = 0.1
HEARTBEAT_S = 30.0


class Progress:
    """Paints from the main thread, between two answers of the model."""

    def __init__(self, config: pytest.Config, models: Models) -> None:
        """Find out what can be painted on."""
        self._models = models
        self._terminal = config.pluginmanager.getplugin("terminalreporter")
        self._capture = config.pluginmanager.getplugin("capturemanager")
        self._started = self._last = time.monotonic()
        self._painted = False
        self._live = (
            self._terminal is not None
            and bool(self._terminal.isatty)
            and hasattr(self._terminal, "write_raw")
            and os.environ.get("TERM") != "dumb"
        )
        self._quiet = self._terminal is None or config.get_verbosity() < 0

    def tick(self) -> None:
        """Paint, if it is time."""
        now = time.monotonic()
        if self._quiet or now - self._last < (REPAINT_S if self._live else HEARTBEAT_S):
            return
        self._last = now
        models = self._models
        line = progress_line(
            models.n_answered,
            models.n_documents,
            models.n_tokens,
            now - self._started,
            models.model_s,
        )
        if self._live:
            self._paint(line)
        else:
            self._write(f"{line}\n", fresh=True)

    def clear(self) -> None:
        """Wipe the line before something else is written."""
        if self._painted:
            self._painted = False
            self._write("\r\x1b[2K", fresh=False)

    def _paint(self, line: str) -> None:
        width = self._terminal._tw.fullwidth - 1
        text = f"\r\x1b[2K{line[:width]}"
        self._write(text, fresh=not self._painted)
        self._painted = True

    def _write(self, text: str, *, fresh: bool) -> None:
        if self._capture is None:
            self._emit(text, fresh=fresh)
            return
        with self._capture.global_and_fixture_disabled():
            self._emit(text, fresh=fresh)

    def _emit(self, text: str, *, fresh: bool) -> None:
        """``fresh`` starts on a line of its own. ``rewrite`` would spoil pytest's
        column of percentages, so the text goes out raw."""
        if fresh:
            self._terminal.ensure_newline()
        if hasattr(self._terminal, "write_raw"):
            self._terminal.write_raw(text, flush=True)
        else:
            self._terminal._tw.write(text, flush=True)
