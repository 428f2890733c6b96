"""``!function module.name``: Python that a task file names.

The module is looked for next to the YAML file that has the tag, then among what Python
can import. Equals lm-eval 0.4.13, ``tasks/_yaml_loader.py``; but every error says
where.
"""

from __future__ import annotations

import os
from pathlib import Path
from types import ModuleType
from typing import Any

from pytest_evals.data.calls import fault_of
from pytest_evals.dialects.yaml_reader.function_tag import FunctionRef
from pytest_evals.errors import Place, Problem, TaskFileError, did_you_mean


def resolve(ref: FunctionRef) -> Any:
    """The object of that name: a function, a class, or anything else.

    Raises:
        TaskFileError: There is no such module or name, or importing it fails.
    """
    module_name, dot, name = ref.dotted.rpartition(".")
    if not dot or not module_name or not name:
        fix = "!function module.name"
        raise _fault(
            ref, f"!function {ref.dotted}: a module and a name are wanted", fix
        )
    module = _module(ref, module_name)
    found = getattr(module, name, None)
    if found is None:
        public = [n for n in vars(module) if not n.startswith("_")]
        where = Place(Path(module.__file__)) if module.__file__ else module_name
        hint = " but None" if hasattr(module, name) else did_you_mean(name, public)
        raise _fault(ref, f"{where} has no {name!r}{hint}")
    return found


def _module(ref: FunctionRef, name: str) -> ModuleType:
    # An index reads thousands of files and calls no function.
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
        what = f"importing {name!r} failed: {fault_of(error)}"
        raise _fault(ref, what, _fix(error)) from error


def _fault(ref: FunctionRef, what: str, fix: str = "") -> TaskFileError:
    return TaskFileError([Problem(what, ref.place, fix)])


def missing(*_arguments: object) -> None:
    """Stands for a function that could not be imported, so that the rest of its file is
    read and all problems are found."""
    raise AssertionError("a file with problems is never run")


def _fix(error: BaseException) -> str:
    from pytest_evals.dialects.lm_eval.shims.unsupported import INSTALL

    missing = error.name if isinstance(error, ImportError) else None
    return INSTALL if _is_part("lm_eval", missing or "") else ""


def _is_part(missing: str | None, name: str) -> bool:
    """Whether the module that is missing is the one that was asked for."""
    return missing is not None and f"{name}.".startswith(f"{missing}.")
