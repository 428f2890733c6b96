"""Metrics: a function of a document and its answers, and one of all documents.

The classes, their fields and their order are lighteval's (0.13.0,
``metrics/utils/metric_utils.py``), so that metrics written for it work here. Unlike
in lighteval, unknown arguments are errors, and names are the same in every process.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from enum import StrEnum
from typing import Any

from pytest_evals.core.doc import Doc
from pytest_evals.errors import DocumentError, EvalsError, did_you_mean
from pytest_evals.scorers.lighteval.legacy_arguments import (
    legacy_call_arguments,
    legacy_inputs,
)
from pytest_evals.scorers.lighteval.response import ModelResponse

__all__ = [
    "CorpusLevelComputation",
    "CorpusLevelMetric",
    "CorpusLevelMetricGrouping",
    "Libraries",
    "Metric",
    "MetricGrouping",
    "Preparator",
    "SampleLevelComputation",
    "SampleLevelMetric",
    "SampleLevelMetricGrouping",
    "SamplingMethod",
    "arguments_of",
    "call_computation",
]


Libraries = tuple[tuple[str, str, str], ...]
"""Lazy imports of a computation, in its attribute ``libraries``: module, library and
our extra. Missing ones are reported before any request is sent."""


class SamplingMethod(StrEnum):
    """Kind of requests that a metric needs."""

    GENERATIVE = "GENERATIVE"
    """Generated texts."""
    LOGPROBS = "LOGPROBS"
    """A log-probability of each choice."""
    PERPLEXITY = "PERPLEXITY"
    """The log-probability of a full text."""


class SampleLevelComputation:
    """One document's value, or several by name. Our own classes define ``measure``;
    other people's, as in lighteval, ``compute``."""

    def compute(self, doc: Any = None, model_response: Any = None, **more: Any) -> Any:
        """The value of a document, which earlier releases describe by arguments such as
        ``golds`` and ``predictions``.

        Raises:
            TypeError: The arguments are neither.
        """
        if isinstance(doc, Doc) and model_response is not None:
            return self.measure(doc, model_response)
        return self.measure(*legacy_inputs(doc, model_response, more))

    def measure(self, doc: Doc, model_response: ModelResponse) -> Any:
        """The value of a document."""
        raise NotImplementedError


class Preparator:
    """Extracts the values of one document for a corpus metric."""

    def prepare(self, doc: Doc, model_response: ModelResponse, **more: Any) -> Any:
        """A pair of values for the reference and the model's answer."""
        raise NotImplementedError


class CorpusLevelComputation:
    """Computes one number from the values of all documents."""

    def __str__(self) -> str:
        """Class and arguments, as lighteval's tables show them."""
        names = [name for name in arguments_of(self) if name != "published"]
        values = (f"{name}={_shown(getattr(self, name))}" for name in names)
        return f"{type(self).__name__}({', '.join(values)})"

    def compute_corpus(self, items: Sequence[Any]) -> Any:
        """The number."""
        raise NotImplementedError

    def compute(self, items: Sequence[Any]) -> Any:
        """Alias from earlier releases."""
        return self.compute_corpus(items)


@dataclass
class Metric:
    """One or several numbers of a task.

    Not frozen, because subclasses in task modules set their fields.

    Args:
        metric_name: Its name; names, where several are computed together.
        higher_is_better: Direction; by name, where there are several.
        category: What it needs of the model.
        sample_level_fn: A function of ``doc`` and ``model_response``; or an object with
            ``compute``, or with ``prepare`` for a metric of the whole corpus.
        corpus_level_fn: A function of the documents' values, in their order; or an
            object with ``compute_corpus``; by name, where they differ.
        batched_compute: Accepted for compatibility; documents are scored one by one.
        use_case: From earlier releases; ignored.
    """

    metric_name: Any
    higher_is_better: Any
    category: SamplingMethod
    sample_level_fn: Any
    corpus_level_fn: Any
    batched_compute: Any = False
    use_case: Any = None

    def __post_init__(self) -> None:
        """Accept the order of earlier releases, where ``use_case`` is the fourth."""
        last = self.batched_compute
        if callable(last) or hasattr(last, "compute_corpus") or isinstance(last, dict):
            self.use_case, self.batched_compute = self.sample_level_fn, False
            self.sample_level_fn, self.corpus_level_fn = self.corpus_level_fn, last

    @property
    def value(self) -> Metric:
        """The metric itself, like a member of lighteval's enumeration."""
        return self

    @property
    def names(self) -> tuple[str, ...]:
        """The names of its numbers; where those of ``corpus_level_fn`` are all others,
        as in some of lighteval's own tasks, these are the ones that are computed."""
        given, how = self.metric_name, self.corpus_level_fn
        if isinstance(given, str):
            return (given,)
        if isinstance(how, Mapping) and how and not how.keys() & set(given):
            return tuple(how)
        return tuple(given)

    def get_corpus_aggregations(self) -> dict[str, Any]:
        """How each of its numbers is made, by name."""
        how = self.corpus_level_fn
        if isinstance(how, Mapping):
            return {name: how[name] for name in self.names}
        return dict.fromkeys(self.names, how)

    def direction(self, name: str) -> bool | None:
        """Whether higher is better."""
        given = self.higher_is_better
        return given.get(name) if isinstance(given, Mapping) else given

    def num_samples(self) -> int | None:
        """Number of answers to each prompt; ``None`` for any number."""
        count = getattr(self.sample_level_fn, "num_samples", None)
        return count() if callable(count) else None

    def compute_sample(
        self, doc: Doc, model_response: ModelResponse, **more: Any
    ) -> dict[str, Any]:
        """The document's values by name.

        Raises:
            DocumentError: The computation fails or returns invalid names.
        """
        value = call_computation(self.sample_level_fn, doc, model_response, more)
        if isinstance(self.metric_name, str):
            if isinstance(value, Mapping) and len(value) == 1:
                (value,) = value.values()
            return {self.metric_name: value}
        if not isinstance(value, Mapping):
            raise DocumentError(f"values by name are wanted, not {value!r:.200}")
        return {str(name): value[name] for name in value}

    def __call__(self, sample_params: Mapping[str, Any] | None = None) -> Metric:
        """The metric with other arguments, which become part of its name.

        Raises:
            EvalsError: An argument or its value is invalid.
        """
        params = dict(sample_params or {})
        if not params:
            return self
        return self.renamed(params).with_arguments(params)

    def with_arguments(self, params: Mapping[str, Any]) -> Metric:
        """The metric with other arguments and the same name, unless its names depend on
        its arguments.

        Raises:
            EvalsError: An argument or its value is invalid.
        """
        corpus = _own_arguments(self.corpus_level_fn, self.sample_level_fn)
        rest = {key: value for key, value in params.items() if key not in corpus}
        made = _with_parameters(self.sample_level_fn, rest)
        own = getattr(made, "metric_names", None)
        if own is None:
            how = self.corpus_level_fn
            given = {key: value for key, value in params.items() if key in corpus}
            how = replace(how, **given) if given else how
            return replace(self, sample_level_fn=made, corpus_level_fn=how)
        names = own()
        return replace(
            self,
            metric_name=names,
            higher_is_better=_one_value(self.higher_is_better),
            corpus_level_fn=_one_value(self.corpus_level_fn),
            sample_level_fn=made,
        )

    def renamed(self, params: Mapping[str, Any]) -> Metric:
        """The metric with its arguments in its names: ``pass@k:k=1&n=16``."""
        tail = "&".join(f"{key}={_shown(value)}" for key, value in params.items())

        def new(name: str) -> str:
            return f"{name}:{tail}"

        if isinstance(self.metric_name, str):
            return replace(self, metric_name=new(self.metric_name))
        return replace(
            self,
            metric_name=[new(name) for name in self.names],
            higher_is_better=_with_keys(self.higher_is_better, new),
            corpus_level_fn=_with_keys(self.corpus_level_fn, new),
            sample_level_fn=_RenamedComputation(self.sample_level_fn, new),
        )


@dataclass
class SampleLevelMetric(Metric):
    """A metric of each document, which is then aggregated."""


@dataclass
class CorpusLevelMetric(Metric):
    """A metric of all documents together."""


@dataclass
class MetricGrouping(Metric):
    """Several metrics that are computed together."""


@dataclass
class SampleLevelMetricGrouping(MetricGrouping):
    """Several metrics of each document."""


@dataclass
class CorpusLevelMetricGrouping(MetricGrouping):
    """Several metrics of all documents together."""


class _RenamedComputation:
    """A computation whose values have other names."""

    def __init__(self, computation: Any, new: Callable[[str], str]) -> None:
        self.computation, self.new = computation, new
        self.libraries: Libraries = getattr(computation, "libraries", ())

    def num_samples(self) -> int | None:
        count = getattr(self.computation, "num_samples", None)
        return count() if callable(count) else None

    def compute(self, doc: Doc, model_response: ModelResponse, **more: Any) -> Any:
        values = call_computation(self.computation, doc, model_response, more)
        return {self.new(name): value for name, value in values.items()}


def arguments_of(computation: Any) -> tuple[str, ...]:
    """The names of the arguments that a computation was made with."""
    if isinstance(computation, _RenamedComputation):
        return arguments_of(computation.computation)
    if is_dataclass(computation):
        return tuple(field.name for field in fields(computation) if field.init)
    return tuple(name for name in _state(computation) if not name.startswith("_"))


def _own_arguments(corpus: Any, sample: Any) -> tuple[str, ...]:
    """Arguments that only the function of the whole corpus has."""
    if not is_dataclass(corpus) or isinstance(corpus, type):
        return ()
    known = arguments_of(sample)
    return tuple(name for name in arguments_of(corpus) if name not in known)


def _state(computation: Any) -> Iterator[str]:
    return iter(getattr(computation, "__dict__", {}))


def call_computation(
    function: Any,
    doc: Doc,
    response: ModelResponse,
    more: Mapping[str, Any] | None = None,
) -> Any:
    """Call a computation or function of any supported release.

    Args:
        function: A function of ``doc`` and ``model_response``, an object with
            ``compute`` or ``prepare``, or either with the arguments of an earlier
            release.
        doc: The document.
        response: The answers to it.
        more: Further arguments of an object's method.
    """
    for name in ("compute", "prepare"):
        method = getattr(function, name, None)
        if callable(method):
            old = legacy_call_arguments(method, doc, response)
            if old is not None:
                made = method(**old)
                # Metrics of a batch are called with one document at a time.
                return made[0] if "docs" in old and isinstance(made, list) else made
            return method(doc=doc, model_response=response, **(more or {}))
    old = legacy_call_arguments(function, doc, response)
    return function(doc, response) if old is None else function(**old)


def _with_parameters(computation: Any, params: Mapping[str, Any]) -> Any:
    if isinstance(computation, _RenamedComputation):
        made = _with_parameters(computation.computation, params)
        if hasattr(made, "metric_names"):
            return made
        return _RenamedComputation(made, computation.new)
    known = arguments_of(computation)
    other_names = getattr(computation, "other_names", {})
    params = {other_names.get(key, key): params[key] for key in params}
    params = _one_normalizer(params, known)
    for key in params:
        if key not in known:
            listed = ", ".join(known) or "none"
            hint = did_you_mean(str(key), known) or f"; it takes {listed}"
            raise EvalsError(f"no argument called {key!r}{hint}")
    if is_dataclass(computation) and not isinstance(computation, type):
        return replace(computation, **params)
    from copy import copy

    made = copy(computation)
    for key, value in params.items():
        setattr(made, key, value)
    return made


def _one_normalizer(params: Mapping[str, Any], known: Sequence[str]) -> dict[str, Any]:
    """``normalize`` for both of its names in earlier releases, where they agree: it
    goes for references and answers."""
    rest, old = dict(params), ("normalize_gold", "normalize_pred")
    agree = params.get(old[0]) is not None and params.get(old[0]) is params.get(old[1])
    if agree and "normalize" in known and old[0] not in known:
        rest["normalize"] = rest.pop(old[0])
        del rest[old[1]]
    return rest


def _one_value(given: Any) -> Any:
    """The value that all names share."""
    return next(iter(given.values())) if isinstance(given, Mapping) else given


def _with_keys(given: Any, new: Callable[[str], str]) -> Any:
    if not isinstance(given, Mapping):
        return given
    return {new(name): value for name, value in given.items()}


def _shown(value: Any) -> str:
    """The value as a string, without memory addresses of functions."""
    if callable(value) and hasattr(value, "__name__"):
        return str(value.__name__)
    return str(value)
