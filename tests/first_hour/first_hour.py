"""Time the shortest paths from an empty folder to a failing eval::

    python tests/first_hour/first_hour.py

Each path is a file that a user types and one command. The table shows the commands, the
lines and characters typed, and the seconds of the command, with a model that replies at
once. A path fails if the command does not end with a failed gate.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
YAML = """\
prompt: "{{q}}"
rows:
  - {q: "How do I pay?", target: card}
  - {q: "How do I reset my password?", target: password}
score: contains
gates: [contains >= 0.95]
"""
PYTHON = """\
import pytest_evals as ev

@ev.eval(score=ev.contains(), gates=["contains >= 0.95"])
def bot():
    yield ev.case("How do I pay?", target="card")
    yield ev.case("How do I reset my password?", target="password")
"""
UNIT_TEST = """\
import pytest_evals as ev

def test_bot(evals):
    rows = [{"q": "How do I pay?", "target": "card"},
            {"q": "How do I reset my password?", "target": "password"}]
    evals(rows, prompt="{{q}}", score=ev.contains(), gates=["contains >= 0.95"])
"""


class FirstRun(NamedTuple):
    """A path: its name, the file and its text."""

    name: str
    file: str
    text: str

    @property
    def command(self) -> str:
        """The command that a user types."""
        return f"pytest --model=scripted:echo {self.file}"


PATHS = (
    FirstRun("YAML rows", "bot.yaml", YAML),
    FirstRun("Python", "test_bot.py", PYTHON),
    FirstRun("unit test", "test_unit.py", UNIT_TEST),
)


def run(path: FirstRun) -> tuple[str, float]:
    """The output of a path from an empty folder, and the seconds of its command."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / path.file).write_text(path.text, "utf-8")
        start = time.perf_counter()
        done = subprocess.run(
            [sys.executable, "-m", *path.command.split()],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            check=False,
        )
        return done.stdout + done.stderr, time.perf_counter() - start


def main() -> int:
    """Run all paths and print the table."""
    fault = 0
    print("| path | commands | lines | characters | seconds |")
    print("| --- | --- | --- | --- | --- |")
    for path in PATHS:
        output, seconds = run(path)
        typed = [line for line in path.text.splitlines() if line.strip()]
        n = len(path.text) + len(path.command)
        print(f"| {path.name} | 1 | {len(typed)} | {n} | {seconds:.1f} |")
        if "contains 0.500 is not >= 0.95" not in output:
            print(output, file=sys.stderr)
            fault = 1
    return fault


if __name__ == "__main__":
    sys.exit(main())
