"""``pytest-model-evals report RUN -o out.html``: write the HTML report of results that
exist already, made by any program. No task runs and no model is opened."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from pytest_evals.judge_command.stored import stored_run
from pytest_evals.reports.html.other_runs import OtherRuns
from pytest_evals.reports.html.write import write_html
from pytest_evals.result_files.baselines import find_run
from pytest_evals.run.comparison import changes
from pytest_evals.store.writable import check_file


def main(prog: str, arguments: Sequence[str]) -> int:
    """Write the HTML report and return the exit code."""
    parser = argparse.ArgumentParser(
        prog=f"{prog} report",
        description="Write the HTML report of results of any program.",
    )
    parser.add_argument(
        "run", metavar="RUN", type=Path, help="folder of a run, or results as for judge"
    )
    parser.add_argument(
        "others",
        metavar="OTHER_RUN",
        nargs="*",
        type=Path,
        help="other runs, shown next to it for each document; "
        "default: the newest stored runs with the same requests",
    )
    parser.add_argument(
        "-o", "--output", metavar="PATH", default="report.html", help="output file"
    )
    parser.add_argument(
        "--compare",
        metavar="NAME|PATH",
        default="",
        help="a baseline, or the folder of another run, to compare with; "
        "default: the baseline of the run",
    )
    path = _write(parser.parse_args(arguments))
    sys.stdout.write(f"report: {path}\n")
    return 0


def _write(options: argparse.Namespace) -> Path:
    """Write the HTML report and return its path."""
    output = Path(options.output)
    check_file(output, "-o")
    run, *others = map(stored_run, (options.run, *options.others))
    before, found = None, None
    if options.compare:
        base = run.path.resolve().parent.parent
        before = find_run(base, options.compare, Path.cwd())
        found = asdict(changes(options.compare, before, run))
    shown = OtherRuns(before, found, others or None)
    write_html(run, output, others=shown, option="-o")
    return output
