"""Filters: from the responses of each request to the value that is scored.

A pipeline is built once, from the task file, so that bad arguments are told before any
model is asked; it is applied to one document at a time. The filters are those of
lm-eval 0.4.13; a task may bring its own.
"""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
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
    """What a filter is, ours or a task's: lm-eval's interface."""

    def apply(
        self, responses: list[Any], rows: list[Mapping[str, Any]], /
    ) -> Iterable[Any]:
        """One entry a request in, one entry a request out, in the same order."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class FilterStep:
    """One step as the task file gives it: a name, or a task's own class or function
    that makes a filter, and its arguments."""

    function: str | Callable[..., Any]
    arguments: Mapping[str, Any] = field(default_factory=dict)


class _Built(NamedTuple):
    name: str
    filter: Filter
    own: bool = False
    """Whether somebody else wrote it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pipeline:
    """Filters in a row, under the name that results carry."""

    name: str
    steps: tuple[_Built, ...]

    def apply(
        self, responses: Sequence[Sequence[Any]], row: Mapping[str, Any]
    ) -> tuple[Any, ...]:
        """What is left of each request's responses.

        Args:
            responses: One list a request, as long as its repeats.
            row: The document's row, for filters that look at it.

        Raises:
            DocumentError: A filter failed, or lost or made requests.
        """
        return self.apply_all(responses, [row] * len(responses))

    @property
    def is_own(self) -> bool:
        """Whether somebody else wrote one of its filters."""
        return any(step.own for step in self.steps)

    def apply_all(
        self, responses: Sequence[Sequence[Any]], rows: Sequence[Mapping[str, Any]]
    ) -> tuple[Any, ...]:
        """As :meth:`apply`, with a row for each request, of whichever document.

        Raises:
            DocumentError: A filter failed, or lost or made requests.
        """
        current: list[Any] = [list(group) for group in responses]
        for step in self.steps:
            try:  # not UserCode, which costs more than most filters
                filtered = list(step.filter.apply(current, list(rows)))
                if len(filtered) != len(current):
                    raise DocumentError(
                        f"it made {len(filtered)} entries of {len(current)}; "
                        "it must return one a request"
                    )
            except (Exception, SystemExit) as fault:
                what = f"filter {step.name!r} of pipeline {self.name!r}"
                raise DocumentError(user_fault(what, fault)) from fault
            current = filtered
        return tuple(current)


class TakeFirst:
    """The first response of each request."""

    def apply(self, responses: Sequence[Any], rows: Sequence[Any]) -> list[Any]:
        """One value a request."""
        return [group[0] for group in responses]


class TakeFirstK:
    """The first ``k`` responses of each request, as a list."""

    def __init__(self, k: int, **ignored: Any) -> None:
        """``k`` counts from 1. Further arguments do nothing, as in lm-eval."""
        if not isinstance(k, int) or k < 1:
            raise EvalsError(f"k must be an integer from 1, not {k!r}")
        self._k = k

    def apply(self, responses: Sequence[Any], rows: Sequence[Any]) -> list[Any]:
        """One list a request."""
        for group in responses:
            if len(group) < self._k:
                raise DocumentError(
                    f"take_first_k needs {self._k} responses a request, there are "
                    f"{len(group)}; raise repeats"
                )
        return [group[: self._k] for group in responses]


class MajorityVote:
    """The most frequent response of each request, the first one of equals, as a list of
    one."""

    def apply(self, responses: Sequence[Any], rows: Sequence[Any]) -> list[list[Any]]:
        """One list a request."""
        return [[Counter(group).most_common(1)[0][0]] for group in responses]


class OnText:
    """A function of a text, for each response."""

    def __init__(self, function: Callable[[str], str]) -> None:
        """``function`` maps one text."""
        self._function = function

    def apply(self, responses: Sequence[Any], rows: Sequence[Any]) -> list[list[str]]:
        """One list of texts a request."""
        return [[self._one(text) for text in group] for group in responses]

    def _one(self, text: Any) -> str:
        if not isinstance(text, str):
            raise DocumentError(
                f"{self._function.__name__}() needs a text, got {text!r}"
            )
        return self._function(text)


class Map:
    """The entry of a dictionary under each response."""

    def __init__(
        self, mapping_dict: Mapping[Any, Any] | None = None, default_value: Any = None
    ) -> None:
        """``default_value`` stands for responses that are no key."""
        if mapping_dict is not None and not isinstance(mapping_dict, Mapping):
            raise EvalsError(f"mapping_dict must be a mapping, not {mapping_dict!r}")
        self._entries = dict(mapping_dict or {})
        self._default = default_value

    def apply(self, responses: Sequence[Any], rows: Sequence[Any]) -> list[list[Any]]:
        """One list of entries a request."""
        return [
            [self._entries.get(text, self._default) for text in group]
            for group in responses
        ]


class Custom:
    """A task's own function of responses and rows."""

    def __init__(
        self, filter_fn: Callable[[Any, Any], Iterable[Any]], **ignored: Any
    ) -> None:
        """``filter_fn(responses, rows)`` does what :meth:`Filter.apply` does. Further
        arguments do nothing, as in lm-eval."""
        if not callable(filter_fn):
            raise EvalsError(f"filter_fn must be a function, not {filter_fn!r}")
        self._function = filter_fn

    def apply(self, responses: list[Any], rows: list[Any]) -> Iterable[Any]:
        """Whatever the function gives."""
        return self._function(responses, rows)


FILTERS: Registry[Callable[..., Any]] = Registry(
    "filter",
    {
        "custom": Custom,
        "format_span": FormatSpan,
        "lowercase": lambda: OnText(str.lower),
        "majority_vote": MajorityVote,
        "map": Map,
        "multi_choice_regex": MultiChoiceRegex,
        "regex": Regex,
        "regex_pos": RegexPos,
        "remove_whitespace": lambda **ignored: OnText(str.strip),
        "take_first": TakeFirst,
        "take_first_k": TakeFirstK,
        "uppercase": lambda: OnText(str.upper),
    },
)
"""Name → what makes a filter from its arguments."""


def pipeline(name: str, steps: Sequence[FilterStep]) -> Pipeline:
    """Build the filters of a pipeline.

    Raises:
        UnknownNameError: No filter has that name.
        EvalsError: A filter cannot be made of its arguments.
    """
    return Pipeline(name=name, steps=tuple(_built(step) for step in steps))


def ignored_arguments(step: FilterStep) -> tuple[str, ...]:
    """The arguments that a filter of ours takes and does not look at."""
    if not isinstance(step.function, str) or step.function not in FILTERS:
        return ()
    parameters = _signature(FILTERS[step.function]).parameters
    if "ignored" not in parameters:
        return ()
    return tuple(key for key in step.arguments if key not in parameters)


def _built(step: FilterStep) -> _Built:
    if isinstance(step.function, str):
        name, make = step.function, FILTERS[step.function]
    else:
        make = step.function
        name = getattr(make, "__name__", type(make).__name__)
    with UserCode(f"filter {name!r}", EvalsError):
        _check_arguments(make, step.arguments)
        made = make(**step.arguments)
        if not callable(getattr(made, "apply", None)):
            raise EvalsError(f"made {made!r}, which has no apply(responses, rows)")
    own = not isinstance(step.function, str) or step.function == "custom"
    return _Built(name, made, own)


@lru_cache(maxsize=256)
def _signature(make: Callable[..., Any]) -> inspect.Signature:
    return inspect.signature(make)


def _check_arguments(make: Callable[..., Any], arguments: Mapping[str, Any]) -> None:
    try:
        signature = _signature(make)
    except (TypeError, ValueError):
        return
    try:
        signature.bind(**arguments)
    except TypeError as error:
        names = [name for name in signature.parameters if name != "ignored"]
        takes = ", ".join(names) or "no arguments"
        raise EvalsError(f"{error}; it takes {takes}") from error


TAKE_FIRST = Pipeline(name="none", steps=(_Built("take_first", TakeFirst()),))
"""The pipeline of tasks that name none."""
