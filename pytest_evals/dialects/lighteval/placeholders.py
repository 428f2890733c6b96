"""Placeholders for inspect-ai: lighteval tasks name its solvers and scorers next to
their prompt function and metrics, but they are not used here."""

from __future__ import annotations

from typing import Any


class Placeholder:
    """Accepts every call and has every attribute, so that it can replace modules,
    functions, decorators, annotations and base classes."""

    def __init__(self, *_arguments: Any, **_more: Any) -> None:
        pass

    def __call__(self, *_arguments: Any, **_more: Any) -> Placeholder:
        """Return another placeholder."""
        return Placeholder()

    def __getattr__(self, name: str) -> Placeholder:
        """Return another placeholder."""
        if name.startswith("__"):
            raise AttributeError(name)
        return Placeholder()

    def __getitem__(self, _key: Any) -> Placeholder:
        """Return another placeholder."""
        return Placeholder()

    def __or__(self, _other: Any) -> Placeholder:
        """Return another placeholder."""
        return Placeholder()

    __ror__ = __or__
