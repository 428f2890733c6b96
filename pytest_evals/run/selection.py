"""Which tasks and groups ``--evals-tasks`` takes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from fnmatch import fnmatchcase

from pytest_evals.core.variant import Variant, wanted
from pytest_evals.errors import OptionError, did_you_mean


def names_of(entries: Iterable[str]) -> list[str]:
    """Names and globs of entries of ``--evals-tasks``, without shots and arguments.

    Raises:
        OptionError: An entry is invalid.
    """
    try:
        return [wanted(entry).name for entry in entries]
    except OptionError as error:
        raise OptionError(f"--evals-tasks: {error}") from None


class Selection:
    """Names, tags and globs over both; without any, everything is taken."""

    def __init__(
        self,
        patterns: Sequence[str] = (),
        *,
        chosen: bool = False,
        also: Callable[[Sequence[str]], bool] | None = None,
    ) -> None:
        """Create a selection.

        Args:
            patterns: Names and globs, with shots and arguments behind them.
            chosen: Whether another process has selected already, so that everything
                is taken.
            also: A further condition on the names of a task or group.
        """
        self._also = also
        self._patterns = list(dict.fromkeys(names_of(patterns)))
        self._wanted = [wanted(entry) for entry in patterns]
        self._chosen = chosen
        self.matched: set[str] = set()
        """Patterns that something answers to."""
        self.offered: set[str] = set()
        """All names that were asked for, taken or not."""

    @property
    def literal(self) -> set[str]:
        """The names among the patterns."""
        return {p for p in self._patterns if not any(sign in p for sign in "*?[")}

    @property
    def lost(self) -> list[str]:
        """Patterns that nothing has answered to so far."""
        return [one for one in self._patterns if one not in self.matched]

    def takes(self, names: Sequence[str]) -> bool:
        """Whether a task or group of these names, its own and its tags, is wanted."""
        self.offered.update(names)
        hits = [p for p in self._patterns if any(fnmatchcase(n, p) for n in names)]
        self.matched.update(hits)
        taken = bool(hits) or not self._patterns or self._chosen
        return taken and (self._also is None or self._also(names))

    def variants(self, names: Sequence[str]) -> tuple[Variant, ...]:
        """The ways in which a task of these names is wanted, each once."""
        found = [
            one.variant
            for one in self._wanted
            if any(fnmatchcase(name, one.name) for name in names)
        ]
        return tuple(dict.fromkeys(found)) or (Variant(),)

    def check(self, further: Iterable[str] = ()) -> None:
        """Refuse a pattern that nothing answers to.

        Args:
            further: Names that were not collected, and that somebody may have meant.

        Raises:
            OptionError: With the nearest name, or all of them.
        """
        if not self.lost:
            return
        pattern, known = self.lost[0], sorted({*self.offered, *further})
        hint = did_you_mean(pattern, known)
        if not hint and known:
            more = f" and {len(known) - _SHOWN} more" if len(known) > _SHOWN else ""
            hint = f"; known: {', '.join(known[:_SHOWN])}{more}"
        raise OptionError(
            f"--evals-tasks: no task, group or tag called {pattern!r}{hint}"
        )


_SHOWN = 20
"""Names that a message lists."""
