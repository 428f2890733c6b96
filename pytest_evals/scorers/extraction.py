"""Filters that find an answer inside a text.

Each is built from its arguments and maps the responses of one document; the semantics
are lm-eval's (0.4.13, ``lm_eval.filters``). :mod:`pytest_evals.scorers.filters` has
their names.
"""

from __future__ import annotations

import re
import sys
import unicodedata
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from pytest_evals.errors import DocumentError, EvalsError
from pytest_evals.limits import patterns
from pytest_evals.limits.patterns import BoundedPattern

Responses = Sequence[Sequence[Any]]
"""One list of responses a request."""
Rows = Sequence[Mapping[str, Any]]
"""One row a request."""


def compiled(pattern: str) -> BoundedPattern:
    """The pattern.

    Raises:
        EvalsError: It does not compile.
    """
    try:
        return patterns.compiled(pattern)
    except (re.error, TypeError) as error:
        raise EvalsError(f"{pattern!r} is not a regular expression: {error}") from error


class Regex:
    """The ``group_select``-th match in each response, or the fallback.

    Of a pattern with several groups, the first group that is not empty.
    """

    def __init__(
        self,
        regex_pattern: str = r"#### (\-?[0-9\.\,]+)",
        group_select: int = 0,
        fallback: str = "[invalid]",
    ) -> None:
        """Compile the pattern."""
        if not isinstance(group_select, int):
            raise EvalsError(f"group_select must be an integer, not {group_select!r}")
        self._regex = compiled(regex_pattern)
        self._select = group_select
        self._fallback = fallback

    def apply(self, responses: Responses, rows: Rows) -> list[list[str]]:
        """One extracted text a response."""
        return [[self._extract(text) for text in texts] for texts in responses]

    def _extract(self, response: Any) -> str:
        found = self._found(self._regex, response)
        if found is None:
            return self._fallback
        if isinstance(found, tuple):
            found = next((group for group in found if group), self._fallback)
        return found.strip()

    def _found(
        self, regex: BoundedPattern | re.Pattern[str], response: Any
    ) -> str | tuple[str, ...] | None:
        """The selected match, ``None`` if nothing matches. What is not a text counts as
        an empty one.

        Raises:
            DocumentError: There are matches, but not as many as ``group_select`` asks;
                or the search takes too long.
        """
        matches: list[Any] = regex.findall(
            response if isinstance(response, str) else ""
        )
        if not matches:
            return None
        if not -len(matches) <= self._select < len(matches):
            raise DocumentError(
                f"group_select {self._select} is out of range: "
                f"{regex.pattern!r} matches {len(matches)} times"
            )
        found: str | tuple[str, ...] = matches[self._select]
        return found


class MultiChoiceRegex(Regex):
    """The letter of a choice: by the pattern, else by the text of a choice, else by a
    letter after a colon."""

    def __init__(
        self,
        regex_pattern: str = r"#### (\-?[0-9\.\,]+)",
        group_select: int = 0,
        fallback: str = "[invalid]",
        ignore_case: bool = False,
        ignore_punctuation: bool = False,
        regexes_to_ignore: Sequence[str] | None = None,
    ) -> None:
        """The last three change response and choices before their texts are
        compared."""
        super().__init__(regex_pattern, group_select, fallback)
        self._ignore_case = ignore_case
        self._ignore_punctuation = ignore_punctuation
        if isinstance(regexes_to_ignore, str):
            raise EvalsError(
                f"regexes_to_ignore must be a list, not {regexes_to_ignore!r}"
            )
        self._ignored = [compiled(pattern) for pattern in regexes_to_ignore or ()]

    def apply(self, responses: Responses, rows: Rows) -> list[list[str]]:
        """One letter a response: ``B`` as the pattern finds it, else ``(B)``."""
        return [
            [self._letter(response, row) for response in texts]
            for texts, row in zip(responses, rows, strict=True)
        ]

    def _letter(self, response: Any, row: Mapping[str, Any]) -> str:
        found = self._text(self._regex, response)
        if found:
            return found
        choices = _choices(row)
        text = response if isinstance(response, str) else ""
        return (
            self._by_text(text, choices)
            or self._by_letter(text, len(choices))
            or self._fallback
        )

    def _by_text(self, response: str, choices: Sequence[str]) -> str:
        # Of two choices with the same text, the later letter wins.
        letters = {
            self._normal(choice.strip()): f"({chr(ord('A') + i)})"
            for i, choice in enumerate(choices)
        }
        # Longest first: "no" must not win inside "no idea".
        texts = sorted(letters, key=len, reverse=True)
        regex = re.compile("|".join(re.escape(text) for text in texts))
        found = self._text(regex, self._normal(response))
        # What matched the empty text of a choice chooses nothing (lm-eval 0.4.13).
        return letters.get(found, found) if found else ""

    def _by_letter(self, response: str, n_choices: int) -> str:
        letters = [re.escape(chr(ord("A") + i)) for i in range(n_choices)]
        found = self._text(re.compile(rf":[\s]*({'|'.join(letters)})"), response)
        return f"({found})" if found else ""

    def _text(self, regex: BoundedPattern | re.Pattern[str], response: Any) -> str:
        found = self._found(regex, response)
        if isinstance(found, tuple):
            found = next((group for group in found if group), "")
        return (found or "").strip()

    def _normal(self, text: str) -> str:
        for regex in self._ignored:
            text = regex.sub("", text)
        if self._ignore_case:
            text = text.lower()
        if self._ignore_punctuation:
            text = text.translate(_punctuation())
        return text


def _choices(row: Mapping[str, Any]) -> Sequence[str]:
    choices = row.get("choices")
    if isinstance(choices, (list, tuple)) and all(isinstance(c, str) for c in choices):
        return choices
    raise DocumentError(
        "multi_choice_regex needs a column 'choices', a list of texts; "
        + (f"this one is {choices!r}" if "choices" in row else "the row has none")
    )


@cache
def _punctuation() -> dict[int, None]:
    """A translation table that removes what Unicode calls punctuation."""
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
        """One list of tags a response; a response may be a list of pairs already."""
        return [[self._tags(response) for response in texts] for texts in responses]

    def _tags(self, response: Any) -> list[str]:
        pairs = self._PAIRS.findall(response) if isinstance(response, str) else response
        return [tag for _, tag in pairs] or list(self._fallback)


class FormatSpan:
    """Named entities in one form: ``per: john $ loc: kenya``."""

    _LABELS = {  # noqa: RUF012 - a constant
        "person": "PER",
        "people": "PER",
        "persons": "PER",
        "per": "PER",
        "location": "LOC",
        "counties": "LOC",
        "places": "LOC",
        "country": "LOC",
        "continent": "LOC",
        "loc": "LOC",
        "organization": "ORG",
        "company": "ORG",
        "org": "ORG",
        "time": "DATE",
        "date": "DATE",
    }
    _WORDS = re.compile(rf"\b({'|'.join(_LABELS)})\s*:")
    _SPANS = re.compile(r"\b(PER|LOC|ORG|DATE):\s*([^$]+)")

    def apply(self, responses: Responses, rows: Rows) -> list[list[str]]:
        """One normalised text a response."""
        return [[self._spans(text) for text in texts] for texts in responses]

    def _spans(self, text: str) -> str:
        # Upper case marks a label: the rest of the text is in lower case by then.
        text = self._WORDS.sub(lambda m: self._LABELS[m[1]] + ":", text.lower())
        text = text.replace("$$", "$").rstrip("$").replace("\n", "$").strip()
        return " $ ".join(
            f"{label.lower()}: {entity}"
            for label, values in self._SPANS.findall(text)
            for entity in (value.strip() for value in values.split(","))
            if entity != "none"
        )
