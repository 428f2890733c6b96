"""Protocols of other plugins, such as pytest-rerunfailures: they come before the light
one of documents."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pytest_evals.plugin.execution.terminal_counts import home_of

Protocol = Callable[..., object]
"""``(item=…, nextitem=…)``: runs an item; false if nobody wants to."""

_NAME = "pytest_runtest_protocol"


def protocol_of_others(config: pytest.Config) -> Protocol | None:
    """What other plugins do instead of pytest's own protocol; ``None`` where nobody
    does. Wrappers are around ours as around any."""
    impls = config.hook.pytest_runtest_protocol.get_hookimpls()
    theirs = [
        impl.plugin
        for impl in impls
        if not (impl.wrapper or impl.hookwrapper)
        and home_of(impl.plugin) not in ("_pytest", "pytest_evals")
    ]
    if not theirs:
        return None
    rest = [impl.plugin for impl in impls if impl.plugin not in theirs]
    return config.pluginmanager.subset_hook_caller(_NAME, rest)
