"""What stands for names of inspect-ai in task modules: nothing that does anything.

Tasks of lighteval name solvers and scorers of inspect-ai beside their prompt function
and metrics; here the latter count alone.
"""

from __future__ import annotations

from typing import Any


class Inert:
    """Takes every call and has every attribute, each of them inert; so it stands for
    modules, functions, decorators and classes alike, also in annotations and as what a
    class is derived from."""

    def __init__(self, *_arguments: Any, **_more: Any) -> None:
        """Keep nothing."""

    def __call__(self, *_arguments: Any, **_more: Any) -> Inert:
        """Another one."""
        return Inert()

    def __getattr__(self, name: str) -> Inert:
        """Another one."""
        if name.startswith("__"):
            raise AttributeError(name)
        return Inert()

    def __getitem__(self, _key: Any) -> Inert:
        """Another one."""
        return Inert()

    def __or__(self, _other: Any) -> Inert:
        """Another one."""
        return Inert()

    __ror__ = __or__
