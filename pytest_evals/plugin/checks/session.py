"""Checks of a session before the tested model is opened; and the reference models that
gates name as baseline, which answer before it, in the process that judges gates."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_evals.core.dialogue import JUDGE
from pytest_evals.dialects.gates_section.gate_faults import GateFaults
from pytest_evals.dialects.gates_section.nearby_groups import nearby_group_faults
from pytest_evals.dialects.readers import load_group
from pytest_evals.dialects.task_index.lookup import SuiteNames
from pytest_evals.errors import EvalsError, Problem, plural, suggestion
from pytest_evals.models.registry import KINDS
from pytest_evals.models.spec import kind_name
from pytest_evals.plugin.models.compatibility import (
    check_model,
    check_models,
    overrides_judge,
)
from pytest_evals.plugin.session import EvalSession
from pytest_evals.plugin.settings.option_checks import usage_errors, with_place
from pytest_evals.plugin.settings.process import is_distributed
from pytest_evals.plugin.settings.run_options import answers_of, full_spec, hooks_of
from pytest_evals.plugin.suite.task_index import skips_of
from pytest_evals.reports.escape import one_line
from pytest_evals.run.readiness import NO_JUDGE
from pytest_evals.run.reference_models import ReferenceModel, answered_by, named_by

if TYPE_CHECKING:
    from pytest_evals.plugin.session import EvalSession
    from pytest_evals.run.suite import TaskRun

GATE_PROBLEMS: pytest.StashKey[list[Problem]] = pytest.StashKey()
"""Where problems of gates are kept for annotations."""


def check_session(
    session: EvalSession, ids: Iterable[str] | None = None, *, is_broken: bool = False
) -> None:
    """Check tasks, gates and models: refuse a gate that names nothing, and a model that
    cannot exist."""
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
    meant for other files."""
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
        suite = session.suite
        near = nearby_group_faults(
            {run.task.name: run.task for run in suite.tasks.values()},
            {run.path for run in suite.all()},
            session.gates,
            partial(load_group, options=session.task_options),
            hooked=hooks_of(session.config),
            is_chosen=_is_chosen(session),
        )
        found.add(near)
        found.add(_unanswered(session))
    session.suite.warn(map(str, found.warnings))
    problems = [*dict.fromkeys(found.problems)]
    if problems:
        session.config.stash[GATE_PROBLEMS] = problems
        raise pytest.UsageError("\n".join(map(str, problems)))


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


_HOOKS = b"pytest_evals_"


def reference_models(
    session: EvalSession, ids: Iterable[str] | None, hook_of: Callable[[Path], Any]
) -> list[ReferenceModel]:
    """The reference models of gates whose documents are all selected."""
    # What was not selected is taken from the store.
    selected = None if ids is None or session.options.only else {*ids}

    def is_whole(run: TaskRun) -> bool:
        return selected is None or selected.issuperset(run.document_ids())

    def spec_of(name: str) -> str:
        kind = kind_name(name)
        is_local = kind in KINDS and KINDS[kind].is_local
        return full_spec(session.options, name) if is_local else name

    is_model = session.run.baselines.is_model
    return named_by(
        session.suite, is_model, hook_of, is_whole=is_whole, spec_of=spec_of
    )


def check_reference_models(session: EvalSession, ids: Iterable[str] | None) -> None:
    """Refuse reference models that can be known not to do, before any is opened: a spec
    has a mistake, a model cannot answer a task, or what a conftest changes cannot be
    known here."""
    config = session.config
    for model in reference_models(session, ids, lambda _: config.hook):
        tasks = [one.task for one in model.documents]
        try:
            check_model(config, session.run.inference.answers, model.spec, tasks)
            is_judged = any(JUDGE in task.models.values() for task in tasks)
            if is_judged and overrides_judge(config):
                raise pytest.UsageError(_JUDGE)
            if is_distributed(config):
                for task in tasks:
                    _check_hooks(config, task.source.path)
        except pytest.UsageError as error:
            gate = model.gate
            where = f"{gate.source}: the reference model of gate {gate.id!r}"
            raise pytest.UsageError(f"{where}: {error}") from None


_JUDGE = (
    "its answers cannot be judged by an eval_judge fixture of a conftest.py\n"
    "  fix: give the judge with --evals-judge"
)


def _check_hooks(config: pytest.Config, path: Path) -> None:
    """The controller calls the hooks of every conftest.py for every folder."""
    files = (getattr(p, "__file__", None) for p in config.pluginmanager.get_plugins())
    loaded = {Path(file) for file in files if file and file.endswith("conftest.py")}
    folders = path.absolute().parents
    conftests = {
        f / "conftest.py" for f in folders if f.is_relative_to(config.rootpath)
    }
    for conftest in sorted(conftests ^ loaded):
        if conftest.is_file() and _HOOKS in conftest.read_bytes():
            raise pytest.UsageError(
                f"with -n, hooks in {conftest} do not apply to it\n"
                "  fix: run with -n0, save a baseline, or move the hooks to the "
                "conftest.py in the rootdir"
            )


def run_reference_models(
    session: EvalSession, ids: Iterable[str], hook_of: Callable[[Path], Any]
) -> None:
    """Let the reference models answer.

    Raises:
        pytest.UsageError: A model cannot be opened, or broke; nothing was sent to the
            tested model.
    """
    models = reference_models(session, ids, hook_of)
    if not models:
        return
    config, judge = session.config, session.options.judge
    terminal = config.pluginmanager.getplugin("terminalreporter")
    for model in models if terminal is not None else ():
        n = len(model.jobs)
        text = f"reference model: {model.shown} ({plural(n, 'document')})"
        terminal.write_line(one_line(text))
    try:
        found = answered_by(models, answers_of(config), judge, no_judge=NO_JUDGE)
    except EvalsError as error:
        session.models.refused = str(error)
        raise pytest.UsageError(str(error)) from None
    session.run.baselines.add(found)
