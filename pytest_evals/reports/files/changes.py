"""What has changed since a baseline, as ``comparison.json`` has it."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from pytest_evals.core.comparison import Comparison

__all__ = ["comparison_json"]


def comparison_json(found: Comparison) -> dict[str, Any]:
    """All of it, as JSON values."""
    return asdict(found)
