"""The hooks that pytest calls in every session: a few lines each, light imports only.

This module is imported in every pytest run of the environment. It imports pytest and
the standard library only. Everything else is imported when an eval file is collected;
the hooks of each test are in ``execution.hooks`` and are registered then.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from os import environ
from pathlib import Path
from sys import modules
from typing import TYPE_CHECKING

import pytest

from pytest_evals import hookspecs
from pytest_evals.plugin import CLASH, secrets
from pytest_evals.plugin.fixtures import eval_judge, eval_model, eval_results, evals
from pytest_evals.plugin.settings import process
from pytest_evals.plugin.settings.option_checks import profile_line
from pytest_evals.plugin.settings.options import OPTIONS, read_options
from pytest_evals.plugin.settings.parser import (
    add_options,
    by_source,
    expand_model_alias,
    refuse_unknown,
    with_last_models,
)
from pytest_evals.run.start import Start

if TYPE_CHECKING:
    from pytest_evals.core.model import Model
    from pytest_evals.core.task import Group, Task

__all__ = ["eval_judge", "eval_model", "eval_results", "evals"]
_OF_MODELS = ("eval_model", "eval_results", "evals")
"""Fixtures that have a value for each tested model."""
_IMPORTED: pytest.StashKey[set[object]] = pytest.StashKey()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add our options."""
    add_options(parser)


def pytest_addhooks(pluginmanager: pytest.PytestPluginManager) -> None:
    """Add our hooks."""
    pluginmanager.add_hookspecs(hookspecs)
    pluginmanager.register(secrets, "evals-secrets")


@pytest.hookimpl(wrapper=True)
def pytest_load_initial_conftests(
    early_config: pytest.Config, parser: pytest.Parser, args: list[str]
) -> Generator[None, None, None]:
    """Expand ``--model`` once the conftests have registered their own options, and
    refuse unknown options with our prefix."""
    yield
    sources = by_source(args, early_config.invocation_params.args)
    for source in sources:
        expand_model_alias(parser, source)
    args[:] = with_last_models(sources)
    refuse_unknown(parser, args)


@pytest.hookimpl(wrapper=True)
def pytest_cmdline_main() -> Generator[None, object, object]:
    """Fit our usage errors to the terminal."""
    try:
        return (yield)
    except pytest.UsageError as error:
        from pytest_evals.plugin.messages import fit_usage_error

        fit_usage_error(error)
        raise


def pytest_report_header(config: pytest.Config) -> list[str]:
    """Return the profile on a controller of workers; otherwise it is shown with the
    tasks."""
    options = config.stash[OPTIONS]
    return profile_line(options.profile) if process.is_distributed(config) else []


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, exitstatus: int, config: pytest.Config
) -> None:
    """Write how to make evals if a model is given and no tests exist."""
    options = config.stash.get(OPTIONS, None)
    is_empty = exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED
    if options is None or not options.model or not is_empty:
        return
    if terminalreporter.stats.get("deselected"):
        return
    from pytest_evals.plugin.suite.lookalike_files import nothing_found

    for line in nothing_found(config.invocation_params.dir):
        terminalreporter.write_line(f"evals: {line}", yellow=True)


def pytest_configure(config: pytest.Config) -> None:
    """Read the options, register our marker, and refuse the distribution with the same
    import package."""
    config.addinivalue_line("markers", "evals: documents and gates of a benchmark")
    config.stash[OPTIONS] = read_options(config)
    config.stash[process.STARTED] = Start.now()
    if config.stash[OPTIONS].merge:
        from pytest_evals.plugin.modes.merge import begin_merge

        begin_merge(config)
    if process.is_distributed(config):
        _check_workers(config)
    if config.stash[OPTIONS].validate:
        from pytest_evals.plugin.modes.validation import ValidationMode

        config.pluginmanager.register(ValidationMode(config), "evals-validating")
        if config.stash[OPTIONS].prefetch:
            from pytest_evals.plugin.modes.prefetch import PrefetchMode

            config.pluginmanager.register(PrefetchMode(config), "evals-prefetch")
    elif process.is_distributed(config):
        from pytest_evals.plugin.controller.controller import Controller

        config.pluginmanager.register(Controller(config), "evals-controller")
    for _, distribution in config.pluginmanager.list_plugin_distinfo():
        if distribution.project_name == "pytest-evals":
            raise pytest.UsageError(CLASH)


_ALONE = {
    "write_out": "--evals-write-out shows prompts without workers",
    "ray": "--evals-ray has replicas instead of workers",
    "cache_info": "--evals-cache-info needs no workers",
    "plan": "--evals-plan needs no workers",
    "prefetch": "--evals-prefetch needs no workers",
}
"""Options of sessions without workers."""


def _check_workers(config: pytest.Config) -> None:
    """Refuse workers with options or models that have none."""
    options = config.stash[OPTIONS]
    for name, why in _ALONE.items():
        if getattr(options, name):
            raise pytest.UsageError(f"{why}: -n0")
    specs = {f"--evals-judge={options.judge}": options.judge}
    specs |= {f"--model={one.spec}": one.spec for one in options.models}
    process.refuse_replicas(config, specs)


@pytest.hookimpl(wrapper=True)
def pytest_collect_file(
    file_path: Path, parent: pytest.Collector
) -> Generator[None, list[pytest.Collector], list[pytest.Collector]]:
    """Collect eval files, which are recognised by their first bytes."""
    found = yield
    from pytest_evals.plugin.suite import eval_files, lookalike_files

    if found and eval_files.collects_only_evals(parent.config):
        # A test that cannot be imported must not stop the check of task files.
        found = [one for one in found if eval_files.has_evals(one)]
    if not eval_files.is_eval_file(file_path, parent.ihook, parent.config):
        if not found and eval_files.is_eval_module(file_path, parent.config):
            return [pytest.Module.from_parent(parent, path=file_path)]
        if found:
            return found
        lost = lookalike_files.warn_or_collect_lookalike(file_path, parent)
        return found if lost is None else [lost]
    from pytest_evals.core.node_names import file_id
    from pytest_evals.plugin.execution.start import start
    from pytest_evals.plugin.nodes import TaskFile

    lookalike_files.record_eval_file(file_path, parent.config)
    nodeid = file_id(file_path, parent.config.rootpath)
    ours = [
        TaskFile.from_parent(parent, path=file_path, nodeid=nodeid, evals=one)
        for one in start(parent.config).all
    ]
    # pytest also collects a module that the command line names.
    is_module = file_path.suffix == ".py"
    kept = not is_module or eval_files.is_test_file(file_path, parent.config)
    return [*found, *ours] if kept else [*ours]


@pytest.hookimpl(wrapper=True)
def pytest_collect_directory(
    path: Path, parent: pytest.Collector
) -> Generator[None, pytest.Collector | None, pytest.Collector | None]:
    """Collect packages without importing them for documents, and folders of include
    paths as plain folders; leave the collectors of other plugins as they are."""
    found = yield
    if type(found) is not pytest.Package:
        return found
    options = parent.config.stash[OPTIONS]
    if not path.is_relative_to(parent.config.rootpath):
        for folder in options.include_path:
            if path.is_relative_to(folder) or folder.is_relative_to(path):
                return pytest.Dir.from_parent(parent, path=path)
    return Package.from_parent(parent, path=path)


@pytest.hookimpl(tryfirst=True)
def pytest_pycollect_makeitem(
    collector: pytest.Module | pytest.Class, name: str, obj: object
) -> list[pytest.Item | pytest.Collector] | None:
    """Collect evals in Python modules."""
    if type(obj).__module__ != "pytest_evals.dialects.native.python":
        return None
    from pytest_evals.dialects.native.python import Eval
    from pytest_evals.plugin.python_evals import collect_eval

    return collect_eval(collector, obj) if isinstance(obj, Eval) else None


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run tests that use the model or its results once for each of several models."""
    models = metafunc.config.stash[OPTIONS].models
    if len(models) > 1 and not {*_OF_MODELS}.isdisjoint(metafunc.fixturenames):
        from pytest_evals.plugin.unit_evals import parametrize_by_model

        parametrize_by_model(metafunc, models, _OF_MODELS)


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Report evals that a module has defined and lost."""
    report = yield
    ours = modules["pytest_evals"], modules.get("pytest_evals.dialects.native.python")
    if (
        isinstance(collector, pytest.Module)
        and report.passed
        and (ours[1] or any(one is ours[0] for one in vars(collector.obj).values()))
    ):
        from pytest_evals.plugin.python_evals import add_unreachable_evals

        add_unreachable_evals(collector, report)
    return report


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection(session: pytest.Session) -> Generator[None, object, object]:
    """Add the files of ``--evals-tasks`` from the include paths; refuse named files
    that only resemble eval files."""
    options = session.config.stash[OPTIONS]
    if any(".y" in str(arg).lower() for arg in session.config.args):
        from pytest_evals.plugin.suite.lookalike_files import check_named

        check_named(session.config)
    if options.tasks:
        from pytest_evals.plugin.suite.task_index import add_included

        add_included(session.config)
    try:
        return (yield)
    except pytest.UsageError as error:
        from pytest_evals.plugin.suite.lookalike_files import explained

        raise explained(session, error) from None
    except KeyboardInterrupt as error:
        from pytest_evals.plugin.execution.model_readiness import REFUSED
        from pytest_evals.plugin.models.compatibility import InvalidModelError
        from pytest_evals.plugin.settings.option_checks import with_place

        if not isinstance(error, InvalidModelError):
            raise
        fault = with_place(session.config, pytest.UsageError(str(error)))
        if not hasattr(session.config, "workeroutput"):
            raise fault from None
        session.config.workeroutput[REFUSED] = str(fault)
        raise pytest.exit.Exception(str(fault)) from None


@pytest.hookimpl(optionalhook=True, tryfirst=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int | None:
    """Return the number of devices for ``-n auto`` if a model is set.

    pytest-xdist calls this before ``pytest_configure``. Its own environment variable
    has priority.
    """
    is_set = environ.get("PYTEST_XDIST_AUTO_NUM_WORKERS")
    models = read_options(config).models
    if is_set or not models:
        return None
    if any(process.is_one_per_session(one.spec) for one in models):
        return 1
    n = len(process.visible_devices().names)
    config.stash[process.ALONE] = n == 0
    return max(1, n)


@pytest.hookimpl(trylast=True)
def pytest_evals_load_tasks(
    path: Path, config: pytest.Config
) -> Sequence[Task | Group] | None:
    """Read the built-in dialects."""
    from pytest_evals.dialects.readers import READERS
    from pytest_evals.plugin.session import session_of
    from pytest_evals.plugin.suite.eval_files import dialect_here

    name = dialect_here(path, config)
    if not name:
        return None
    session = session_of(config).shared.loading or session_of(config)
    return READERS[name](path, session.task_options)


@pytest.hookimpl(trylast=True)
def pytest_evals_open_model(spec: str, config: pytest.Config) -> Model:
    """Open a model of a built-in kind."""
    from pytest_evals.models.registry import open_model, parse_spec

    return open_model(parse_spec(spec))


class Package(pytest.Package):
    """A Python package that is imported for the tests in it, but not for documents.

    pytest imports a package before the first item below it. A folder of lm-eval's tasks
    is one too, and imports all of ``lm_eval``, which may not be installed.
    """

    def setup(self) -> None:
        """Import the package if it contains items other than documents and gates."""
        stash = self.session.stash
        if _IMPORTED not in stash:
            tests = [i for i in self.session.items if getattr(i, "in_package", True)]
            nodes: set[object] = {node for test in tests for node in test.listchain()}
            stash[_IMPORTED] = nodes
        if self in stash[_IMPORTED]:
            super().setup()
