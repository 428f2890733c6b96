"""The index of task names: the suite, and ``--evals-include-path``."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import replace
from fnmatch import fnmatch, fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_evals.dialects.task_index import packages
from pytest_evals.plugin.settings.option_checks import usage_errors, with_place
from pytest_evals.plugin.settings.options import OPTIONS, suite_root
from pytest_evals.plugin.settings.process import is_distributed
from pytest_evals.plugin.suite.eval_files import matches, named_places
from pytest_evals.run.selection import Selection
from pytest_evals.run.selection import names_of as patterns_of

if TYPE_CHECKING:
    from pytest_evals.dialects.task_index.lookup import TaskLookup

TASK_INDEX: pytest.StashKey[TaskLookup] = pytest.StashKey()
"""Key of the index in ``config.stash``."""


def task_index_of(config: pytest.Config) -> TaskLookup:
    """Return the index of the session; trees are read at the first lookup."""
    if TASK_INDEX not in config.stash:
        from pytest_evals.dialects.task_index.index import Scanner
        from pytest_evals.dialects.task_index.lookup import TaskLookup

        options = config.stash[OPTIONS]
        scanner = Scanner(cache=options.dir, skips=skips_of(config))
        root = suite_root(config, options.include_path)
        config.stash[TASK_INDEX] = TaskLookup(root, options.include_path, scanner)
    return config.stash[TASK_INDEX]


def skips_of(config: pytest.Config) -> Callable[[Path], bool]:
    """Return whether a folder is skipped, as in pytest's collection."""
    patterns = config.getini("norecursedirs")

    def skips(folder: Path) -> bool:
        named = any(fnmatch(folder.name, pattern) for pattern in patterns)
        return named or os.path.isfile(folder / "pyvenv.cfg")

    return skips


def add_included(config: pytest.Config) -> None:
    """Add the files of ``--evals-tasks`` from the include paths, and from installed
    packages of benchmarks, to the command line.

    Only patterns without a match in the collected files and folders are looked up
    there, and in the packages only those without a match in include paths. If no
    pattern has one, and the command line contains no file or folder, only
    the files of the include paths are collected.

    Raises:
        pytest.UsageError: A pattern has no match.
    """
    index = task_index_of(config)
    declared = _own_names(config, index)
    patterns = patterns_of(config.stash[OPTIONS].tasks)
    if _lost(patterns, declared):
        declared |= {*_eval_names(config)}
    lost = _lost(patterns, declared)
    others = len(config.hook.pytest_evals_load_tasks.get_hookimpls()) > 1
    others = others or _has_modules(config)
    if not lost:
        return
    known = {*index.included_names()}
    if not others and any(not _matching(known, one) for one in lost):
        index = _with_packages(config)
        known = {*index.included_names()}
    found = {pattern: _matching(known, pattern) for pattern in lost}
    folders = config.stash[OPTIONS].include_path
    modules = {
        one: [*packages.module_files(folders, one)] for one in lost if not found[one]
    }
    worker = hasattr(config, "workerinput")
    unknown = [one for one, files in modules.items() if not files]
    reports = config.stash[OPTIONS].validate  # validation lists it with other problems
    if unknown and not (worker or others or reports):
        try:
            with usage_errors():
                Selection(unknown).check(
                    declared | known, "" if folders else packages.HOW_TO_GET
                )
        except pytest.UsageError as error:
            raise with_place(config, error) from None
    names = sorted({name for matches in found.values() for name in matches})
    files = dict.fromkeys(f for name in names for f in _files(name, index))
    files |= dict.fromkeys(file for ones in modules.values() for file in ones)
    alone = lost == list(patterns) and not _names_places(config)
    if files and not is_distributed(config):
        config.args[:] = [*([] if alone else config.args), *map(str, files)]


def _with_packages(config: pytest.Config) -> TaskLookup:
    """Return the index with the tasks of installed packages, which are looked up
    last."""
    options = config.stash[OPTIONS]
    folders = dict.fromkeys((*packages.installed_folders(), *options.include_path))
    config.stash[OPTIONS] = replace(options, include_path=tuple(folders))
    del config.stash[TASK_INDEX]
    return task_index_of(config)


def names_of(config: pytest.Config) -> set[str]:
    """Return all names of tasks, groups and tags that this session may collect."""
    index = task_index_of(config)
    return {*_own_names(config, index), *index.included_names()}


def _own_names(config: pytest.Config, index: TaskLookup) -> set[str]:
    """Return the names in the files and folders of the command line."""
    found: set[str] = set()
    for place in named_places(config):
        if os.path.isdir(place):
            found |= {*index.below(place)}
        elif os.path.isfile(place) and place.suffix != ".py":
            found |= {*index.of_file(place)}
    return found


def _has_modules(config: pytest.Config) -> bool:
    """Whether Python files, whose names need an import, may be collected."""
    patterns = config.stash[OPTIONS].python_files
    return any(
        place.suffix == ".py"
        or any(matches(file, patterns) for file in place.rglob("*.py"))
        for place in named_places(config)
    )


def _matching(names: Iterable[str], pattern: str) -> list[str]:
    return [name for name in names if fnmatchcase(name, pattern)]


def _lost(patterns: Iterable[str], names: Collection[str]) -> list[str]:
    """Return the patterns without a match; of one with folders, only the name
    counts."""
    return [
        pattern
        for pattern in patterns
        if not _matching(names, pattern)
        and not ("/" in pattern and _matching(names, pattern.rpartition("/")[2]))
    ]


def _eval_names(config: pytest.Config) -> Iterator[str]:
    """Yield the names of evals in YAML, which the index does not have."""
    from pytest_evals.dialects.detect import dialect_of, raw_of

    for place in named_places(config):
        files = place.rglob("*.y*ml") if place.is_dir() else [place]
        for path in files:
            is_yaml = path.suffix in (".yaml", ".yml")
            if is_yaml and dialect_of(path, raw_of) == "native":
                named = _TASK.search(raw_of(path))
                yield named[1].decode("utf-8", "replace") if named else path.stem


_TASK = re.compile(rb"""^task:[ \t]*["']?([^"'#\r\n]*[^"'#\s])""", re.MULTILINE)


def _files(name: str, index: TaskLookup) -> Iterator[Path]:
    entry = index.included(name)
    if entry is None:
        return
    if entry.path is not None:
        yield entry.path
    for member in entry.members:
        yield from _files(member, index)


def _names_places(config: pytest.Config) -> bool:
    """Whether the command line contains files or folders; a worker of pytest-xdist
    always gets pytest's defaults as arguments."""
    chosen = [[str(config.invocation_params.dir)], [*config.getini("testpaths")]]
    if config.args_source is not config.ArgsSource.ARGS:
        return False
    return [str(arg) for arg in config.args] not in chosen
