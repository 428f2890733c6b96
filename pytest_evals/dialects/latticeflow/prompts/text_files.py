"""Reads the text files of a folder as rows, one per file, ordered by path.

Columns are ``sample_id`` (SHA-256 of the bytes), ``file_name`` and ``content``. YAML
front matter between ``---`` lines adds columns and is not part of the content.
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
    """Return the rows of a folder and its subfolders.

    Args:
        extension: Without a dot, in lower case; empty for all files except PDFs.

    Raises:
        TaskFileError: A file is not UTF-8.
    """
    paths = [path for path in folder.rglob("*") if path.is_file()]
    selected = [
        path
        for path in paths
        if path.suffix.lower() != _SKIPPED
        and (not extension or path.suffix.lower() == f".{extension}")
    ]
    ordered = sorted(selected, key=lambda path: path.relative_to(folder).as_posix())
    return [_row(path) for path in ordered]


def _row(path: Path) -> dict[str, Any]:
    raw = path.read_bytes()
    columns, content = _split_front_matter(decode_text(raw, path).replace("\r\n", "\n"))
    own = {
        "sample_id": hashlib.sha256(raw).hexdigest(),
        "file_name": path.name,
        "content": content,
    }
    return {**columns, **own}


def _split_front_matter(text: str) -> tuple[dict[str, Any], str]:
    """Return the columns of the front matter and the rest; invalid front matter is
    content."""
    match = _FRONT.match(text)
    if match is None:
        return {}, text
    try:
        columns = yaml.load(match["block"] or "", BoundedLoader)
    except (yaml.YAMLError, ValueError, RecursionError):
        return {}, text
    if not isinstance(columns, dict):
        return {}, text
    return {str(name): value for name, value in columns.items()}, text[match.end() :]
