"""What a session was given on its command line, for the session that merges parts."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from pytest_evals.masking.values import masked_text
from pytest_evals.plugin.settings.option_table import TABLE
from pytest_evals.store.part_command import LEFT_OUT, SELECTING

_MODELS = ("model", "judge")


def part_command(config: pytest.Config) -> dict[str, Any]:
    """Return options and paths as JSON values without secrets, see
    :func:`~pytest_evals.store.part_command.pytest_arguments`."""
    options: dict[str, list[str]] = {}
    for one in TABLE:
        value = config.getoption(one.dest)
        if value is not None and one.name not in LEFT_OUT:
            texts = value if isinstance(value, list) else [value]
            is_loose = one.name in _MODELS
            options[one.name] = [
                masked_text(str(text), loose=is_loose)
                for text in texts
                if one.kind != "flag"
            ]
    found: dict[str, Any] = {"options": options}
    found["paths"] = [_relative(str(arg), config) for arg in config.args]
    for name in SELECTING:
        given = config.getoption(name, None) or []
        found[name] = [given] if isinstance(given, str) else [*map(str, given)]
    return found


def _relative(arg: str, config: pytest.Config) -> str:
    """Return a path or node id relative to the folder where pytest was started: the
    other job may have another checkout."""
    path, colons, names = arg.partition("::")
    here = config.invocation_params.dir
    if Path(path).is_absolute() and Path(path).is_relative_to(config.rootpath):
        path = os.path.relpath(path, here)
    return f"{path}{colons}{names}"
