"""Execution of model-written programs against their tests, each in its own processes.

No sandbox: a program has the user's permissions. It runs in an empty folder, without
the environment of the session, and is ended when its time is over.
"""

from __future__ import annotations

import json
import os
import secrets
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from pathlib import Path

SECONDS = 6.0
"""Time for one test, LiveCodeBench's."""
_PRELUDE = """\
import bisect, collections, copy, datetime, functools, heapq, io, itertools, json, math
import operator, os, random, re, statistics, string, sys, time
from bisect import *
from collections import *
from copy import *
from datetime import *
from functools import *
from heapq import *
from itertools import *
from math import *
from operator import *
from random import *
from re import *
from statistics import *
from string import *
from sys import stdin, stdout
from typing import *
from builtins import *
sys.setrecursionlimit(50_000)
"""
"""What programs of programming contests take for granted; builtins have the last word,
of which some modules have others."""
_CALL = """
import json as _json, sys as _sys
_asked = _json.loads(_sys.stdin.readline())
_owner = Solution() if "Solution" in globals() else _sys.modules["__main__"]
_found = getattr(_owner, _asked["name"])(*_asked["arguments"])
_found = list(_found) if isinstance(_found, tuple) else _found
print("\\n" + (_asked["token"] if _found == _asked["wanted"] else ""))
"""
"""Calls a function and compares what it returns. The token proves that these
lines produced the output."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cases:
    """What a program is given, and what it must make of it.

    Args:
        inputs: One for each test: the standard input; or arguments, JSON, one a
            line.
        outputs: What must be printed; or returned, JSON.
        function: Name of the function that is called; ``None`` for whole programs.
    """

    inputs: Sequence[str]
    outputs: Sequence[str]
    function: str | None = None


def extract_code(text: str) -> str:
    """The text between the last two lines with three backticks; empty if there are
    no two such lines."""
    lines = text.split("\n")
    fences = [at for at, line in enumerate(lines) if "```" in line]
    if len(fences) < 2:
        return ""
    return "\n".join(lines[fences[-2] + 1 : fences[-1]])


def passes(code: str, tests: Cases, seconds: float = SECONDS) -> bool:
    """Whether a program passes all tests; the first one that it fails ends it.

    Args:
        code: Python.
        tests: The tests.
        seconds: Time for each test.

    Raises:
        ValueError: Arguments or results of a function are not JSON.
    """
    if not code.strip():
        return False
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "program.py")
        call = _CALL if tests.function else ""
        file.write_text(f"{_PRELUDE}\n{code}\n{call}", encoding="utf-8")
        pairs = zip(tests.inputs, tests.outputs, strict=True)
        return all(_passed(file, tests.function, *pair, seconds) for pair in pairs)


def _passed(
    file: Path, function: str | None, given: str, wanted: str, seconds: float
) -> bool:
    if function is None:
        printed = _printed(file, given, seconds)
        return printed is not None and _same(printed, wanted)
    token = secrets.token_hex()
    asked = {
        "name": function,
        "arguments": [json.loads(line) for line in given.split("\n")],
        "wanted": json.loads(wanted),
        "token": token,
    }
    printed = _printed(file, json.dumps(asked) + "\n", seconds)
    return printed is not None and printed.split("\n")[-2:] == [token, ""]


def _printed(file: Path, given: str, seconds: float) -> str | None:
    """What a program prints; ``None`` if it fails, or is not done in time."""
    process = subprocess.Popen(
        [sys.executable, "-I", str(file)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        cwd=file.parent,
        env={"OMP_NUM_THREADS": "1", "PATH": os.defpath},
        start_new_session=True,
        text=True,
        encoding="utf-8",
        errors="replace",
    )
    with process:
        try:
            printed, _ = process.communicate(given, timeout=seconds)
        except subprocess.TimeoutExpired:
            _end(process)
            return None
    return printed if process.returncode == 0 else None


def _end(process: subprocess.Popen[str]) -> None:
    """Terminate a program and its process group, where these exist."""
    try:
        if hasattr(os, "killpg"):
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()
    except (ProcessLookupError, PermissionError):
        pass  # it has ended, and all that it started


def _same(printed: str, wanted: str) -> bool:
    """Line by line, as texts or as decimal numbers; white space at ends does not
    count."""
    one, other = (text.strip().split("\n") for text in (printed, wanted))
    return len(one) == len(other) and all(map(_same_line, one, other))


def _same_line(printed: str, wanted: str) -> bool:
    if printed.strip() == wanted.strip():
        return True
    try:
        return _decimals(printed) == _decimals(wanted)
    except InvalidOperation:
        return False


def _decimals(line: str) -> list[Decimal]:
    return [Decimal(word) for word in line.split()]
