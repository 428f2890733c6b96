"""Atomic file writes in the results folder.

A JSON file is written under a temporary name and renamed when it is complete. Lines are
appended completely: a line that a full disk truncated is removed. Known secrets are
masked in every file.
"""

from __future__ import annotations

import json
import os
import secrets
import stat
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from pytest_evals.errors import StoreError
from pytest_evals.masking.registry import hidden

_IGNORE = """\
# Results of pytest-model-evals. Baselines are meant to be committed, the rest is not.
*
!/baselines/
!/baselines/**
"""


def write_json(
    path: Path, data: Mapping[str, Any], option: str = "--evals-json"
) -> None:
    """Write strict JSON atomically, and create its folders; a device or a pipe such as
    ``/dev/stdout`` is written to directly. ``option``: sets the path, for messages.

    Raises:
        StoreError: The disk is full, or the path is not writable.
        ValueError: A value is NaN or infinite.
        TypeError: A value is not a JSON value.
    """
    text = json.dumps(data, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    make_folder(path.parent, option)
    replace_text(path, text, option)


def replace_text(
    path: Path, text: str, option: str, *, shown: Path | None = None
) -> None:
    """Replace the content of a file atomically; ``StoreError`` if it cannot be written.
    ``option``: sets the path, for messages. ``shown``: name of the file in messages."""
    raw = hidden(text).encode("utf-8", "backslashreplace")
    replace_bytes(path, [raw], option, shown)


def replace_bytes(
    path: Path, chunks: Iterable[bytes], option: str, shown: Path | None = None
) -> None:
    """Write a file like :func:`replace_text`, in pieces that are written as they are.
    Raises ``StoreError`` if it cannot be written."""
    try:
        if _is_special(path):
            _write(path, os.O_WRONLY, chunks)
            return
        # A link stays one: what it points to is replaced.
        target = Path(os.path.realpath(path))
        draft = target.with_name(f".{secrets.token_hex(8)}.tmp")
        try:
            _write(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, chunks)
            draft.replace(target)
        except BaseException:
            with suppress(OSError):
                draft.unlink(missing_ok=True)
            raise
    except (OSError, ValueError) as error:
        raise cannot_write(shown or path, error, option) from error


def append_lines(path: Path, lines: Iterable[str], option: str) -> None:
    """Append lines, given without line breaks; all of them or none. Raises
    ``StoreError`` if they cannot be written."""
    text = "".join(f"{line}\n" for line in lines)
    raw = hidden(text).encode("utf-8", "backslashreplace")
    try:
        with path.open("ab", buffering=0) as file:
            size = file.seek(0, os.SEEK_END)
            try:
                _write_all(file.fileno(), raw)
            except BaseException:
                with suppress(OSError):
                    file.truncate(size)
                raise
    except OSError as error:
        raise cannot_write(path, error, option) from error


def make_folder(path: Path, option: str) -> bool:
    """Create a folder and its parents; it may exist. Returns whether it is empty;
    ``StoreError`` if it cannot be created or read."""
    try:
        path.mkdir(parents=True, exist_ok=True)
        return not any(path.iterdir())
    except (OSError, ValueError) as error:
        raise cannot_write(path, error, option, "make the folder") from error


def cannot_write(
    path: Path, error: Exception, option: str, message: str = "write"
) -> StoreError:
    """Return the error for a file or folder that is not writable."""
    return StoreError(
        f"cannot {message} {str(path)!r}: {_why(path, error)}\n"
        f"  fix: make room or make it writable, or choose another place with {option}"
    )


def _why(path: Path, error: Exception) -> str:
    """Return a specific reason if the system reports only a general one."""
    there = next((p for p in (path, *path.parents) if os.path.lexists(p)), path)
    shown = "it" if there == path else repr(str(there))
    if there.is_symlink() and not os.path.exists(there):
        return f"{shown} is a link to {os.readlink(there)!r}, which is not there"
    if isinstance(error, FileExistsError | NotADirectoryError):
        return f"{shown} is a file, not a folder"
    return getattr(error, "strerror", None) or str(error)


def _is_special(path: Path) -> bool:
    """Return whether this is a device, pipe or socket: it must not be replaced."""
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        return False
    return not stat.S_ISREG(mode) and not stat.S_ISDIR(mode)


def _write(path: Path, flags: int, chunks: Iterable[bytes]) -> None:
    descriptor = os.open(path, flags, 0o666)
    try:
        for chunk in chunks:
            _write_all(descriptor, chunk)
        if flags & os.O_CREAT:
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _write_all(descriptor: int, raw: bytes) -> None:
    left = memoryview(raw)
    while left:
        left = left[os.write(descriptor, left) :]


def make_base(base: Path, option: str = "--evals-dir") -> None:
    """Create the folder if it does not exist, with its own ``.gitignore``;
    ``StoreError`` if it cannot be created. If it contains other files, it belongs to
    the user, and no ``.gitignore`` is added."""
    if make_folder(base, option):
        replace_text(base / ".gitignore", _IGNORE, option)


def read_json(path: Path) -> dict[str, Any]:
    """Return the JSON object in a file; empty if it cannot be read."""
    try:
        found = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def shown_size(n: int) -> str:
    """Return a number of bytes in a unit, such as "2.7 MB"."""
    for unit, size in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if n >= size:
            return f"{n / size:.1f} {unit}"
    return f"{n} B"
