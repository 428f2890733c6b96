"""The nodes of files and folders of tasks, and which of them collects a task.

A member of a group may be in any file. Its node is made here as pytest would make
it, below the nodes of its folders, so that its id, its conftest.py and its fixtures are
the same as when it is collected on its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from pytest_evals.run.suite import GroupRun, Suite, TaskRun

Node = pytest.Item | pytest.Collector


def node_of(
    path: Path, near: Node, made: dict[Path, pytest.Directory]
) -> tuple[pytest.Collector, Node | None]:
    """The nodes of a file's folder, and of the file if pytest collects it.

    A folder's conftest.py is loaded when the folder is collected, and its fixtures are
    bound to that very node. Public functions cannot collect a folder out of turn, so
    the one that pytest itself uses is called; it remembers what it has collected.

    Raises:
        pytest.Collector.CollectError: The folder cannot be collected.
    """
    session = near.session
    folders = [n for n in near.iter_parents() if isinstance(n, pytest.Directory)]
    folder = next((n for n in folders if path.is_relative_to(n.path)), None)
    if folder is None:
        folder = made.get(path.parent) or _made(path.parent, session)
        made[path.parent] = folder
    while folder.path != path.parent:
        step = folder.path / path.relative_to(folder.path).parts[0]
        found = _child(folder, step)
        inner = found if isinstance(found, pytest.Directory) else None
        folder = inner or _made(step, folder)
    return folder, _child(folder, path)


def root_node(
    session: pytest.Session, made: dict[Path, pytest.Directory]
) -> pytest.Directory:
    """The node of the rootdir, made once, so that the fixtures of its conftest.py are
    visible below it."""
    root = session.config.rootpath
    if root not in made:
        made[root] = _made(root, session)
    return made[root]


def _child(folder: pytest.Directory, path: Path) -> Node | None:
    report, _ = folder.session._collect_one_node(folder)
    if not report.passed:
        raise pytest.Collector.CollectError(str(report.longrepr))
    return next((node for node in report.result if node.path == path), None)


def _made(path: Path, parent: pytest.Collector) -> pytest.Directory:
    hook = parent.session.gethookproxy(path.parent)
    made = hook.pytest_collect_directory(path=path, parent=parent)
    if isinstance(made, pytest.Directory):
        return made
    return pytest.Dir.from_parent(parent, path=path)


class Deduplication:
    """Assigns each task and group to the first collector that reaches it.

    If the command line names a part of a file, all collectors of its tasks collect
    them, because the parts are not known here;
    :mod:`~pytest_evals.plugin.execution.hooks` removes duplicates.
    """

    def __init__(self, config: pytest.Config) -> None:
        base = config.invocation_params.dir
        parts = (str(arg).partition("::") for arg in config.args)
        self._named_files = {base / path for path, colons, _ in parts if colons}
        self._collectors: dict[str, pytest.Collector] = {}

    def take(self, run: TaskRun | GroupRun, collector: pytest.Collector) -> bool:
        """Return whether the collector collects the documents of a task, or the gates
        of a group."""
        if run.path in self._named_files or self._named_files & {collector.path}:
            return True
        name = f"{run.nodeid}[{run.label}]"
        return self._collectors.setdefault(name, collector) is collector


def refuse_equal_ids(suites: Sequence[Suite]) -> None:
    """Refuse names of models with which two documents have one id: document ``b-1`` of
    model ``a``, and document ``1`` of model ``a-b``."""
    seen: dict[str, str] = {}
    for known in suites:
        names = [one.model for one in suites if one is not known]
        if not any(
            f"{one}-".startswith(f"{known.model}-")
            or f"{known.model}-".startswith(f"{one}-")
            for one in names
        ):
            continue
        for nodeid in (n for run in known.tasks.values() for n in run.document_ids()):
            other = seen.setdefault(nodeid, known.model)
            if other != known.model:
                raise pytest.UsageError(
                    f"the models {other!r} and {known.model!r} both have a document "
                    f"{nodeid}\n  fix: name one of them: --model=NAME=SPEC"
                )
