"""Loads Python files as modules whose imports of certain packages are replaced by
shims.

Only ``import`` statements of the module and its functions are affected, and those of
packages that it imports and that mention the replaced package. ``sys.modules`` contains
no shims.
"""

from __future__ import annotations

import builtins
import hashlib
import importlib.util
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib.machinery import ModuleSpec, SourceFileLoader
from pathlib import Path
from types import ModuleType
from typing import Any

from pytest_evals.errors import Place

Import = Callable[..., ModuleType]
"""The function behind the ``import`` statement: ``__import__``."""


def loaded(file: Path, imports: Import) -> ModuleType:
    """Return the module of a file, under a unique name, so that files with the same
    name in different folders are distinct. A changed file is loaded again.
    ``imports`` handles its ``import`` statements."""
    stamp = file.stat().st_mtime_ns
    key = f"{file.resolve()}:{stamp}".encode()
    name = f"{file.stem}_{hashlib.sha256(key).hexdigest()[:12]}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None and spec.loader is not None, "a .py file has a loader"
    module = importlib.util.module_from_spec(spec)
    vars(module)["__builtins__"] = _with_import(imports)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def missing_module_fix(error: BaseException, folder: Path) -> str:
    """How to fix the import error of a missing module; empty for other errors. Modules
    next to a file are not importable unless their folder is on the import path, as in
    the harnesses. ``folder``: of the file with the import."""
    name = str(error.name or "") if isinstance(error, ModuleNotFoundError) else ""
    first = name.partition(".")[0]
    if not first or "pip install" in str(error):
        return ""
    if any((folder / one).exists() for one in (f"{first}.py", first)):
        path = Place(folder)
        return (
            f"put its folder on the import path: run with PYTHONPATH={path}, or set "
            f"pythonpath = {path} in pytest's ini file, relative to that file"
        )
    return f"install the package that provides {first!r}"


class StandIn(ModuleType):
    """A module with some names of the real one. ``lacking`` is called for all other
    names: it returns the value, or raises ``AttributeError``."""

    def __init__(
        self, name: str, has: Mapping[str, Any], lacking: Callable[[str, str], Any]
    ) -> None:
        super().__init__(name)
        vars(self).update(has)
        vars(self)["_lacking"] = lacking

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return vars(self)["_lacking"](self.__name__, name)


class StandInImports:
    """The ``__import__`` of one file's module.

    Args:
        packages: Top-level packages that are replaced. Modules of other packages get
            the same shims if their source mentions the first one.
        names: Module → its names.
        lacking: Module and missing name → its value; raises ``AttributeError``.
        elsewhere: Module, or name in a module, that ``names`` does not have → its
            value; raises ``ModuleNotFoundError``.
        others: Imports all other packages.
    """

    def __init__(
        self,
        packages: Sequence[str],
        names: Mapping[str, Mapping[str, Any]],
        lacking: Callable[[str, str], Any],
        elsewhere: Callable[[str], Any],
        others: Import = builtins.__import__,
    ) -> None:
        self._packages, self._names = packages, names
        self._lacking, self._elsewhere = lacking, elsewhere
        self._others = others
        self._modules: dict[str, Any] = {}
        self._in_packages = _PackageFinder(
            packages, partial(StandInImports, packages, names, lacking, elsewhere)
        )

    def __call__(
        self,
        name: str,
        globals: Mapping[str, Any] | None = None,  # noqa: A002 - as Python calls it
        locals: Mapping[str, Any] | None = None,  # noqa: A002
        fromlist: Sequence[str] | None = (),
        level: int = 0,
    ) -> ModuleType:
        """Handle an ``import`` statement."""
        root = name.partition(".")[0]
        if level or root not in self._packages:
            with self._in_packages:
                return self._others(name, globals, locals, fromlist or (), level)
        module: ModuleType = self.module(name)
        if not fromlist:
            first: ModuleType = self._modules[root]
            return first
        for attribute in fromlist:
            if attribute != "*" and attribute not in vars(module):
                self.module(f"{name}.{attribute}")
        return module

    def module(self, name: str) -> Any:
        """Return a module by name and set it as attribute of its parents; or a name in
        a module. Raises ModuleNotFoundError if it does not exist."""
        if name in self._modules:
            return self._modules[name]
        above, _, last = name.rpartition(".")
        parent = self.module(above) if above else None
        if name in self._names:
            module: Any = StandIn(name, self._names[name], self._lacking)
        else:
            module = self._elsewhere(name)
        self._modules[name] = module
        if parent is not None:
            setattr(parent, last, module)
        return module


class _PackageFinder:
    """While it is entered, modules whose source mentions a replaced package are
    imported with shims. A module that was imported before is not imported again."""

    def __init__(self, packages: Sequence[str], imports: Callable[[], Import]) -> None:
        self._mentioned = packages[0].encode()
        self._excluded = {*packages, "pytest_evals", *sys.stdlib_module_names}
        self._imports = imports

    def __enter__(self) -> None:
        sys.meta_path.insert(0, self)

    def __exit__(self, *_: object) -> None:
        sys.meta_path.remove(self)

    def find_spec(
        self,
        name: str,
        path: Sequence[str] | None = None,
        target: ModuleType | None = None,
    ) -> ModuleSpec | None:
        """Return the module with shims; ``None`` if it needs none."""
        if name.partition(".")[0] in self._excluded:
            return None
        others = (one for one in sys.meta_path if not isinstance(one, _PackageFinder))
        found = (one.find_spec(name, path, target) for one in others)
        spec = next((spec for spec in found if spec is not None), None)
        loader = spec and spec.loader
        if spec is None or type(loader) is not SourceFileLoader:
            return None
        if self._mentioned in loader.get_data(loader.path):
            spec.loader = _ShimmedLoader(loader, self._imports())
        return spec


class _ShimmedLoader(SourceFileLoader):
    """Loads a module of a package with its own ``import``."""

    def __init__(self, loader: SourceFileLoader, imports: Import) -> None:
        super().__init__(loader.name, loader.path)
        self._imports = imports

    def exec_module(self, module: ModuleType) -> None:
        vars(module)["__builtins__"] = _with_import(self._imports)
        super().exec_module(module)


def _with_import(imports: Import) -> dict[str, Any]:
    return {**vars(builtins), "__import__": imports}
