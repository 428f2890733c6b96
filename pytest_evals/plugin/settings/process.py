"""What this process is under pytest-xdist, and which devices there are.

Light: it is asked in every pytest run. Neither xdist nor torch is imported.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from pytest_evals.run.start import Start


class Orders(NamedTuple):
    """What the controller tells a worker.

    Args:
        slot: Its place: which shard and device are its own.
        n: Number of slots.
        stop: A file; once it is there, the session is over.
        todo: Positions of the items that are left, for a worker that replaces another.
        window: Documents to plan together, if not as usual.
        selects: Folder of the run that ``--evals-only`` looks at, empty if there is
            none.
    """

    slot: int
    n: int
    stop: str
    todo: list[int] | None
    window: int | None
    selects: str = ""


def is_distributed(config: pytest.Config) -> bool:
    """Whether this process hands its tests to workers."""
    dist = config.getoption("dist", "no")
    wanted = dist != "no" and bool(config.getoption("tx", []))
    return wanted and not hasattr(config, "workerinput")


def orders_of(config: pytest.Config) -> Orders | None:
    """What this worker was told; ``None`` in any other process."""
    told: dict[str, Any] | None = getattr(config, "workerinput", {}).get("evals")
    return Orders(**told) if told else None


STARTED: pytest.StashKey[Start] = pytest.StashKey()
"""When pytest was configured."""
ALONE: pytest.StashKey[bool] = pytest.StashKey()
"""Whether ``-n auto`` has found no device, and takes one worker."""


def visible_devices() -> list[str]:
    """The caller's own list of devices, else all that the driver shows."""
    given = os.environ.get("CUDA_VISIBLE_DEVICES")
    if given is not None:
        return [entry.strip() for entry in given.split(",") if entry.strip()]
    driver = Path("/proc/driver/nvidia/gpus")
    return [str(i) for i, _ in enumerate(driver.iterdir())] if driver.is_dir() else []


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
