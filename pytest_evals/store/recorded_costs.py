"""The cost of each document in an earlier run, by which shards are cut.

Only documents with generated tokens have one: of the others, the size of the row is as
good, and is known without reading a file.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from pytest_evals.store.history import EarlierRun

_ROW = re.compile(rb'\{"doc_id": ?\d+, ?"id": ?("(?:[^"\\\\]|\\\\.)*")')
_TOKENS = re.compile(rb'"tokens": ?\{"prompt": ?(\d+), ?"answer": ?(\d+)')
BYTES = 4
"""Bytes of text a token has about."""
GENERATED = 16
"""Tokens of a prompt that take about as long as one generated token."""


def recorded_costs(run: EarlierRun, tasks: Iterable[str]) -> dict[str, dict[str, int]]:
    """Task → id of a document → its cost, in the unit of sizes of rows (bytes of a
    prompt); without tasks that generated nothing."""
    found = {}
    for task in tasks:
        if (path := run.samples_file(task)) is not None and (costs := _costs(path)):
            found[task] = costs
    return found


def _costs(path: Path) -> dict[str, int]:
    costs: dict[str, int] = {}
    with suppress(OSError), path.open("rb") as lines:
        for line in lines:
            if not costs and not _generates(line):
                return {}
            row, tokens = _ROW.match(line), _TOKENS.findall(line)
            if row and tokens:  # a row of a dataset may have such a field: ours is last
                prompt, answer = map(int, tokens[-1])
                costs[json.loads(row[1])] = BYTES * (prompt + GENERATED * answer)
    return costs


def _generates(line: bytes) -> bool:
    """Whether a document was sent as a generation, or in several requests."""
    try:
        row = json.loads(line)
        sent = row["arguments"].get("gen_args_0", {}).get("arg_1")
    except (ValueError, RecursionError, KeyError, AttributeError, TypeError):
        return False
    return isinstance(sent, dict) or bool(row.get("exchanges"))
