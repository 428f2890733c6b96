"""A mapping of a file, read key by key. What nobody asked for is a problem."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar, cast

from pytest_evals.dialects.yaml_reader.yaml_file import Step, YamlFile
from pytest_evals.errors import Place, Problem, did_you_mean, nearest

T = TypeVar("T")


class Section:
    """A mapping inside a file; its faults are collected, and reading goes on."""

    def __init__(
        self,
        file: YamlFile,
        problems: list[Problem],
        values: dict[Any, Any] | None = None,
        steps: tuple[Step, ...] = (),
    ) -> None:
        """Read a mapping.

        Args:
            file: The file it stands in.
            problems: Faults are added here.
            values: The mapping; the whole file if there is none.
            steps: The way to it.
        """
        self.file, self.problems, self.steps = file, problems, steps
        self.values = file.values if values is None else values
        self._asked: list[str] = []
        self._lacking: dict[str, Problem] = {}

    def __contains__(self, key: str) -> bool:
        """Whether the key is there, even with ``null``."""
        return key in self.values

    def place(self, key: Step | None = None) -> Place:
        """Where a key stands; without one, where the mapping does. A key that a whole
        file lacks would stand where its first key does."""
        if not self.steps and key not in self.values:
            key = next(iter(self.values), None)
        return self.file.place(*self.steps, *(() if key is None else (key,)))

    def text_place(self, key: Step) -> Place:
        """Where the first line of the text under a key stands."""
        return self.file.text_place(*self.steps, key)

    def problem(
        self, key: Step | None, what: str, fix: str = "", lacks: Sequence[str] = ()
    ) -> None:
        """Note a fault.

        Args:
            key: Where it is.
            what: The fault.
            fix: What to do.
            lacks: Keys of which one is wanted, if that is the fault and it is noted at
                another key.
        """
        fault = Problem(what, self.place(key), fix)
        self.problems.append(fault)
        for wanted in lacks or (str(key),):
            if self.values.get(wanted) is None:
                self._lacking[wanted] = fault

    def raw(self, key: str) -> Any:
        """The value as it is; ``None`` if there is none."""
        self._asked.append(key)
        return self.values.get(key)

    def take(self, key: str, kind: type[T] | tuple[type[T], ...], default: T) -> T:
        """The value if it is of a kind, the default for ``null`` and no value; any
        other value is a problem."""
        value = self.raw(key)
        if value is None:
            return default
        kinds = kind if isinstance(kind, tuple) else (kind,)
        if isinstance(value, kinds) and (bool in kinds or not isinstance(value, bool)):
            return value
        self.wrong(key, value, kinds)
        return default

    def wrong(self, key: str, value: Any, kinds: Sequence[type[Any]]) -> None:
        """Note that a value is of another kind than it should be."""
        wanted = " or ".join(_WORDS.get(kind, kind.__name__) for kind in kinds)
        text = str in kinds and isinstance(value, int | float)
        fix = f"{key}: {str(value)!r}" if text else ""
        self.problem(key, f"{key} is {wanted}, not {_shown(value)}", fix)

    def text(self, key: str, default: str = "") -> str:
        """A text."""
        return self.take(key, str, default)

    def name(self, key: str) -> str | None:
        """A text that is not empty, ``None`` if there is none."""
        return self.take(key, str, "") or None

    def whole(self, key: str, least: int, default: int) -> int:
        """A whole number from ``least``."""
        value = self.take(key, int, default)
        if value < least:
            self.problem(key, f"{key} is a whole number from {least}, not {value}")
            return default
        return value

    def flag(self, key: str) -> bool:
        """True or false; false if there is none."""
        return self.take(key, bool, False)

    def function(self, key: str) -> Callable[..., Any] | None:
        """A function."""
        value = self.raw(key)
        if value is not None and not callable(value):
            fix = f"{key}: !function module.name"
            self.problem(key, f"{key} is a function, not {_shown(value)}", fix)
            return None
        return cast("Callable[..., Any] | None", value)

    def one_of(self, key: str, noun: str, known: Sequence[str], default: str) -> str:
        """One of some words.

        Args:
            key: What names it.
            noun: What the words are, for messages.
            known: The words.
            default: The word where none is given; if it is none of them, one has to be.
        """
        if self.raw(key) is None:
            if default not in known:
                fix = f"{key} is one of {', '.join(known)}"
                fix = fix if len(known) > 1 else f"{key}: {known[0]}"
                self.problem(key, f"{key} is missing", fix)
            return default
        value = self.text(key)
        if value in known or not isinstance(self.values[key], str):
            return value or default
        near, hint = nearest(value, known), did_you_mean(value, known)
        fix = f"{key}: {near}" if near else f"{key} is one of {', '.join(known)}"
        self.problem(key, f"no {noun} called {value!r}{hint}", fix)
        return default

    def section(self, key: str) -> Section | None:
        """A mapping inside this one."""
        values = self.take(key, dict, {})
        if key not in self.values or self.values[key] is None:
            return None
        return Section(self.file, self.problems, values, (*self.steps, key))

    def entries(self, key: str) -> list[Section]:
        """A list of mappings."""
        found = []
        for number, entry in enumerate(self.take(key, list, [])):
            steps = (*self.steps, key, number)
            if isinstance(entry, dict):
                found.append(Section(self.file, self.problems, entry, steps))
                continue
            what = f"{key} is a list of mappings, and {_shown(entry)} is none"
            self.problems.append(Problem(what, self.file.place(*steps)))
        return found

    def refuse(self, key: str, what: str, fix: str = "") -> None:
        """A problem if a key has a value."""
        if self.raw(key) is not None:
            self.problem(key, f"{key}: {what}", fix)

    def close(self, owner: str) -> None:
        """Every key that was not asked for is a problem; and if it is a key that was
        wanted, misspelt, then the only one.

        Args:
            owner: What has these keys, in words: ``a task file``.
        """
        for key in self.values:
            if key in self._asked:
                continue
            near = nearest(str(key), self._asked)
            if (lack := self._lacking.get(near)) in self.problems:
                self.problems.remove(lack)
            hint, fix = did_you_mean(str(key), self._asked), ""
            if isinstance(key, bool):
                fix = "quote it: YAML reads yes, no, on and off as true and false"
            self.problem(key, f"{owner} has no key {key!r}{hint}", fix)


_WORDS: dict[Any, str] = {
    str: "a text",
    int: "a whole number",
    bool: "true or false",
    list: "a list",
    dict: "keys and values",
    float: "a number",
    Callable: "a function",
}


def _shown(value: Any) -> str:
    if isinstance(value, dict | list):
        return "keys and values" if isinstance(value, dict) else "a list"
    if isinstance(value, bool):
        return str(value).lower()
    if callable(value):
        return "a function"
    text = repr(value)
    return text if len(text) <= 60 else text[:59] + "…"
