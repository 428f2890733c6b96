"""Check before a run that its results can be written, with the same system calls.
Permission bits would miss read-only mounts, full disks and dangling links, and do not
apply to root."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from pytest_evals.errors import StoreError
from pytest_evals.store.baselines import check_replaceable
from pytest_evals.store.files import cannot_write, make_base, make_folder, replace_text
from pytest_evals.store.responses import NAME

_SOURCES = (".csv", ".ini", ".jsonl", ".py", ".toml", ".yaml", ".yml")
"""Ends of names of files that a run reads and never writes where an option says."""
_SIZE = 65_536
"""Bytes that are written and deleted again: the size of a small run's results."""


def check_base(
    base: Path, option: str, *, stores: bool, save: str = ""
) -> tuple[Path, ...]:
    """Check that a run can be written to the results folder, and create the folder.
    ``option``: sets it, for messages. ``save``: name of the baseline that the run is
    saved as, if any. Returns the created folders, for :func:`remove_made`;
    ``StoreError`` if a folder or a file in it cannot be created, or the baseline cannot
    be replaced."""
    check_replaceable(base, save)
    runs, baselines = base / "runs", base / "baselines"
    missing = (*_missing(runs), *_missing(baselines))
    try:
        make_base(base, option)
        folders = {base: stores, runs: True, baselines: bool(save)}
        for folder, is_needed in folders.items():
            if is_needed:
                _check_folder(folder, option)
        if stores:
            _check_store(base / NAME, option)
    except StoreError:
        remove_made(missing)
        raise
    if baselines in missing:
        remove_made([baselines])  # it is made when there is one
    return missing


def check_empty(folder: Path, option: str) -> None:
    """Check that a folder for new files is empty or missing, and can be written;
    ``StoreError`` if it contains files, or cannot be written."""
    if os.path.isdir(folder) and any(folder.iterdir()):
        raise StoreError(
            f"cannot write to {str(folder)!r}: it contains files\n"
            f"  fix: remove them, or name another folder with {option}"
        )
    _check_folder(folder, option)


def remove_made(folders: Iterable[Path]) -> None:
    """Remove folders created for a run that wrote nothing; keep those that contain more
    than the ``.gitignore`` of a results folder."""
    for one in sorted(folders, key=lambda path: len(path.parts), reverse=True):
        with suppress(OSError):
            if [path.name for path in one.iterdir()] == [".gitignore"]:
                (one / ".gitignore").unlink()
            one.rmdir()


def check_file(path: Path, option: str) -> None:
    """Check that a file can be written; create its folder, but do not change the file.
    Raises ``StoreError`` if it cannot be written."""
    if os.path.isdir(path):
        raise StoreError(
            f"cannot write {str(path)!r}: it is a folder\n"
            f"  fix: add the name of a file to {option}"
        )
    if path.suffix in _SOURCES and os.path.exists(path):
        raise StoreError(
            f"cannot write {str(path)!r}: the file may be a part of the suite\n"
            f"  fix: name another file with {option}, or remove it"
        )
    try:
        mode = path.stat().st_mode
    except (OSError, ValueError):
        mode = stat.S_IFREG  # not there, or the next steps report why
    if stat.S_ISREG(mode):
        _check_folder(path.parent, option, shown=path)
    _open(path, mode, option)


def _check_store(path: Path, option: str) -> None:
    """Check that the store and its log are missing or files, which may be read-only."""
    for one in (path, path.with_name(f"{path.name}-wal")):
        if os.path.lexists(one) and not one.is_file():
            error = OSError(errno.EISDIR, os.strerror(errno.EISDIR))
            if not one.is_dir():
                error = OSError(errno.EINVAL, "it is a device, not a file")
            raise cannot_write(one, error, option)


def _open(path: Path, mode: int, option: str) -> None:
    """Open an existing file, because an immutable one cannot be replaced. An empty
    write to a device detects a full one; pipes are skipped, because the reader would
    notice."""
    if not (stat.S_ISREG(mode) or stat.S_ISCHR(mode)):
        return
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_NOCTTY | os.O_NONBLOCK)
        try:
            os.write(descriptor, b"")
        finally:
            os.close(descriptor)
    except (OSError, ValueError) as error:
        # A file that may not be written to is replaced where its folder allows that.
        replaced = (errno.ENOENT, errno.EACCES)
        if getattr(error, "errno", 0) not in replaced or not stat.S_ISREG(mode):
            raise cannot_write(path, error, option) from error


def _check_folder(folder: Path, option: str, shown: Path | None = None) -> None:
    """Check that files, or the file that is ``shown``, can be written in a folder;
    remove created folders if not."""
    missing = _missing(folder)
    try:
        make_folder(folder, option)
        # A link to a file is kept: what it points to is replaced.
        inside = Path(os.path.realpath(shown)).parent if shown else folder
        draft = inside / f".writable.{os.getpid()}.tmp"
        replace_text(draft, " " * _SIZE, option, shown=shown or folder)
        draft.unlink()
    except StoreError:
        remove_made(missing)
        raise
    except (OSError, ValueError) as error:
        remove_made(missing)
        raise cannot_write(shown or folder, error, option) from error


def _missing(folder: Path) -> list[Path]:
    """Return the folder and its parents that do not exist."""
    return [one for one in (folder, *folder.parents) if not os.path.lexists(one)]
