"""Properties of user functions that aggregate scores, determined by calling them.

Functions are not recognized by name. A function is called only after documents have
values that it accepts, because it may be slow to load and may reject other values.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import replace
from functools import partial
from io import StringIO
from random import Random
from typing import Any

from pytest_evals.core.metric import Estimate
from pytest_evals.scorers import bootstrap
from pytest_evals.scorers.aggregations import AGGREGATIONS, Aggregation, estimate
from pytest_evals.stats import averages

LONGEST_S = 30.0  # time limit for the bootstrap of one function
_LENGTHS = (2, 3, 5, 8, 101)
"""Lengths of the test lists. The longest distinguishes a mean from a trimmed mean."""
_Number = Callable[[Sequence[Any]], float]


class PrefersOnes:
    """Whether all ones give a higher number than all zeros, so that 1 means correct.
    ``bool()`` calls the function, once. True if the function rejects the test values.
    """

    def __init__(self, number: _Number) -> None:
        # The function is called on first use.
        self._number = number
        self._result: bool | None = None

    def __bool__(self) -> bool:
        if self._result is None:
            with _quiet():
                ones = _value_or_nan(self._number, [True] * 4)
                zeros = _value_or_nan(self._number, [False] * 4)
            self._result = not ones <= zeros
        return self._result


Decides = bool | PrefersOnes
"""Whether a value of 1 means that a document is correct, and 0 that it is wrong."""


def is_mean(number: _Number, values: Sequence[Any], value: float) -> bool:
    """Whether a function is the arithmetic mean, tested on the documents' values and on
    lists of different lengths."""
    if not all(type(one) in (bool, int, float) for one in values):
        return False
    if not _close(value, averages.mean(values)):
        return False
    lists = _test_lists(values)
    with _quiet():
        return all(
            _close(_value_or_nan(number, one), averages.mean(one)) for one in lists
        )


def _test_lists(values: Sequence[Any]) -> Iterator[list[Any]]:
    kind, random = type(values[0]), Random(0)
    several = sorted({*values, kind(0), kind(1)})
    yield [kind(1), *[kind(0)] * 3]
    for length in _LENGTHS:
        yield random.choices(several, k=length)


def _close(one: float, other: float) -> bool:
    return math.isclose(one, other, rel_tol=1e-6, abs_tol=1e-9)  # also of float32


@contextmanager
def _quiet() -> Iterator[None]:
    with warnings.catch_warnings(), redirect_stdout(StringIO()):
        warnings.simplefilter("ignore")
        yield


def _value_or_nan(number: _Number, values: list[Any]) -> float:
    """The function's result; NaN if it rejects the values."""
    try:
        return float(number(values))
    except (Exception, SystemExit):  # noqa: BLE001 - user code
        return math.nan


def estimate_user(
    how: Aggregation,
    metric: str,
    decides: Decides,
    iterations: int,
    values: Sequence[Any],
) -> Estimate | Mapping[str, Estimate]:
    """Compute the result of a user function and its standard error. The standard error
    is analytic if the function is the mean, else from the bootstrap. The estimate
    contains the reason if it has no standard error. ``decides``: whether 1 means
    correct and 0 wrong. ``iterations``: resamples of the bootstrap; 0 disables standard
    errors. Raises EvalsError if the function fails on these values."""
    found = estimate(how, metric, 0, values)
    if isinstance(found, Mapping):
        return found
    found = replace(found, undecided=_undecided_reason(decides, values))
    if is_mean(how.value, values, found.value):
        mean = estimate(AGGREGATIONS["mean"], metric, iterations, values)
        assert isinstance(mean, Estimate), "a mean is one number"
        stderr, method = mean.stderr, mean.method
        return replace(found, stderr=stderr, method=method, is_mean=True)
    if not iterations or len(values) < 2:
        return found
    with _quiet():
        stderr, reason = _bootstrap_stderr(how, iterations, values)
    method = "" if stderr is None else "bootstrap"
    return replace(found, stderr=stderr, method=method, note=reason)


def _undecided_reason(decides: Decides, values: Sequence[Any]) -> str:
    """Reason if values do not determine correctness; empty otherwise."""
    if not any(isinstance(v, (bool, int, float)) and v in (0, 1) for v in values):
        return "no value is 0 or 1"
    if isinstance(decides, PrefersOnes) and not decides:
        return "all ones do not give a higher result than all zeros"
    return ""


def _bootstrap_stderr(
    how: Aggregation, iterations: int, values: Sequence[Any]
) -> tuple[float | None, str]:
    start = time.monotonic()
    _value_or_nan(how.value, list(values))
    takes_s = (time.monotonic() - start) * iterations
    if takes_s > LONGEST_S:
        message = f"{iterations:,} resamples would take {takes_s:,.0f} s"
        return None, f"no standard error: {message}"

    from pytest_evals.stats.bootstrap_limits import resampled_one_by_one  # needs NumPy

    number = partial(_value_or_nan, how.value)
    statistic = resampled_one_by_one(values, number)
    stderr = bootstrap.bootstrap_stderr(len(values), statistic, iterations)
    if stderr is None or not math.isfinite(stderr):
        return None, f"no standard error: {how.name} fails on resamples of documents"
    return stderr, ""
