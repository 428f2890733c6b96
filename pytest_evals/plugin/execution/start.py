"""Start a session: its state, and the plugins that its options need. Nothing is
registered before an eval file was found."""

from __future__ import annotations

import pytest

from pytest_evals.plugin.execution.hooks import Running
from pytest_evals.plugin.execution.last_failed import LastFailed
from pytest_evals.plugin.execution.loop import ItemLoop
from pytest_evals.plugin.execution.short_summary import ShortSummary
from pytest_evals.plugin.execution.sigterm import Terminating
from pytest_evals.plugin.modes.cache_info import CacheInfoMode
from pytest_evals.plugin.modes.comparison import Comparing
from pytest_evals.plugin.modes.only import OnlyMode
from pytest_evals.plugin.reporting.annotations import Faults
from pytest_evals.plugin.reporting.document_details import Details
from pytest_evals.plugin.reporting.html import Html
from pytest_evals.plugin.reporting.max_warnings import OpenGates
from pytest_evals.plugin.reporting.pull_request import Publishing
from pytest_evals.plugin.reporting.result_hook import Listeners
from pytest_evals.plugin.session import SESSION, EvalSession
from pytest_evals.plugin.workers.compact_reports import LightReports

NAME = "evals-running"
"""What the plugin of hooks that see every test is called."""


def start(config: pytest.Config) -> EvalSession:
    """The session's state; made, with its plugins, when it is first asked for."""
    if SESSION not in config.stash:
        session = config.stash[SESSION] = EvalSession(config)
        config.pluginmanager.register(Terminating(session), f"{NAME}-terminating")
        if not session.options.validate:
            _run(session, config.pluginmanager)
            _show(session, config)
            _change(session, config.pluginmanager)
    return config.stash[SESSION]


def begin(config: pytest.Config) -> None:
    """Start to show and to sum up on a controller, which has no loop of its own."""
    running: Running = config.pluginmanager.getplugin(NAME)
    running.begin()


def _run(session: EvalSession, plugins: pytest.PytestPluginManager) -> None:
    """What runs documents."""
    running = Running(session)
    plugins.register(running, NAME)
    plugins.register(ItemLoop(running), f"{NAME}-loop")
    plugins.register(running.refusing, f"{NAME}-refusing")
    if session.config.getoption("lf", False):
        plugins.register(LastFailed(), f"{NAME}-last-failed")
    if session.orders is not None:
        plugins.register(LightReports(), "evals-light-reports")


def _show(session: EvalSession, config: pytest.Config) -> None:
    """What tells of the run."""
    if session.options.save_baseline or session.options.compare:
        config.pluginmanager.register(Comparing(session), "evals-comparing")
    if session.orders is None:
        config.pluginmanager.register(ShortSummary(session), "evals-short-summary")
    Details.begin(session)
    Faults.begin(config)
    Publishing.begin(session)
    Html.begin(session)
    OpenGates.begin(session)
    Listeners.begin(session)


def _change(session: EvalSession, plugins: pytest.PytestPluginManager) -> None:
    """What makes this run another one than usual; a mode is imported when wanted."""
    options = session.options
    if options.plan:
        from pytest_evals.plugin.modes.plan import Planning

        plugins.register(Planning(session), "evals-planning")
    if options.repeatability:
        from pytest_evals.plugin.modes.repeatability import RepeatabilityMode

        plugins.register(RepeatabilityMode(session), "evals-repeatability")
    if options.cache_info:
        plugins.register(CacheInfoMode(session), "evals-cache-info")
    if options.only:
        plugins.register(OnlyMode(session), "evals-only")
