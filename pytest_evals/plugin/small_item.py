"""A pytest item that takes little memory.

pytest gives each item six containers, which stay empty in almost all documents and
need more memory than everything else of an item. Here they are created on first access,
and unchanged ones can be released.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
from _pytest.mark.structures import NodeKeywords


class _Container(NamedTuple):
    """A container of an item: its initial value, and whether a value equals it."""

    create: Callable[[Any], Any]
    is_initial: Callable[[Any, Any], bool]


def _has_own_name_only(item: pytest.Item, keywords: Any) -> bool:
    """Whether nobody has added a keyword to those of the nodes above."""
    return len(getattr(keywords, "_markers", (1, 2))) == 1


def _is_empty(item: pytest.Item, value: Any) -> bool:
    return not len(value)


_CONTAINERS = {
    "keywords": _Container(NodeKeywords, _has_own_name_only),
    "own_markers": _Container(
        lambda item: item.initial_markers(),
        lambda item, value: value == item.initial_markers(),
    ),
    "extra_keyword_matches": _Container(
        lambda item: item.initial_keyword_matches(),
        lambda item, value: value == item.initial_keyword_matches(),
    ),
    "stash": _Container(lambda item: pytest.Stash(), _is_empty),
    "user_properties": _Container(lambda item: [], _is_empty),
    "_report_sections": _Container(lambda item: [], _is_empty),
}


class SmallItem(pytest.Item):
    """An item with containers on demand."""

    __slots__ = ("_containers",)

    def __init__(self, **kwargs: Any) -> None:
        """Create the item and release the containers that pytest creates."""
        self._containers: dict[str, Any] | None = None
        super().__init__(**kwargs)
        self._containers = None

    def initial_markers(self) -> list[pytest.Mark]:
        """Return the initial value of ``own_markers``."""
        return []

    def initial_keyword_matches(self) -> set[str]:
        """Return the initial value of ``extra_keyword_matches``."""
        return set()

    def release(self) -> None:
        """Release containers that nobody has changed."""
        if self._containers is not None:
            changed = {
                name: value
                for name, value in self._containers.items()
                if not _CONTAINERS[name].is_initial(self, value)
            }
            self._containers = changed or None


def _attribute(name: str, create: Callable[[Any], Any]) -> property:
    """Return the attribute for a container."""

    def read(item: SmallItem) -> Any:
        containers = item._containers
        if containers is None:
            containers = item._containers = {}
        if name not in containers:
            containers[name] = create(item)
        return containers[name]

    def write(item: SmallItem, value: Any) -> None:
        if item._containers is None:
            item._containers = {}
        item._containers[name] = value

    return property(read, write)


for _name, _container in _CONTAINERS.items():
    setattr(SmallItem, _name, _attribute(_name, _container.create))
# pytest's alias of the stash, which it sets in the constructor.
SmallItem._store = property(lambda item: item.stash, lambda item, value: None)  # type: ignore[assignment]
