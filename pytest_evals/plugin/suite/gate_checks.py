"""The gates of a session, checked before a model is opened, however the session was
started."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_evals.dialects.gates_section.gate_faults import GateFaults
from pytest_evals.dialects.gates_section.near_groups import near_group_faults
from pytest_evals.dialects.readers import load_group
from pytest_evals.dialects.task_index.suite_names import SuiteNames
from pytest_evals.errors import Problem
from pytest_evals.plugin.settings.process import is_distributed
from pytest_evals.plugin.suite.library import skips_of
from pytest_evals.run.user_hooks import adds_metrics

if TYPE_CHECKING:
    from pytest_evals.plugin.session import EvalSession

__all__ = ["GATE_PROBLEMS", "check_gates", "hooks_of"]

GATE_PROBLEMS: pytest.StashKey[list[Problem]] = pytest.StashKey()
"""Where problems of gates are kept for annotations."""

_HOOKS = (b"pytest_evals_metrics", b"pytest_evals_score")


def hooks_of(config: pytest.Config) -> Callable[[Path], bool]:
    """Whether hooks may add metrics to tasks of a folder, or change their scores.

    A controller of pytest-xdist loads no conftest.py below the folders of the command
    line: there it is enough that one of them has the name of such a hook.
    """

    def hooked(folder: Path) -> bool:
        if adds_metrics(config.hook):
            return True
        return is_distributed(config) and any(
            any(name in _raw(place / "conftest.py") for name in _HOOKS)
            for place in (folder, *folder.parents)
            if place.is_relative_to(config.rootpath)
        )

    return hooked


def _raw(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


def check_gates(session: EvalSession, *, is_broken: bool) -> None:
    """Check the gates of the session's tasks and groups, those that no task answers
    for, and those of groups next to them. What is only odd becomes a warning.

    Args:
        session: The session.
        is_broken: Whether something could not be collected: then it is not known which
            names there are.

    Raises:
        pytest.UsageError: With all problems.
    """
    found = GateFaults([*session.known.gate_faults], [])
    if not is_broken:
        found.add(_of_groups_near(session))
        found.add(_unanswered(session))
    session.known.warn(map(str, found.warnings))
    problems = [*dict.fromkeys(found.problems)]
    if problems:
        session.config.stash[GATE_PROBLEMS] = problems
        raise pytest.UsageError("\n".join(map(str, problems)))


def _of_groups_near(session: EvalSession) -> GateFaults:
    known = session.known
    return near_group_faults(
        {run.task.name: run.task for run in known.tasks.values()},
        {run.path for run in known.all()},
        session.gates,
        partial(load_group, options=session.task_options),
        hooked=hooks_of(session.config),
        is_chosen=_is_chosen(session),
    )


def _unanswered(session: EvalSession) -> GateFaults:
    config, known = session.config, session.known
    readers = config.hook.pytest_evals_load_tasks.get_hookimpls()
    names = SuiteNames(session.library, skips_of(config), has_hooks=len(readers) > 1)
    tasks = [run.task for run in known.tasks.values()]
    groups = [run.group for run in known.groups.values()]
    return session.gates.unanswered(tasks, groups, names, session.selection.offered)


def _is_chosen(session: EvalSession) -> bool:
    """Whether the command line selects by something else than files and folders."""
    option = session.config.option
    named = any("::" in str(arg) for arg in session.config.args)
    chosen = option.keyword or option.markexpr or session.options.tasks
    return bool(named or chosen or session.options.select)
