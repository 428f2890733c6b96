"""Filters that extract an answer from a response.

Each is built from its arguments and applied to the responses of one document, with
lm-eval's semantics (0.4.13, ``lm_eval.filters``). :mod:`pytest_evals.scorers.filters`
registers them. Reasoning is removed from answers before scoring.
"""

from __future__ import annotations

import re
import sys
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any

from pytest_evals.errors import DocumentError, EvalsError
from pytest_evals.limits import patterns
from pytest_evals.limits.patterns import BoundedPattern

Responses = Sequence[Sequence[Any]]  # a list of responses for each request
Rows = Sequence[Mapping[str, Any]]  # a row for each request


def compiled(pattern: str) -> BoundedPattern:
    """Compile a pattern. Raises EvalsError if the pattern is invalid."""
    try:
        return patterns.compiled(pattern)
    except (re.error, TypeError) as error:
        raise EvalsError(f"{pattern!r} is not a regular expression: {error}") from error


class Regex:
    """The ``group_select``-th match in each response, or the fallback. If the pattern
    has several groups, the first one that is not empty."""

    def __init__(
        self,
        regex_pattern: str = r"#### (\-?[0-9\.\,]+)",
        group_select: int = 0,
        fallback: str = "[invalid]",
    ) -> None:
        if not isinstance(group_select, int):
            raise EvalsError(f"group_select must be an integer, not {group_select!r}")
        self._regex = compiled(regex_pattern)
        # lm-eval's names, which subclasses in task modules read.
        self.regex_pattern, self.regex = regex_pattern, self._regex.regex
        self.group_select, self.fallback = group_select, fallback

    def apply(self, responses: Responses, rows: Rows) -> list[list[str]]:
        """Extract a string from each response."""
        return [[self._extract(text) for text in texts] for texts in responses]

    def _extract(self, response: Any) -> str:
        match = self._match(self._regex, response)
        if match is None:
            return self.fallback
        if isinstance(match, tuple):
            match = next((group for group in match if group), self.fallback)
        return match.strip()

    def _match(
        self, regex: BoundedPattern | re.Pattern[str], response: Any
    ) -> str | tuple[str, ...] | None:
        """The selected match, or ``None``. Other types count as an empty string."""
        text = response if isinstance(response, str) else ""
        matches: list[Any] = regex.findall(text)
        if not matches:
            return None
        if not -len(matches) <= self.group_select < len(matches):
            raise DocumentError(
                f"group_select {self.group_select} is out of range: "
                f"{regex.pattern!r} matches {len(matches)} times"
            )
        match: str | tuple[str, ...] = matches[self.group_select]
        return match


class MultiChoiceRegex(Regex):
    """The letter of a choice: by the pattern, else by a choice's text, else by a letter
    after a colon."""

    def __init__(
        self,
        regex_pattern: str = r"#### (\-?[0-9\.\,]+)",
        group_select: int = 0,
        fallback: str = "[invalid]",
        ignore_case: bool = False,
        ignore_punctuation: bool = False,
        regexes_to_ignore: Sequence[str] | None = None,
    ) -> None:
        """The last three arguments normalize response and choices before comparison."""
        super().__init__(regex_pattern, group_select, fallback)
        self.ignore_case, self.ignore_punctuation = ignore_case, ignore_punctuation
        self.regexes_to_ignore = regexes_to_ignore
        if isinstance(regexes_to_ignore, str):
            raise EvalsError(
                f"regexes_to_ignore must be a list, not {regexes_to_ignore!r}"
            )
        self._ignored = [compiled(pattern) for pattern in regexes_to_ignore or ()]

    def apply(self, responses: Responses, rows: Rows) -> list[list[str]]:
        """Extract letters from responses: ``B`` if the pattern matches, or ``(B)``."""
        return [
            [self._letter(response, row) for response in texts]
            for texts, row in zip(responses, rows, strict=True)
        ]

    def _letter(self, response: Any, row: Mapping[str, Any]) -> str:
        match = self._text(self._regex, response)
        if match:
            return match
        choices = _choices(row)
        text = response if isinstance(response, str) else ""
        found = self._by_text(text, choices) or self._by_letter(text, len(choices))
        return found or self.fallback

    def _by_text(self, response: str, choices: Sequence[str]) -> str:
        # Of two choices with the same text, the later letter wins.
        letters = {
            self._normalize(choice.strip()): f"({chr(ord('A') + i)})"
            for i, choice in enumerate(choices)
        }
        # Longest first: "no" must not win inside "no idea".
        texts = sorted(letters, key=len, reverse=True)
        regex = re.compile("|".join(re.escape(text) for text in texts))
        match = self._text(regex, self._normalize(response))
        # An empty match, of a choice with an empty text, selects nothing (lm-eval
        # 0.4.13).
        return letters.get(match, match) if match else ""

    def _by_letter(self, response: str, n_choices: int) -> str:
        letters = [re.escape(chr(ord("A") + i)) for i in range(n_choices)]
        match = self._text(re.compile(rf":[\s]*({'|'.join(letters)})"), response)
        return f"({match})" if match else ""

    def _text(self, regex: BoundedPattern | re.Pattern[str], response: Any) -> str:
        match = self._match(regex, response)
        if isinstance(match, tuple):
            match = next((group for group in match if group), "")
        return (match or "").strip()

    def _normalize(self, text: str) -> str:
        for regex in self._ignored:
            text = regex.sub("", text)
        if self.ignore_case:
            text = text.lower()
        if self.ignore_punctuation:
            text = text.translate(_punctuation())
        return text


def _choices(row: Mapping[str, Any]) -> Sequence[str]:
    choices = row.get("choices")
    if isinstance(choices, (list, tuple)) and all(isinstance(c, str) for c in choices):
        return choices
    message = "multi_choice_regex needs a column 'choices', a list of strings; "
    if "choices" in row:
        raise DocumentError(f"{message}its value is {choices!r}")
    raise DocumentError(f"{message}the row has no such column")


@cache
def _punctuation() -> dict[int, None]:
    """A translation table that removes Unicode punctuation."""
    return {
        code: None
        for code in range(sys.maxunicode)
        if unicodedata.category(chr(code)).startswith("P")
    }


class RegexPos:
    """The part-of-speech tags of all ``('token', 'TAG')`` pairs in each response."""

    _PAIRS = re.compile(r"\('([^']*)', '([^']*)'\)")

    def __init__(
        self,
        regex_pattern: str = "",
        group_select: int = 0,
        fallback: Sequence[str] | None = None,
    ) -> None:
        """The first two arguments are accepted and have no effect, as in lm-eval."""
        self._fallback = ["invalid"] if fallback is None else list(fallback)

    def apply(self, responses: Responses, rows: Rows) -> list[list[list[str]]]:
        """Extract a list of tags from each response, or take its list of pairs."""
        return [[self._tags(response) for response in texts] for texts in responses]

    def _tags(self, response: Any) -> list[str]:
        pairs = self._PAIRS.findall(response) if isinstance(response, str) else response
        return [tag for _, tag in pairs] or list(self._fallback)


class FormatSpan:
    """Named entities in a uniform format: ``per: john $ loc: kenya``."""

    _LABELS = {  # noqa: RUF012 - a constant
        **dict.fromkeys(("person", "people", "persons", "per"), "PER"),
        **dict.fromkeys(("location", "counties", "places", "country"), "LOC"),
        **dict.fromkeys(("continent", "loc"), "LOC"),
        **dict.fromkeys(("organization", "company", "org"), "ORG"),
        **dict.fromkeys(("time", "date"), "DATE"),
    }
    _WORDS = re.compile(rf"\b({'|'.join(_LABELS)})\s*:")
    _SPANS = re.compile(r"\b(PER|LOC|ORG|DATE):\s*([^$]+)")

    def apply(self, responses: Responses, rows: Rows) -> list[list[str]]:
        """Normalize each response."""
        return [[self._spans(text) for text in texts] for texts in responses]

    def _spans(self, text: str) -> str:
        # Labels are upper case; the rest of the text has been lower-cased.
        text = self._WORDS.sub(lambda m: self._LABELS[m[1]] + ":", text.lower())
        text = text.replace("$$", "$").rstrip("$").replace("\n", "$").strip()
        return " $ ".join(
            f"{label.lower()}: {entity}"
            for label, values in self._SPANS.findall(text)
            for entity in (value.strip() for value in values.split(","))
            if entity != "none"
        )


def remove_reasoning_tags(text: str, tag_pairs: Iterable[tuple[str, str]]) -> str:
    """Remove the tags and the text between them. Unmatched tags and surrounding
    whitespace are kept, as in lighteval 0.13.0 (``utils/utils.py``)."""
    for opening, closing in tag_pairs:
        while (start := text.find(opening)) >= 0:
            end = text.find(closing, start + len(opening))
            if end < 0:
                break
            text = text[:start] + text[end + len(closing) :]
    return text
