"""Arguments of ``python:`` specs. Nothing is imported or executed here."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from pytest_evals.errors import OptionError
from pytest_evals.models.spec import Arguments, ModelSpec, argument, whole

CONCURRENCY, TIME_LIMIT_S, RETRIES = 8, 300.0, 2
_REFUSED = {
    "batch_size": "each call gets one prompt; use concurrency",
    "max_cost": "the cost of a call is not known before it returns; use max_requests",
    "max_retries": "use retries",
    "num_concurrent": "use concurrency",
    "revision": "use version",
    "timeout": "use time_limit",
}
"""Arguments of other kinds of models, with the alternative."""


def _seconds(kind: Arguments, name: str, value: str) -> float:
    try:
        seconds = float(value)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < math.inf:
        raise kind.wrong(name, value, "; write seconds, more than 0")
    return seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class PythonSettings:
    """The function and how it is called; the fields are the arguments."""

    target: str  # Module and name of the function, ``my_app:respond``
    version: str = argument(Arguments.text, "")
    """The function's version, for the response store; empty to use its attribute
    ``version``."""
    concurrency: int = argument(whole(1), CONCURRENCY)
    time_limit: float = argument(_seconds, TIME_LIMIT_S)
    """Seconds that one call may take."""
    retries: int = argument(whole(0), RETRIES)
    """Maximum of retries after a connection error or a busy server."""
    max_requests: int = argument(whole(1), 0)
    """Maximum of calls in a run, retries included; 0 for none."""


def read_settings(spec: ModelSpec) -> PythonSettings:
    """The settings of a spec.

    Raises:
        OptionError: The target is not ``MODULE:FUNCTION``, an argument is unknown, or
            it has an invalid value.
    """
    given = Arguments("python").read(spec, PythonSettings, _REFUSED)
    _check_target(spec.target)
    return PythonSettings(target=spec.target, **given)


def check_limits(
    concurrency: object, time_limit: object, retries: object, max_requests: object
) -> None:
    """Check values that were given in Python."""
    for name, value, least in (
        ("concurrency", concurrency, 1),
        ("retries", retries, 0),
        ("max_requests", max_requests, 0),
    ):
        if type(value) is not int or value < least:
            fix = f"use a whole number from {least}"
            raise OptionError(f"the python model's {name} is {value!r}; {fix}")
    is_number = isinstance(time_limit, int | float) and type(time_limit) is not bool
    if not is_number or not 0 < float(str(time_limit)) < math.inf:
        raise OptionError(
            f"the python model's time_limit is {time_limit!r}; use seconds, more than 0"
        )


def _check_target(target: str) -> None:
    module, colon, name = target.partition(":")
    if re.search(r"\.py(:|$)", target) or "/" in module or "\\" in module:
        dotted = re.sub(r"[/\\]+", ".", target.replace(".py", "", 1)).strip(".")
        right = dotted if ":" in dotted else f"{dotted}:FUNCTION"
        raise OptionError(
            f"'python:{target}' names a file; name the module: 'python:{right}'"
        )
    if not colon:
        above, dot, last = target.rpartition(".")
        right = f"{above}:{last}" if dot else f"{target}:FUNCTION"
        raise OptionError(
            f"'python:{target}' is not MODULE:FUNCTION; write 'python:{right}'"
        )
    parts = [*module.split("."), *name.split(".")]
    if not all(part.isidentifier() for part in parts):
        raise OptionError(
            f"'python:{target}' is not a module and a function; write them as in "
            "'python:my_app:respond'"
        )
