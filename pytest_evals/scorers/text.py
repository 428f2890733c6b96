"""Metrics of generated texts, for one document at a time.

Calling conventions and formulas as in lm-eval 0.4.13
(``ConfigurableTask.process_results``, ``exact_match_hf_evaluate``). lm-eval calls a
function and repeats the call in another form after a ``TypeError``; here the form is
selected once, from the function's signature.
"""

from __future__ import annotations

import inspect
import string
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pytest_evals.core.doc import Doc
from pytest_evals.errors import DocumentError, EvalsError, unknown_name
from pytest_evals.limits.patterns import BoundedPattern
from pytest_evals.scorers.extraction import compiled
from pytest_evals.scorers.metric_value import MetricValue
from pytest_evals.scorers.metrics import METRICS, MetricSpec, known_metrics
from pytest_evals.scorers.user_code import UserCode

TextMetric = Callable[[Doc, Any], list[MetricValue]]
"""Maps a document and its filtered response to values."""


def text_metric(spec: MetricSpec) -> TextMetric:
    """The function that measures one document. Raises UnknownNameError if the metric is
    unknown for generated texts; EvalsError if its arguments are invalid."""
    if spec.function is None and spec.name not in TEXT_METRICS:
        known_metrics("generate_until")[spec.name]
    with UserCode(f"metric {spec.name!r}", EvalsError):
        if spec.function is not None:
            return FunctionMetric(spec.name, _form(spec.function, spec.arguments))
        return TEXT_METRICS[spec.name](spec)


def shown(response: Any) -> str:
    """A filtered response as a string for display."""
    if isinstance(response, str):
        return response
    if isinstance(response, (list, tuple)):
        return ", ".join(map(str, response))
    return str(response)


def _has_many(doc: Doc) -> bool:
    return isinstance(doc.gold_index, list)


def _texts(doc: Doc) -> list[str]:
    golds = doc.gold_index if isinstance(doc.gold_index, list) else [doc.gold_index]
    n = len(doc.choices)
    for gold in golds:
        if not -n <= gold < n:
            message = f"the gold index {gold!r} is out of range of {n} references"
            raise DocumentError(message)
    return [doc.choices[gold] for gold in golds]


def _references(doc: Doc, response: Any) -> list[Any]:
    """The references for a metric. Several references have the row's types. A single
    one is a string if the response is a string, is unchanged if the response is a list,
    and is otherwise converted to the response's type."""
    texts, target = _texts(doc), doc.target
    if _has_many(doc):
        if not isinstance(target, (list, tuple)) or len(target) != len(texts):
            return list(texts)
        return [_raw(one, text) for one, text in zip(target, texts, strict=True)]
    if isinstance(response, str):
        return list(texts)
    raw = _raw(target, texts[0])
    if isinstance(response, list) or type(raw) is type(response):
        return [raw]
    if response is None:
        raise DocumentError(
            "the filter pipeline returned no answer (None); set a fallback or a "
            "default_value in its last step"
        )
    with UserCode(f"the target {raw!r} as {type(response).__name__}"):
        return [type(response)(raw)]


def _raw(target: Any, text: str) -> Any:
    """The target if its string equals the text; with ``doc_to_choice`` the target is an
    index, and the text is the reference."""
    return target if str(target) == text else text


def _comparable(references: list[Any]) -> list[Any]:
    """Convert references like NumPy: all to strings if one is a string."""
    scalars = all(isinstance(one, str | int | float) for one in references)
    if scalars and any(isinstance(one, str) for one in references):
        return [str(one) for one in references]
    return references


@dataclass(frozen=True, slots=True)
class ExactMatch:
    """1 if the normalized response equals a normalized reference."""

    name: str
    ignored: tuple[BoundedPattern, ...] = ()  # patterns that are removed first
    lower: bool = False  # whether to ignore case
    removed: str = ""  # characters that are removed last

    def __call__(self, doc: Doc, response: Any) -> list[MetricValue]:
        """One value: 0 or 1; the fraction of matches for a list of responses and one
        reference. If there are as many responses as references, they are compared
        pairwise, as in lm-eval (NumPy's rule for two arrays). Raises DocumentError if
        the response's type cannot be compared."""
        responses = response if isinstance(response, list) else [response]
        if _has_many(doc):
            value = self._any(_comparable(_references(doc, response)), responses)
        else:
            value = self._share(_references(doc, response)[0], responses)
        return [MetricValue(self.name, value, shown(response))]

    def _any(self, references: list[Any], responses: list[Any]) -> float:
        if len(responses) == 1:
            responses = responses * len(references)
        elif len(references) == 1:
            references = references * len(responses)
        if len(responses) != len(references):
            raise DocumentError(
                f"{self.name} compares one response with several references, got "
                f"{len(responses)}; end the filter pipeline with take_first"
            )
        pairs = zip(references, responses, strict=True)
        return float(any(self._normalize(a) == self._normalize(b) for a, b in pairs))

    def _share(self, reference: Any, responses: list[Any]) -> float:
        if not responses:
            why = "the filter pipeline returned an empty list of responses"
            raise DocumentError(why)
        n_hits = 0
        for response in responses:
            expected = str(reference) if isinstance(response, str) else reference
            n_hits += bool(self._normalize(expected) == self._normalize(response))
        return n_hits / len(responses)

    def _normalize(self, text: Any) -> Any:
        if not isinstance(text, str):
            if self.ignored or self.lower or self.removed:
                message = f"{self.name} can normalize only strings, got {text!r}"
                raise DocumentError(message)
            return text
        for regex in self.ignored:
            text = regex.sub("", text)
        if self.lower:
            text = text.lower()
        if self.removed:
            text = text.translate(str.maketrans("", "", self.removed))
        # NumPy, which lm-eval uses to compare, ignores trailing null characters.
        return text.rstrip("\0")


def _exact_match(spec: MetricSpec) -> TextMetric:
    arguments = dict(spec.arguments)
    patterns = arguments.pop("regexes_to_ignore", None) or ()
    if isinstance(patterns, str):
        raise EvalsError(f"regexes_to_ignore must be a list, not {patterns!r}")
    lower = bool(arguments.pop("ignore_case", False))
    removed = string.punctuation if arguments.pop("ignore_punctuation", False) else ""
    removed += string.digits if arguments.pop("ignore_numbers", False) else ""
    for name in arguments:
        known = ["ignore_case", "ignore_numbers", "ignore_punctuation"]
        raise EvalsError(unknown_name("argument", name, [*known, "regexes_to_ignore"]))
    return ExactMatch(spec.name, tuple(map(compiled, patterns)), lower, removed)


@dataclass(frozen=True, slots=True)
class FunctionMetric:
    """A user function of reference and response. ``form`` calls the function with
    reference and response."""

    name: str
    form: Callable[[Any, Any], Any]

    def __call__(self, doc: Doc, response: Any) -> list[MetricValue]:
        """One value, or one for each name if the function returns a mapping. With
        several references: 1 if the function returns a true value for any of them.
        Raises DocumentError if the function raised."""
        references = _references(doc, response)
        answer = shown(response)
        with UserCode(f"metric {self.name!r}"):
            if _has_many(doc):
                hits = [bool(self._one(r, response)) for r in references]
                return [MetricValue(self.name, float(any(hits)), answer)]
            value = self.form(references[0], response)
        if isinstance(value, Mapping):
            return [
                MetricValue(str(name), v, answer, lender=self.name)
                for name, v in value.items()
            ]
        return [MetricValue(self.name, value, answer)]

    def _one(self, reference: Any, response: Any) -> Any:
        value = self.form(reference, response)
        if not isinstance(value, Mapping):
            return value
        if self.name not in value:
            raise DocumentError(
                f"with several references it must return {self.name!r}, got {value!r}"
            )
        return value[self.name]


def _form(
    function: Callable[..., Any], arguments: Mapping[str, Any]
) -> Callable[[Any, Any], Any]:
    """Wrap the function in lm-eval's calling convention: ``references=[…],
    predictions=[…]`` and the arguments if its signature accepts them, else one list of
    reference and response."""

    def by_keyword(reference: Any, response: Any) -> Any:
        return function(references=[reference], predictions=[response], **arguments)

    def by_position(reference: Any, response: Any) -> Any:
        return function([reference, response])

    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return by_keyword
    try:
        signature.bind(references=[], predictions=[], **arguments)
    except TypeError as error:
        if {"references", "predictions"} <= signature.parameters.keys():
            raise EvalsError(str(error)) from error
    else:
        return by_keyword
    try:
        signature.bind([])
    except TypeError as error:
        raise EvalsError(
            "the function must accept references and predictions, or one list of "
            f"reference and response; its signature is {signature}"
        ) from error
    return by_position


def _pair(spec: MetricSpec) -> TextMetric:
    def measure(doc: Doc, response: Any) -> list[MetricValue]:
        if _has_many(doc) and callable(spec.aggregation):
            # A pair is true, so any of several references counts as a match, as in
            # lm-eval.
            return [MetricValue(spec.name, float(bool(_texts(doc))), shown(response))]
        if _has_many(doc):
            raise DocumentError(
                f"metric {spec.name!r} passes pairs to its aggregation and is not "
                "defined for several references"
            )
        value = [_references(doc, response)[0], response]
        return [MetricValue(spec.name, value, shown(response))]

    return measure


def _bypass(spec: MetricSpec) -> TextMetric:
    def measure(doc: Doc, response: Any) -> list[MetricValue]:
        # With several references the value is false, as in lm-eval.
        value = 0.0 if _has_many(doc) else None
        return [MetricValue(spec.name, value, shown(response))]

    return measure


TEXT_METRICS: Mapping[str, Callable[[MetricSpec], TextMetric]] = {
    **dict.fromkeys(
        (n for n in METRICS if "generate_until" in METRICS[n].pairs_in), _pair
    ),
    "bypass": _bypass,
    "exact_match": _exact_match,
}
"""Name → factory of the metric from its entry."""
