"""``python -m pytest_evals.report RUN_DIR -o out.html``: write the HTML report of a
stored run.

Does not run tasks or open a model.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from pytest_evals.errors import StoreError
from pytest_evals.reports.html.other_runs import OtherRuns
from pytest_evals.reports.html.write import write_html
from pytest_evals.result_files.baselines import find_run
from pytest_evals.run.comparison import changes
from pytest_evals.store.history import EarlierRun, read_run

_WRONG_USE = 2
"""Exit code for usage errors, as in argparse."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the HTML report and return the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m pytest_evals.report",
        description="Write the HTML report of a stored run.",
    )
    parser.add_argument(
        "run", metavar="RUN_DIR", help="folder of a run: .evals/runs/<time>-<model>"
    )
    parser.add_argument(
        "others",
        metavar="OTHER_RUN_DIR",
        nargs="*",
        help="folders of other runs, shown next to it for each document; "
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
    options = parser.parse_args(arguments)
    try:
        path = _write(options)
    except StoreError as error:
        sys.stderr.write(f"error: {error}\n")
        return _WRONG_USE
    sys.stdout.write(f"report: {path}\n")
    return 0


def _write(options: argparse.Namespace) -> Path:
    """Write the HTML report and return its path."""
    output = Path(options.output)
    if output.is_dir():
        raise StoreError(f"{str(output)!r} is a folder\n  fix: name a file with -o")
    run, *others = [_run(Path(one)) for one in (options.run, *options.others)]
    before, found = None, None
    if options.compare:
        base = run.path.resolve().parent.parent
        before = find_run(base, options.compare, Path.cwd())
        found = asdict(changes(options.compare, before, run))
    shown = OtherRuns(before, found, others or None)
    write_html(run, output, others=shown, option="-o")
    return output


def _run(folder: Path) -> EarlierRun:
    """Return the run in a folder, which may be named by its results file."""
    try:
        return read_run(folder.parent if folder.name == "results.json" else folder)
    except StoreError as error:
        if "\n  fix: " in str(error):
            raise
        raise StoreError(
            f"{error}\n  fix: pass the folder of a run, .evals/runs/<time>-<model>"
        ) from None


if __name__ == "__main__":
    sys.exit(main())
