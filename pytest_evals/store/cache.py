"""Cache files of the results folder. A file that is missing, damaged or of another
version is rebuilt."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pytest_evals.store.files import make_base, make_folder, read_json, replace_text
from pytest_evals.store.schema import SCHEMAS, Kind, schema_fault

_OPTION = "--evals-dir"
_FOLDER = "cache"
_VERSION = "schema_version"


def read_cache(base: Path, name: str, kind: Kind) -> dict[str, Any]:
    """Return the JSON object in a file; empty if it cannot be read."""
    path = base / _FOLDER / name
    found = read_json(path)
    return {} if schema_fault(kind, found.pop(_VERSION, None), path) else found


def write_cache(base: Path, name: str, kind: Kind, data: Mapping[str, Any]) -> None:
    """Write a JSON object to a file atomically.

    Raises:
        StoreError: It cannot be written.
    """
    make_base(base)
    make_folder(base / _FOLDER, _OPTION)
    versioned = {_VERSION: SCHEMAS[kind].current, **data}
    replace_text(base / _FOLDER / name, json.dumps(versioned), _OPTION)
