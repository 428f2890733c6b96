"""Draw the terminal of ``docs/first_eval.md`` as ``docs/images/terminal.svg``::

    python -m tests.tools.terminal_picture

The files of the page are written to a new folder, its pytest command runs there with
colours, and the failure and the table of its output become text in an SVG.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from html import escape
from pathlib import Path

from tests import screens

PAGE = screens.ROOT / "docs" / "first_eval.md"
PICTURE = screens.ROOT / "docs" / "images" / "terminal.svg"
COLUMNS, WIDTH, HEIGHT = 80, 7.25, 16
STYLES = {
    "1": ("font-weight", "bold"),
    "31": ("fill", "#ff7b72"),
    "32": ("fill", "#56d364"),
    "33": ("fill", "#e3b341"),
    "34": ("fill", "#79c0ff"),
    "36": ("fill", "#76e3ea"),
    "90": ("fill", "#8b949e"),
}
"""Escape codes of the terminal, and their colours."""


def output() -> list[str]:
    """Lines of the page's command, with escape sequences."""
    steps = screens.steps(PAGE.read_text("utf-8"))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve()
        (folder / "pytest.ini").write_text("[pytest]\n")
        for step in steps:
            if not step.command:
                path = folder / step.what
                path.parent.mkdir(exist_ok=True)
                path.write_text(step.body or "", encoding="utf-8")
        (screen,) = [step for step in steps if step.command]
        command = [sys.executable, "-m", *screen.command.split(), "--color=yes"]
        environment = {**os.environ, "COLUMNS": str(COLUMNS)}
        for variable in ("GITHUB_ACTIONS", "CI", "NO_COLOR"):
            environment.pop(variable, None)
        environment["PYTHONPATH"] = str(screens.ROOT)
        done = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, check=False
        )
    lines = done.stdout.decode().splitlines()
    kept = failure_and_table(lines)
    return [part for line in kept for part in wrapped(line)]


def failure_and_table(lines: list[str]) -> list[str]:
    """The lines from the first failure to the end of the table."""
    start = next(i for i, line in enumerate(lines) if "FAILURES" in line)
    end = next(i for i, line in enumerate(lines) if "short test summary" in line)
    return lines[start:end]


def wrapped(line: str) -> list[str]:
    """A line, broken as a terminal breaks it."""
    parts = [""]
    length = 0
    for piece in re.findall(r"\x1b\[[\d;]*m|.", line):
        if len(piece) == 1:
            if length == COLUMNS:
                parts.append("")
                length = 0
            length += 1
        parts[-1] += piece
    return parts


def drawn(lines: list[str]) -> str:
    """An SVG of these lines."""
    width, height = COLUMNS * WIDTH + 24, len(lines) * HEIGHT + 24
    rows = "\n".join(
        f'<text x="12" y="{24 + i * HEIGHT}">{spans(line)}</text>'
        for i, line in enumerate(lines)
        if line
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height}" '
        f'width="{width:g}" role="img" aria-label="A gate fails in pytest">\n'
        "<style>text{font:12px ui-monospace,SFMono-Regular,Menlo,'DejaVu Sans Mono',"
        "monospace;fill:#e6edf3;white-space:pre}</style>\n"
        '<rect width="100%" height="100%" rx="6" fill="#0d1117"/>\n'
        f"{rows}\n</svg>\n"
    )


def spans(line: str) -> str:
    """Text of a line with its colours."""
    style: dict[str, str] = {}
    out = []
    for code, text in re.findall(r"(?:\x1b\[([\d;]*)m)|([^\x1b]+)", line):
        if not text:
            if code in ("", "0"):
                style = {}
            style.update(STYLES[one] for one in code.split(";") if one in STYLES)
        elif style:
            look = ";".join(f"{name}:{value}" for name, value in style.items())
            out.append(f'<tspan style="{look}">{escape(text)}</tspan>')
        else:
            out.append(escape(text))
    return "".join(out)


if __name__ == "__main__":
    PICTURE.write_text(drawn(output()), encoding="utf-8")
