"""Metric classes: a function of one document, and an aggregation of all documents.

The classes, their fields and their order are lighteval's (0.13.0,
``metrics/utils/metric_utils.py``), so that metrics written for it work here. Unlike
in lighteval, unknown arguments are errors, and names are the same in every process.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, fields, is_dataclass, replace
from enum import StrEnum
from typing import Any, ClassVar

from pytest_evals.core.doc import Doc
from pytest_evals.errors import DocumentError, EvalsError, unknown_name
from pytest_evals.scorers.custom_metrics.response import (
    ModelResponse,
    legacy_call_arguments,
    legacy_inputs,
)

Libraries = tuple[tuple[str, str, str], ...]
"""Lazy imports, in the attribute ``libraries`` of a computation: module, library and
extra. Missing ones are reported before any request is sent."""


class SamplingMethod(StrEnum):
    """Type of requests that a metric needs."""

    GENERATIVE = "GENERATIVE"
    LOGPROBS = "LOGPROBS"
    PERPLEXITY = "PERPLEXITY"


IGNORED = "IGNORED"  # category of metrics that are not computed, in earlier releases


class SampleLevelComputation:
    """Computes one value of a document, or several by name. Built-in classes define
    ``measure``; custom ones define ``compute``, as in lighteval."""

    is_share: ClassVar[bool] = False
    """Whether all values are between 0 and 1; subclasses do not inherit it."""

    def compute(self, doc: Any = None, model_response: Any = None, **more: Any) -> Any:
        """Compute the value of a document, given as such or by the arguments of earlier
        releases, such as ``golds`` and ``predictions``. Raises TypeError if the
        arguments describe no responses."""
        if isinstance(doc, Doc) and model_response is not None:
            return self.measure(doc, model_response)
        return self.measure(*legacy_inputs(doc, model_response, more))

    def measure(self, doc: Doc, model_response: ModelResponse) -> Any:
        """Compute the value of a document."""
        raise NotImplementedError


class Preparator:
    """Extracts the values of one document for a corpus metric."""

    def prepare(self, doc: Doc, model_response: ModelResponse, **more: Any) -> Any:
        """Return a pair of values, of the reference and of the answer."""
        raise NotImplementedError


class CorpusLevelComputation:
    """Computes one number from the values of all documents."""

    def __str__(self) -> str:
        """Return class and arguments in the format of lighteval's tables."""
        names = [name for name in arguments_of(self) if name != "published"]
        values = (f"{name}={_formatted(getattr(self, name))}" for name in names)
        return f"{type(self).__name__}({', '.join(values)})"

    def compute_corpus(self, items: Sequence[Any]) -> Any:
        """Compute the number."""
        raise NotImplementedError

    def __call__(self, items: Sequence[Any]) -> Any:
        """Compute the number, like the functions of ``get_corpus_aggregations``."""
        return self.compute_corpus(items)

    def compute(self, items: Sequence[Any]) -> Any:
        """Alias of ``compute_corpus`` from earlier releases."""
        return self.compute_corpus(items)


@dataclass
class Metric:
    """A metric with one number or several. Not frozen, because subclasses in task
    modules set its fields."""

    metric_name: Any  # name, or a list of names
    higher_is_better: Any  # direction; a mapping for several names
    category: SamplingMethod
    sample_level_fn: Any
    """Function of ``doc`` and ``model_response``; or an object with ``compute``, or
    with ``prepare`` for a corpus metric."""
    corpus_level_fn: Any
    """Function of the documents' values, in order; or an object with
    ``compute_corpus``; a mapping if names have different ones."""
    batched_compute: Any = False
    """Accepted for compatibility; documents are scored one by one."""
    use_case: Any = None  # argument of earlier releases; ignored

    def __post_init__(self) -> None:
        """Accept the order of earlier releases, where ``use_case`` is the fourth."""
        last = self.batched_compute
        if callable(last) or hasattr(last, "compute_corpus") or isinstance(last, dict):
            self.use_case, self.batched_compute = self.sample_level_fn, False
            self.sample_level_fn, self.corpus_level_fn = self.corpus_level_fn, last

    @property
    def value(self) -> Metric:
        """Return the metric, like a member of lighteval's enumeration."""
        return self

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of its numbers."""
        # In some of lighteval's tasks, the names of corpus_level_fn are all different
        # from metric_name; those are the ones that lighteval computes.
        given, how = self.metric_name, self.corpus_level_fn
        if isinstance(given, str):
            return (given,)
        if isinstance(how, Mapping) and how and not how.keys() & set(given):
            return tuple(how)
        return tuple(given)

    def get_corpus_aggregations(self) -> dict[str, Any]:
        """Return the aggregation of each number."""
        how = self.corpus_level_fn
        if isinstance(how, Mapping):
            return {name: how[name] for name in self.names}
        return dict.fromkeys(self.names, how)

    def direction(self, name: str) -> bool | None:
        """Return whether higher is better; ``None`` if unknown."""
        given = self.higher_is_better
        return given.get(name) if isinstance(given, Mapping) else given

    def num_samples(self) -> int | None:
        """Return the number of responses that it needs per prompt; ``None`` for any."""
        count = getattr(self.sample_level_fn, "num_samples", None)
        return count() if callable(count) else None

    def compute_sample(
        self, doc: Doc, model_response: ModelResponse, **more: Any
    ) -> dict[str, Any]:
        """Compute the document's values by name. Raises DocumentError if the
        computation fails or returns an invalid value."""
        value = call_computation(self.sample_level_fn, doc, model_response, more)
        if isinstance(self.metric_name, str):
            if isinstance(value, Mapping) and len(value) == 1:
                (value,) = value.values()
            return {self.metric_name: value}
        if not isinstance(value, Mapping):
            message = f"expected a mapping of names to values, got {value!r:.200}"
            raise DocumentError(message)
        return {str(name): value[name] for name in value}

    def __call__(self, sample_params: Mapping[str, Any] | None = None) -> Metric:
        """Return the metric with other arguments, which become part of its name."""
        params = dict(sample_params or {})
        if not params:
            return self
        return self.renamed(params).with_arguments(params)

    def with_arguments(self, params: Mapping[str, Any]) -> Metric:
        """Return the metric with other arguments; its name changes only if the
        computation derives it from its arguments."""
        corpus = _own_arguments(self.corpus_level_fn, self.sample_level_fn)
        rest = {key: value for key, value in params.items() if key not in corpus}
        made = _with_parameters(self.sample_level_fn, rest)
        name_method = getattr(made, "metric_names", None)
        if name_method is None:
            how = self.corpus_level_fn
            given = {key: value for key, value in params.items() if key in corpus}
            how = replace(how, **given) if given else how
            return replace(self, sample_level_fn=made, corpus_level_fn=how)
        return replace(
            self,
            metric_name=name_method(),
            higher_is_better=_first_value(self.higher_is_better),
            corpus_level_fn=_first_value(self.corpus_level_fn),
            sample_level_fn=made,
        )

    def renamed(self, params: Mapping[str, Any]) -> Metric:
        """Return the metric with its arguments in its names: ``pass@k:k=1&n=16``."""
        tail = "&".join(f"{key}={_formatted(value)}" for key, value in params.items())

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
    """A metric computed per document and aggregated."""


@dataclass
class CorpusLevelMetric(Metric):
    """A metric computed over all documents."""


@dataclass
class MetricGrouping(Metric):
    """Several metrics computed together."""


@dataclass
class SampleLevelMetricGrouping(MetricGrouping):
    """Several metrics computed together per document."""


@dataclass
class CorpusLevelMetricGrouping(MetricGrouping):
    """Several metrics computed together over all documents."""


class _RenamedComputation:
    """A computation with renamed values."""

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
    """Return the names of a computation's arguments."""
    if isinstance(computation, _RenamedComputation):
        return arguments_of(computation.computation)
    if is_dataclass(computation):
        return tuple(field.name for field in fields(computation) if field.init)
    state = getattr(computation, "__dict__", {})
    return tuple(name for name in state if not name.startswith("_"))


def _own_arguments(corpus: Any, sample: Any) -> tuple[str, ...]:
    """Return the arguments of the aggregation that the computation does not have."""
    if not is_dataclass(corpus) or isinstance(corpus, type):
        return ()
    known = arguments_of(sample)
    return tuple(name for name in arguments_of(corpus) if name not in known)


def call_computation(
    function: Any,
    doc: Doc,
    response: ModelResponse,
    more: Mapping[str, Any] | None = None,
) -> Any:
    """Call a computation with the arguments of its release of lighteval. ``function``:
    a function of ``doc`` and ``model_response``, an object with ``compute`` or
    ``prepare``, or either with the arguments of an earlier release. ``more``: further
    arguments of an object's method."""
    for name in ("compute", "prepare"):
        method = getattr(function, name, None)
        if callable(method):
            old = legacy_call_arguments(method, doc, response)
            if old is not None:
                made = method(**old)
                # Batched metrics get one document at a time.
                return made[0] if "docs" in old and isinstance(made, list) else made
            return method(doc=doc, model_response=response, **(more or {}))
    old = legacy_call_arguments(function, doc, response)
    return function(doc, response) if old is None else function(**old)


def _with_parameters(computation: Any, params: Mapping[str, Any]) -> Any:
    if isinstance(computation, _RenamedComputation):
        made = _with_parameters(computation.computation, params)
        has_names = hasattr(made, "metric_names")
        return made if has_names else _RenamedComputation(made, computation.new)
    known = arguments_of(computation)
    other_names = getattr(computation, "other_names", {})
    params = {other_names.get(key, key): params[key] for key in params}
    params = _merge_normalizers(params, known)
    for key in params:
        if key not in known:
            raise EvalsError(unknown_name("argument", key, known))
    if is_dataclass(computation) and not isinstance(computation, type):
        return replace(computation, **params)
    made = copy(computation)
    for key, value in params.items():
        setattr(made, key, value)
    return made


def _merge_normalizers(
    params: Mapping[str, Any], known: Sequence[str]
) -> dict[str, Any]:
    """Replace ``normalize_gold`` and ``normalize_pred`` of earlier releases by
    ``normalize``, if they are equal."""
    rest, old = dict(params), ("normalize_gold", "normalize_pred")
    agree = params.get(old[0]) is not None and params.get(old[0]) is params.get(old[1])
    if agree and "normalize" in known and old[0] not in known:
        rest["normalize"] = rest.pop(old[0])
        del rest[old[1]]
    return rest


def _first_value(given: Any) -> Any:
    return next(iter(given.values())) if isinstance(given, Mapping) else given


def _with_keys(given: Any, new: Callable[[str], str]) -> Any:
    if not isinstance(given, Mapping):
        return given
    return {new(name): value for name, value in given.items()}


def _formatted(value: Any) -> str:
    """Format a value, without memory addresses of functions."""
    if callable(value) and hasattr(value, "__name__"):
        return str(value.__name__)
    return str(value)
