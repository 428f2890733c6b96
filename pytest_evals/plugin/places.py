"""Files and folders of tasks as pytest's nodes.

A member of a group may stand in any file. Its node is made here as pytest would make
it, below the nodes of its folders, so that its id, its conftest.py and its fixtures are
the same as when it is collected by itself.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

__all__ = ["file_id", "folder_of"]


def file_id(path: Path, root: Path) -> str:
    """A file's node id: relative to the rootdir, even where it is not below it."""
    try:
        return Path(os.path.relpath(path, root)).as_posix()
    except ValueError:  # another drive
        return path.as_posix()


def folder_of(path: Path, near: pytest.Collector) -> pytest.Collector:
    """The node of the folder of a file.

    Args:
        path: The file.
        near: A node; folders that it stands in are used again.
    """
    session = near.session
    around = [n for n in near.iter_parents() if isinstance(n, pytest.Directory)]
    known = next((n for n in around if path.is_relative_to(n.path)), None)
    parent: pytest.Collector = known or session
    above = parent.path if known else session.config.rootpath
    for folder in reversed(path.parents):
        if folder.is_relative_to(above) and not (known and folder == above):
            hook = session.gethookproxy(folder.parent)
            made = hook.pytest_collect_directory(path=folder, parent=parent)
            parent = made or parent
    return parent
