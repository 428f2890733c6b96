"""``Metrics``: lighteval's enumeration of metrics, which modules can extend; and a
metric of earlier releases that public modules still use."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from pytest_evals.core.registry import Registry, UnknownNameError
from pytest_evals.scorers.lighteval.catalogue.builders import Maker
from pytest_evals.scorers.lighteval.catalogue.names import CATALOGUE
from pytest_evals.scorers.lighteval.metric import Metric
from pytest_evals.scorers.lighteval.repeats.at_n import MajAtN
from pytest_evals.scorers.lighteval.similarity.matches import match_type
from pytest_evals.scorers.lighteval.text.normalizers import (
    Normalizer,
    resolve_normalizer,
)


class MetricsEnum:
    """Metrics by name: ``Metrics.exact_match``, ``Metrics["exact_match"]``."""

    def __init__(self) -> None:
        makers: dict[str, Maker | str] = {**CATALOGUE}
        self._makers: Registry[Maker] = Registry("lighteval metric", makers)
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
        """The metric of that name."""
        if name not in self._made:
            self._made[name] = self._makers[name]()
        return self._made[name]

    def __iter__(self) -> Iterator[Metric]:
        """All metrics, sorted by name."""
        return (self[name] for name in self._makers)

    def add(self, name: str, metric: Metric) -> None:
        """Register a metric, replacing an existing one: modules may be loaded again."""
        if name not in self._makers:
            self._makers.add(name, lambda: metric)
        self._made[name] = metric


def extend_enum(enumeration: Any, name: str, value: Any) -> Any:
    """``aenum.extend_enum``, with which modules extend ``Metrics``.

    Raises:
        TypeError: The enumeration is not ``Metrics``.
    """
    if not isinstance(enumeration, MetricsEnum):
        raise TypeError("extend_enum: only Metrics can be extended without aenum")
    enumeration.add(name, value)
    return value


@dataclass(frozen=True)
class MajAtK(MajAtN):
    """:class:`~.at_n.MajAtN` with the arguments of earlier releases of lighteval.

    Args:
        k: Number of answers to count.
        normalize_gold: Normalizer of the reference.
        normalize_pred: Normalizer of the answers.
        type_exact_match: ``full``, ``prefix`` or ``suffix``.
    """

    k: int | None = None
    normalize_gold: Normalizer | str | None = None
    normalize_pred: Normalizer | str | None = None
    type_exact_match: str = "full"
    _gold: Normalizer | None = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Translate the former arguments."""
        if self.k is not None:
            object.__setattr__(self, "n", self.k)
        object.__setattr__(self, "normalize", self.normalize_pred or self.normalize)
        kind = match_type(self.type_exact_match)
        object.__setattr__(self, "sample_scoring_function", kind)
        object.__setattr__(self, "_gold", resolve_normalizer(self.normalize_gold))
        MajAtN.__post_init__(self)

    def prepared_gold(self, text: str) -> str:
        """The normalized reference."""
        text = text.strip() if self.strip_strings else text
        return self._gold(text) if self._gold else text
