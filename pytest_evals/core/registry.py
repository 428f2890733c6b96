"""Registries of named objects, such as model kinds, metrics and filters, and the names
of the guests in them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any, Generic, TypeVar, cast

from pytest_evals.errors import EvalsError, unknown_name

T = TypeVar("T")


class UnknownNameError(EvalsError):
    """A name that is not registered."""


class Registry(Generic[T]):
    """Name → object. Objects with heavy imports are given as ``"module:attribute"`` and
    imported on first access.

    >>> shapes = Registry("shape", {"square": "builtins:list"})
    >>> shapes["square"]
    <class 'list'>
    """

    def __init__(self, noun: str, entries: Mapping[str, T | str]) -> None:
        """``noun`` is the word for an entry in error messages."""
        self._noun = noun
        self._entries: dict[str, T | str] = dict(entries)

    def __getitem__(self, name: str) -> T:
        """The object of that name. Raises ``UnknownNameError`` if the name is not
        registered; the message suggests a similar one."""
        if name not in self._entries:
            raise UnknownNameError(unknown_name(self._noun, name, self))
        entry = self._entries[name]
        if isinstance(entry, str):
            module, _, attribute = entry.partition(":")
            loaded: Any = getattr(import_module(module), attribute)
            self._entries[name] = entry = cast("T", loaded)
        return entry

    def __contains__(self, name: object) -> bool:
        return name in self._entries

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._entries))

    def add(self, name: str, entry: T | str) -> None:
        """Register a name. Raises ``EvalsError`` if the name is already registered."""
        if name in self._entries:
            raise EvalsError(f"there is already a {self._noun} called {name!r}")
        self._entries[name] = entry


# This distribution's guests: parts that are registered as a user's plugin registers its
# own. The rest of the package imports none of them; each is imported when a file, a
# model's spec or a metric's name first needs it.
DIALECTS = {
    "latticeflow": "pytest_evals.guests.latticeflow.loader:load_tasks",
    "lighteval": "pytest_evals.guests.lighteval.tasks:load_tasks",
}
MODEL_KINDS = {"ray": "pytest_evals.guests.ray.kind:RAY"}
METRIC_FAMILIES = {
    "lighteval": "pytest_evals.guests.lighteval.metrics.catalogue:lighteval_metric"
}
