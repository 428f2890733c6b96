"""The role of this process under pytest-xdist, and the visible devices.

Imported in every pytest run; imports neither xdist nor torch.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from pytest_evals.run.start import Start


class WorkerAssignment(NamedTuple):
    """The assignment of a worker."""

    slot: int  # number of its shard and device
    n: int  # number of slots
    stop: str  # a file; the worker stops once it exists
    todo: list[int] | None  # remaining items, for a replacement of a crashed worker
    window: int | None  # documents to plan together, if not the usual number
    selects: Sequence[str] = ()  # run of each model for ``--evals-only``, or empty
    costs: str = ""  # folder of the run whose costs cut the shards, or empty


def is_distributed(config: pytest.Config) -> bool:
    """Whether this process hands its tests to workers."""
    dist = config.getoption("dist", "no")
    distributes = dist != "no" and bool(config.getoption("tx", []))
    return distributes and not hasattr(config, "workerinput")


def assignment_of(config: pytest.Config) -> WorkerAssignment | None:
    """Return the assignment of this worker; ``None`` in any other process."""
    assignment: dict[str, Any] | None = getattr(config, "workerinput", {}).get("evals")
    return WorkerAssignment(**assignment) if assignment else None


_SELECTING = (
    *("keyword", "markexpr", "deselect", "lf", "failedfirst", "newfirst"),
    *("stepwise", "stepwise_skip", "loadgroup"),
)
"""Options of pytest and pytest-xdist that select or sort items."""


def selects_items(config: pytest.Config) -> bool:
    """Whether options or node ids select or sort items."""
    return any("::" in str(one) for one in config.args) or any(
        getattr(config.option, name, None) for name in _SELECTING
    )


STARTED: pytest.StashKey[Start] = pytest.StashKey()  # when pytest was configured
ALONE: pytest.StashKey[bool] = pytest.StashKey()
"""Whether ``-n auto`` found no device and uses one worker."""


NVIDIA, AMD, INTEL = "CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ZE_AFFINITY_MASK"
VARIABLES = (NVIDIA, AMD, "ROCR_VISIBLE_DEVICES", INTEL)
"""Environment variables that select devices: NVIDIA, AMD twice, Intel."""


class VisibleDevices(NamedTuple):
    """The devices that workers share."""

    names: list[str]
    variable: str = NVIDIA


def visible_devices() -> VisibleDevices:
    """The devices that the user selected, or all devices that drivers report."""
    for variable in VARIABLES:
        given = os.environ.get(variable)
        if given is not None:
            names = [entry.strip() for entry in given.split(",") if entry.strip()]
            return VisibleDevices(names, variable)
    nvidia = _nvidia_devices()
    return VisibleDevices(nvidia) if nvidia else VisibleDevices(_amd_devices(), AMD)


def _nvidia_devices() -> list[str]:
    """GPUs by number, or their MIG instances by UUID. Containers and WSL2 may lack the
    driver's folder, which does not list MIG instances either."""
    found: dict[str, list[str]] = {}
    for line in _nvidia_smi().splitlines():
        gpu = re.match(r"GPU (\d+):", line)
        instance = re.search(r"UUID: (MIG-[^)\s]+)", line)
        if gpu:
            found[gpu[1]] = []
        elif instance and found:
            found[list(found)[-1]].append(instance[1])
    if found:
        return [name for gpu, parts in found.items() for name in parts or [gpu]]
    driver = Path("/proc/driver/nvidia/gpus")
    return [str(i) for i, _ in enumerate(driver.iterdir())] if driver.is_dir() else []


def _nvidia_smi() -> str:
    program = shutil.which("nvidia-smi")
    if program is None:
        return ""
    try:
        done = subprocess.run(  # lists devices; starts no context on them
            [program, "-L"], capture_output=True, text=True, timeout=30, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout


def _amd_devices(nodes: Path = Path("/sys/class/kfd/kfd/topology/nodes")) -> list[str]:
    """GPUs that the kernel driver lists; processors have no SIMD units there."""
    files = sorted(nodes.glob("*/properties"))
    gpus = [f for f in files if re.search(r"^simd_count [1-9]", f.read_text(), re.M)]
    return [str(i) for i, _ in enumerate(gpus)]


def package_of(plugin: object) -> str:
    """Return the name of the package of a plugin, which is a module or an object."""
    name: str = getattr(plugin, "__name__", type(plugin).__module__)
    return name.partition(".")[0]


def load_conftests(config: pytest.Config, folder: Path) -> None:
    """Load the ``conftest.py`` files of a folder and of those above it.

    Pytest does so while it collects, and the controller of pytest-xdist does not
    collect: hooks of nested conftests would run on the workers only.
    """
    config.pluginmanager._loadconftestmodules(
        folder,
        config.getoption("importmode"),
        config.rootpath,
        consider_namespace_packages=config.getini("consider_namespace_packages"),
    )


def is_one_per_session(spec: str) -> bool:
    """Whether only one process of a session can open a model."""
    from pytest_evals.models.registry import KINDS
    from pytest_evals.models.spec import kind_name

    kind = kind_name(spec)
    return kind in KINDS and KINDS[kind].one_per_session


def refuse_replicas(config: pytest.Config, models: dict[str, str]) -> None:
    """Refuse several workers with a model that only one process can open."""
    n = len(config.getoption("tx"))
    for option, spec in models.items():
        if n > 1 and spec and is_one_per_session(spec):
            raise pytest.UsageError(
                f"{option} cannot be opened by {n} workers: it runs one engine "
                "per session, which forms batches over all documents\n"
                "  fix: leave out -n; the engine's own arguments, such as "
                "tensor_parallel_size=N, distribute it over GPUs"
            )
