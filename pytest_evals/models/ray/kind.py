"""The door to replicas on a Ray cluster: importing it does not import ray."""

from __future__ import annotations

from importlib.util import find_spec

from pytest_evals.core.request import Model
from pytest_evals.errors import MissingExtraError
from pytest_evals.models.ray.settings import inner_spec, read_settings
from pytest_evals.models.spec import ModelSpec

__all__ = ["check_ready", "open_ray"]


def check_ready(spec: ModelSpec) -> None:
    """Check what replicas need of this machine. What the model itself needs is the
    cluster's matter, whose machines may have what this one lacks.

    Raises:
        MissingExtraError: ray is not installed.
    """
    del spec
    if find_spec("ray") is None:
        raise MissingExtraError("a model on a Ray cluster", "ray", "ray")


def open_ray(spec: ModelSpec) -> Model:
    """Start the replicas that a spec names, and wait for the first one.

    Raises:
        OptionError: The spec has a mistake.
        MissingExtraError: ray is not installed.
        ModelError: There is no such cluster, it has no room, or a replica cannot open
            the model.
    """
    settings, inner = read_settings(spec), inner_spec(spec)
    check_ready(spec)
    from pytest_evals.models.ray.model import RayModel

    return RayModel(inner, settings)
