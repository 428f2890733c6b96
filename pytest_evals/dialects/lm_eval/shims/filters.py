"""Base classes and registration of custom filters (lm-eval 0.4.13, ``api/filter.py``,
``filters/extraction.py``, ``api/registry.py``)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from pytest_evals.scorers.extraction import MultiChoiceRegex, Regex


class Filter:
    """Base class of lm-eval's filters: ``apply(resps, docs)``."""

    def __init__(self, **kwargs: Any) -> None:
        pass

    def apply(self, resps: Any, docs: Any) -> Any:
        """Return the responses unchanged."""
        return resps


class RegexFilter(Filter):
    """The filter ``regex``, with the attributes that subclasses read."""

    def __init__(
        self,
        regex_pattern: str = r"#### (\-?[0-9\.\,]+)",
        group_select: int = 0,
        fallback: str = "[invalid]",
    ) -> None:
        self.regex_pattern = regex_pattern
        self.regex = re.compile(regex_pattern)
        self.group_select = group_select
        self.fallback = fallback

    def apply(self, resps: Iterable[Sequence[Any]], docs: Any) -> list[list[str]]:
        """Extract one string from each response."""
        ours = Regex(self.regex_pattern, self.group_select, self.fallback)
        return ours.apply(list(resps), docs)


class MultiChoiceRegexFilter(RegexFilter):
    """The filter ``multi_choice_regex``, with the attributes that subclasses read."""

    def __init__(
        self,
        regex_pattern: str = r"#### (\-?[0-9\.\,]+)",
        group_select: int = 0,
        fallback: str = "[invalid]",
        ignore_case: bool = False,
        ignore_punctuation: bool = False,
        regexes_to_ignore: list[str] | None = None,
    ) -> None:
        super().__init__(regex_pattern, group_select, fallback)
        self.ignore_case = ignore_case
        self.ignore_punctuation = ignore_punctuation
        self.regexes_to_ignore = regexes_to_ignore

    def apply(self, resps: Iterable[Sequence[Any]], docs: Any) -> list[list[str]]:
        """Extract a letter or string from each response."""
        ours = MultiChoiceRegex(
            self.regex_pattern,
            self.group_select,
            self.fallback,
            self.ignore_case,
            self.ignore_punctuation,
            self.regexes_to_ignore,
        )
        return ours.apply(list(resps), docs)


registered_filters: dict[str, Any] = {}
"""Name → class, as registered by task modules; a later registration replaces it."""


def register_filter(name: str) -> Callable[[Any], Any]:
    """Decorator that registers a filter for ``filter_list``."""

    def register(cls: Any) -> Any:
        registered_filters[name] = cls
        return cls

    return register
