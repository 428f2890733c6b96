"""Models for the runs of other harnesses: the public names of
:mod:`pytest_evals.guests.harness`."""

from __future__ import annotations

from importlib import import_module
from typing import Any

__all__ = ["LM", "lighteval_model"]  # noqa: F822 - imported when they are used


def __getattr__(name: str) -> Any:
    """Return a public name; its library is imported then."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module("pytest_evals.guests.harness"), name)
