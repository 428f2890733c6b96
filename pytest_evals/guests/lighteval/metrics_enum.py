"""``Metrics``: lighteval's enumeration of metrics, which modules can extend; and a
metric of earlier releases that public modules still use."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from pytest_evals.core.registry import Registry, UnknownNameError
from pytest_evals.guests.lighteval.metrics.catalogue import CATALOGUE, Maker
from pytest_evals.guests.lighteval.metrics.normalizers import (
    Normalizer,
    resolve_normalizer,
)
from pytest_evals.guests.lighteval.metrics.repeats import MajAtN
from pytest_evals.scorers.custom_metrics.metric import Metric


class _MetricsType(type):
    """The type of :class:`Metrics`: what ``EnumType`` is to enumerations. Metrics are
    made when they are used."""

    _makers: Registry[Maker] = Registry("lighteval metric", {**CATALOGUE})
    _made: dict[str, Metric]

    def __getattr__(cls, name: str) -> Metric:
        if name.startswith("__"):
            raise AttributeError(name)
        try:
            return cls[name]
        except UnknownNameError as error:
            raise AttributeError(str(error)) from None

    def __getitem__(cls, name: str) -> Metric:
        if name not in cls._made:
            cls.add(name, cls._makers[name]())
        return cls._made[name]

    @property
    def __members__(cls) -> Mapping[str, Metric]:
        return {name: cls[name] for name in cls._makers}

    def __iter__(cls) -> Iterator[Metric]:
        return iter(cls.__members__.values())

    def __len__(cls) -> int:
        return len(cls.__members__)

    def __contains__(cls, metric: object) -> bool:
        return any(metric is one for one in cls._made.values())

    __instancecheck__ = __contains__

    def __call__(cls, metric: Any) -> Metric:
        """A member by its value, which is the metric itself."""
        if metric not in cls:
            raise ValueError(f"{metric!r:.80} is not a member of Metrics")
        found: Metric = metric
        return found

    def add(cls, name: str, metric: Any) -> None:
        """Register a metric, replacing an existing one: modules may be loaded again."""
        if name not in cls._makers:
            cls._makers.add(name, lambda: metric)
        metric.name = name
        cls._made[name] = metric


class Metrics(metaclass=_MetricsType):
    """lighteval's metrics by name: ``Metrics.exact_match``, ``Metrics["exact_match"]``;
    one enumeration for all modules in the process, as in lighteval."""

    _made: ClassVar[dict[str, Metric]] = {}


def extend_enum(enumeration: Any, name: str, value: Any) -> Any:
    """``aenum.extend_enum``, with which modules extend ``Metrics``.

    Raises:
        TypeError: The enumeration is not ``Metrics``.
    """
    if enumeration is not Metrics:
        raise TypeError("extend_enum: only Metrics can be extended without aenum")
    Metrics.add(name, value)
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

    def __post_init__(self) -> None:
        """Translate the former arguments."""
        if self.k is not None:
            object.__setattr__(self, "n", self.k)
        object.__setattr__(self, "normalize", self.normalize_pred or self.normalize)
        object.__setattr__(self, "sample_scoring_function", self.type_exact_match)
        resolve_normalizer(self.normalize_gold)
        MajAtN.__post_init__(self)

    def prepared_gold(self, text: str) -> str:
        """The normalized reference."""
        text = text.strip() if self.strip_strings else text
        normalize = resolve_normalizer(self.normalize_gold)
        return normalize(text) if normalize else text
