"""Schema versions of stored files, and the versions that can be read.

A file of another version is never changed, replaced or deleted. Files without a version
are from before versioning or from lm-eval; they count as version 1.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Literal, NamedTuple

Kind = Literal["results", "responses", "hashes", "index", "part"]


class Schema(NamedTuple):
    """The version that is written, and the oldest one that can be read."""

    current: int
    oldest: int


SCHEMAS: Mapping[Kind, Schema] = {
    # results.json, and the files in its folder: samples, comparison.json, noise.json.
    "results": Schema(1, oldest=1),
    # Tables of responses.sqlite, and the values that a request's hash is made of.
    "responses": Schema(1, oldest=1),
    "hashes": Schema(1, oldest=1),
    "index": Schema(2, oldest=2),
    # part.json, records.jsonl and parts.json.
    "part": Schema(1, oldest=1),
}
"""Increase ``current`` when a field changes its meaning or is removed, and ``oldest``
when the readers no longer support the previous version."""


def schema_fault(kind: Kind, found: object, path: Path) -> str:
    """Return why a file of this schema version cannot be read; empty if it can."""
    current, oldest = SCHEMAS[kind]
    if found is None:
        found = 1
    if type(found) is int and oldest <= found <= current:
        return ""
    reads = (
        f"version {current}" if oldest == current else f"versions {oldest} to {current}"
    )
    ours = f"this version of pytest-model-evals reads {reads}"
    if type(found) is not int:
        return f"{str(path)!r} has the schema version {found!r}, not a number; {ours}"
    fix = (
        "update pytest-model-evals"
        if found > current
        else "write it again, with this version of pytest-model-evals"
    )
    return f"{str(path)!r} has schema version {found}; {ours}\n  fix: {fix}"
