"""Header of every entity: key, display name, description and tags."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from pytest_evals.dialects.yaml_reader.section import Section
from pytest_evals.errors import Problem

_KEY = re.compile(r"[A-Za-z0-9_\-]+")
_PROVIDED = re.compile(r"[A-Za-z0-9_\-]+(\$[A-Za-z0-9_\-]+)?")
"""Keys of models and adapters may start with a provider: ``openai$gpt-4-1-nano``."""
LONGEST = 250


class Header(NamedTuple):
    """Header of an entity."""

    key: str
    display_name: str
    description: str
    tags: tuple[str, ...]


def read_header(
    top: Section, owner: str, required: Sequence[str], *, provided: bool = False
) -> Header:
    """Return the header of an entity; errors are added to the problems of the section.

    Args:
        owner: Its kind, as shown in messages: ``a task``.
        provided: Whether its key may start with that of a provider.
    """
    key = top.text("key")
    texts = {name: top.text(name) for name in ("display_name", "description")}
    top.text("long_description")
    for name in required:
        if top.values.get(name) is None:
            example = "my-key" if name == "key" else '"…"'
            top.problem(name, f"{name} is missing", f"{name}: {example}")
    if top.values.get("display_name") == "":
        top.problem("display_name", "display_name is empty", 'display_name: "…"')
    check_key(top, owner, provided=provided)
    return Header(key, texts["display_name"], texts["description"], _tags(top))


def check_key(section: Section, owner: str, *, provided: bool = False) -> None:
    """Report an invalid key (see :func:`read_header`). A key that is not a string is
    reported where its value is read."""
    key = section.values.get("key")
    if not isinstance(key, str):
        return
    pattern = _PROVIDED if provided else _KEY
    if pattern.fullmatch(key) and len(key) <= LONGEST:
        return
    allowed = f"letters, digits, _ and -, at most {LONGEST}"
    fix = re.sub(r"[^A-Za-z0-9_\-]+", "-", key).strip("-")[:LONGEST]
    section.problem(
        "key",
        f"the key of {owner} may contain {allowed}, not {key!r:.80}",
        f"key: {fix}",
    )


def _tags(top: Section) -> tuple[str, ...]:
    tags = []
    for number, tag in enumerate(top.take("tags", list, [])):
        if isinstance(tag, str):
            tags.append(tag)
            continue
        what = f"a tag must be a string, not {tag!r}"
        place = top.file.place(*top.steps, "tags", number)
        top.problems.append(Problem(what, place, f"quote it: {str(tag)!r}"))
    return tuple(tags)
