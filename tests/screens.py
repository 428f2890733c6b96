"""Execute the steps of a page of the docs, and rewrite its screens::

    python tests/screens.py README.md docs/tutorial.md

A page contains instructions in comments in front of its blocks:

``<!-- evals/quiz.yaml -->``
    Write the block to this file.
``<!-- + evals/quiz.yaml -->``
    Append the block to it.
``<!-- run: pytest … -->``
    Run it without showing its output.
``<!-- screen: pytest … -->``
    Run it; its output is the block. ``screen 88:`` has 88 columns instead of 80.
    After ``|`` follow the parts to keep, ``FROM .. TO``: a text in the first line of
    each and one in its last; TO may be empty for the end.

Small suites for screens are those of ``tests/screen_suites.py``, and servers that fail
those of ``tests/screen_server.py``; lm-eval's own screen needs ``lm_eval`` on the PATH.
All steps run in a new folder with the example suites and their model. A screen that
differs from the page's in times only is kept.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent
STEP = re.compile(
    r"^<!-- (?P<what>[^\n]*?) -->\n(?:```(?P<kind>\w+)\n(?P<body>.*?)^```)?",
    re.MULTILINE | re.DOTALL,
)
PART = " .. "


class Step(NamedTuple):
    """A comment of a page: the instruction, and the block after it."""

    what: str
    body: str | None

    @property
    def command(self) -> str:
        """The command to run; empty for a step that writes a file."""
        found = re.match(r"(?:run|screen(?: \d+)?): (.*)", self.what)
        return found[1].split(" | ")[0] if found else ""

    @property
    def columns(self) -> str:
        """The width of the screen."""
        found = re.match(r"screen (\d+):", self.what)
        return found[1] if found else "80"

    @property
    def parts(self) -> list[tuple[str, str]]:
        """First and last line of the part to keep; empty for the whole output."""
        parts = [part.split(PART) for part in self.what.split(" | ")[1:]]
        return [(first.strip(), last.strip()) for first, last in parts]


def steps(text: str) -> list[Step]:
    """All steps of a page."""
    found = STEP.finditer(text)
    return [Step(m["what"], m["body"]) for m in found if _is_step(m["what"])]


def _is_step(what: str) -> bool:
    return bool(re.match(r"(run|screen( \d+)?): |(\+ )?[\w./-]+\.\w+$", what))


def follow(page: Path) -> str:
    """The text of a page with new screens."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve() / "quiz"
        shutil.copytree(ROOT / "example_suites", folder / "example_suites")
        shutil.copytree(ROOT / "example_suites" / "tiny", folder / "tiny")
        (folder / "pytest.ini").write_text("[pytest]\n")
        return STEP.sub(lambda found: _done(found, folder), page.read_text("utf-8"))


def _done(found: re.Match[str], folder: Path) -> str:
    step = Step(found["what"], found["body"])
    if not _is_step(step.what):
        return found[0]
    if step.command:
        screen = _screen(step, folder)
        if step.what.startswith("run"):
            return found[0]
        if timeless(screen) == timeless((step.body or "").rstrip("\n")):
            return found[0]
        return f"<!-- {step.what} -->\n```text\n{screen}\n```"
    path = folder / step.what.removeprefix("+ ")
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a" if step.what.startswith("+") else "w", encoding="utf-8") as file:
        file.write(step.body or "")
    return found[0]


def timeless(screen: str) -> str:
    """A screen without times, speeds and the widths of lines around them."""
    text = re.sub(r"\d{8}-\d{6}|[\d-]{10} [\d:]{8} UTC", "WHEN", screen)
    text = re.sub(r"[\d.,]+( s\b|s\b| tokens/s)", r"N\1", text)
    return re.sub(r"={3,}", "===", text)


def path() -> str:
    """PATH with the commands of this environment first, activated or not."""
    return f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"


def _screen(step: Step, folder: Path) -> str:
    environment = {
        **os.environ,
        "PATH": path(),
        "COLUMNS": step.columns,
        "PYTHONPATH": str(ROOT),
    }
    for name in ("GITHUB_ACTIONS", "CI"):
        environment.pop(name, None)
    done = subprocess.run(
        step.command, shell=True, cwd=folder, env=environment, capture_output=True
    )
    text = (done.stdout + done.stderr).decode().replace(f"{folder}/", "")
    lines = [line.rstrip() for line in text.strip("\n").splitlines()]
    return "\n…\n".join(_part(lines, *part) for part in step.parts) or "\n".join(lines)


def _part(lines: list[str], first: str, last: str) -> str:
    try:
        start = next(i for i, line in enumerate(lines) if first in line)
        rest = range(start, len(lines))
        end = next(i for i in rest if last in lines[i]) if last else len(lines) - 1
    except StopIteration:
        shown = "\n".join(lines)
        raise SystemExit(f"no line with {first!r} .. {last!r} in\n{shown}") from None
    return "\n".join(lines[start : end + 1])


if __name__ == "__main__":
    for given in sys.argv[1:]:
        page = Path(given)
        page.write_text(follow(page), encoding="utf-8")
        print(f"{page}: {len(steps(page.read_text('utf-8')))} steps")
