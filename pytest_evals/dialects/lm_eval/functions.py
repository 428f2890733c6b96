"""``!function module.name``: import a Python object that a task file names.

Modules next to the YAML file with the tag come first, then Python's import path. Equals
lm-eval 0.4.13, ``tasks/_yaml_loader.py``, except that errors include file and line.
``!function ../utils.name`` names the module by its path from the YAML file, as earlier
versions of lm-eval accept.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from pytest_evals.data.calls import error_text
from pytest_evals.data.hub import is_unreachable, sparing_hub
from pytest_evals.dialects.yaml_reader.yaml_file import FunctionRef
from pytest_evals.errors import Place, Problem, TaskFileError, suggestion


def resolve(ref: FunctionRef, roots: Sequence[str] | None = None) -> Any:
    """Import the object: a function, a class or any other value. ``roots``: folders
    that contain the modules that are named by a path; ``None`` for any folder. Raises
    TaskFileError if the module or name does not exist, or importing it fails."""
    module_name, dot, name = ref.dotted.rpartition(".")
    if not dot or not module_name or not name:
        fix = "!function module.name"
        raise _fault(ref, f"!function {ref.dotted}: expected module.name", fix)
    module = _module(ref, module_name, roots)
    value = getattr(module, name, None)
    if value is None:
        public = [n for n in vars(module) if not n.startswith("_")]
        where = Place(Path(module.__file__)) if module.__file__ else module_name
        if hasattr(module, name):
            raise _fault(ref, f"{name!r} in {where} is None")
        hint = suggestion(name, public)
        raise _fault(ref, f"{where} has no {name!r}{hint}")
    return value


def _module(ref: FunctionRef, name: str, roots: Sequence[str] | None) -> ModuleType:
    # Imported here because the task index reads thousands of files without functions.
    from pytest_evals.dialects.lm_eval.modules import import_for, load_module

    file, is_path = _file(ref.place.path.parent, name)
    if is_path:
        _check_path(ref, file, roots)
    try:
        with sparing_hub():
            return load_module(file) if os.path.isfile(file) else import_for(file, name)
    except (Exception, SystemExit) as error:
        if isinstance(error, ModuleNotFoundError) and _is_part(error.name, name):
            message = f"!function {ref.dotted}: no module {name!r}"
            fix = f"write {Place(file)} or install the module"
            raise _fault(ref, message, fix) from None
        message = f"importing {name!r} failed: {error_text(error)}"
        unreachable = is_unreachable(error)
        problem = Problem(message, ref.place, _fix(error, file.parent), unreachable)
        raise TaskFileError([problem]) from error


def _file(folder: Path, name: str) -> tuple[Path, bool]:
    """Return the file of a module, and whether its name is a path: ``../utils`` or,
    as in Python, ``..utils``."""
    bare = name.lstrip(".")
    if "/" in name:
        return Path(os.path.normpath(folder / f"{name}.py")), True
    ups = [".."] * (len(name) - len(bare) - 1)
    parts = (*ups, *bare.split("."))
    file = Path(os.path.normpath(folder.joinpath(*parts)))
    return file.with_name(f"{file.name}.py"), bare != name


def _check_path(ref: FunctionRef, file: Path, roots: Sequence[str] | None) -> None:
    real = file.resolve()
    if not (roots is None or any(real.is_relative_to(root) for root in roots)):
        raise _fault(
            ref,
            f"!function {ref.dotted}: {real} is outside of the rootdir {roots[0]}",
            "move the module below the rootdir, or pass a common folder as --rootdir",
        )
    if not os.path.isfile(file):
        raise _fault(ref, f"!function {ref.dotted}: no file {real}")


def _fault(ref: FunctionRef, message: str, fix: str = "") -> TaskFileError:
    return TaskFileError([Problem(message, ref.place, fix)])


def unresolved_function(*_arguments: object) -> None:
    """Placeholder for a function that could not be imported, so that the remaining
    problems of its file are found."""
    raise AssertionError("a task file with problems does not run")


def _fix(error: BaseException, folder: Path) -> str:
    from pytest_evals.dialects.lm_eval.shims.unavailable_names import INSTALL
    from pytest_evals.dialects.module_loader import missing_module_fix

    missing = error.name if isinstance(error, ImportError) else None
    if _is_part("lm_eval", missing or ""):
        return INSTALL
    return missing_module_fix(error, folder)


def _is_part(missing: str | None, name: str) -> bool:
    """Whether the missing module is the given one or a parent of it."""
    return missing is not None and f"{name}.".startswith(f"{missing}.")
