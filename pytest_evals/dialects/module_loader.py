"""Python files as modules that see stand-ins where they import certain packages.

Only the module's own ``import`` statements see them, at the top and in its functions:
nothing of that name enters ``sys.modules``, and nobody else's import is changed.
"""

from __future__ import annotations

import builtins
import hashlib
import importlib.util
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

Import = Callable[..., ModuleType]
"""What Python calls for an ``import`` statement: ``__import__``."""


def loaded(file: Path, imports: Import) -> ModuleType:
    """The module of a file, under a name of its own, so that ``utils.py`` of one folder
    is not taken for that of another. A file that has changed is loaded again.

    Args:
        file: The file.
        imports: What its ``import`` statements call.
    """
    stamp = file.stat().st_mtime_ns
    key = f"{file.resolve()}:{stamp}".encode()
    name = f"{file.stem}_{hashlib.sha256(key).hexdigest()[:12]}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None and spec.loader is not None, "a .py file has a loader"
    module = importlib.util.module_from_spec(spec)
    vars(module)["__builtins__"] = {**vars(builtins), "__import__": imports}
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


class StandIn(ModuleType):
    """A module with a few names of the real one.

    ``lacking`` is asked for all others: it gives what the name stands for, or raises
    ``AttributeError``.
    """

    def __init__(
        self,
        name: str,
        has: Mapping[str, Any],
        lacking: Callable[[str, str], Any],
    ) -> None:
        """A module of that name."""
        super().__init__(name)
        vars(self).update(has)
        vars(self)["_lacking"] = lacking

    def __getattr__(self, name: str) -> Any:
        """What else the real module has."""
        if name.startswith("__"):
            raise AttributeError(name)
        return vars(self)["_lacking"](self.__name__, name)


class StandInImports:
    """The ``__import__`` of one file's module.

    Args:
        packages: Top-level packages that are stood in for.
        names: Module → its names.
        lacking: Module and name → what the name stands for in a module of ``names``
            that has it not; raises ``AttributeError`` if it stands for nothing.
        elsewhere: What ``names`` has not, a module or a name in one → what it is;
            raises ``ModuleNotFoundError``.
        others: What is called for all other packages.
    """

    def __init__(
        self,
        packages: Sequence[str],
        names: Mapping[str, Mapping[str, Any]],
        lacking: Callable[[str, str], Any],
        elsewhere: Callable[[str], Any],
        others: Import = builtins.__import__,
    ) -> None:
        """Nothing is imported yet."""
        self._packages, self._names = packages, names
        self._lacking, self._elsewhere = lacking, elsewhere
        self._others = others
        self._modules: dict[str, Any] = {}

    def __call__(
        self,
        name: str,
        globals: Mapping[str, Any] | None = None,  # noqa: A002 - as Python calls it
        locals: Mapping[str, Any] | None = None,  # noqa: A002
        fromlist: Sequence[str] | None = (),
        level: int = 0,
    ) -> ModuleType:
        """What an ``import`` statement gets."""
        root = name.partition(".")[0]
        if level or root not in self._packages:
            return self._others(name, globals, locals, fromlist or (), level)
        module: ModuleType = self.module(name)
        if not fromlist:
            first: ModuleType = self._modules[root]
            return first
        for wanted in fromlist:
            if wanted != "*" and wanted not in vars(module):
                self.module(f"{name}.{wanted}")
        return module

    def module(self, name: str) -> Any:
        """A module by its name, also as an attribute of those above it; or a name in a
        module.

        Raises:
            ModuleNotFoundError: There is none.
        """
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
