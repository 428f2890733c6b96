"""Task modules of lighteval, loaded without lighteval.

What they import from it is answered by :mod:`.names`, whether lighteval is installed or
not: lighteval itself would load torch and ask the Hub. What has no stand-in, such as
the prompt function of another task, comes from the single file of lighteval's that it
stands in, loaded in the same way: of the folder that the task module is part of, or of
an installed lighteval. inspect-ai, which task modules import beside it, is answered by
nothing that does anything, unless it is installed.
"""

from __future__ import annotations

import builtins
import importlib
import os
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

from pytest_evals.data.calls import fault_of
from pytest_evals.dialects.lighteval.placeholders import Inert
from pytest_evals.dialects.lighteval.shims import NAMES, named_elsewhere
from pytest_evals.dialects.module_loader import StandIn, StandInImports, loaded
from pytest_evals.errors import Place, Problem, TaskFileError, did_you_mean

INSTALL = "pip install lighteval"


def load_task_module(path: Path) -> ModuleType:
    """The module of a file.

    Raises:
        TaskFileError: Importing it fails.
    """
    try:
        return _loaded(path)
    except (Exception, SystemExit) as error:
        what = f"importing it failed: {fault_of(error)}"
        raise TaskFileError([Problem(what, Place(path), _fix(error))]) from error


def _fix(error: BaseException) -> str:
    """What helps where the module imports something that is not there."""
    missing = getattr(error, "name", None) if isinstance(error, ImportError) else None
    package = str(missing or "").partition(".")[0]
    absent = isinstance(error, ModuleNotFoundError) and package not in ("", "lighteval")
    if not absent or "pip install" in str(error):
        return ""
    return f"install what brings {package!r}, or put {package}.py beside the file"


_MOVED = "lighteval.tasks.default_prompts"
"""Where prompt functions were in earlier releases."""
_EXECUTING = ("codegen_metrics", "slr_bench")
"""Files of lighteval's (LiveCodeBench, SLR-Bench) that execute what a model writes."""


def executes_answers(module: ModuleType) -> bool:
    """Whether the metrics of a module execute what the model writes: they are those of
    lighteval's that do, or the module says so by ``UNSAFE_CODE``, as lm-eval's do."""
    homes = [module.__name__]
    for value in vars(module).values():
        named = value.__name__ if isinstance(value, ModuleType) else None
        homes.append(str(named or getattr(value, "__module__", "")))
    files = {home.rpartition(".")[2] for home in homes}
    known = any(file.startswith(_EXECUTING) for file in files)
    return known or bool(getattr(module, "UNSAFE_CODE", False))


def _loaded(path: Path) -> ModuleType:
    # An installed aenum extends no enumeration of ours.
    packages = ["aenum", "lighteval"]
    packages += [one for one in ("inspect_ai", "langcodes") if find_spec(one) is None]
    tree = _tree_of(path)
    imports = StandInImports(
        packages,
        NAMES,
        partial(_lacking, tree),
        partial(_elsewhere, tree),
        partial(_others, path),
    )
    return loaded(path, imports)


def _tree_of(path: Path) -> Path | None:
    """The folder of lighteval's files: that which a file is part of, else that of an
    installed lighteval; ``None`` if there is neither."""
    spec = find_spec("lighteval")
    homes = [Path(home) for home in (spec and spec.submodule_search_locations) or ()]
    known = (one for one in (*path.parents, *homes) if one.name == "lighteval")
    return next((one for one in known if os.path.isdir(one / "tasks" / "tasks")), None)


def _of_tree(tree: Path | None, name: str) -> Any:
    """A module of lighteval's, or a name in one, from its file; ``None`` if there is
    none."""
    package, _, rest = name.partition(".")
    if tree is None or package != "lighteval" or not rest:
        return None
    place = tree.joinpath(*rest.split("."))
    if os.path.isdir(place):
        return StandIn(name, {}, partial(_lacking, tree))
    if os.path.isfile(place.with_suffix(".py")):
        return _loaded(place.with_suffix(".py"))
    above = place.parent.with_suffix(".py")
    return getattr(_loaded(above), place.name, None) if os.path.isfile(above) else None


def _others(
    near: Path,
    name: str,
    globals: Mapping[str, Any] | None = None,  # noqa: A002 - as Python calls it
    locals: Mapping[str, Any] | None = None,  # noqa: A002
    fromlist: Sequence[str] | None = (),
    level: int = 0,
) -> ModuleType:
    """As Python's own; but modules beside the file come first, as in lighteval, and see
    the same stand-ins."""
    if level == 1 and not name:
        folder = ModuleType(near.parent.name)
        for wanted in fromlist or ():
            setattr(folder, wanted, _loaded(near.with_name(f"{wanted}.py")))
        return folder
    whole = "." not in name or fromlist
    if level == 1 or (not level and whole and name not in sys.stdlib_module_names):
        file = near.parent.joinpath(*name.split(".")).with_suffix(".py")
        if os.path.isfile(file):
            return _loaded(file)
    return builtins.__import__(name, globals, locals, fromlist or (), level)


def _lacking(tree: Path | None, module: str, name: str) -> Any:
    found = _found(tree, f"{module}.{name}")
    if found is None:
        raise AttributeError(_unknown(tree, f"{module}.{name}"))
    return found


def _elsewhere(tree: Path | None, name: str) -> Any:
    """A module, or a name in one, that has no stand-in."""
    if name.partition(".")[0] == "inspect_ai":
        return Inert()
    found = _found(tree, name)
    if found is None:
        raise ModuleNotFoundError(_unknown(tree, name), name=name)
    return found


def _found(tree: Path | None, name: str) -> Any:
    module, _, last = name.rpartition(".")
    found = named_elsewhere(module, last)
    found = _of_tree(tree, name) if found is None else found
    return _installed(name) if found is None else found


def _installed(name: str) -> Any:
    """What an installed package has of that name; ``None`` if there is none."""
    if find_spec(name.partition(".")[0]) is None:
        return None
    above, _, last = name.rpartition(".")
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError:
        if not above:
            return None
    return getattr(importlib.import_module(above), last, None)


def _unknown(tree: Path | None, name: str) -> str:
    """That a name is not known, and what helps."""
    package = name.partition(".")[0]
    if package != "lighteval":
        return f"{name} needs {package}, which is not installed: pip install {package}"
    if name.startswith(_MOVED):
        return f"{name} is in lighteval up to 0.12: pip install 'lighteval<0.13'"
    module, _, last = name.rpartition(".")
    known = sorted({one for names in NAMES.values() for one in names})
    hint = did_you_mean(last, known) or did_you_mean(name, list(NAMES))
    if tree or find_spec("lighteval") is not None:
        return f"lighteval has no {name}{hint}"
    what = f"there is no stand-in for {last!r} of {module}{hint}"
    return f"{what}; if lighteval has it: {INSTALL}"
