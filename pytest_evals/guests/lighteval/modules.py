"""Load lighteval task modules without importing lighteval, and find out whether their
metrics execute model output.

Imports from lighteval resolve to :mod:`.shims`, whether lighteval is installed or not,
because lighteval itself would import torch and contact the Hub. A name without a shim,
such as the prompt function of another task, is loaded from its single source file: in
the folder tree that contains the task module, or in an installed lighteval. Imports
from inspect-ai resolve to placeholders unless it is installed.

Programs of lighteval's LiveCodeBench, of ``evaluate.load("code_eval")`` and of
``run_code`` run in the sandbox. All other execution of model output needs consent.
"""

from __future__ import annotations

import builtins
import importlib
import os
import sys
import sysconfig
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from pytest_evals.data.calls import error_text
from pytest_evals.dialects.evaluate_library import (
    CODE_EVAL,
    import_evaluate,
    route_code_eval,
)
from pytest_evals.dialects.module_loader import StandIn, StandInImports, loaded
from pytest_evals.errors import Place, Problem, TaskFileError, did_you_mean
from pytest_evals.guests.lighteval.metrics.codegen import codegen_metrics
from pytest_evals.guests.lighteval.metrics_enum import Metrics
from pytest_evals.guests.lighteval.shims import CODEGEN, NAMES, Placeholder, find_export
from pytest_evals.sandbox.session import run_code
from pytest_evals.sandbox.source_scan import execution
from pytest_evals.scorers.code_eval import CodeEval

INSTALL = "pip install lighteval"


def load_task_module(path: Path) -> ModuleType:
    """The module of a file.

    Raises:
        TaskFileError: Importing it fails.
    """
    try:
        with CodeEval.during_import():
            return _load(path)
    except (Exception, SystemExit) as error:
        message = f"importing it failed: {error_text(error)}"
        raise TaskFileError([Problem(message, Place(path), _fix(error))]) from error


def _fix(error: BaseException) -> str:
    """How to fix an import error of a missing package; empty for other errors."""
    missing = getattr(error, "name", None) if isinstance(error, ImportError) else None
    package = str(missing or "").partition(".")[0]
    absent = isinstance(error, ModuleNotFoundError) and package not in ("", "lighteval")
    if not absent or "pip install" in str(error):
        return ""
    return (
        f"install the package that provides {package!r}, or put {package}.py next "
        "to the file"
    )


_PROMPTS = "lighteval.tasks.default_prompts"
"""Module of prompt functions in releases before 0.13."""
_OLD_PROMPTS = "lighteval.tasks.tasks_prompt_formatting"
"""The same before 0.4."""
_EXTENDED = "lighteval.tasks.extended"
"""Package of some tasks in releases before 0.12; now ``lighteval.tasks.tasks``."""
_EXTENDED_MODULES = ("hle", "ifbench", "ifeval", "lcb", "main", "mix_eval", "mt_bench")
_FORMER = {
    _PROMPTS: "0.13",
    _EXTENDED: "0.12",
    "lighteval.tasks.multilingual.tasks": "0.12",
    "lighteval.metrics.harness_compatibility": "0.11",
}
"""Start of a name → first release without it."""
_ENGINE = (
    "lighteval.data.",
    "lighteval.logging.",
    "lighteval.main",
    "lighteval.models.",
    "lighteval.pipeline.",
    "lighteval.tasks.lighteval_task.",
    "lighteval.tasks.prompt_manager.",
    "lighteval.tasks.registry.",
    "lighteval.tasks.requests.",
)
"""Starts of names that only runs of lighteval need, of any release."""


def _load(path: Path) -> ModuleType:
    # An installed aenum cannot extend our Metrics class.
    packages = ["lighteval", "aenum"]
    packages += [one for one in ("inspect_ai", "langcodes") if find_spec(one) is None]
    tree = _source_tree(path)
    imports = StandInImports(
        packages,
        NAMES,
        partial(_missing_attribute, tree),
        partial(_missing_module, tree),
        partial(_import, path),
    )
    return loaded(path, imports)


def _source_tree(path: Path) -> Path | None:
    """Folder of lighteval's sources: the one that contains the file, else an installed
    lighteval's; ``None`` if neither exists."""
    spec = find_spec("lighteval")
    homes = [Path(home) for home in (spec and spec.submodule_search_locations) or ()]
    known = (one for one in (*path.parents, *homes) if one.name == "lighteval")
    return next((one for one in known if _has_prompts(one / "tasks")), None)


def _has_prompts(tasks: Path) -> bool:
    """Whether a folder has the prompts of lighteval's own tasks, of any release."""
    return os.path.isdir(tasks / "tasks") or os.path.isfile(
        tasks / "default_prompts.py"
    )


def _from_sources(tree: Path | None, name: str) -> Any:
    """A lighteval module, or a name in one, loaded from its source; ``None`` if it does
    not exist."""
    package, _, rest = name.partition(".")
    if tree is None or package != "lighteval" or not rest:
        return None
    place = tree.joinpath(*rest.split("."))
    if os.path.isdir(place):
        return StandIn(name, {}, partial(_missing_attribute, tree))
    if os.path.isfile(place.with_suffix(".py")):
        return _load(place.with_suffix(".py"))
    above = place.parent.with_suffix(".py")
    return getattr(_load(above), place.name, None) if os.path.isfile(above) else None


def _import(
    near: Path,
    name: str,
    globals: Mapping[str, Any] | None = None,  # noqa: A002 - as Python calls it
    locals: Mapping[str, Any] | None = None,  # noqa: A002
    fromlist: Sequence[str] | None = (),
    level: int = 0,
) -> ModuleType:
    """``__import__``, but modules next to the file come first, as in lighteval, and
    import the same shims."""
    if level == 1 and not name:
        folder = ModuleType(near.parent.name)
        for module in fromlist or ():
            setattr(folder, module, _load(near.with_name(f"{module}.py")))
        return folder
    resolves_whole_name = "." not in name or fromlist
    if level == 1 or (
        not level and resolves_whole_name and name not in sys.stdlib_module_names
    ):
        file = near.parent.joinpath(*name.split(".")).with_suffix(".py")
        if os.path.isfile(file):
            return _load(file)
    if name == "evaluate":
        route_code_eval(import_evaluate())
    return builtins.__import__(name, globals, locals, fromlist or (), level)


def _missing_attribute(tree: Path | None, module: str, name: str) -> Any:
    found = _resolve(tree, f"{module}.{name}")
    if found is None:
        raise AttributeError(_unknown_name_message(tree, f"{module}.{name}"))
    return found


def _missing_module(tree: Path | None, name: str) -> Any:
    """Resolve a module without a shim, or a name in one."""
    if name.partition(".")[0] == "inspect_ai":
        return Placeholder()
    found = _resolve(tree, name)
    if found is None:
        raise ModuleNotFoundError(_unknown_name_message(tree, name), name=name)
    return found


def _resolve(tree: Path | None, name: str) -> Any:
    name = name.replace(_OLD_PROMPTS, _PROMPTS)
    module, _, last = name.rpartition(".")
    found = find_export(module, last)
    found = _from_sources(tree, name) if found is None else found
    if found is None and module == _PROMPTS:
        found = _moved_prompt(tree, last)
    if found is None and name.startswith(_EXTENDED):
        name = name.replace(_EXTENDED, "lighteval.tasks.tasks")
        if name == CODEGEN:
            return StandIn(name, NAMES[name], partial(_missing_attribute, tree))
        found = _from_sources(tree, name)
        found = Metrics.__members__.get(last) if found is None else found
        if found is None and last in _EXTENDED_MODULES:
            found = StandIn(name, {}, partial(_missing_attribute, tree))
    if found is None and not name.startswith((_PROMPTS, _EXTENDED)):
        found = _from_installed(name)
    return found


def _moved_prompt(tree: Path | None, name: str) -> Any:
    """A former prompt function of ``default_prompts`` in the file of its task, where
    its name ends in ``_prompt``; ``None`` if it is unknown."""
    files = sorted((tree / "tasks" / "tasks").rglob("*.py")) if tree else []
    for file in files:
        text = file.read_text(encoding="utf-8")
        for former in (name, f"{name}_prompt"):
            if f"\ndef {former}(" in text:
                return getattr(_load(file), former)
    return None


def _from_installed(name: str) -> Any:
    """An attribute or module of an installed package; ``None`` if it does not exist."""
    if find_spec(name.partition(".")[0]) is None:
        return None
    above, _, last = name.rpartition(".")
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError:
        if not above:
            return None
    return getattr(importlib.import_module(above), last, None)


def _unknown_name_message(tree: Path | None, name: str) -> str:
    """Message for an unknown name, with a fix if there is one."""
    name = name.replace(_OLD_PROMPTS, _PROMPTS)
    package = name.partition(".")[0]
    if package != "lighteval":
        return (
            f"{name} needs {package}, which is not installed; run: pip install "
            f"{package}"
        )
    module, _, last = name.rpartition(".")
    modules = [one for one in NAMES if one.rpartition(".")[0] == module]
    known = [*NAMES.get(module, ()), *(one.rpartition(".")[2] for one in modules)]
    hint = did_you_mean(last, known)
    if f"{name}.".startswith(_ENGINE):
        return (
            f"{name} is part of how lighteval runs models and tasks, which pytest does "
            f"instead{hint}; remove the import, or move the code that needs it out of "
            "the task module"
        )
    former = next((one for one in _FORMER if name.startswith(one)), None)
    installed = tree or find_spec("lighteval") is not None
    if former:
        why = "is not the installed release" if installed else "is not installed"
        first = _FORMER[former]
        return (
            f"{name} is part of lighteval before {first}, which {why}; run: "
            f"pip install 'lighteval<{first}'"
        )
    if installed:
        return f"lighteval has no {name}{hint}"
    return (
        f"{name} is not among the names of lighteval that work without it{hint}; "
        f"otherwise install the release that the module was written for: {INSTALL}"
    )


_FILES = ("slr_bench",)
"""Files of lighteval (SLR-Bench) that execute model output by metrics of the Hub."""
_PACKAGES = {"site-packages", "dist-packages"}
_OWN = Path(__file__).resolve().parents[2]
_OTHERS = [Path(sysconfig.get_paths()["stdlib"]).resolve(), _OWN]


class CodeExecution(NamedTuple):
    """How a module executes model output.

    Args:
        itself: File, name and line of what executes it outside the sandbox; empty if
            nothing does.
        in_sandbox: Whether the sandbox does.
    """

    itself: str
    in_sandbox: bool


def code_execution(module: ModuleType, inputs: Collection[str]) -> CodeExecution:
    """Return how a module, and the user's modules that it imports, execute answers.

    Args:
        inputs: Names of its functions that make prompts.
    """
    itself, in_sandbox = "", False
    for one in _modules(module):
        file = Path(str(one.__file__))
        try:
            source = file.read_text(encoding="utf-8")
        except (OSError, ValueError):
            continue
        found = execution(source, inputs)
        if file.name.startswith(_FILES):
            found = found or "a metric of the Hub"
        if getattr(one, "UNSAFE_CODE", False):
            found = found or "UNSAFE_CODE"
        itself = itself or (found and f"{found} in {file.name}")
        in_sandbox = in_sandbox or any(map(_is_of_sandbox, vars(one).values()))
        in_sandbox = in_sandbox or (
            "evaluate" in source and any(name in source for name in CODE_EVAL)
        )
    return CodeExecution(itself, in_sandbox)


def _is_of_sandbox(value: Any) -> bool:
    return value is run_code or value is codegen_metrics or isinstance(value, CodeEval)


def _modules(module: ModuleType) -> Iterator[ModuleType]:
    """Yield a module and those of the user's files that its names are from."""
    pending, seen = [module], {module.__name__}
    while pending:
        one = pending.pop()
        yield one
        for value in vars(one).values():
            is_module = isinstance(value, ModuleType)
            name = value.__name__ if is_module else getattr(value, "__module__", "")
            home = sys.modules.get(str(name))
            if home is not None and home.__name__ not in seen and _is_users(home):
                seen.add(home.__name__)
                pending.append(home)


def _is_users(module: ModuleType) -> bool:
    file = getattr(module, "__file__", None)
    if not file or not str(file).endswith(".py"):
        return False
    path = Path(file).resolve()
    others = any(map(path.is_relative_to, _OTHERS))
    return not others and _PACKAGES.isdisjoint(path.parts)
