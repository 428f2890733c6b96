"""Regular expressions with limits on time and memory, and Python's own semantics.

A timer ends a search that takes too long. It works in the main thread, where documents
are scored; in other threads ``re`` cannot be interrupted. The package ``regex``, which
has time limits, has other semantics: its ``\\w`` matches the vowel signs of Hindi, and
its ``\\s`` does not match ``\\x1c``.
"""

from __future__ import annotations

import math
import re
import signal
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeVar

from pytest_evals.errors import DocumentError, abbreviated

SECONDS = 2.0  # processor time for one call
_AGAIN_S = 0.25
MOST_CHARACTERS = 2**26  # maximum characters of all results of one call

T = TypeVar("T")


class PatternLimitError(DocumentError):
    """A regular expression exceeds the time limit or creates too long a string."""


@dataclass(frozen=True, slots=True)
class BoundedPattern:
    """A regular expression with limits. ``longest``: maximum length of a string whose
    results cannot be too long together."""

    regex: re.Pattern[str]
    longest: int

    @property
    def pattern(self) -> str:
        """Return the source of the pattern."""
        return self.regex.pattern

    def findall(self, text: str) -> list[Any]:
        """Like ``re.Pattern.findall``; this and all other methods raise
        :class:`PatternLimitError` if a limit is exceeded."""
        if len(text) <= self.longest:
            return self._limited(text, lambda: self.regex.findall(text))
        return self._limited(text, lambda: [*map(_found, self._matches(text))])

    def is_in(self, text: str) -> bool:
        """Return whether ``re.Pattern.search`` finds a match."""
        return self._limited(text, lambda: self.regex.search(text) is not None)

    def matches(self, text: str) -> list[tuple[int, int, tuple[str, ...]]]:
        """Return start, end and groups of each match of ``re.Pattern.finditer``."""
        return self._limited(
            text, lambda: [(*one.span(), one.groups()) for one in self._matches(text)]
        )

    def split(self, text: str) -> list[Any]:
        """Like ``re.Pattern.split``."""
        if len(text) <= self.longest:
            return self._limited(text, lambda: self.regex.split(text))
        parts, at = [], 0
        for start, end, groups in self.matches(text):
            parts += [text[at:start], *groups]
            at = end
        return [*parts, text[at:]]

    def sub(self, replacement: str, text: str, count: int = 0) -> str:
        """Like ``re.Pattern.sub``."""
        n_groups = replacement.count("\\")
        most = (len(text) + 1) * (len(replacement) + n_groups * len(text) + 1)
        if len(text) <= self.longest and most <= MOST_CHARACTERS:
            return self._limited(text, lambda: self.regex.sub(replacement, text, count))
        self.regex.sub(replacement, "")  # raises if the replacement is invalid
        left = MOST_CHARACTERS

        def replaced(match: re.Match[str]) -> str:
            nonlocal left
            longest = max(map(len, (match[0], *match.groups(""))))
            left -= len(replacement) + n_groups * longest
            if left < 0:
                raise MemoryError
            return match.expand(replacement)

        return self._limited(text, lambda: self.regex.sub(replaced, text, count))

    def _matches(self, text: str) -> Iterator[re.Match[str]]:
        left = MOST_CHARACTERS
        for match in self.regex.finditer(text):
            left -= len(match[0]) + sum(map(len, match.groups("")))
            if left < 0:
                raise MemoryError
            yield match

    def _limited(self, text: str, search: Callable[[], T]) -> T:
        try:
            if threading.current_thread() is threading.main_thread():
                return _timer().limited(search)
            return search()
        except (_OvertimeError, MemoryError) as error:
            shown = repr(abbreviated(self.pattern, 80))
            why, fix = "needs too much memory", ""
            if isinstance(error, _OvertimeError):
                why = f"takes more than {SECONDS:g} s"
                fix = "; write it without repetition inside of repetition"
            raise PatternLimitError(
                f"the regular expression {shown} {why} on a text of {len(text):,} "
                f"characters{fix}"
            ) from None


def compiled(pattern: str, flags: int = 0) -> BoundedPattern:
    """Return the compiled pattern. Raises re.error if it is not a valid regular
    expression."""
    try:
        return _compiled(pattern, int(flags))
    except (OverflowError, RecursionError, MemoryError) as error:
        raise re.error(str(error) or "it is too large", pattern) from None


@lru_cache(maxsize=1024)
def _compiled(pattern: str, flags: int) -> BoundedPattern:
    regex = re.compile(pattern, flags)
    return BoundedPattern(regex, math.isqrt(MOST_CHARACTERS // (regex.groups + 1)))


def _found(match: re.Match[str]) -> Any:
    groups = match.groups("")
    return groups if len(groups) > 1 else (*groups, match[0])[0]


class _OvertimeError(Exception):
    """The time limit is exceeded."""


class _Timer:
    """Interrupts searches in the main thread, where signals arrive."""

    def __init__(self) -> None:
        self._end = math.inf
        signal.signal(signal.SIGVTALRM, self._interrupt)

    def limited(self, search: Callable[[], T]) -> T:
        """Return the result of a search. Raises _OvertimeError if it takes too long."""
        self._end = time.thread_time() + SECONDS
        try:
            try:
                signal.setitimer(signal.ITIMER_VIRTUAL, SECONDS, _AGAIN_S)
                return search()
            finally:
                self._end = math.inf
        finally:  # also if the signal arrives in the block above
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)

    def _interrupt(self, *_: object) -> None:
        # The timer counts the processor time of all threads.
        if time.thread_time() >= self._end:
            self._end = math.inf  # so that it raises once
            raise _OvertimeError


_timer = lru_cache(maxsize=1)(_Timer)  # the timer of this process
