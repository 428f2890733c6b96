"""Checks of a session before a model is opened."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING

import pytest

from pytest_evals.dialects.gates_section.gate_faults import GateFaults
from pytest_evals.dialects.gates_section.nearby_groups import nearby_group_faults
from pytest_evals.dialects.readers import load_group
from pytest_evals.dialects.task_index.suite_names import SuiteNames
from pytest_evals.errors import Problem, suggestion
from pytest_evals.plugin.checks.reference_models import check_reference_models
from pytest_evals.plugin.models.compatibility import check_models
from pytest_evals.plugin.session import EvalSession
from pytest_evals.plugin.settings.option_checks import usage_errors, with_place
from pytest_evals.plugin.settings.run_options import full_spec
from pytest_evals.plugin.suite.task_index import skips_of
from pytest_evals.plugin.suite.user_metrics import hooks_of

if TYPE_CHECKING:
    from pytest_evals.plugin.session import EvalSession

GATE_PROBLEMS: pytest.StashKey[list[Problem]] = pytest.StashKey()
"""Where problems of gates are kept for annotations."""


def check_session(
    session: EvalSession, ids: Iterable[str] | None = None, *, is_broken: bool = False
) -> None:
    """Check tasks, gates and models.

    Raises:
        pytest.UsageError: A gate names nothing, or a model cannot exist.
    """
    try:
        with usage_errors():
            session.selection.check(session.task_index.included_names())
        check_gates(session, is_broken=is_broken)
        tasks = session.suite.with_documents(ids)
        specs = [session.run.config.full_spec]
        if session.options.validate:  # one suite for all models
            models = session.options.models
            specs = [full_spec(session.options, one.spec) for one in models] or specs
        for spec in specs:
            check_models(session.config, session.run.inference.answers, spec, tasks)
        check_reference_models(session, ids)
        if session.options.locked:
            from pytest_evals.plugin.checks.lock import check_lock

            check_lock(session, tasks)
    except pytest.UsageError as error:
        raise with_place(session.config, error) from None


def check_parameters(session: EvalSession) -> None:
    """Refuse values of parameters that no file declares; those of an ini file may be
    meant for other files.

    Raises:
        pytest.UsageError: ``--evals-latticeflow-config`` names one.
    """
    files = session.task_options.files
    if not files or not files.indexes:
        return
    if not session.config.getoption("evals_latticeflow_config"):
        return
    for key in session.options.latticeflow_config:
        if key not in files.parameters:
            raise pytest.UsageError(
                "--evals-latticeflow-config: no task or evaluation has a parameter "
                f"{key!r}{suggestion(key, sorted(files.parameters))}"
            )


def check_gates(session: EvalSession, *, is_broken: bool) -> None:
    """Check the gates of the session's tasks and groups, those that no task answers
    for, and those of groups next to them. What is only odd becomes a warning."""
    found = GateFaults([*session.suite.gate_faults], [])
    if not is_broken:
        found.add(_of_groups_near(session))
        found.add(_unanswered(session))
    session.suite.warn(map(str, found.warnings))
    problems = [*dict.fromkeys(found.problems)]
    if problems:
        session.config.stash[GATE_PROBLEMS] = problems
        raise pytest.UsageError("\n".join(map(str, problems)))


def _of_groups_near(session: EvalSession) -> GateFaults:
    suite = session.suite
    return nearby_group_faults(
        {run.task.name: run.task for run in suite.tasks.values()},
        {run.path for run in suite.all()},
        session.gates,
        partial(load_group, options=session.task_options),
        hooked=hooks_of(session.config),
        is_chosen=_is_chosen(session),
    )


def _unanswered(session: EvalSession) -> GateFaults:
    config, suite = session.config, session.suite
    readers = config.hook.pytest_evals_load_tasks.get_hookimpls()
    names = SuiteNames(session.task_index, skips_of(config), has_hooks=len(readers) > 1)
    tasks = [run.task for run in suite.tasks.values()]
    groups = [run.group for run in suite.groups.values()]
    return session.gates.unmatched(tasks, groups, names, session.selection.offered)


def _is_chosen(session: EvalSession) -> bool:
    """Whether the command line selects by something else than files and folders."""
    option = session.config.option
    named = any("::" in str(arg) for arg in session.config.args)
    chosen = option.keyword or option.markexpr or session.options.tasks
    return bool(named or chosen or session.options.only)
