"""``python -m pytest_evals COMMAND``, installed as ``pytest-model-evals``."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

from pytest_evals.errors import EvalsError, unknown_name

_WRONG_USE = 2
"""Exit code for usage errors, as in argparse."""
_INTERRUPTED, _NO_READER = 130, 141
"""Exit codes as of programs that SIGINT or SIGPIPE ends."""
_MODULES = {
    "init": "init",
    "judge": "judge_command.command",
    "report": "report",
    "export": "export",
    "merge": "merge",
    "store": "store_command",
    "convert": "convert",
}
"""Command → its module, which is imported late: each needs other ones."""
_DISTRIBUTION = "pytest-model-evals"
_DESCRIPTION = """\
Work with results of evals. To run evals, use pytest: pytest --model=MODEL evals/

commands:
  init    write a first eval, its gates and a workflow for GitHub
  judge   judge gates on results that exist already, made by any program
  report  write the HTML report of such results
  export  write such results in the form of lm-eval or of the Hub
  merge   merge the parts of a run (--evals-shard) and judge its gates
  store   show, verify, prune, merge or export stored responses
  convert write suites from the gate files of vLLM, llm-compressor and others
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code."""
    given = [*(sys.argv[1:] if arguments is None else arguments)]
    prog = _DISTRIBUTION
    if arguments is None and Path(sys.argv[0]).stem == "__main__":
        prog = "python -m pytest_evals"
    if given and given[0] in _MODULES and given[1:] == ["--version"]:
        given = given[1:]  # of the distribution
    if given and given[0] in _MODULES:
        return _run(_MODULES[given[0]], prog, given[1:])
    parser = argparse.ArgumentParser(
        prog=prog,
        usage=f"{prog} {{{','.join(_MODULES)}}} …",
        description=_DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    from importlib import metadata  # late: it takes as long as a small file to judge

    version = metadata.version(_DISTRIBUTION)
    parser.add_argument("--version", action="version", version=f"{prog} {version}")
    if given and given[0] not in ("-h", "--help", "--version"):
        message = unknown_name("command", given[0], _MODULES)
        sys.stderr.write(f"{parser.format_usage()}error: {message}\n")
        return _WRONG_USE
    if not given:
        parser.print_help(sys.stderr)
        return _WRONG_USE
    parser.parse_args(given)
    return 0


def _run(module: str, prog: str, arguments: Sequence[str]) -> int:
    """Run a command; its errors are one message."""
    command = import_module(f"pytest_evals.{module}")
    try:
        code = int(command.main(prog, arguments))
        sys.stdout.flush()
    except EvalsError as error:
        return _refuse(str(error))
    except BrokenPipeError:  # such as head, which has read enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _NO_READER
    except OSError as error:
        place = f"{error.filename}: " if error.filename else ""
        return _refuse(f"{place}{error.strerror or error}")
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\n")
        return _INTERRUPTED
    return code


def _refuse(reason: str) -> int:
    sys.stderr.write(f"error: {reason}\n")
    return _WRONG_USE


if __name__ == "__main__":
    sys.exit(main())
