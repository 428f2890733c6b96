"""Reference models: models that gates name as their baseline. They answer in the
process that judges gates, before the tested model is opened."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_evals.core.dialogue import JUDGE
from pytest_evals.errors import EvalsError, plural
from pytest_evals.models.registry import KINDS
from pytest_evals.models.spec import kind_name
from pytest_evals.plugin.models.compatibility import check_model, overrides_judge
from pytest_evals.plugin.settings.process import is_distributed
from pytest_evals.plugin.settings.run_options import answers_of, full_spec
from pytest_evals.reports.escape import one_line
from pytest_evals.run.readiness import NO_JUDGE
from pytest_evals.run.reference_models import ReferenceModel, answered_by, named_by

if TYPE_CHECKING:
    from pytest_evals.plugin.session import EvalSession
    from pytest_evals.run.suite import TaskRun

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
    """Refuse reference models that can be known not to do, before any is opened.

    Raises:
        pytest.UsageError: A spec has a mistake, a model cannot answer a task, or what a
            conftest changes cannot be known here.
    """
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
