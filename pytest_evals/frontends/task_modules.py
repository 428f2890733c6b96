"""Python files beside task files, loaded as modules.

Where lm-eval is not installed, what such a module imports from it is answered by
:mod:`.stand_ins.names`, and ``lm_eval.tasks`` by the task tree that the file is in.
Only the module's own ``import`` statements see that, at the top and in its functions:
nothing called ``lm_eval`` enters ``sys.modules``, and an installed one is never hidden.
"""

from __future__ import annotations

import builtins
import hashlib
import importlib
import importlib.util
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

from pytest_evals.frontends.stand_ins.filters import (
    register_filter,
    registered_filters,
)
from pytest_evals.frontends.stand_ins.lacking import needs_lm_eval
from pytest_evals.frontends.stand_ins.names import NAMES

__all__ = ["has_lm_eval", "import_for", "load_module", "registered_filter"]

_REGISTRY = "lm_eval.api.registry"
_TREE = "lm_eval.tasks"


def has_lm_eval() -> bool:
    """Whether lm-eval is installed."""
    if "lm_eval" in sys.modules:
        return sys.modules["lm_eval"] is not None
    try:
        return importlib.util.find_spec("lm_eval") is not None
    except ImportError:
        return False


def registered_filter(name: str) -> Any:
    """The filter that a task's module gave a name with ``register_filter``, or
    ``None``."""
    if name in registered_filters:
        return registered_filters[name]
    registry = sys.modules.get(_REGISTRY)
    known = registry.filter_registry if registry is not None else {}
    return known.get(name) if name in known else None


def load_module(file: Path) -> ModuleType:
    """The module of a file, under a name of its own, so that ``utils.py`` of one folder
    is not taken for that of another. A file that has changed is loaded again."""
    stamp = file.stat().st_mtime_ns
    key = f"{file.resolve()}:{stamp}".encode()
    name = f"{file.stem}_{hashlib.sha256(key).hexdigest()[:12]}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None and spec.loader is not None, "a .py file has a loader"
    module = importlib.util.module_from_spec(spec)
    imports = _import_installed if has_lm_eval() else _Imports(file)
    vars(module)["__builtins__"] = {**vars(builtins), "__import__": imports}
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def import_for(file: Path, name: str) -> ModuleType:
    """What ``import name`` gives in a module beside a file."""
    if _is_lm_eval(name) and not has_lm_eval():
        return _Imports(file).module(name)
    return importlib.import_module(name)


def _import_installed(
    name: str,
    globals: Mapping[str, Any] | None = None,  # noqa: A002 - as Python calls it
    locals: Mapping[str, Any] | None = None,  # noqa: A002
    fromlist: Sequence[str] | None = (),
    level: int = 0,
) -> ModuleType:
    """As Python's own; but two modules may register filters of one name, which lm-eval
    refuses, so that a file that was changed can be loaded again."""
    module = builtins.__import__(name, globals, locals, fromlist or (), level)
    if name != _REGISTRY or "register_filter" not in (fromlist or ()):
        return module
    registry = ModuleType(name)
    vars(registry).update(vars(module))
    vars(registry)["register_filter"] = partial(_register, module)
    return registry


def _register(registry: Any, name: str) -> Callable[[Any], Any]:
    def register(found: Any) -> Any:
        if name not in registry.filter_registry:
            registry.register_filter(name)(found)
        return register_filter(name)(found)

    return register


def _is_lm_eval(name: str) -> bool:
    return name.partition(".")[0] == "lm_eval"


class _StandIn(ModuleType):
    """A module of lm-eval with a few of its names."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise AttributeError(needs_lm_eval(f"{self.__name__}.{name}"))


class _Imports:
    """The ``__import__`` of one file's module."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._modules: dict[str, ModuleType] = {}

    def __call__(
        self,
        name: str,
        globals: Mapping[str, Any] | None = None,  # noqa: A002 - as Python calls it
        locals: Mapping[str, Any] | None = None,  # noqa: A002
        fromlist: Sequence[str] | None = (),
        level: int = 0,
    ) -> ModuleType:
        """As Python's own, but for lm-eval."""
        if level or not _is_lm_eval(name):
            return builtins.__import__(name, globals, locals, fromlist or (), level)
        module = self.module(name)
        if not fromlist:
            return self._modules["lm_eval"]
        for wanted in fromlist:
            if wanted != "*" and wanted not in vars(module):
                self.module(f"{name}.{wanted}")
        return module

    def module(self, name: str) -> ModuleType:
        """A module by its name, also as an attribute of those above it.

        Raises:
            ModuleNotFoundError: It needs lm-eval itself.
        """
        if name in self._modules:
            return self._modules[name]
        above, _, last = name.rpartition(".")
        parent = self.module(above) if above else None
        if name in NAMES:
            module: ModuleType = _StandIn(name)
            vars(module).update(NAMES[name])
        else:
            module = self._from_tree(name)
        self._modules[name] = module
        if parent is not None:
            setattr(parent, last, module)
        return module

    def _from_tree(self, name: str) -> ModuleType:
        if name.startswith(f"{_TREE}."):
            parts = name.removeprefix(f"{_TREE}.").split(".")
            for folder in self._file.resolve().parents:
                path = folder.joinpath(*parts)
                file = path.with_name(f"{path.name}.py")
                if file.is_file():
                    return load_module(file)
                if (path / "__init__.py").is_file():
                    return load_module(path / "__init__.py")
                if path.is_dir():
                    return _StandIn(name)
        raise ModuleNotFoundError(needs_lm_eval(name), name=name)
