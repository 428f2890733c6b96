"""Model kind ``python``: functions of the application under test. A module is imported
when the model is opened, or checked before."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pytest_evals.core.request import Request
from pytest_evals.core.run_plan import SpendPlan
from pytest_evals.errors import OptionError
from pytest_evals.models.python.functions import load_function, version_of
from pytest_evals.models.python.model import (
    NO_SCORES,
    PythonModel,
    fingerprint_of_version,
)
from pytest_evals.models.python.parameters import parameters_of
from pytest_evals.models.python.sessions import AppSessions
from pytest_evals.models.python.settings import read_settings
from pytest_evals.models.registry import ModelKind
from pytest_evals.models.spec import ModelSpec

_SCORED = ("loglikelihood", "loglikelihood_rolling", "multiple_choice")


def _check(spec: ModelSpec) -> None:
    """Check the spec; imports nothing."""
    read_settings(spec)


def _check_ready(spec: ModelSpec) -> None:
    """Import the function and check its parameters and version."""
    settings = read_settings(spec)
    function = load_function(settings.target)
    if isinstance(function, type):
        AppSessions(function, settings.target)
    else:
        parameters_of(function, settings.target)
    version_of(function, settings.version)


def _open(spec: ModelSpec) -> PythonModel:
    """Import the function."""
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


def _fingerprint(
    spec: ModelSpec, hash_file: Callable[[Path], str]
) -> Mapping[str, Any] | None:
    """Name and version of the function; ``None`` without a version. Imports the
    function if the spec has no version."""
    settings = read_settings(spec)
    try:
        version = settings.version or version_of(load_function(settings.target))
    except OptionError:
        return None  # opening the model reports it
    if not version:
        return None
    return fingerprint_of_version(settings.target, version)


def _spend_plan(spec: ModelSpec, requests: Sequence[Request]) -> SpendPlan:
    """The number of calls; their tokens and cost are not known before."""
    max_requests = read_settings(spec).max_requests
    return SpendPlan(n_requests=len(requests), max_requests=max_requests)


PYTHON = ModelKind(
    name="python",
    example="python:my_app:respond",
    open=_open,
    check=_check,
    check_ready=_check_ready,
    why_unfit=lambda spec, needs: NO_SCORES if needs.output_type in _SCORED else "",
    fingerprint=_fingerprint,
    spend_plan=_spend_plan,
    target_key="function",
)
