"""``pytest-model-evals export RUN --to=lm-eval``: results in another program's form."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from pytest_evals.judge_command.stored import stored_run
from pytest_evals.result_files.exports import FORMS, export


def main(prog: str, arguments: Sequence[str]) -> int:
    """Write the files and return the exit code."""
    parser = argparse.ArgumentParser(
        prog=f"{prog} export",
        description="Write results as another program does. Nothing is uploaded.",
    )
    add = parser.add_argument
    add("run", metavar="RUN", type=Path, help="results, as for judge")
    add(
        "--to",
        choices=[*FORMS],
        required=True,
        help="lm-eval: results_<date>.json and samples_<task>_<date>.jsonl; "
        "hub: .eval_results/*.yaml of a model's repository",
    )
    add(
        "-o",
        "--output",
        metavar="DIR",
        type=Path,
        default=Path("export"),
        help="folder to write to (default: export)",
    )
    options = parser.parse_args(arguments)
    path = export(stored_run(options.run), options.to, options.output)
    sys.stdout.write(f"export: {path}\n")
    return 0
