"""User functions that aggregate document scores: what they compute, found by calling
them.

Nothing here knows a function by its name. A function is called only after the documents
gave it values that it can take, since it may be slow to load and may not accept others.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import replace
from io import StringIO
from random import Random
from typing import TYPE_CHECKING, Any

from pytest_evals.core.metric import Estimate
from pytest_evals.scorers.aggregations import AGGREGATIONS, Aggregation, estimate
from pytest_evals.stats import averages, bootstrap

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

LONGEST_S = 30.0
"""Time that the bootstrap of one function may take."""
_LENGTHS = (2, 3, 5, 8, 101)
"""Lengths of the test lists. The longest tells a mean from a trimmed one."""
_Number = Callable[[Sequence[Any]], float]


class PrefersOnes:
    """Whether documents that all have 1 give a higher number than documents that all
    have 0, so that 1 means correct and 0 wrong. ``bool()`` of it calls the function,
    once. True if the function does not accept the test values.
    """

    def __init__(self, number: _Number) -> None:
        """Call nothing yet."""
        self._number = number
        self._found: bool | None = None

    def __bool__(self) -> bool:
        """Whether it does."""
        if self._found is None:
            with _quiet():
                ones, zeros = (_tried(self._number, [one] * 4) for one in (True, False))
            self._found = not ones <= zeros
        return self._found


Decides = bool | PrefersOnes
"""Whether a value of 1 means that a document is correct, and 0 that it is wrong."""


def is_mean(number: _Number, values: Sequence[Any], value: float) -> bool:
    """Whether a function is the arithmetic mean: on the documents' values, and on lists
    of such values, and of zeros and ones of their type, that differ in length.

    Args:
        number: The function.
        values: The documents' values.
        value: The function's value for them.
    """
    if not all(type(one) in (bool, int, float) for one in values):
        return False
    if not _close(value, averages.mean(values)):
        return False
    lists = _test_lists(values)
    with _quiet():
        return all(_close(_tried(number, one), averages.mean(one)) for one in lists)


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
    """Hide what functions print and warn of values that nobody measured."""
    with warnings.catch_warnings(), redirect_stdout(StringIO()):
        warnings.simplefilter("ignore")
        yield


def _tried(number: _Number, values: list[Any]) -> float:
    """The function's value; NaN if it does not accept these values."""
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
    """The value of a user's function and its standard error: by the formula if the
    function is the mean, else by the bootstrap. The estimate says what it lacks, and
    why.

    Args:
        how: The function.
        metric: The metric's name, for messages.
        decides: Whether its values say that a document is correct or wrong.
        iterations: Resamples of the bootstrap; with 0 there is no standard error.
        values: One a document, in document order, not empty.

    Raises:
        EvalsError: The function fails on these values.
    """
    found = estimate(how, metric, 0, values)
    if isinstance(found, Mapping):
        return found
    found = replace(found, undecided=_undecided(decides, values))
    if is_mean(how.value, values, found.value):
        mean = estimate(AGGREGATIONS["mean"], metric, iterations, values)
        assert isinstance(mean, Estimate), "a mean is one number"
        stderr, method = mean.stderr, mean.method
        return replace(found, stderr=stderr, method=method, is_mean=True)
    if not iterations or len(values) < 2:
        return found
    with _quiet():
        stderr, why = _bootstrapped(how, iterations, values)
    method = "" if stderr is None else "bootstrap"
    return replace(found, stderr=stderr, method=method, note=why)


def _undecided(decides: Decides, values: Sequence[Any]) -> str:
    """Why no document is correct or wrong; empty if some are, or if lower is better."""
    if not any(isinstance(v, (bool, int, float)) and v in (0, 1) for v in values):
        return "no value is 0 or 1"
    if isinstance(decides, PrefersOnes) and not decides:
        return "ones in all of them give no higher number than zeros"
    return ""


def _bootstrapped(
    how: Aggregation, iterations: int, values: Sequence[Any]
) -> tuple[float | None, str]:
    """The standard error, or why there is none."""
    start = time.monotonic()
    _tried(how.value, list(values))
    takes_s = (time.monotonic() - start) * iterations
    if takes_s > LONGEST_S:
        what = f"{iterations:,} resamples would take {takes_s:,.0f} s"
        return None, f"no standard error: {what}"

    def statistic(at: NDArray[np.intp]) -> NDArray[np.float64]:
        import numpy as np

        rows: list[list[int]] = at.tolist()
        drawn = (_tried(how.value, [values[i] for i in row]) for row in rows)
        return np.array(list(drawn), dtype=np.float64)

    stderr = bootstrap.bootstrap_stderr(len(values), statistic, iterations)
    if stderr is None or not math.isfinite(stderr):
        return None, f"no standard error: {how.name} fails on resamples of documents"
    return stderr, ""
