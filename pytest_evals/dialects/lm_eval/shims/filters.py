"""Base classes and registration of custom filters (lm-eval 0.4.13, ``api/filter.py``,
``filters/extraction.py``, ``api/registry.py``)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pytest_evals.scorers.extraction import MultiChoiceRegex, Regex


class Filter:
    """Base class of lm-eval's filters: ``apply(resps, docs)``."""

    def __init__(self, **kwargs: Any) -> None:
        pass

    def apply(self, resps: Any, docs: Any) -> Any:
        """Return the responses unchanged."""
        return resps


class RegexFilter(Regex, Filter):
    """The filter ``regex``, with the attributes that subclasses read."""


class MultiChoiceRegexFilter(MultiChoiceRegex, RegexFilter):
    """The filter ``multi_choice_regex``, with the attributes that subclasses read."""


registered_filters: dict[str, Any] = {}
"""Name → class, as registered by task modules; a later registration replaces it."""


def register_filter(name: str) -> Callable[[Any], Any]:
    """Decorator that registers a filter for ``filter_list``."""

    def register(cls: Any) -> Any:
        registered_filters[name] = cls
        return cls

    return register
