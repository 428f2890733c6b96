"""``Metrics``: lighteval's enumeration of metrics, which modules can extend; metrics
that are created with arguments and named after them (lighteval 0.13.0,
``metrics/dynamic_metrics.py``); and a metric of earlier releases that public modules
still use."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from pytest_evals.core.registry import Registry, UnknownNameError
from pytest_evals.guests.lighteval.metrics.catalogue import (
    CATALOGUE,
    CHOICES,
    Maker,
    sample,
)
from pytest_evals.guests.lighteval.metrics.choices import (
    LoglikelihoodAcc,
    LogProbNormalization,
    NormalizedMultiChoiceProbability,
    Probability,
    normalization,
)
from pytest_evals.guests.lighteval.metrics.extractive_match import (
    MultilingualExtractiveMatchMetric,
)
from pytest_evals.guests.lighteval.metrics.matches import ExactMatches, F1_score
from pytest_evals.guests.lighteval.metrics.normalizers import (
    Normalizer,
    code_of,
    get_multilingual_normalizer,
    normalized,
    resolve_normalizer,
)
from pytest_evals.guests.lighteval.metrics.reductions import Reduction
from pytest_evals.guests.lighteval.metrics.repeats import MajAtN
from pytest_evals.scorers.custom_metrics.metric import Metric, SampleLevelMetric


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
    """:class:`~.repeats.MajAtN` with the arguments of earlier releases of lighteval."""

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
        return normalized(text, self.normalize_gold)


_Norm = LogProbNormalization | str | None


def _name_with(name: str, given: _Norm) -> str:
    norm = normalization(given)
    return name if norm is None else f"{name}_{norm.name}"


def LogLikelihoodAccMetric(normalization: _Norm = None) -> SampleLevelMetric:
    """Whether the most likely choice is correct: ``acc``, ``acc_norm`` …"""
    computation = LoglikelihoodAcc(normalization)
    return sample(_name_with("acc", normalization), computation, CHOICES)


def NormalizedMultiChoiceProbMetric(
    normalization: _Norm = None, aggregation_function: Reduction | str = max
) -> SampleLevelMetric:
    """Normalized probability of the correct choice: ``normalized_mc_prob`` …"""
    computation = NormalizedMultiChoiceProbability(normalization, aggregation_function)
    name = _name_with("normalized_mc_prob", normalization)
    return sample(name, computation, CHOICES)


def ProbabilityMetric(
    normalization: _Norm = None, aggregation_function: Reduction | str = max
) -> SampleLevelMetric:
    """Probability of the correct choice: ``prob`` …"""
    computation = Probability(normalization, aggregation_function)
    return sample(_name_with("prob", normalization), computation, CHOICES)


def MultilingualQuasiF1ScoreMetric(
    language: Any, aggregation_function: Reduction | str = max
) -> SampleLevelMetric:
    """Token F1 with a language's normalization: ``f1_eng``."""
    normalize = get_multilingual_normalizer(language)
    computation = F1_score(aggregation_function, normalize, normalize)
    return sample(f"f1_{code_of(language)}", computation)


def MultilingualQuasiExactMatchMetric(
    language: Any, match_type: str = "full", aggregation_function: Reduction | str = max
) -> SampleLevelMetric:
    """Exact match with a language's normalization: ``exact_match_eng_full``."""
    normalize = get_multilingual_normalizer(language)
    computation = ExactMatches(
        aggregation_function, normalize, normalize, type_exact_match=match_type
    )
    name = f"exact_match_{code_of(language)}_{match_type}"
    return sample(name, computation)


def multilingual_extractive_match_metric(
    language: Any = "eng",
    gold_extraction_target: Any = ("expr",),
    pred_extraction_target: Any = ("expr",),
    **more: Any,
) -> SampleLevelMetric:
    """Extractive match, in releases before 0.11: ``extractive_match``."""
    computation = MultilingualExtractiveMatchMetric(
        language, gold_extraction_target, pred_extraction_target, **more
    )
    return sample("extractive_match", computation)


# Names of the same functions in releases before 0.11.
loglikelihood_acc_metric = LogLikelihoodAccMetric
normalized_multi_choice_prob_metric = NormalizedMultiChoiceProbMetric
probability_metric = ProbabilityMetric
multilingual_quasi_f1_score_metric = MultilingualQuasiF1ScoreMetric
multilingual_quasi_exact_match_metric = MultilingualQuasiExactMatchMetric
