"""The text files of a folder as rows: one a file, in the order of their paths.

Each has ``sample_id`` (SHA-256 of its bytes), ``file_name`` and ``content``. A block of
YAML between ``---`` at its start adds columns, and is no part of the content.
"""

from __future__ import annotations

import hashlib
import re
from pathlib import Path
from typing import Any

import yaml

from pytest_evals.data.user_files import decode_text
from pytest_evals.data.yaml_loader import BoundedLoader

_FRONT = re.compile(r"---[ \t]*\n(?P<block>.*?\n)?---[ \t]*(?:\n|\Z)", re.DOTALL)
_SKIPPED = ".pdf"


def read_folder(folder: Path, extension: str = "") -> list[dict[str, Any]]:
    """The rows of a folder and everything below it.

    Args:
        folder: The folder.
        extension: Without a dot, in lower case; empty for all files but PDFs.

    Raises:
        TaskFileError: A file is not UTF-8.
    """
    paths = [path for path in folder.rglob("*") if path.is_file()]
    wanted = [
        path
        for path in paths
        if path.suffix.lower() != _SKIPPED
        and (not extension or path.suffix.lower() == f".{extension}")
    ]
    ordered = sorted(wanted, key=lambda path: path.relative_to(folder).as_posix())
    return [_row(path) for path in ordered]


def _row(path: Path) -> dict[str, Any]:
    raw = path.read_bytes()
    columns, content = _parted(decode_text(raw, path).replace("\r\n", "\n"))
    own = {
        "sample_id": hashlib.sha256(raw).hexdigest(),
        "file_name": path.name,
        "content": content,
    }
    return {**columns, **own}


def _parted(text: str) -> tuple[dict[str, Any], str]:
    """Columns of the block at the start, and the rest; a block that is none is left
    where it is."""
    match = _FRONT.match(text)
    if match is None:
        return {}, text
    try:
        found = yaml.load(match["block"] or "", BoundedLoader)
    except (yaml.YAMLError, ValueError, RecursionError):
        return {}, text
    if not isinstance(found, dict):
        return {}, text
    return {str(name): value for name, value in found.items()}, text[match.end() :]
