"""Check before a run that its results can be written, by the system calls that write
them later. Permission bits alone would miss a read-only mount, a full disk and a link
to nowhere, and mean nothing for root.
"""

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

_SIZE = 65_536
"""Bytes that are written and deleted again: the results of a small run."""


def check_base(
    base: Path, option: str, *, stores: bool, save: str = ""
) -> tuple[Path, ...]:
    """Check that a run can be written to the results folder, which is made.

    Args:
        base: The results folder.
        option: The option that sets it, for messages.
        stores: Whether responses are stored.
        save: Name of the baseline that the run is saved as, if it is.

    Returns:
        Folders that were made, for :func:`remove_made`.

    Raises:
        StoreError: A folder or a file in it cannot be made, or the baseline cannot be
            replaced.
    """
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


def remove_made(folders: Iterable[Path]) -> None:
    """Remove folders that were made for a run that writes nothing after all; not those
    that hold more than the ``.gitignore`` of a results folder."""
    for one in sorted(folders, key=lambda path: len(path.parts), reverse=True):
        with suppress(OSError):
            if [path.name for path in one.iterdir()] == [".gitignore"]:
                (one / ".gitignore").unlink()
            one.rmdir()


def check_file(path: Path, option: str) -> None:
    """Check that a file can be written; its folder is made, the file is not touched.

    Raises:
        StoreError: It cannot.
    """
    if os.path.isdir(path):
        raise StoreError(
            f"cannot write {str(path)!r}: it is a folder\n"
            f"  fix: add the name of a file to {option}"
        )
    try:
        mode = path.stat().st_mode
    except (OSError, ValueError):
        mode = stat.S_IFREG  # not there, or the next steps report why
    if stat.S_ISREG(mode):
        _check_folder(path.parent, option, shown=path)
    _open(path, mode, option)


def _check_store(path: Path, option: str) -> None:
    """Check that nothing is in the place of the store. A store that may only be read is
    one all the same."""
    if os.path.isdir(path) or (os.path.islink(path) and not os.path.exists(path)):
        error = IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        raise cannot_write(path, error, option)


def _open(path: Path, mode: int, option: str) -> None:
    """Open a file if it is there, since an immutable one cannot be replaced; a device
    is written no byte, which is enough for a full one. A pipe would notice."""
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
    """Check that files can be written in a folder, or a file that is ``shown``; what
    was made for a folder that turns out to be useless is removed."""
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
    """The folder and those above it that are not there."""
    return [one for one in (folder, *folder.parents) if not os.path.lexists(one)]
