"""Model kind ``python``: functions of the application under test. A module is imported
when the model is opened, or checked before; reading a spec imports nothing."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pytest_evals.core.request import Request
from pytest_evals.core.run_plan import SpendPlan
from pytest_evals.errors import OptionError
from pytest_evals.models.python.functions import (
    load_function,
    parameters_of,
    version_of,
)
from pytest_evals.models.python.model import (
    CONCURRENCY,
    NO_SCORES,
    RETRIES,
    TIME_LIMIT_S,
    PythonModel,
)
from pytest_evals.models.python.sessions import AppSessions
from pytest_evals.models.registry import HashFile, ModelKind
from pytest_evals.models.spec import Arguments, ModelSpec, argument, seconds, whole

_SCORED = ("loglikelihood", "loglikelihood_rolling", "multiple_choice")


_REFUSED = {
    "batch_size": "each call gets one prompt; use concurrency",
    "max_cost": "the cost of a call is not known before it returns; use max_requests",
    "max_retries": "use retries",
    "num_concurrent": "use concurrency",
    "revision": "use version",
    "timeout": "use time_limit",
}
"""Arguments of other kinds of models, with the alternative."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PythonSettings:
    """The function and how it is called; the fields are the arguments."""

    target: str  # Module and name of the function, ``my_app:respond``
    version: str = argument(Arguments.text, "")
    """The function's version, for the store; empty for its attribute ``version``."""
    concurrency: int = argument(whole(1), CONCURRENCY)
    time_limit: float = argument(seconds, TIME_LIMIT_S)
    """Seconds that one call may take."""
    retries: int = argument(whole(0), RETRIES)
    """Maximum of retries after a connection error or a busy server."""
    max_requests: int = argument(whole(1), 0)
    """Maximum of calls in a run, retries included; 0 for none."""


def read_settings(spec: ModelSpec) -> PythonSettings:
    """The settings of a spec; ``OptionError`` if the target is not ``MODULE:FUNCTION``,
    an argument is unknown, or it has an invalid value."""
    given = Arguments("python").read(spec, PythonSettings, _REFUSED)
    _check_target(spec.target)
    return PythonSettings(target=spec.target, **given)


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


def _check_ready(spec: ModelSpec) -> None:
    settings = read_settings(spec)
    function = load_function(settings.target)
    if isinstance(function, type):
        AppSessions(function, settings.target)
    else:
        parameters_of(function, settings.target)
    version_of(function, settings.version)


def _open(spec: ModelSpec) -> PythonModel:
    settings = read_settings(spec)
    model = PythonModel(
        load_function(settings.target),
        settings.version,
        settings.concurrency,
        settings.time_limit,
        settings.retries,
        settings.max_requests,
    )
    model.name, model.label = str(spec), settings.target
    return model


def _fingerprint(spec: ModelSpec, hash_file: HashFile) -> Mapping[str, Any] | None:
    """Name and version of the function; ``None`` without a version. Imports the
    function if the spec has no version."""
    settings = read_settings(spec)
    try:
        version = settings.version or version_of(load_function(settings.target))
    except OptionError:
        return None  # opening the model reports it
    return {"python": settings.target, "version": version} if version else None


def _spend_plan(spec: ModelSpec, requests: Sequence[Request]) -> SpendPlan:
    """The number of calls; their tokens and cost are not known before."""
    max_requests = read_settings(spec).max_requests
    return SpendPlan(n_requests=len(requests), max_requests=max_requests)


PYTHON = ModelKind(
    name="python",
    example="python:my_app:respond",
    open=_open,
    check=read_settings,
    check_ready=_check_ready,
    why_unfit=lambda spec, needs: NO_SCORES if needs.output_type in _SCORED else "",
    fingerprint=_fingerprint,
    spend_plan=_spend_plan,
    target_key="function",
)
