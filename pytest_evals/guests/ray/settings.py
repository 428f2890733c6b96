"""Arguments of ``ray:`` specs. Standard library only.

``ray:hf:gpt2,dtype=bfloat16,replicas=4`` is the model ``hf:gpt2,dtype=bfloat16`` with
four replicas: arguments that are not about the cluster belong to the model.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace

from pytest_evals.errors import OptionError
from pytest_evals.models.registry import KINDS, check_spec, parse_spec
from pytest_evals.models.spec import Arguments, ModelSpec, argument, readers_of, whole

_ADDRESS = re.compile(r"(ray://)?([\w.-]+|\[[0-9A-Fa-f:]+\]):\d{1,5}")


def check_address(text: str) -> str:
    """Check the address of a cluster.

    Raises:
        OptionError: It is none.
    """
    if text in ("auto", "local") or _ADDRESS.fullmatch(text):
        return text
    raise OptionError(
        f"{text!r} is not the address of a Ray cluster; write HOST:6379, "
        "ray://HOST:10001, local or auto"
    )


def _address(kind: Arguments, name: str, value: str) -> str:
    return check_address(value)


def _share(kind: Arguments, name: str, value: str) -> float:
    """Ray assigns a fraction of one device, or whole devices."""
    try:
        number = float(value)
    except ValueError:
        number = -1.0
    whole = number == int(number) if math.isfinite(number) else False
    if not 0 <= number < math.inf or (number > 1 and not whole):
        raise kind.wrong(name, value, "; write a share such as 0.5, or 1, 2, …")
    return number


@dataclass(frozen=True, slots=True, kw_only=True)
class RaySettings:
    """Number and resources of replicas; the fields are the arguments."""

    address: str = argument(_address, "auto")
    """The cluster: ``host:port``, ``ray://host:port``, ``local`` for one that is
    started on this machine for the run, or ``auto`` for the one that Ray finds on its
    own, else as ``local``."""
    replicas: int = argument(whole(1), 0)
    """Number of replicas; 0 for one per GPU of the cluster, at least one."""
    gpus: float | None = argument(_share, None)
    """GPUs of each, whole or a share of one; ``None`` for 1 where the cluster has GPUs,
    else none."""
    cpus: float = argument(_share, 1.0)  # Processors that each keeps


def check_ray(spec: ModelSpec) -> None:
    """Check a spec.

    Raises:
        OptionError: As :func:`read_settings`; or the model's own spec has a mistake.
    """
    read_settings(spec)
    inner = inner_spec(spec)
    check_spec(inner)
    if ":" in inner.arguments.get("device", ""):
        raise OptionError(
            f"device={inner.arguments['device']} is one device of one machine, and Ray "
            "gives each replica its own; leave the number out"
        )


def inner_spec(spec: ModelSpec) -> ModelSpec:
    """The spec of the replicated model.

    Raises:
        OptionError: It is none, or of a kind that is not replicated.
    """
    inner = parse_spec(spec.target)
    if not KINDS[inner.kind].is_local:
        local = [name for name in KINDS if KINDS[name].is_local]
        raise OptionError(
            f"Ray replicates {' and '.join(local)} models, not {inner.kind!r}"
            + ("; a server is asked with concurrency=" * (inner.kind == "openai"))
        )
    known = readers_of(RaySettings)
    given = {k: v for k, v in spec.arguments.items() if k not in known}
    return replace(inner, arguments=given)


def read_settings(spec: ModelSpec) -> RaySettings:
    """The settings of a spec.

    Raises:
        OptionError: An argument has a bad value.
    """
    given = {n: v for n, v in spec.arguments.items() if n in readers_of(RaySettings)}
    cluster = replace(spec, arguments=given)
    return RaySettings(**Arguments("ray").read(cluster, RaySettings, {}))
