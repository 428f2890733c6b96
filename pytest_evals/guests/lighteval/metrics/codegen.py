"""LiveCodeBench (Jain et al. 2024, arXiv 2403.07974): execution of generated programs
against tests."""

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
from typing import ClassVar

from pytest_evals.core.doc import Doc
from pytest_evals.errors import DocumentError, EvalsError
from pytest_evals.scorers.custom_metrics.metric import SampleLevelComputation
from pytest_evals.scorers.custom_metrics.response import ModelResponse

SECONDS = 6.0
"""Time limit per test, LiveCodeBench's."""
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
"""Imports that contest programs expect. ``builtins`` is last, because other modules
redefine some of its names."""
_CALL = """
import json as _json, sys as _sys
_call = _json.loads(_sys.stdin.readline())
_owner = Solution() if "Solution" in globals() else _sys.modules["__main__"]
_result = getattr(_owner, _call["name"])(*_call["arguments"])
_result = list(_result) if isinstance(_result, tuple) else _result
print("\\n" + (_call["token"] if _result == _call["expected"] else ""))
"""
"""Calls a function and compares its result. The random token proves that the output is
not the program's."""


@dataclass(frozen=True)
class CodegenMetric(SampleLevelComputation):
    """pass@1: the fraction of answers whose program passes all tests.

    Tests are in ``doc.specific``: lists ``inputs`` and ``outputs``, and ``fn_name``,
    the function to call; without it, answers are complete programs.

    Args:
        n: Number of answers to generate and score; ``None`` for all.
    """

    is_share: ClassVar[bool] = True
    executes_answers: ClassVar[bool] = True

    n: int | None = None

    def __post_init__(self) -> None:
        """Validate ``n``."""
        if self.n is not None and (not isinstance(self.n, int) or self.n < 1):
            raise EvalsError(f"n must be a positive integer, not {self.n!r}")

    def num_samples(self) -> int | None:
        """Return the number of answers needed."""
        return self.n

    def measure(self, doc: Doc, model_response: ModelResponse) -> float:
        """Compute pass@1.

        Raises:
            DocumentError: There are too few answers, or tests are missing.
        """
        answers = model_response.final_text
        if len(answers) < (self.n or 1):
            raise DocumentError(
                f"expected at least {self.n or 1} answers, got {len(answers)}"
            )
        tests = _tests(doc)
        try:
            passed = [passes(extract_code(one), tests) for one in answers[: self.n]]
        except ValueError as error:
            what = f"arguments and results of {tests.function} must be JSON: {error}"
            raise DocumentError(what) from None
        return sum(passed) / len(passed)


def _tests(doc: Doc) -> Cases:
    specific = doc.specific or {}
    given = [specific.get(name) for name in ("inputs", "outputs")]
    inputs, outputs = (list(one) if isinstance(one, list) else [] for one in given)
    if not inputs or len(inputs) != len(outputs):
        raise DocumentError(
            "columns inputs and outputs (or doc.specific) must be lists of equal length"
        )
    return Cases(inputs=inputs, outputs=outputs, function=specific.get("fn_name"))


# Programs are not sandboxed: they have the user's permissions. They run in an empty
# folder, without the session's environment variables, and with a time limit.
@dataclass(frozen=True, slots=True, kw_only=True)
class Cases:
    """Test cases of a program.

    Args:
        inputs: One per test: standard input; or arguments as JSON, one per line.
        outputs: Expected output; or result as JSON.
        function: Name of the function to call; ``None`` for complete programs.
    """

    inputs: Sequence[str]
    outputs: Sequence[str]
    function: str | None = None


def extract_code(text: str) -> str:
    """Return the text between the last two lines with three backticks; empty if there
    are fewer than two."""
    lines = text.split("\n")
    fences = [at for at, line in enumerate(lines) if "```" in line]
    if len(fences) < 2:
        return ""
    return "\n".join(lines[fences[-2] + 1 : fences[-1]])


def passes(code: str, tests: Cases, seconds: float = SECONDS) -> bool:
    """Return whether a program passes all tests; stops at the first failure.
    ``seconds``: time limit per test.

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
    file: Path, function: str | None, given: str, expected: str, seconds: float
) -> bool:
    if function is None:
        printed = _printed(file, given, seconds)
        return printed is not None and _same(printed, expected)
    token = secrets.token_hex()
    call = {
        "name": function,
        "arguments": [json.loads(line) for line in given.split("\n")],
        "expected": json.loads(expected),
        "token": token,
    }
    printed = _printed(file, json.dumps(call) + "\n", seconds)
    return printed is not None and printed.split("\n")[-2:] == [token, ""]


def _printed(file: Path, given: str, seconds: float) -> str | None:
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
    """Kill a program, with its process group where supported."""
    try:
        if hasattr(os, "killpg"):
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()
    except (ProcessLookupError, PermissionError):
        pass  # it has already ended


def _same(printed: str, expected: str) -> bool:
    """Compare outputs line by line, as strings or decimal numbers; surrounding
    whitespace is ignored."""
    one, other = (text.strip().split("\n") for text in (printed, expected))
    return len(one) == len(other) and all(map(_same_line, one, other))


def _same_line(printed: str, expected: str) -> bool:
    if printed.strip() == expected.strip():
        return True
    try:
        return _decimals(printed) == _decimals(expected)
    except InvalidOperation:
        return False


def _decimals(line: str) -> list[Decimal]:
    return [Decimal(word) for word in line.split()]
