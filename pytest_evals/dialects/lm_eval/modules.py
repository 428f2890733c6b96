"""Python files beside task files, loaded as modules.

Where lm-eval is not installed, what such a module imports from it is answered by
:mod:`pytest_evals.dialects.lm_eval.shims.names`, and ``lm_eval.tasks`` by the
task tree that the file is in. An installed one is never hidden.
"""

from __future__ import annotations

import builtins
import importlib
import importlib.util
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

from pytest_evals.dialects.lm_eval.shims.filters import (
    register_filter,
    registered_filters,
)
from pytest_evals.dialects.lm_eval.shims.names import NAMES
from pytest_evals.dialects.lm_eval.shims.unsupported import needs_lm_eval
from pytest_evals.dialects.module_loader import StandIn, StandInImports, loaded

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
    """The module of a file (:func:`~pytest_evals.dialects.module_loader.loaded`)."""
    return loaded(file, _import_installed if has_lm_eval() else _stand_ins(file))


def import_for(file: Path, name: str) -> ModuleType:
    """What ``import name`` gives in a module beside a file."""
    if _is_lm_eval(name) and not has_lm_eval():
        found: ModuleType = _stand_ins(file).module(name)
        return found
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


def _stand_ins(file: Path) -> StandInImports:
    """What the ``import`` statements of a file beside task files call."""
    return StandInImports(("lm_eval",), NAMES, _lacking, partial(_from_tree, file))


def _lacking(module: str, name: str) -> Any:
    raise AttributeError(needs_lm_eval(f"{module}.{name}"))


def _from_tree(near: Path, name: str) -> ModuleType:
    """A module of the task tree that a file is in."""
    if name.startswith(f"{_TREE}."):
        parts = name.removeprefix(f"{_TREE}.").split(".")
        for folder in near.resolve().parents:
            path = folder.joinpath(*parts)
            file = path.with_name(f"{path.name}.py")
            if os.path.isfile(file):
                return load_module(file)
            if os.path.isfile(path / "__init__.py"):
                return load_module(path / "__init__.py")
            if os.path.isdir(path):
                return StandIn(name, {}, _lacking)
    raise ModuleNotFoundError(needs_lm_eval(name), name=name)
