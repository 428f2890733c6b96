"""What the LatticeFlow files of this session may name."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_evals.plugin.library import skips_of
from pytest_evals.plugin.sniffing import is_named

if TYPE_CHECKING:
    from pytest_evals.core.task import Task, TaskOptions
    from pytest_evals.frontends.latticeflow.entities import Entities

__all__ = ["load_tasks_near"]

ENTITIES: pytest.StashKey[Entities] = pytest.StashKey()
"""Where they hang on ``config.stash``: each file is read once a session."""


def load_tasks_near(
    path: Path, config: pytest.Config, options: TaskOptions
) -> Sequence[Task]:
    """The tasks of a LatticeFlow file.

    Raises:
        TaskFileError: It cannot be used.
    """
    from pytest_evals.frontends.latticeflow.entities import Entities
    from pytest_evals.frontends.latticeflow.loading import load_tasks

    if ENTITIES not in config.stash:
        config.stash[ENTITIES] = Entities(
            root=Path(options.root),
            base=config.invocation_params.dir,
            skips=skips_of(config),
        )
    named = is_named(path, config)
    return load_tasks(path, options, config.stash[ENTITIES], named=named)
