"""``!function module.name``: import a Python object that a task file names.

Modules next to the YAML file with the tag come first, then Python's import path. Equals
lm-eval 0.4.13, ``tasks/_yaml_loader.py``, except that errors include file and line.
"""

from __future__ import annotations

import os
from pathlib import Path
from types import ModuleType
from typing import Any

from pytest_evals.data.calls import error_text
from pytest_evals.dialects.yaml_reader.function_tag import FunctionRef
from pytest_evals.errors import Place, Problem, TaskFileError, suggestion


def resolve(ref: FunctionRef) -> Any:
    """Import the object: a function, a class or any other value.

    Raises:
        TaskFileError: The module or name does not exist, or importing it fails.
    """
    module_name, dot, name = ref.dotted.rpartition(".")
    if not dot or not module_name or not name:
        fix = "!function module.name"
        raise _fault(ref, f"!function {ref.dotted}: expected module.name", fix)
    module = _module(ref, module_name)
    value = getattr(module, name, None)
    if value is None:
        public = [n for n in vars(module) if not n.startswith("_")]
        where = Place(Path(module.__file__)) if module.__file__ else module_name
        if hasattr(module, name):
            raise _fault(ref, f"{name!r} in {where} is None")
        hint = suggestion(name, public)
        raise _fault(ref, f"{where} has no {name!r}{hint}")
    return value


def _module(ref: FunctionRef, name: str) -> ModuleType:
    # Imported here because the task index reads thousands of files without functions.
    from pytest_evals.dialects.lm_eval.modules import import_for, load_module

    file = ref.place.path.parent.joinpath(*name.split(".")).with_suffix(".py")
    try:
        if os.path.isfile(file):
            return load_module(file)
        return import_for(file, name)
    except (Exception, SystemExit) as error:
        if isinstance(error, ModuleNotFoundError) and _is_part(error.name, name):
            what = f"!function {ref.dotted}: no module {name!r}"
            fix = f"write {Place(file)} or install the module"
            raise _fault(ref, what, fix) from None
        what = f"importing {name!r} failed: {error_text(error)}"
        raise _fault(ref, what, _fix(error)) from error


def _fault(ref: FunctionRef, what: str, fix: str = "") -> TaskFileError:
    return TaskFileError([Problem(what, ref.place, fix)])


def unresolved_function(*_arguments: object) -> None:
    """Placeholder for a function that could not be imported, so that the remaining
    problems of its file are found."""
    raise AssertionError("a task file with problems does not run")


def _fix(error: BaseException) -> str:
    from pytest_evals.dialects.lm_eval.shims.unavailable_names import INSTALL

    missing = error.name if isinstance(error, ImportError) else None
    return INSTALL if _is_part("lm_eval", missing or "") else ""


def _is_part(missing: str | None, name: str) -> bool:
    """Whether the missing module is the given one or a parent of it."""
    return missing is not None and f"{name}.".startswith(f"{missing}.")
