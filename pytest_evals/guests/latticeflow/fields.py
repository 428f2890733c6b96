"""Keys that sections of LatticeFlow's files share: headers, required keys, templates,
and sections whose ``type`` selects a reader.

All methods add errors to the problems of their section, and return a value that can be
used nevertheless: a file with problems is refused once all of it is read.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from pytest_evals.dialects.yaml_reader.section import Section
from pytest_evals.errors import Place, Problem, TaskFileError
from pytest_evals.guests.latticeflow.prompts.templates import (
    SampleTemplate,
    compile_template,
)

T = TypeVar("T")
_KEY = re.compile(r"[A-Za-z0-9_\-]+")
_PROVIDED = re.compile(r"[A-Za-z0-9_\-]+(\$[A-Za-z0-9_\-]+)?")
"""Keys of models and adapters may start with a provider: ``openai$gpt-4-1-nano``."""
LONGEST = 250


class Keys(Section):
    """A mapping inside an entity file."""

    def header(
        self, owner: str, required: Sequence[str], *, provided: bool = False
    ) -> str:
        """Read the header of an entity and return its key. ``owner``: its kind, for
        messages, such as ``a task``; ``provided``: whether its key may start with that
        of a provider."""
        key = self.text("key")
        for one in ("display_name", "description", "long_description"):
            self.text(one)
        for one in required:
            self.need(one, "my-key" if one == "key" else '"…"')
        if self.values.get("display_name") == "":
            self.problem("display_name", "display_name is empty", 'display_name: "…"')
        self.check_key(owner, provided=provided)
        for number, tag in enumerate(self.take("tags", list, [])):
            if not isinstance(tag, str):
                message = f"a tag must be a string, not {tag!r}"
                self.entry_problem("tags", number, message, f"quote it: {str(tag)!r}")
        return key

    def check_key(self, owner: str, *, provided: bool = False) -> None:
        """Report an invalid key (see :meth:`header`). A key that is not a string is
        reported where its value is read."""
        key = self.values.get("key")
        pattern = _PROVIDED if provided else _KEY
        if not isinstance(key, str) or (pattern.fullmatch(key) and len(key) <= LONGEST):
            return
        allowed = f"letters, digits, _ and -, at most {LONGEST}"
        fix = re.sub(r"[^A-Za-z0-9_\-]+", "-", key).strip("-")[:LONGEST]
        message = f"the key of {owner} may contain {allowed}, not {key!r:.80}"
        self.problem("key", message, f"key: {fix}")

    def entry_problem(
        self, key: str, entry: str | int, message: str, fix: str = ""
    ) -> None:
        """Report a problem at an entry of a list or mapping under a key."""
        place = self.file.place(*self.steps, key, entry)
        self.problems.append(Problem(message, place, fix))

    def need(self, key: str, example: str, message: str = "") -> bool:
        """Return whether a key has a value; if not, report that it is missing."""
        if self.raw(key) is not None:
            return True
        self.problem(key, message or f"{key} is missing", f"{key}: {example}")
        return False

    def required_text(self, key: str, example: str = "…") -> str:
        """Return a required string, empty if it is missing."""
        return self.text(key) if self.need(key, f'"{example}"') else ""

    def required_name(self, key: str, example: str, message: str = "") -> str:
        """Return a required string that must not be empty; empty if it is missing."""
        value = self.name(key)
        if value is None:
            self.problem(key, message or f"{key} is missing", f"{key}: {example}")
        return value or ""

    def required_key(self, owner: str, example: str) -> str:
        """Return the required key of an entry."""
        key = self.required_name("key", example, f"{owner} needs a key")
        if key:
            self.check_key(owner)
        return key

    def required_section(self, key: str, example: str, message: str = "") -> Keys:
        """Return a required nested mapping. One that is missing is empty, and has no
        further problems."""
        found = self.section(key) if self.need(key, example, message) else None
        return found or Keys(self.file, [], {}, (*self.steps, key))

    def required_entries(self, key: str, example: str, message: str = "") -> list[Keys]:
        """Return a list of mappings that must not be empty."""
        entries: list[Keys] = [*self.entries(key)]
        if not entries and not self.values.get(key):
            self.problem(key, message or f"{key} is missing", f"{key}: {example}")
        return entries

    def typed(
        self,
        noun: str,
        owner: str,
        readers: Mapping[str, Callable[..., T]],
        *arguments: Any,
    ) -> T:
        """Return what the reader of the ``type`` returns, and close the section. One
        without a valid type is read as one of the first, without its problems. ``noun``
        and ``owner`` are for messages: ``metric``, ``a metric``."""
        kind = self.one_of("type", noun, tuple(readers), "")
        if not kind:
            unread = Keys(self.file, [], self.values, self.steps)
            return next(iter(readers.values()))(unread, *arguments)
        result = readers[kind](self, *arguments)
        self.close(f"{owner} of type {kind}")
        return result

    def finish(self, owner: str) -> None:
        """Close the mapping of a whole file. Raises all problems of the file."""
        self.close(owner)
        if self.problems:
            raise TaskFileError(self.problems)

    def or_problems(self, function: Callable[..., T], *arguments: Any) -> T | None:
        """Return the function's result; a ``TaskFileError`` adds to the problems."""
        try:
            return function(*arguments)
        except TaskFileError as error:
            self.problems.extend(error.problems)
            return None

    def text_template(
        self, key: str, text: str, place: Place | None = None
    ) -> SampleTemplate:
        """Return the template of a text under a key; an empty one if it is invalid."""
        place = place or self.place(key)
        found = self.or_problems(compile_template, text, place, key)
        return found or compile_template("", place, key)

    def template(self, key: str, example: str) -> SampleTemplate:
        """Return the required template under a key."""
        return self.text_template(key, self.required_text(key, example))

    def optional_template(self, key: str) -> SampleTemplate | None:
        """Return the template under a key, or ``None``."""
        given = self.raw(key)
        return None if given is None else self.text_template(key, self.text(key))


def unique_name(base: str, taken: Sequence[str] | Mapping[str, Any]) -> str:
    """Return the name, with a number if it is taken."""
    names = [base, *(f"{base}_{n}" for n in range(2, len(taken) + 3))]
    return next(name for name in names if name not in taken)
