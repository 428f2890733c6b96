"""Task files of installed packages: lm-eval and lighteval.

The packages are found without being imported: their files are read as any others are.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

LM_EVAL, LIGHTEVAL = "lm_eval", "lighteval"
PACKAGES = (LM_EVAL, LIGHTEVAL)
HOW_TO_GET = (
    "task files of benchmarks are not part of this package; install lm-eval or "
    "lighteval, whose files are then found, or pass --evals-include-path=FOLDER"
)
_TASKS = "tasks"
_NAME = re.compile(r"""\bname\s*=\s*f?["']([^"']+)["']""")


def folder_of(package: str) -> Path | None:
    """Return the folder of an installed package's tasks; the package's own folder if it
    has none; ``None`` if the package is not installed."""
    if not package.isidentifier():
        return None
    try:
        spec = find_spec(package)
    except (ImportError, ValueError):
        return None
    for place in (spec and spec.submodule_search_locations) or ():
        folder = Path(place)
        tasks = folder / _TASKS
        return tasks if tasks.is_dir() else folder
    return None


def installed_folders() -> tuple[Path, ...]:
    """Return the folders of the packages that are installed."""
    return tuple(one for name in PACKAGES if (one := folder_of(name)) is not None)


def label_of(folder: Path) -> str:
    """Return the name and version of the package whose tasks are in a folder; empty if
    it is another folder."""
    for name in (folder.name, folder.parent.name):
        if folder_of(name) == folder:
            try:
                return f"{name} {metadata.version(name)}"
            except metadata.PackageNotFoundError:
                return name
    return ""


def module_files(folders: Sequence[Path], pattern: str) -> Iterator[Path]:
    """Yield the task modules of lighteval with a task of a name: that of the task, or
    what is before its colon. ``pattern``: a glob."""
    for folder in folders:
        if folder.parent.name != LIGHTEVAL:
            continue
        for file in sorted(folder.rglob("*.py")):
            text = file.read_text("utf-8", errors="replace")
            if "TASKS_TABLE" not in text:
                continue
            names = {file.stem} | {
                part
                for name in _NAME.findall(text)
                for part in (name, name.partition(":")[0])
            }
            if any(fnmatchcase(name, pattern) for name in names):
                yield file
