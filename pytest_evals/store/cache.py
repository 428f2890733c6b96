"""Files of the results folder that only save time: whoever finds one missing, damaged
or of another version makes it anew.
"""

from __future__ import annotations

import json
from pathlib import Path

from pytest_evals.store.base import make_base
from pytest_evals.store.files import make_folder, replace_text

__all__ = ["read_cache", "write_cache"]

_OPTION = "--evals-dir"
_FOLDER = "cache"


def read_cache(base: Path, name: str) -> object:
    """The JSON value of a file, ``None`` if there is none that can be read.

    Args:
        base: The results folder.
        name: Of the file.
    """
    try:
        return json.loads((base / _FOLDER / name).read_bytes())
    except (OSError, ValueError, RecursionError):
        return None


def write_cache(base: Path, name: str, data: object) -> None:
    """Put a JSON value in its place, at once.

    Raises:
        StoreError: It cannot be written.
    """
    make_base(base)
    make_folder(base / _FOLDER, _OPTION)
    replace_text(base / _FOLDER / name, json.dumps(data), _OPTION)
