"""``pytest-model-evals merge PARTS… [-o DIR]``: one run out of its parts.

It runs pytest as the parts did, with ``--evals-merge`` for each of them: the suite is
collected, documents come from the parts, and gates, reports and exit code are those of
one run.
"""

from __future__ import annotations

import argparse
import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from pytest_evals.errors import StoreError
from pytest_evals.store.parts import PART, pytest_arguments, read_parts

_WRONG_USE = 4
"""pytest's exit code for usage errors, which other refusals of parts have too."""
_DESCRIPTION = """\
Merge the parts of a run that jobs with --evals-shard=K/N have written, and judge the
gates over all documents. Run it where the jobs ran pytest, on the same commit: pytest
collects the suite again with the options of the jobs. No model is opened.
"""
_EPILOG = """\
Other options are passed to pytest, such as --evals-html=report.html,
--evals-save-baseline=main or -v. Options that write files or allow code to run are not
taken from the parts. The exit code is pytest's: 0 if all gates passed, 1 if not, 4 if
the parts cannot be merged.
"""


def main(prog: str, arguments: Sequence[str]) -> int:
    """Run pytest over the parts and return its exit code."""
    parser = argparse.ArgumentParser(
        prog=f"{prog} merge",
        usage=f"{prog} merge PART [PART …] [-o DIR] [OPTION OF PYTEST …]",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add(
        "parts",
        metavar="PART",
        nargs="+",
        type=Path,
        help="folder of a part, or one that contains parts",
    )
    add(
        "-o",
        "--output",
        metavar="DIR",
        help="new folder for the merged run (default: one in .evals/runs)",
    )
    options, rest = parser.parse_known_args(arguments)
    try:
        found = read_parts(options.parts)
        path = found[0].path / PART
        given = pytest_arguments(found[0].facts["command"], path)
        _check_places(given)
    except (StoreError, OSError) as error:
        sys.stderr.write(f"error: {error}\n")
        return _WRONG_USE
    command = [sys.executable, "-m", "pytest", *given]
    command += [f"--evals-merge={part.path.absolute()}" for part in found]
    if options.output is not None:
        command.append(f"--evals-run-dir={Path(options.output).absolute()}")
    try:
        return subprocess.call([*command, *rest])
    except KeyboardInterrupt:  # pytest has it too, and has ended
        return 2


def _check_places(arguments: Sequence[str]) -> None:
    """Refuse another folder than that of the jobs; ``StoreError`` if a file or folder
    that the jobs were given is not here."""
    for argument in arguments:
        path = argument.partition("::")[0]
        if not argument.startswith("-") and path and not Path(path).exists():
            raise StoreError(
                f"{shlex.quote(path)}: the parts ran this, and it is not here\n"
                "  fix: run merge in the folder where the jobs ran pytest"
            )
