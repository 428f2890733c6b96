"""Reads the fields that sections of LatticeFlow's files share: headers, required keys,
templates, and sections whose ``type`` selects a reader.

All functions add errors to the problems of their section, and return a value that can
be used nevertheless: a file with problems is refused once all of it is read.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from pytest_evals.dialects.yaml_reader.section import Section
from pytest_evals.errors import (
    Place,
    Problem,
    TaskFileError,
)
from pytest_evals.guests.latticeflow.prompts.templates import (
    SampleTemplate,
    compile_template,
)

T = TypeVar("T")
_KEY = re.compile(r"[A-Za-z0-9_\-]+")
_PROVIDED = re.compile(r"[A-Za-z0-9_\-]+(\$[A-Za-z0-9_\-]+)?")
"""Keys of models and adapters may start with a provider: ``openai$gpt-4-1-nano``."""
LONGEST = 250


class Header(NamedTuple):
    """Header of an entity."""

    key: str
    display_name: str
    tags: tuple[str, ...]


def read_header(
    top: Section, owner: str, required: Sequence[str], *, provided: bool = False
) -> Header:
    """Return the header of an entity. ``owner``: its kind, for messages, such as ``a
    task``; ``provided``: whether its key may start with that of a provider."""
    key, name = top.text("key"), top.text("display_name")
    top.text("description")
    top.text("long_description")
    for one in required:
        need(top, one, "my-key" if one == "key" else '"…"')
    if top.values.get("display_name") == "":
        top.problem("display_name", "display_name is empty", 'display_name: "…"')
    check_key(top, owner, provided=provided)
    return Header(key, name, _tags(top))


def check_key(section: Section, owner: str, *, provided: bool = False) -> None:
    """Report an invalid key (see :func:`read_header`). A key that is not a string is
    reported where its value is read."""
    key = section.values.get("key")
    pattern = _PROVIDED if provided else _KEY
    if not isinstance(key, str) or (pattern.fullmatch(key) and len(key) <= LONGEST):
        return
    allowed = f"letters, digits, _ and -, at most {LONGEST}"
    fix = re.sub(r"[^A-Za-z0-9_\-]+", "-", key).strip("-")[:LONGEST]
    what = f"the key of {owner} may contain {allowed}, not {key!r:.80}"
    section.problem("key", what, f"key: {fix}")


def _tags(top: Section) -> tuple[str, ...]:
    tags = top.take("tags", list, [])
    for number, tag in enumerate(tags):
        if not isinstance(tag, str):
            what = f"a tag must be a string, not {tag!r}"
            entry_problem(top, "tags", number, what, f"quote it: {str(tag)!r}")
    return tuple(tag for tag in tags if isinstance(tag, str))


def entry_problem(
    section: Section, key: str, entry: str | int, what: str, fix: str = ""
) -> None:
    """Report a problem at an entry of a list or mapping under a key."""
    place = section.file.place(*section.steps, key, entry)
    section.problems.append(Problem(what, place, fix))


def need(section: Section, key: str, example: str, what: str = "") -> bool:
    """Return whether a key has a value; if not, report that it is missing."""
    if section.raw(key) is not None:
        return True
    section.problem(key, what or f"{key} is missing", f"{key}: {example}")
    return False


def required_text(section: Section, key: str, example: str = "…") -> str:
    """Return a required string, empty if it is missing."""
    return section.text(key) if need(section, key, f'"{example}"') else ""


def required_name(section: Section, key: str, example: str, what: str = "") -> str:
    """Return a required string that must not be empty; empty if it is missing."""
    value = section.name(key)
    if value is None:
        section.problem(key, what or f"{key} is missing", f"{key}: {example}")
    return value or ""


def required_key(section: Section, owner: str, example: str) -> str:
    """Return the required key of an entry."""
    key = section.text("key")
    if key:
        check_key(section, owner)
    else:
        section.problem("key", f"{owner} needs a key", f"key: {example}")
    return key


def required_section(
    section: Section, key: str, example: str, what: str = ""
) -> Section:
    """Return a required nested mapping. One that is missing is empty, and has no
    further problems."""
    found = section.section(key) if need(section, key, example, what) else None
    return found or Section(section.file, [], {}, (*section.steps, key))


def required_entries(
    section: Section, key: str, example: str, what: str = ""
) -> list[Section]:
    """Return a list of mappings that must not be empty."""
    entries = section.entries(key)
    if not entries and not section.values.get(key):
        section.problem(key, what or f"{key} is missing", f"{key}: {example}")
    return entries


def read_typed(
    section: Section,
    noun: str,
    owner: str,
    readers: Mapping[str, Callable[..., T]],
    *arguments: Any,
) -> T:
    """Return what the reader of the section's ``type`` returns, and close the section.
    A section without a valid type is read as one of the first, without its problems.

    Args:
        noun: Name of the types in messages: ``metric``.
        owner: The kind of section, in messages: ``a metric``.
        readers: Type → function of the section and ``arguments``.
    """
    kind = section.one_of("type", noun, tuple(readers), "")
    if not kind:
        unread = Section(section.file, [], section.values, section.steps)
        return next(iter(readers.values()))(unread, *arguments)
    result = readers[kind](section, *arguments)
    section.close(f"{owner} of type {kind}")
    return result


def or_problems(
    section: Section, function: Callable[..., T], *arguments: Any
) -> T | None:
    """Return the function's result; a ``TaskFileError`` is added to the problems."""
    try:
        return function(*arguments)
    except TaskFileError as error:
        section.problems.extend(error.problems)
        return None


def text_template(
    section: Section, key: str, text: str, place: Place | None = None
) -> SampleTemplate:
    """Return the template of a text under a key; an empty one if it is invalid."""
    place = place or section.place(key)
    found = or_problems(section, compile_template, text, place, key)
    return found or compile_template("", place, key)


def template(section: Section, key: str, example: str) -> SampleTemplate:
    """Return the required template under a key."""
    return text_template(section, key, required_text(section, key, example))


def optional_template(section: Section, key: str) -> SampleTemplate | None:
    """Return the template under a key, or ``None``."""
    given = section.raw(key)
    return None if given is None else text_template(section, key, section.text(key))


def unique_name(base: str, taken: Sequence[str] | Mapping[str, Any]) -> str:
    """Return the name, with a number if it is taken."""
    names = [base, *(f"{base}_{n}" for n in range(2, len(taken) + 3))]
    return next(name for name in names if name not in taken)
