"""``Metrics`` as modules see it: lighteval's enumeration of metrics, and what modules
add to it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pytest_evals.core.registry import Registry, UnknownNameError
from pytest_evals.scorers.lighteval.catalogue.making import Maker
from pytest_evals.scorers.lighteval.catalogue.names import CATALOGUE
from pytest_evals.scorers.lighteval.metric import Metric

__all__ = ["NamedMetrics", "extend_enum"]


class NamedMetrics:
    """Metrics by name: ``Metrics.exact_match``, ``Metrics["exact_match"]``."""

    def __init__(self) -> None:
        """Those of the catalogue."""
        makers: dict[str, Maker | str] = {**CATALOGUE}
        self._makers: Registry[Maker] = Registry("metric of lighteval", makers)
        self._made: dict[str, Metric] = {}

    def __getattr__(self, name: str) -> Metric:
        """The metric of that name."""
        if name.startswith("__"):
            raise AttributeError(name)
        try:
            return self[name]
        except UnknownNameError as error:
            raise AttributeError(str(error)) from None

    def __getitem__(self, name: str) -> Metric:
        """The metric of that name.

        Raises:
            UnknownNameError: There is none.
        """
        if name not in self._made:
            self._made[name] = self._makers[name]()
        return self._made[name]

    def __iter__(self) -> Iterator[Metric]:
        """All metrics, in the order of their names."""
        return (self[name] for name in self._makers)

    def add(self, name: str, metric: Metric) -> None:
        """Give a metric a name; one that is there already gives way, since a module may
        be loaded again."""
        if name not in self._makers:
            self._makers.add(name, lambda: metric)
        self._made[name] = metric


def extend_enum(enumeration: Any, name: str, value: Any) -> Any:
    """``aenum.extend_enum``, by which modules add to ``Metrics``.

    Raises:
        TypeError: It is another enumeration.
    """
    if not isinstance(enumeration, NamedMetrics):
        raise TypeError("extend_enum: only Metrics can be extended without aenum")
    enumeration.add(name, value)
    return value
