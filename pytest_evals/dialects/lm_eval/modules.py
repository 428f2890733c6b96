"""Load Python files next to task files as modules.

If lm-eval is not installed, their imports from it resolve to
:mod:`pytest_evals.dialects.lm_eval.shims.names`, and ``lm_eval.tasks`` to the task tree
that contains the file. An installed lm-eval always takes precedence.
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
from typing import Any, NoReturn

from pytest_evals.dialects.evaluate_library import import_evaluate, route_code_eval
from pytest_evals.dialects.lm_eval.shims.names import NAMES
from pytest_evals.dialects.lm_eval.shims.registry import (
    register_filter,
    registered_filters,
)
from pytest_evals.dialects.lm_eval.shims.unavailable_names import needs_lm_eval
from pytest_evals.dialects.module_loader import StandIn, StandInImports, loaded
from pytest_evals.scorers.code_eval import CodeEval

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
    """The filter that a task's module registered by ``register_filter``, if any."""
    if name in registered_filters:
        return registered_filters[name]
    registry = sys.modules.get(_REGISTRY)
    known = registry.filter_registry if registry is not None else {}
    return known.get(name) if name in known else None


def load_module(file: Path) -> ModuleType:
    """Load the module of a file
    (:func:`~pytest_evals.dialects.module_loader.loaded`)."""
    with CodeEval.during_import():
        imports = _import_installed if has_lm_eval() else _shim_imports(file)
        return loaded(file, imports)


def import_for(file: Path, name: str) -> ModuleType:
    """Import a module as a Python file next to ``file`` would."""
    if name.partition(".")[0] == "lm_eval" and not has_lm_eval():
        module: ModuleType = _shim_imports(file).module(name)
        return module
    return importlib.import_module(name)


def shim_modules() -> Mapping[str, ModuleType]:
    """The modules that replace lm-eval, by name, for ``sys.modules``."""
    imports = StandInImports(("lm_eval",), NAMES, _missing_attribute, _missing_module)
    return {name: imports.module(name) for name in NAMES}


def _import_installed(
    name: str,
    globals: Mapping[str, Any] | None = None,  # noqa: A002 - as Python calls it
    locals: Mapping[str, Any] | None = None,  # noqa: A002
    fromlist: Sequence[str] | None = (),
    level: int = 0,
) -> ModuleType:
    """``__import__``, except that a filter name may be registered twice. lm-eval
    refuses a second registration, but a changed file must be loadable again."""
    module = _import_other(name, globals, locals, fromlist or (), level)
    if name != _REGISTRY or "register_filter" not in (fromlist or ()):
        return module
    registry = ModuleType(name)
    vars(registry).update(vars(module))
    vars(registry)["register_filter"] = partial(_register, module)
    return registry


def _import_other(name: str, *how: Any) -> ModuleType:
    """``__import__``, except that the library ``evaluate`` is imported quickly."""
    if name == "evaluate":
        route_code_eval(import_evaluate())
    return builtins.__import__(name, *how)


def _register(registry: Any, name: str) -> Callable[[Any], Any]:
    def register(cls: Any) -> Any:
        if name not in registry.filter_registry:
            registry.register_filter(name)(cls)
        return register_filter(name)(cls)

    return register


def _shim_imports(file: Path) -> StandInImports:
    """The ``__import__`` of Python files next to task files."""
    return StandInImports(
        ("lm_eval",),
        NAMES,
        _missing_attribute,
        partial(_from_tree, file),
        _import_other,
    )


def _missing_attribute(module: str, name: str) -> Any:
    raise AttributeError(needs_lm_eval(f"{module}.{name}"))


def _missing_module(name: str) -> NoReturn:
    raise ModuleNotFoundError(needs_lm_eval(name), name=name)


def _from_tree(near: Path, name: str) -> ModuleType:
    """Load a module of the task tree that contains the file."""
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
                return StandIn(name, {}, _missing_attribute)
    _missing_module(name)
