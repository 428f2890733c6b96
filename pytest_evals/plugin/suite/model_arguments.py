"""The arguments of a model, as code in task files gets them: tasks of a file that reads
them are not shared by several models."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any


class WatchedArguments(Mapping[str, Any]):
    """A mapping that records whether it was read."""

    def __init__(self, arguments: Mapping[str, Any]) -> None:
        self._arguments = arguments
        self.is_read = False

    def __getitem__(self, key: str) -> Any:
        self.is_read = True
        return self._arguments[key]

    def __iter__(self) -> Iterator[str]:
        self.is_read = True
        return iter(self._arguments)

    def __len__(self) -> int:
        return len(self._arguments)
