"""Files that look like eval files and are not collected as such.

One that the command line names is a usage error, and one that is found in a folder a
warning: its gates, if it has any, are not evaluated. The messages for ids and files
on the command line that name no test are here, too.
"""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_evals.dialects import detect
from pytest_evals.errors import Place, Problem, TaskFileError, suggestion
from pytest_evals.plugin.settings.options import OPTIONS, suite_root
from pytest_evals.plugin.suite import eval_files

if TYPE_CHECKING:
    from pytest_evals.dialects.gates_section.suite_gates import SuiteGates
    from pytest_evals.dialects.lookalikes import Lookalike

_GATES_FILES: pytest.StashKey[list[Path]] = pytest.StashKey()
"""The gates files in collected folders."""
_EVAL_FILES: pytest.StashKey[list[Path]] = pytest.StashKey()
"""The files that are collected."""


class LookalikeFile(pytest.File):
    """Such a file as an error: under ``--evals-validate``, and where warnings are."""

    problem: Problem

    def collect(self) -> Iterator[pytest.Item]:
        """Raise the problem."""
        raise TaskFileError([self.problem])

    def repr_failure(self, excinfo: object, style: object = None) -> str:
        """Return the problem without traceback."""
        return str(self.problem)


def check_named(config: pytest.Config) -> None:
    """Refuse such files on the command line."""
    found = [
        lost.problem
        for path in sorted(eval_files.named_places(config))
        if path.is_file() and not eval_files.is_eval_file(path, config.hook, config)
        if (lost := _lookalike(path)) is not None
    ]
    if found:
        raise pytest.UsageError("\n".join(map(str, found)))


def warn_or_collect_lookalike(
    path: Path, parent: pytest.Collector
) -> pytest.Collector | None:
    """Warn about such a file in a folder, or return its node if it is an error."""
    config = parent.config
    if path.name in detect.GATES_FILES:
        config.stash.setdefault(_GATES_FILES, []).append(path)
        return None
    lost = _unnamed_module(path, config) or _lookalike(path)
    if lost is None:
        return None
    from pytest_evals.dialects.lookalikes import is_included

    root = suite_root(config, config.stash[OPTIONS].include_path)
    if is_included(path, _near(path, root, config)):
        return None
    try:
        if not lost.is_error and not config.stash[OPTIONS].validate:
            warn(lost.problem)
            return None
    except pytest.PytestCollectionWarning:  # where warnings are errors
        pass
    node = LookalikeFile.from_parent(parent, path=path)
    node.problem = lost.problem
    return node


_DECORATED = re.compile(rb"^@(?:\w+\.)*eval\b", re.MULTILINE)


def _unnamed_module(path: Path, config: pytest.Config) -> Lookalike | None:
    """Why evals of a Python file do not run: its name is that of no test module. Only
    files with ``eval`` in their path are read, because others are many."""
    is_python = path.suffix == ".py"
    if not is_python or "eval" not in os.path.relpath(path, config.rootpath).lower():
        return None
    if eval_files.is_test_file(path, config) or eval_files.matches(
        path, config.stash[OPTIONS].python_files
    ):
        return None
    from pytest_evals.dialects.lookalikes import Lookalike

    problem = _misnamed_module(path)
    return Lookalike(problem, is_error=False) if problem else None


def _misnamed_module(path: Path) -> Problem | None:
    raw = detect.raw_of(path)
    found = _DECORATED.search(raw) if b"pytest_evals" in raw else None
    if found is None:
        return None
    message = "has evals, but its name is not that of a test module, so they do not run"
    name = re.sub(r"^evals?_?|\W", "_", path.stem).strip("_")
    place = Place(path, raw.count(b"\n", 0, found.start()) + 1)
    return Problem(message, place, f"rename it to eval_{name}.py")


def record_eval_file(path: Path, config: pytest.Config) -> None:
    """Record that a file is collected."""
    config.stash.setdefault(_EVAL_FILES, []).append(path)


def unused_gates_files(config: pytest.Config, gates: SuiteGates) -> Iterator[Problem]:
    """Return gates files without an eval file next to or below them."""
    read = {*gates.files()}
    places = config.stash.get(_EVAL_FILES, [])
    seen = config.stash.get(_GATES_FILES, [])
    for path in dict.fromkeys(seen):
        if path in read or any(one.is_relative_to(path.parent) for one in places):
            continue
        if (lost := _lookalike(path)) is not None:
            text = "no task is in this folder or below, so the gates of this file are "
            fix = "move it next to the tasks, or into a folder above them"
            yield Problem(text + "not evaluated", lost.problem.where, fix)


def _lookalike(path: Path) -> Lookalike | None:
    if not detect.lookalike_bytes(path):
        return None
    from pytest_evals.dialects.lookalikes import lookalike

    return lookalike(path)


def _near(path: Path, root: Path, config: pytest.Config) -> Iterator[Path]:
    """The YAML files of a file's folder and below, then those of the folders above."""
    from pytest_evals.plugin.suite.task_index import skips_of

    skips, seen = skips_of(config), set[str]()
    for top in (path.parent, *path.parent.parents):
        for place, folders, names in os.walk(top):
            if place in seen:
                folders.clear()
                continue
            seen.add(place)
            folders[:] = [one for one in folders if not skips(Path(place, one))]
            found = (name for name in names if name.endswith(detect.YAML_SUFFIXES))
            yield from (Path(place, name) for name in found)
        if top == root or not top.is_relative_to(root):
            return


def warn(problem: Problem) -> None:
    """Warn about a problem, with its place."""
    warnings.warn_explicit(
        str(problem),
        pytest.PytestCollectionWarning,
        filename=str(problem.where.path),
        lineno=problem.where.line or 1,
    )


def nothing_found(folder: Path) -> Iterator[str]:
    """Yield what an eval is, for a session without tests, and which files of the
    working directory, ``folder``, are not read."""
    for problem in filter(None, map(_misnamed_module, sorted(folder.glob("*.py")))):
        yield f"{problem.where}: {problem.message}; {problem.fix}"
    for path in sorted(folder.glob("promptfooconfig.*")):
        yield (
            f"{path.name} is a file of promptfoo, which is not read; its assertions "
            "are listed in the docs: Coming from promptfoo and pydantic-evals"
        )
    yield (
        "no evals found: an eval is a YAML file with prompt and rows, or a function "
        "with @eval in a test module; python -m pytest_evals init writes a first one"
    )


_NOT_FOUND = "not found: "
_KEYS = "prompt and rows or dataset, or the keys of lm-eval or LatticeFlow"


def explained(session: pytest.Session, error: pytest.UsageError) -> pytest.UsageError:
    """Return pytest's error about ids that were not found, with similar ids of the eval
    files that it names."""
    return pytest.UsageError(*(_explained(session, str(one)) for one in error.args))


def _tasks_hint(session: pytest.Session, name: str) -> str:
    """Return the fix if a task is named where files are expected."""
    has_model = bool(session.config.stash[OPTIONS].model)
    if not has_model or "/" in name or "." in name or "::" in name:
        return ""
    return f"\n  fix: if it is a task, write --evals-tasks={name}"


def _explained(session: pytest.Session, text: str) -> str:
    """Return the error for one argument."""
    name = text.removeprefix(_NOT_FOUND).partition("\n")[0]
    file, _, inside = name.partition("::")
    path = Path(file)
    if text.startswith("file or directory not found: ") and "\n" not in text.strip():
        return text + _tasks_hint(session, text.partition(": ")[2].strip())
    if not text.startswith(_NOT_FOUND) or not path.is_file():
        return text
    if eval_files.is_eval_file(path, session.config.hook, session.config):
        if not inside:
            return text
        items = session.perform_collect([file], genitems=True)
        known = [item.nodeid.partition("::")[2] for item in items]
        given = (one.partition("::")[2] for one in session.config.args if "::" in one)
        # pytest leaves out the brackets of an id.
        lost = (one for one in given if one.startswith(inside) and one not in known)
        inside = next(lost, inside)
        hint = suggestion(inside, known) if known else ""
        list_all = f"list all ids: pytest {Place(path)} --collect-only -q"
        return f"{Place(path)}: unknown test {inside!r}{hint}\n  fix: {list_all}"
    if path.suffix not in detect.YAML_SUFFIXES:
        return text
    message = "is empty" if not path.read_bytes().strip() else "is not an eval file"
    return f"{Place(path)} {message}\n  fix: write {_KEYS}"
