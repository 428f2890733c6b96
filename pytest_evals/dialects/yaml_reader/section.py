"""Reads a mapping of a file key by key; unknown keys are problems."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any, Self, TypeVar, cast

from pytest_evals.data.calls import collecting
from pytest_evals.dialects.yaml_reader.yaml_file import Step, YamlFile
from pytest_evals.errors import (
    Place,
    Problem,
    abbreviated,
    nearest,
    number_fix,
    suggestion,
    unknown_name,
)

T = TypeVar("T")


class Section:
    """A mapping inside a file. Problems are collected, and reading continues."""

    def __init__(
        self,
        file: YamlFile,
        problems: list[Problem],
        values: dict[Any, Any] | None = None,
        steps: tuple[Step, ...] = (),
    ) -> None:
        self.file, self.problems, self.steps = file, problems, steps
        self.values = file.values if values is None else values
        self._read_keys: list[str] = []
        self._missing_keys: dict[str, Problem] = {}

    def __contains__(self, key: str) -> bool:
        """Return whether the key is set, including to ``null``."""
        return key in self.values

    def place(self, key: Step | None = None) -> Place:
        """Return the place of a key, or of the mapping. A key that is missing at the
        top level has the place of the first key."""
        if not self.steps and key not in self.values:
            key = next(iter(self.values), None)
        return self.file.place(*self.steps, *(() if key is None else (key,)))

    def text_place(self, key: Step) -> Place:
        """Return the place of the first line of the text under a key."""
        return self.file.text_place(*self.steps, key)

    def problem(
        self,
        key: Step | None,
        message: str,
        fix: str = "",
        required: Sequence[str] = (),
    ) -> None:
        """Add a problem. ``required``: keys of which one is required, if that is the
        problem and it is reported at another key."""
        problem_ = Problem(message, self.place(key), fix)
        self.problems.append(problem_)
        for expected in required or (str(key),):
            if self.values.get(expected) is None:
                self._missing_keys[expected] = problem_

    @contextmanager
    def collecting(self, key: Step, owner: str = "") -> Iterator[None]:
        """Collect the error of the block; it is at the key unless it has a place."""
        with collecting(self.problems, self.place(key), owner):
            yield

    def raw(self, key: str) -> Any:
        """Return the value unchecked, or ``None``."""
        self._read_keys.append(key)
        return self.values.get(key)

    def take(self, key: str, kind: type[T] | tuple[type[T], ...], default: T) -> T:
        """Return the value if it has the expected type, or the default for ``null`` and
        a missing key; any other value is a problem."""
        value = self.raw(key)
        if value is None:
            return default
        kinds = kind if isinstance(kind, tuple) else (kind,)
        if isinstance(value, kinds) and (bool in kinds or not isinstance(value, bool)):
            return value
        self.wrong(key, value, kinds)
        return default

    def wrong(self, key: str, value: Any, kinds: Sequence[type[Any]]) -> None:
        """Report a value of the wrong type."""
        expected = " or ".join(_WORDS.get(kind, kind.__name__) for kind in kinds)
        message = f"{key} must be {expected}, not {described(value)}"
        self.problem(key, message, _type_fix(key, value, kinds))

    def text(self, key: str, default: str = "") -> str:
        """Return a string."""
        return self.take(key, str, default)

    def name(self, key: str) -> str | None:
        """Return a non-empty string, or ``None``."""
        return self.take(key, str, "") or None

    def whole(self, key: str, least: int, default: int, most: int = 0) -> int:
        """Return an integer from ``least`` to ``most``, if that is set."""
        value = self.take(key, int, default)
        if value < least or 0 < most < value:
            end = f" to {most:,}" if most else ""
            message = f"{key} must be an integer from {least}{end}, not {value}"
            self.problem(key, message)
            return default
        return value

    def flag(self, key: str) -> bool:
        """Return a boolean; ``False`` if it is missing."""
        return self.take(key, bool, False)

    def function(self, key: str) -> Callable[..., Any] | None:
        """Return a function, or ``None``."""
        value = self.raw(key)
        if value is not None and not callable(value):
            fix = f"{key}: !function module.name"
            message = f"{key} must be a function, not {described(value)}"
            self.problem(key, message, fix)
            return None
        return cast("Callable[..., Any] | None", value)

    def one_of(self, key: str, noun: str, known: Sequence[str], default: str) -> str:
        """Return one of the allowed words. ``noun``: description of the words, for
        messages. ``default``: value of a missing key; if it is not an allowed word, the
        key is required."""
        if self.raw(key) is None:
            if default not in known:
                fix = f"set {key} to one of {', '.join(known)}"
                fix = fix if len(known) > 1 else f"{key}: {known[0]}"
                self.problem(key, f"{key} is missing", fix)
            return default
        value = self.text(key)
        if value in known or not isinstance(self.values[key], str):
            return value or default
        near = nearest(value, known)
        fix = f"{key}: {near}" if near else ""
        self.problem(key, unknown_name(noun, value, known), fix)
        return default

    def section(self, key: str) -> Self | None:
        """Return a nested mapping, or ``None``."""
        values = self.take(key, dict, {})
        if key not in self.values or self.values[key] is None:
            return None
        return type(self)(self.file, self.problems, values, (*self.steps, key))

    def entries(self, key: str, first: str = "") -> list[Self]:
        """Return a list of mappings as sections. ``first``: key of an entry for which a
        string may be meant."""
        sections = []
        for number, entry in enumerate(self.take(key, list, [])):
            steps = (*self.steps, key, number)
            if isinstance(entry, dict):
                sections.append(type(self)(self.file, self.problems, entry, steps))
                continue
            shown = described(entry)
            message = f"each entry of {key} must be a mapping, not {shown}"
            is_name = first and isinstance(entry, str)
            fix = f"write the entry as - {first}: {entry}" if is_name else ""
            self.problems.append(Problem(message, self.file.place(*steps), fix))
        return sections

    def refuse(self, key: str, message: str, fix: str = "") -> None:
        """Report a problem if a key is set."""
        if self.raw(key) is not None:
            self.problem(key, f"{key}: {message}", fix)

    def close(
        self, owner: str, fixes: Mapping[str, str] = MappingProxyType({})
    ) -> None:
        """Report every key that was not read. If it is a misspelled required key,
        the report of the missing key is removed. ``fixes``: key of another place or
        program → what to write instead."""
        for key in self.values:
            if key in self._read_keys:
                continue
            near = nearest(str(key), self._read_keys)
            if (missing := self._missing_keys.get(near)) in self.problems:
                self.problems.remove(missing)
            fix = fixes.get(str(key), "")
            if isinstance(key, bool):
                fix = "quote it: YAML reads yes, no, on and off as true and false"
            hint = "" if fix else suggestion(key, dict.fromkeys(self._read_keys))
            self.problem(key, f"{owner} has no key {key!r}{hint}", fix)


_WORDS: dict[Any, str] = {
    str: "a string",
    int: "an integer",
    bool: "true or false",
    list: "a list",
    dict: "a mapping",
    float: "a number",
    Callable: "a function",
}


def _type_fix(key: str, value: Any, kinds: Sequence[type[Any]]) -> str:
    """Return the key with the value in the expected type, if that is likely meant."""
    if [*kinds] == [list] and isinstance(value, dict):
        entry = "TASK/METRIC >= 0.75" if key == "gates" else "name: value"
        return f"begin each entry of {key} with a dash: - {entry}"
    if [*kinds] == [dict] and isinstance(value, list):
        return f"write the keys below {key} without dashes"
    if list in kinds and isinstance(value, str):
        return f"{key}: [{value!r}]"
    if str in kinds and not (list in kinds and isinstance(value, dict)):
        is_number = isinstance(value, int | float)
        return f"{key}: {str(value)!r}" if is_number else f"write {key} as one string"
    if isinstance(value, str) and (int in kinds or float in kinds):
        return number_fix(key, value)
    return f"{key}: true" if bool in kinds else ""


def described(value: Any) -> str:
    """Return a value, or its kind, for messages."""
    if isinstance(value, dict | list):
        return "a mapping" if isinstance(value, dict) else "a list"
    if isinstance(value, bool):
        return str(value).lower()
    if callable(value):
        return "a function"
    return abbreviated(repr(value))
