"""Filters: extract the value to score from the responses of each request.

A pipeline is built once from the task file, so that invalid arguments are reported
before any request is sent; it is applied to one document at a time. The filters are
lm-eval's (0.4.13); tasks may add their own.
"""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from operator import itemgetter
from typing import Any, NamedTuple, Protocol

from pytest_evals.core.registry import Registry
from pytest_evals.errors import DocumentError, EvalsError
from pytest_evals.scorers.extraction import (
    FormatSpan,
    MultiChoiceRegex,
    Regex,
    RegexPos,
)
from pytest_evals.scorers.user_code import UserCode, user_fault


class Filter(Protocol):
    """Interface of filters, as in lm-eval."""

    def apply(
        self, responses: list[Any], rows: list[Mapping[str, Any]], /
    ) -> Iterable[Any]:
        """Map a list with one entry per request to another, in the same order."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class FilterStep:
    """A step of a task file: a filter's name, or a class or function that creates one,
    and its arguments."""

    function: str | Callable[..., Any]
    arguments: Mapping[str, Any] = field(default_factory=dict)


class _Built(NamedTuple):
    name: str
    filter: Filter
    is_custom: bool = False  # whether it is a custom filter


@dataclass(frozen=True, slots=True, kw_only=True)
class Pipeline:
    """A sequence of filters and its name in results."""

    name: str
    steps: tuple[_Built, ...]

    def apply(
        self, responses: Sequence[Sequence[Any]], row: Mapping[str, Any]
    ) -> tuple[Any, ...]:
        """Filter the responses of each request. ``responses``: a list for each request,
        one entry for each repeat. Raises DocumentError if a filter failed or changed
        the number of requests."""
        return self.apply_all(responses, [row] * len(responses))

    @property
    def is_own(self) -> bool:
        """Whether the pipeline has a custom filter."""
        return any(step.is_custom for step in self.steps)

    def apply_all(
        self, responses: Sequence[Sequence[Any]], rows: Sequence[Mapping[str, Any]]
    ) -> tuple[Any, ...]:
        """Like :meth:`apply`, with a row for each request, possibly of different
        documents. Raises DocumentError if a filter failed or changed the number of
        requests."""
        current: list[Any] = [list(group) for group in responses]
        for step in self.steps:
            try:  # not UserCode, which costs more than most filters
                filtered = list(step.filter.apply(current, list(rows)))
                if len(filtered) != len(current):
                    raise DocumentError(
                        f"it returned {len(filtered)} entries for {len(current)} "
                        "requests; it must return one for each request"
                    )
            except (Exception, SystemExit) as fault:
                message = f"filter {step.name!r} of pipeline {self.name!r}"
                raise DocumentError(user_fault(message, fault)) from fault
            current = filtered
        return tuple(current)


class _Each:
    """Applies a function to the responses of each request."""

    def __init__(self, function: Callable[[Any], Any]) -> None:
        self._function = function

    def apply(self, responses: Sequence[Any], rows: Sequence[Any]) -> list[Any]:
        """One value for each request."""
        return [self._function(group) for group in responses]


def _take_first_k(k: int, **ignored: Any) -> _Each:
    if not isinstance(k, int) or k < 1:
        raise EvalsError(f"k must be an integer from 1, not {k!r}")

    def first(group: Sequence[Any]) -> Sequence[Any]:
        if len(group) < k:
            raise DocumentError(
                f"take_first_k needs {k} responses to each request, but there are "
                f"{len(group)}; increase repeats"
            )
        return group[:k]

    return _Each(first)


def _on_text(function: Callable[[str], str]) -> _Each:
    def applied(text: Any) -> str:
        if not isinstance(text, str):
            raise DocumentError(f"{function.__name__}() needs a string, got {text!r}")
        return function(text)

    return _Each(lambda group: [*map(applied, group)])


def _map(
    mapping_dict: Mapping[Any, Any] | None = None, default_value: Any = None
) -> _Each:
    if mapping_dict is not None and not isinstance(mapping_dict, Mapping):
        raise EvalsError(f"mapping_dict must be a mapping, not {mapping_dict!r}")
    entries = dict(mapping_dict or {})
    return _Each(lambda group: [entries.get(text, default_value) for text in group])


class Custom:
    """Applies a user function of responses and rows."""

    def __init__(
        self, filter_fn: Callable[[Any, Any], Iterable[Any]], **ignored: Any
    ) -> None:
        """``filter_fn(responses, rows)`` has the interface of :meth:`Filter.apply`.
        Other arguments have no effect, as in lm-eval."""
        if not callable(filter_fn):
            raise EvalsError(f"filter_fn must be a function, not {filter_fn!r}")
        self.apply = filter_fn


_FIRST = _Each(itemgetter(0))

FILTERS: Registry[Callable[..., Any]] = Registry(
    "filter",
    {
        "custom": Custom,
        "format_span": FormatSpan,
        "lowercase": lambda: _on_text(str.lower),
        # The first of ties.
        "majority_vote": lambda: _Each(lambda one: [Counter(one).most_common(1)[0][0]]),
        "map": _map,
        "multi_choice_regex": MultiChoiceRegex,
        "regex": Regex,
        "regex_pos": RegexPos,
        "remove_whitespace": lambda **ignored: _on_text(str.strip),
        "take_first": lambda: _FIRST,
        "take_first_k": _take_first_k,
        "uppercase": lambda: _on_text(str.upper),
    },
)
"""Name → factory of a filter from its arguments."""


def pipeline(name: str, steps: Sequence[FilterStep]) -> Pipeline:
    """Build the filters of a pipeline. Raises UnknownNameError if a filter's name is
    unknown; EvalsError if a filter's arguments are invalid."""
    return Pipeline(name=name, steps=tuple(_build(step) for step in steps))


def ignored_arguments(step: FilterStep) -> tuple[str, ...]:
    """Arguments that a built-in filter accepts and ignores."""
    if not isinstance(step.function, str) or step.function not in FILTERS:
        return ()
    parameters = _signature(FILTERS[step.function]).parameters
    if "ignored" not in parameters:
        return ()
    return tuple(key for key in step.arguments if key not in parameters)


def _build(step: FilterStep) -> _Built:
    if isinstance(step.function, str):
        name, make = step.function, FILTERS[step.function]
    else:
        make = step.function
        name = getattr(make, "__name__", type(make).__name__)
    with UserCode(f"filter {name!r}", EvalsError):
        _check_arguments(make, step.arguments)
        built = make(**step.arguments)
        if not callable(getattr(built, "apply", None)):
            raise EvalsError(f"returned {built!r}, which has no apply(responses, rows)")
    is_own = not isinstance(step.function, str) or step.function == "custom"
    return _Built(name, built, is_own)


_signature = lru_cache(maxsize=256)(inspect.signature)


def _check_arguments(make: Callable[..., Any], arguments: Mapping[str, Any]) -> None:
    try:
        signature = _signature(make)
    except (TypeError, ValueError):
        return
    try:
        signature.bind(**arguments)
    except TypeError as error:
        names = [name for name in signature.parameters if name != "ignored"]
        accepted = ", ".join(names) or "no arguments"
        raise EvalsError(f"{error}; it accepts {accepted}") from error


TAKE_FIRST = Pipeline(name="none", steps=(_Built("take_first", _FIRST),))
"""The pipeline of tasks without ``filter_list``."""
