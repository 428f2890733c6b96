"""Start a session: create its state and register the plugins that its options need.

Called when the first eval file is collected.
"""

from __future__ import annotations

import pytest

from pytest_evals.plugin.collected_items import LastFailed
from pytest_evals.plugin.execution.fast_path.protocol import FastPath
from pytest_evals.plugin.execution.fast_path.report_batches import CompactReports
from pytest_evals.plugin.execution.hooks import SessionHooks
from pytest_evals.plugin.execution.interrupts import Interrupts
from pytest_evals.plugin.gates import GateLetters
from pytest_evals.plugin.modes.cache_info import CacheInfoMode
from pytest_evals.plugin.modes.merge import MergeMode
from pytest_evals.plugin.modes.only import OnlyMode
from pytest_evals.plugin.modes.shard import ShardMode
from pytest_evals.plugin.nodes import TreeLevels
from pytest_evals.plugin.reporting import terminal_summary
from pytest_evals.plugin.reporting.github import Faults, Publishing
from pytest_evals.plugin.reporting.models import ModelsReport
from pytest_evals.plugin.reporting.prompts import Details
from pytest_evals.plugin.reporting.results import ComparisonMode, Exports, Listeners
from pytest_evals.plugin.secrets import learn_environment
from pytest_evals.plugin.session import SESSION, EvalSession
from pytest_evals.plugin.settings.options import OPTIONS
from pytest_evals.plugin.shared_state import SharedState

NAME = "evals-session"  # name of the pytest plugin with the hooks of every test


def start(config: pytest.Config) -> EvalSession:
    """Return the session's state; the first call creates it and registers plugins."""
    if SESSION not in config.stash:
        learn_environment()
        is_run = not config.stash[OPTIONS].validate
        details = Details.registered(config) if is_run else None
        lines = details.lines if details is not None else None
        shared = SharedState[EvalSession](config)
        several = config.stash[OPTIONS].models if is_run else ()
        for model in several if len(several) > 1 else (None,):
            EvalSession(shared, lines, model)
        session = config.stash[SESSION] = shared.sessions[0]
        config.pluginmanager.register(Interrupts(session), "evals-interrupts")
        if is_run:
            _register_run(session, config.pluginmanager)
            _register_reports(session, config)
            _register_mode(session, config.pluginmanager)
    return config.stash[SESSION]


def _register_run(session: EvalSession, plugins: pytest.PytestPluginManager) -> None:
    # A plan reads the files of documents, which are then below their tasks.
    is_tree = session.config.option.collectonly and not session.options.plan
    if is_tree and session.assignment is None:
        plugins.register(TreeLevels(), "evals-tree-levels")
    hooks = SessionHooks(session)
    plugins.register(hooks, NAME)
    plugins.register(hooks.readiness, "evals-model-readiness")
    if session.config.getoption("lf", False):
        plugins.register(LastFailed(), "evals-last-failed")
    if session.options.fast_path:
        fast_path = FastPath(session, hooks)
        plugins.register(fast_path, "evals-fast-path")
        if fast_path.batches is not None:
            plugins.register(fast_path.batches, "evals-report-batches")
            plugins.register(CompactReports(), "evals-compact-reports")


def _register_reports(session: EvalSession, config: pytest.Config) -> None:
    register, options = config.pluginmanager.register, session.options
    for one in session.all:
        if options.save_baseline or options.compare:
            register(ComparisonMode(one), f"evals-comparison{one.model}")
    if session.assignment is not None:  # workers write no reports
        Faults.begin(config)
        return
    register(terminal_summary.ShortSummary(session), "evals-short-summary")
    terminal = config.pluginmanager.getplugin("terminalreporter")
    if GateLetters.is_needed(terminal):
        register(GateLetters(session, terminal), "evals-gate-letters")
    Faults.begin(config)
    for one in session.all:
        if (publishing := Publishing(one)).is_needed:
            register(publishing, f"evals-publishing{one.model}")
        if options.html is not None or options.export:
            register(Exports(one), f"evals-exports{one.model}")
        register(Listeners(one), f"evals-listeners{one.model}")
    register(ModelsReport(session), "evals-models")
    if terminal_summary.are_counted(config):
        register(terminal_summary.OpenGates(config), "evals-open-gates")


def _register_mode(session: EvalSession, plugins: pytest.PytestPluginManager) -> None:
    options = session.options
    if options.plan:
        from pytest_evals.plugin.modes.plan import PlanMode

        plugins.register(PlanMode(session), "evals-plan")
    if options.repeatability:
        from pytest_evals.plugin.modes.repeatability import RepeatabilityMode

        plugins.register(RepeatabilityMode(session), "evals-repeatability")
    if options.cache_info:
        plugins.register(CacheInfoMode(session), "evals-cache-info")
    for one in session.all:
        if options.shard:
            plugins.register(ShardMode(one), f"evals-shard{one.model}")
        if options.merge:
            plugins.register(MergeMode(one), f"evals-merge{one.model}")
        if options.only:
            plugins.register(OnlyMode(one), f"evals-only{one.model}")
