"""The entities that the LatticeFlow files of this session may name."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_evals.errors import suggestion
from pytest_evals.plugin.settings.options import OPTIONS
from pytest_evals.plugin.suite.eval_files import named_places
from pytest_evals.plugin.suite.task_index import skips_of

if TYPE_CHECKING:
    from pytest_evals.core.task import Task, TaskOptions
    from pytest_evals.dialects.latticeflow.entities import Entities

ENTITIES: pytest.StashKey[Entities] = pytest.StashKey()
"""Key of ``config.stash``: each file is read once a session."""


def load_tasks_near(
    path: Path, config: pytest.Config, options: TaskOptions
) -> Sequence[Task]:
    """The tasks of a LatticeFlow file."""
    from pytest_evals.dialects.latticeflow.entities import Entities
    from pytest_evals.dialects.latticeflow.loader import load_tasks

    if ENTITIES not in config.stash:
        config.stash[ENTITIES] = Entities(
            root=Path(options.root),
            base=config.invocation_params.dir,
            skips=skips_of(config),
        )
    named = named_places(config)
    collected = () if path in named else sorted(named)
    return load_tasks(path, options, config.stash[ENTITIES], collected=collected)


def check_parameters(config: pytest.Config) -> None:
    """Refuse values of parameters that nothing declares; those of an ini file may be
    meant for other files.

    Raises:
        pytest.UsageError: ``--evals-latticeflow-config`` names one.
    """
    if ENTITIES not in config.stash or not config.getoption("evals_latticeflow_config"):
        return
    known = sorted(config.stash[ENTITIES].parameters)
    for key in config.stash[OPTIONS].latticeflow_config:
        if key not in known:
            hint = suggestion(key, known)
            raise pytest.UsageError(
                "--evals-latticeflow-config: no task or evaluation has a parameter "
                f"{key!r}{hint}"
            )
