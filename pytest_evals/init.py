"""``python -m pytest_evals init``: write a first eval, its gates and a workflow for
GitHub. Existing files are never overwritten."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import NamedTuple

_WRONG_USE = 2
"""Exit code for usage errors, as in argparse."""


class StarterFile(NamedTuple):
    """A file of this package, and where its copy is written."""

    source: str
    path: str


STARTERS = (
    StarterFile("first.yaml", "evals/first.yaml"),
    StarterFile("gates.yaml", "evals/gates.yaml"),
    StarterFile("workflow.yml", ".github/workflows/evals.yml"),
)


def main(prog: str, arguments: Sequence[str]) -> int:
    """Write the files and return the exit code."""
    parser = argparse.ArgumentParser(
        prog=f"{prog} init",
        description="Write a first eval, its gates and a workflow for GitHub: "
        + ", ".join(one.path for one in STARTERS),
    )
    parser.add_argument(
        "folder",
        metavar="FOLDER",
        nargs="?",
        type=Path,
        default=Path(),
        help="default: the working directory",
    )
    folder = parser.parse_args(arguments).folder
    existing = [one.path for one in STARTERS if (folder / one.path).exists()]
    if existing:
        sys.stderr.write(f"error: nothing written, existing: {', '.join(existing)}\n")
        sys.stderr.write(f"  fix: move them, or write elsewhere: {prog} init FOLDER\n")
        return _WRONG_USE
    for one in STARTERS:
        place = folder / one.path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text_of(one.source), encoding="utf-8")
        sys.stdout.write(f"wrote {place}\n")
    evals = folder / "evals"
    sys.stdout.write(
        f"\nrun it:         pytest --model=scripted:echo {evals}\n"
        f"with a model:   pytest --model=openai:gpt-4o-mini {evals}\n"
        f"your function:  pytest --model=python:my_app:respond {evals}\n"
    )
    return 0


def text_of(name: str) -> str:
    """Return the text of a starter file."""
    return (files("pytest_evals") / "starter" / name).read_text("utf-8")
