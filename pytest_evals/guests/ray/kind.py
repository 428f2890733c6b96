"""Model kind ``ray``: replicas on a Ray cluster. Importing it does not import ray."""

from __future__ import annotations

from importlib.util import find_spec

from pytest_evals.core.model import Model
from pytest_evals.errors import MissingExtraError
from pytest_evals.guests.ray.settings import (
    check_address,
    check_ray,
    inner_spec,
    read_settings,
)
from pytest_evals.models.registry import ModelKind
from pytest_evals.models.spec import ModelSpec


def _check_ready(spec: ModelSpec) -> None:
    """Check that Ray is installed. The model's own requirements apply to the cluster's
    nodes, not to this machine.

    Raises:
        MissingExtraError: ray is not installed.
    """
    del spec
    if find_spec("ray") is None:
        raise MissingExtraError("a model on a Ray cluster", "ray", "ray")


def _open(spec: ModelSpec) -> Model:
    """Start the replicas of a spec, and wait for the first one.

    Raises:
        OptionError: The spec has a mistake.
        MissingExtraError: ray is not installed.
        ModelError: There is no such cluster, it has no room, or a replica cannot open
            the model.
    """
    settings, inner = read_settings(spec), inner_spec(spec)
    _check_ready(spec)
    from pytest_evals.guests.ray.model import RayModel

    return RayModel(inner, settings)


RAY = ModelKind(
    name="ray",
    example="ray:hf:PATH_OR_NAME",
    open=_open,
    check=check_ray,
    check_ready=_check_ready,
    answering=inner_spec,
    check_address=check_address,
)
