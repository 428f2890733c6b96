"""LiveCodeBench (Jain et al. 2024, arXiv 2403.07974): execution of generated programs
against tests."""

from __future__ import annotations

import base64
import json
import math
import pickletools
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from functools import partial
from typing import Any, ClassVar

from pytest_evals.core.doc import Doc
from pytest_evals.errors import DocumentError
from pytest_evals.guests.lighteval.metrics.reductions import check_count
from pytest_evals.sandbox.runner import in_parallel
from pytest_evals.sandbox.session import current_sandbox
from pytest_evals.scorers.code_eval import pass_at_k
from pytest_evals.scorers.custom_metrics.metric import SampleLevelComputation
from pytest_evals.scorers.custom_metrics.response import ModelResponse

_OF_STRING = {
    *("UNICODE", "BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8"),
    *("PROTO", "FRAME", "PUT", "BINPUT", "LONG_BINPUT", "MEMOIZE", "STOP"),
}
"""Opcodes of a pickled string, of any protocol."""
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
        if self.n is not None:
            check_count("n", self.n)

    def num_samples(self) -> int | None:
        """Return the number of answers needed."""
        return self.n

    def measure(self, doc: Doc, model_response: ModelResponse) -> float:
        """Compute pass@1."""
        answers = model_response.final_text
        if len(answers) < (self.n or 1):
            raise DocumentError(
                f"expected at least {self.n or 1} answers, got {len(answers)}"
            )
        tests = _tests(doc)
        codes = [extract_code(one) for one in answers[: self.n]]
        passed = in_parallel(lambda code: passes(code, tests), codes)
        return sum(passed) / len(passed)


def codegen_metrics(
    samples: Sequence[Mapping[str, Any]],
    generations: Sequence[Sequence[str]],
    k_list: Sequence[int] = (1, 5),
    num_process_evaluate: int = 16,
    timeout: float = SECONDS,
) -> tuple[dict[str, Any], dict[int, list[list[bool | int]]]]:
    """Run programs against tests, with lighteval's signature and in the sandbox.

    Args:
        samples: ``input_output`` of each problem: its tests as JSON.
        generations: Programs of each problem.
        timeout: Seconds for a test.

    Returns:
        ``pass@k`` with ``detail`` of each problem; and for each program ``[True]``, or
        ``[-2]`` if a test failed.

    Raises:
        EvalsError: Code may not run here; see ``Sandbox.check_consent``.
    """
    current_sandbox().check_consent()
    results: dict[int, list[list[bool | int]]] = {}
    for at, (sample, codes) in enumerate(zip(samples, generations, strict=True)):
        given = json.loads(sample["input_output"])
        tests = Cases(given["inputs"], given["outputs"], given.get("fn_name"))
        passed = in_parallel(partial(passes, tests=tests, seconds=timeout), codes)
        results[at] = [[True] if one else [-2] for one in passed]
    counts = [(len(one), one.count([True])) for one in results.values()]
    detail = {
        f"pass@{k}": {at: pass_at_k(*one, k) for at, one in enumerate(counts)}
        for k in k_list
        if all(n >= k for n, _ in counts)
    }
    rates = {name: math.fsum(d.values()) / len(d) for name, d in detail.items() if d}
    return {**rates, "detail": detail}, results


def translate_private_test_cases(encoded_data: str) -> Any:
    """Return the hidden tests of a row of LiveCodeBench: JSON, pickled as a string,
    compressed, in base 64. The pickle is parsed and never loaded.

    Raises:
        DocumentError: The pickle has anything but a string.
    """
    data = zlib.decompress(base64.b64decode(encoded_data))
    parts = [(code.name, given) for code, given, _ in pickletools.genops(data)]
    texts = [given for name, given in parts if name.endswith(("UNICODE", "UNICODE8"))]
    others = {name for name, _ in parts} - _OF_STRING
    if others or len(texts) != 1:
        raise DocumentError("private_test_cases must be a pickled string")
    return json.loads(str(texts[0]))


def _tests(doc: Doc) -> Cases:
    specific = doc.specific or {}
    given = [specific.get(name) for name in ("inputs", "outputs")]
    inputs, outputs = (list(one) if isinstance(one, list) else [] for one in given)
    if not inputs or len(inputs) != len(outputs):
        raise DocumentError(
            "columns inputs and outputs (or doc.specific) must be lists of equal length"
        )
    return Cases(inputs=inputs, outputs=outputs, function=specific.get("fn_name"))


@dataclass(frozen=True, slots=True)
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
        DocumentError: Arguments or results of a function are not JSON.
    """
    if not code.strip():
        return False
    program = f"{_PRELUDE}\n{code}\n"
    pairs = zip(tests.inputs, tests.outputs, strict=True)
    try:
        return all(_passed(program, tests.function, *pair, seconds) for pair in pairs)
    except ValueError as error:
        message = f"arguments and results of {tests.function} must be JSON: {error}"
        raise DocumentError(message) from None


def _passed(
    program: str, function: str | None, given: str, expected: str, seconds: float
) -> bool:
    sandbox = current_sandbox()
    limits = sandbox.limits.within(seconds)
    if function is None:
        result = sandbox.run(program, stdin=given, limits=limits)
        return result.ok and _same(result.stdout, expected)
    # Compared here: the program's process never has the expected result.
    arguments = [json.loads(line) for line in given.split("\n")]
    reference = json.loads(expected)
    returned, value = sandbox.call(program, function, arguments, limits)
    if isinstance(value, tuple):
        value = list(value)
    return returned and bool(value == reference)


def _same(printed: str, expected: str) -> bool:
    """Compare outputs line by line, as strings or decimal numbers; surrounding
    whitespace is ignored."""
    one, other = (text.strip().split("\n") for text in (printed, expected))
    return len(one) == len(other) and all(map(_same_line, one, other))


def _same_line(printed: str, expected: str) -> bool:
    if printed.strip() == expected.strip():
        return True
    try:
        one, other = ([*map(Decimal, x.split())] for x in (printed, expected))
    except InvalidOperation:
        return False
    return one == other
