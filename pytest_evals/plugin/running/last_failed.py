"""A gate that failed stays in pytest's list of failures until it is judged again."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

__all__ = ["keep_failed"]


def keep_failed(config: pytest.Config, skipped: Iterable[str]) -> None:
    """Let the gates that were skipped stay in pytest's list of failures, if they were
    in it before: a skip is no success."""
    plugin = config.pluginmanager.getplugin("lfplugin")
    cache = getattr(config, "cache", None)
    if plugin is None or cache is None:
        return
    before = cache.get("cache/lastfailed", {})
    for nodeid in skipped:
        if before.get(nodeid):
            plugin.lastfailed[nodeid] = True
