"""Which tasks ``--evals-tasks`` takes."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase

import pytest

from pytest_evals.errors import did_you_mean

__all__ = ["Selection"]


class Selection:
    """Names, tags and globs over both; without any, every task is taken."""

    def __init__(self, patterns: Sequence[str]) -> None:
        """Nothing has been matched yet."""
        self._patterns = patterns
        self._matched: set[str] = set()
        self._known: set[str] = set()

    def takes(self, names: Sequence[str]) -> bool:
        """Whether a task of these names, its own and its tags, is wanted."""
        self._known.update(names)
        hits = [p for p in self._patterns if any(fnmatchcase(n, p) for n in names)]
        self._matched.update(hits)
        return bool(hits) or not self._patterns

    def check(self) -> None:
        """Refuse a pattern that no task answers to.

        Raises:
            pytest.UsageError: With the nearest name, or all of them.
        """
        for pattern in self._patterns:
            if pattern not in self._matched:
                known = sorted(self._known)
                hint = did_you_mean(pattern, known) or f"; known: {', '.join(known)}"
                raise pytest.UsageError(
                    f"--evals-tasks: no task or tag called {pattern!r}{hint}"
                )
