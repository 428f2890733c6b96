"""The progress line of inference.

On a terminal it is repainted in place, at most ten times a second. Elsewhere, as in
the log of CI, a plain line is written every half minute, or every tenth of the
documents if that takes at least five seconds.
"""

from __future__ import annotations

import os
import time
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import pytest
from _pytest.pathlib import bestrelpath

from pytest_evals.reports.overview.progress import has_speed, progress_line
from pytest_evals.run.inference import Inference

REPAINT_S = 0.1
HEARTBEAT_S = 30.0
LEAST_S = 5.0  # seconds between two plain lines, at least
_READY = ("openai:", "python:", "scripted:")  # kinds of models that load no weights


class Progress:
    """Paints from the main thread, between two answers of the model."""

    def __init__(self, config: pytest.Config, models: Inference) -> None:
        """Detect whether the line can be repainted."""
        self._models = models
        self._terminal = config.pluginmanager.getplugin("terminalreporter")
        self._capture = config.pluginmanager.getplugin("capturemanager")
        self._started = self._last = time.monotonic()
        self._tenth = 0
        self.is_shown = False
        """Whether :meth:`clear` has a line to clear, or to begin again."""
        self._painted = False
        self._over = ""
        """The line of pytest that is painted over, and restored by :meth:`clear`."""
        self._begun: Path | str | None = None
        """The file or, with ``-v``, the test whose line pytest had begun."""
        self._live = (
            self._terminal is not None
            and bool(self._terminal.isatty)
            and hasattr(self._terminal, "write_raw")
            and os.environ.get("TERM") != "dumb"
        )
        self._quiet = self._terminal is None or config.get_verbosity() < 0

    def tick(self) -> None:
        """Show the progress, if it is time."""
        now = time.monotonic()
        if self._quiet or not self._is_due(now - self._last):
            return
        self._last = now
        models = self._models
        line = progress_line(
            models.n_answered,
            models.n_documents,
            models.n_tokens if has_speed(models.name) else 0,
            now - self._started,
            models.model_s,
        )
        self._show(line)

    def loading(self, model: str) -> None:
        """Show that a model is being loaded, which may take minutes, but not for
        applications and servers: they run already."""
        if not self._quiet and not model.startswith(_READY):
            self._show(f"evals: loading {model}")

    def _is_due(self, waited_s: float) -> bool:
        if self._live or waited_s >= HEARTBEAT_S or waited_s < LEAST_S:
            return waited_s >= (REPAINT_S if self._live else HEARTBEAT_S)
        tenth = 10 * self._models.n_answered // max(1, self._models.n_documents)
        is_new, self._tenth = tenth > self._tenth, tenth
        return is_new

    def _show(self, line: str) -> None:
        self.is_shown = True
        if self._live:
            self._paint(line)
        else:
            self._write(f"{line}\n", fresh=True)

    def clear(self) -> None:
        """Clear the line before other output, and begin pytest's line again."""
        self.is_shown = False
        if self._painted and self._over:
            self._draw(f"\r\x1b[2K{self._over}")
            self._painted = False
        elif self._painted or self._begun is not None:
            self._write("\r\x1b[2K" if self._painted else "", fresh=False)
            self._painted = False
            self._go_on()

    def _paint(self, line: str) -> None:
        width = self._terminal._tw.fullwidth - 1
        text = f"\r\x1b[2K{line[:width]}"
        if not self._painted:
            self._over = self._bare_line()
        if self._over:
            self._draw(text)
        else:
            self._write(text, fresh=not self._painted)
        self._painted = True

    def _write(self, text: str, *, fresh: bool) -> None:
        """Write; with ``fresh`` on a new line."""
        with self._uncaptured():
            if fresh:
                begun = getattr(self._terminal, "currentfspath", None)
                self._begun = begun if isinstance(begun, Path | str) else self._begun
                self._terminal.ensure_newline()
            self._emit(text)

    def _bare_line(self) -> str:
        """Return the line that pytest has begun if no outcome is on it yet."""
        begun = getattr(self._terminal, "currentfspath", None)
        if not isinstance(begun, Path | str):
            return ""
        text, tw = self._start_of(begun), self._terminal._tw
        is_bare = tw.width_of_current_line == len(text) and hasattr(tw, "_file")
        return text if is_bare else ""

    def _draw(self, text: str) -> None:
        """Write without changing pytest's notion of the current line."""
        with self._uncaptured():
            self._terminal._tw._file.write(text)
            self._terminal._tw.flush()

    def _start_of(self, begun: Path | str) -> str:
        """Return the text with which pytest begins the line of a file or test."""
        if isinstance(begun, str):
            return begun
        return f"{bestrelpath(self._terminal.startpath, begun)} "

    def _uncaptured(self) -> AbstractContextManager[None]:
        if self._capture is None:
            return nullcontext()
        block: AbstractContextManager[None]
        block = self._capture.global_and_fixture_disabled()
        return block

    def _go_on(self) -> None:
        begun, self._begun = self._begun, None
        if begun is None:
            return
        with self._uncaptured():
            self._terminal._tw.write(self._start_of(begun), flush=True)
            self._terminal.currentfspath = begun

    def _emit(self, text: str) -> None:
        """Write without ``rewrite``, which breaks pytest's column of percentages."""
        if hasattr(self._terminal, "write_raw"):
            self._terminal.write_raw(text, flush=True)
        else:
            self._terminal._tw.write(text, flush=True)
