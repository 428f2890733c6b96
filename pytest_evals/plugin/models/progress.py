"""The progress line of inference.

On a terminal it is repainted in place, at most ten times a second; elsewhere a plain
line comes every half minute, so that a log of CI shows life.
"""

from __future__ import annotations

import os
import time
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import pytest
from _pytest.pathlib import bestrelpath

from pytest_evals.reports.overview.progress import progress_line
from pytest_evals.run.inference import Inference

REPAINT_S = 0.1
HEARTBEAT_S = 30.0


class Progress:
    """Paints from the main thread, between two answers of the model."""

    def __init__(self, config: pytest.Config, models: Inference) -> None:
        """Find out what can be painted on."""
        self._models = models
        self._terminal = config.pluginmanager.getplugin("terminalreporter")
        self._capture = config.pluginmanager.getplugin("capturemanager")
        self._started = self._last = time.monotonic()
        self._painted = False
        self._begun: Path | str | None = None
        """The file or, with ``-v``, the test that pytest had begun a line for, before
        ours took the place."""
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
        """Wipe the line before something else is written, and begin pytest's own once
        more: by itself it would leave an empty one."""
        if self._painted or self._begun is not None:
            self._write("\r\x1b[2K" if self._painted else "", fresh=False)
            self._painted = False
            self._go_on()

    def _paint(self, line: str) -> None:
        width = self._terminal._tw.fullwidth - 1
        text = f"\r\x1b[2K{line[:width]}"
        self._write(text, fresh=not self._painted)
        self._painted = True

    def _write(self, text: str, *, fresh: bool) -> None:
        """``fresh`` starts on a line of its own."""
        with self._unheard():
            if fresh:
                begun = getattr(self._terminal, "currentfspath", None)
                self._begun = begun if isinstance(begun, Path | str) else self._begun
                self._terminal.ensure_newline()
            self._emit(text)

    def _unheard(self) -> AbstractContextManager[None]:
        """A block whose output goes to the terminal, whatever pytest captures."""
        if self._capture is None:
            return nullcontext()
        block: AbstractContextManager[None]
        block = self._capture.global_and_fixture_disabled()
        return block

    def _go_on(self) -> None:
        begun, self._begun = self._begun, None
        if begun is None:
            return
        with self._unheard():
            if isinstance(begun, Path):
                shown = f"{bestrelpath(self._terminal.startpath, begun)} "
            else:
                shown = begun
            self._terminal._tw.write(shown, flush=True)
            self._terminal.currentfspath = begun

    def _emit(self, text: str) -> None:
        """``rewrite`` would spoil pytest's column of percentages, so the text goes out
        raw."""
        if hasattr(self._terminal, "write_raw"):
            self._terminal.write_raw(text, flush=True)
        else:
            self._terminal._tw.write(text, flush=True)
