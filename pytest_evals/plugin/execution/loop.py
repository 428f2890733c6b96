"""The loop over items, if only pytest itself wraps the protocol of a test.

pytest's wrappers (warnings, assertions, faulthandler) cost a document as much as its
scoring, and nothing in the middle of a file needs them one by one: documents next to
each other share one call of ``pytest_runtest_protocol``. A warning names the first of
them. As soon as another plugin or a conftest implements that hook (pytest-timeout, an
IDE), pytest's own loop runs and calls it for each document.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pytest_evals.plugin.execution.terminal_counts import home_of

if TYPE_CHECKING:
    from pytest_evals.plugin.execution.hooks import Running

SHARED = 64
"""Documents that share one call, at most."""


class ItemLoop:
    """Runs all items, as ``_pytest.main.pytest_runtestloop`` does."""

    def __init__(self, running: Running) -> None:
        """Nothing runs yet."""
        self._running = running

    @pytest.hookimpl
    def pytest_runtestloop(self, session: pytest.Session) -> bool | None:
        """Run the items, or leave that to pytest or whoever else has a loop."""
        config, items, running = session.config, session.items, self._running
        if session.testsfailed or config.option.collectonly or not _is_alone(config):
            return None
        position = 0
        while position < len(items):
            item, *following = items[position : position + SHARED + 1]
            running.following = following
            config.hook.pytest_runtest_protocol(
                item=item, nextitem=following[0] if following else None
            )
            position += running.n_run
            if session.shouldfail:
                raise session.Failed(session.shouldfail)
            if session.shouldstop:
                raise session.Interrupted(session.shouldstop)
        return True


def _is_alone(config: pytest.Config) -> bool:
    """Whether only pytest and we see the protocol of each test, without a clock."""
    clock = config.pluginmanager.hasplugin("faulthandler")  # without it, no such ini
    if clock and float(config.getini("faulthandler_timeout") or 0) > 0:
        return False
    hooks = (config.hook.pytest_runtest_protocol, config.hook.pytest_runtestloop)
    plugins = [impl.plugin for hook in hooks for impl in hook.get_hookimpls()]
    return all(home_of(plugin) in ("_pytest", "pytest_evals") for plugin in plugins)
