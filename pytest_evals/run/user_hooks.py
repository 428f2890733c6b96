"""Calls to user hooks before documents are sent. ``hook`` is pluggy's: ``config.hook``
in pytest."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pluggy

from pytest_evals import hookspecs
from pytest_evals.core.record import Record
from pytest_evals.core.task import Group, Task
from pytest_evals.errors import OptionError, unknown_name


def registered_metrics(hook: Any, config: Any) -> dict[str, Any]:
    """The metrics of ``pytest_evals_register_metrics``, by name. Raises ``OptionError``
    if two plugins register different metrics under one name."""
    registered: dict[str, Any] = {}
    for metrics in hook.pytest_evals_register_metrics(config=config):
        for name, metric in (metrics or {}).items():
            if registered.setdefault(name, metric) is not metric:
                raise OptionError(
                    f"pytest_evals_register_metrics: two metrics are called {name!r}"
                )
    return registered


def adds_metrics(hook: Any) -> bool:
    """Whether tasks may have metrics that their files do not name."""
    return bool(
        hook.pytest_evals_metrics.get_hookimpls()
        or hook.pytest_evals_score.get_hookimpls()
    )


def prepared(hook: Any, task: Task, records: list[Record]) -> list[Record]:
    """The records to send, as returned by ``pytest_evals_requests``."""
    asks = hook.pytest_evals_requests
    if not asks.get_hookimpls():
        return records
    changed = asks(task=task, records=[*records])
    return records if changed is None else [*changed]


_START = "pytest_evals_"
_KNOWN = [name for name in vars(hookspecs) if name.startswith(_START)]


class Plugins:
    """Objects and modules with functions named ``pytest_evals_…``."""

    def __init__(self, plugins: Sequence[object]) -> None:
        """Register them. Raises ``OptionError`` if a plugin has no hook, an unknown
        hook, or a hook with an unknown argument."""
        manager = _Manager("pytest")
        manager.add_hookspecs(hookspecs)
        for plugin in plugins:
            _check(plugin)
            try:
                manager.register(plugin)
            except (pluggy.PluginValidationError, ValueError) as error:
                raise OptionError(f"plugins: {error}") from None
        self.hook: Any = manager.hook  # calls the hooks

    @property
    def open_models(self) -> bool:
        """Whether a plugin opens models."""
        return bool(self.hook.pytest_evals_open_model.get_hookimpls())

    def open_model(self, spec: str) -> object | None:
        """The model that a hook opens for a spec; ``None`` if none does."""
        model: object | None
        model = self.hook.pytest_evals_open_model(spec=spec, config=None)
        return model

    def load(self, path: Path) -> Sequence[Task | Group] | None:
        """The tasks of a file in a plugin's dialect."""
        tasks: Sequence[Task | Group] | None
        tasks = self.hook.pytest_evals_load_tasks(path=path, config=None)
        return tasks


class _Manager(pluggy.PluginManager):
    """Registers functions as hooks by their names, as pytest does."""

    def parse_hookimpl_opts(self, plugin: object, name: str) -> Any:
        """The options of a hook; ``None`` for other attributes of a plugin, and for
        pytest's own hooks."""
        if not name.startswith(_START):
            return None
        marked = super().parse_hookimpl_opts(plugin, name)
        return {} if marked is None and callable(getattr(plugin, name)) else marked


def _check(plugin: object) -> None:
    if isinstance(plugin, type):
        name = plugin.__name__
        raise OptionError(f"plugins: {name} is a class\n  fix: plugins=[{name}()]")
    hooks = [name for name in dir(plugin) if name.startswith(_START)]
    for name in hooks:
        if name not in _KNOWN:
            raise OptionError(f"plugins: {unknown_name('hook', name, _KNOWN)}")
    if not hooks:
        raise OptionError(
            f"plugins: {plugin!r:.80} has no hook\n"
            f"  fix: pass an object or a module with one of {', '.join(_KNOWN)}"
        )
