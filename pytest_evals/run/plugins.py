"""The plugins of a call: the hooks that a ``conftest.py`` would have."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pluggy

from pytest_evals import hookspecs
from pytest_evals.core.group import Group
from pytest_evals.core.task import Task
from pytest_evals.errors import OptionError, did_you_mean

_START = "pytest_evals_"
_KNOWN = [name for name in vars(hookspecs) if name.startswith(_START)]


class Plugins:
    """Objects and modules with functions called ``pytest_evals_…``."""

    def __init__(self, given: Sequence[object]) -> None:
        """Register them.

        Raises:
            OptionError: One has no hook, one that does not exist, or a hook with an
                argument that it does not get.
        """
        manager = _Manager("pytest")
        manager.add_hookspecs(hookspecs)
        for plugin in given:
            _check(plugin)
            try:
                manager.register(plugin)
            except (pluggy.PluginValidationError, ValueError) as error:
                raise OptionError(f"plugins: {error}") from None
        self.hook: Any = manager.hook
        """Calls them."""

    @property
    def open_models(self) -> bool:
        """Whether one has the hook that opens models."""
        return bool(self.hook.pytest_evals_open_model.get_hookimpls())

    def open_model(self, spec: str) -> object | None:
        """The model that a hook opens for a spec; ``None`` if it opens none."""
        found: object | None
        found = self.hook.pytest_evals_open_model(spec=spec, config=None)
        return found

    def load(self, path: Path) -> Sequence[Task | Group] | None:
        """What a file defines, if it is a plugin's own."""
        found: Sequence[Task | Group] | None
        found = self.hook.pytest_evals_load_tasks(path=path, config=None)
        return found


class _Manager(pluggy.PluginManager):
    """Takes functions for hooks by their names, as pytest does."""

    def parse_hookimpl_opts(self, plugin: object, name: str) -> Any:
        """The options of a hook; ``None`` for whatever else a plugin has, and for
        pytest's own hooks."""
        if not name.startswith(_START):
            return None
        marked = super().parse_hookimpl_opts(plugin, name)
        return {} if marked is None and callable(getattr(plugin, name)) else marked


def _check(plugin: object) -> None:
    """Refuse what would never be called.

    Raises:
        OptionError: With the hooks that there are.
    """
    if isinstance(plugin, type):
        name = plugin.__name__
        raise OptionError(f"plugins: {name} is a class\n  fix: plugins=[{name}()]")
    hooks = [name for name in dir(plugin) if name.startswith(_START)]
    for name in hooks:
        if name not in _KNOWN:
            hint = did_you_mean(name, _KNOWN)
            raise OptionError(f"plugins: there is no hook {name!r}{hint}")
    if not hooks:
        raise OptionError(
            f"plugins: {plugin!r:.80} has no hook\n"
            f"  fix: give an object or a module with one of {', '.join(_KNOWN)}"
        )
