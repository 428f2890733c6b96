"""The selection of tasks and groups by ``--evals-tasks``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from fnmatch import fnmatchcase

from pytest_evals.core.variant import Variant, task_pattern
from pytest_evals.errors import OptionError, did_you_mean


def names_of(entries: Iterable[str]) -> list[str]:
    """Names and globs of ``--evals-tasks``, without few-shot numbers and arguments."""
    try:
        return [task_pattern(entry).name for entry in entries]
    except OptionError as error:
        raise OptionError(f"--evals-tasks: {error}") from None


class Selection:
    """Selection by names, tags and globs over both; everything without patterns."""

    def __init__(
        self,
        patterns: Sequence[str] = (),
        *,
        chosen: bool = False,
        also: Callable[[Sequence[str]], bool] | None = None,
    ) -> None:
        """Create a selection.

        Args:
            patterns: Names and globs, with few-shot examples and arguments after them.
            chosen: Whether another process has made the selection, so that all tasks
                are selected.
            also: A further condition on the names of a task or group.
        """
        self._also = also
        self._patterns = list(dict.fromkeys(names_of(patterns)))
        self._entries = [task_pattern(entry) for entry in patterns]
        self._chosen = chosen
        self.matched: set[str] = set()  # patterns with a match
        self.offered: set[str] = set()  # all names that were checked, selected or not

    @property
    def literal(self) -> set[str]:
        """The names among the patterns."""
        return {p for p in self._patterns if not any(sign in p for sign in "*?[")}

    @property
    def lost(self) -> list[str]:
        """Patterns without a match so far."""
        return [one for one in self._patterns if one not in self.matched]

    def takes(self, names: Sequence[str], by_folder: Sequence[str] = ()) -> bool:
        """Whether a task or group with these names, with its tags, is selected.
        ``by_folder``: its name with folders in front."""
        self.offered.update(names)
        every = (*names, *by_folder)
        hits = [p for p in self._patterns if any(fnmatchcase(n, p) for n in every)]
        self.matched.update(hits)
        is_selected = bool(hits) or not self._patterns or self._chosen
        return is_selected and (self._also is None or self._also(names))

    def may_take(self, names: Sequence[str]) -> bool:
        """Whether :meth:`takes` may select a task or group, before its folder is known:
        of a pattern with folders, only the name counts."""
        named = [p.rpartition("/")[2] for p in self._patterns if "/" in p]
        return self.takes(names) or (
            any(fnmatchcase(name, one) for name in names for one in named)
            and (self._also is None or self._also(names))
        )

    def variants(self, names: Sequence[str]) -> tuple[Variant, ...]:
        """The selected variants of a task with these names, each once."""
        variants = [
            one.variant
            for one in self._entries
            for pattern in (one.name, one.name.rpartition("/")[2])
            if any(fnmatchcase(name, pattern) for name in names)
        ]
        return tuple(dict.fromkeys(variants)) or (Variant(),)

    def check(self, further: Iterable[str] = (), fix: str = "") -> None:
        """Reject a pattern without a match.

        Args:
            further: Names that were not collected, for suggestions.
            fix: How to get more names.

        Raises:
            OptionError: With the nearest name, or all of them.
        """
        if not self.lost:
            return
        pattern, names = self.lost[0], sorted({*self.offered, *further})
        hint = did_you_mean(pattern, names)
        if not hint and names:
            more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
            hint = f"; known: {', '.join(names[:_SHOWN])}{more}"
        message = f"--evals-tasks: unknown task, group or tag {pattern!r}{hint}"
        raise OptionError(f"{message}\n  fix: {fix}" if fix else message)


_SHOWN = 20  # number of names in a message
