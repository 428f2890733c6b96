"""What every entity has: a key, a name and words about it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from pytest_evals.dialects.yaml_reader.section import Section
from pytest_evals.errors import Problem

_KEY = re.compile(r"[A-Za-z0-9_\-]+")
_PROVIDED = re.compile(r"[A-Za-z0-9_\-]+(\$[A-Za-z0-9_\-]+)?")
"""Of models and adapters, which providers have too: ``openai$gpt-4-1-nano``."""
LONGEST = 250


class Header(NamedTuple):
    """Of an entity."""

    key: str
    display_name: str
    description: str
    tags: tuple[str, ...]


def read_header(
    top: Section, owner: str, required: Sequence[str], *, provided: bool = False
) -> Header:
    """The header of an entity; what is wrong with it are problems of its file.

    Args:
        top: The entity.
        owner: What it is, in words: ``a task``.
        required: Keys that it must have.
        provided: Whether its key may begin with that of a provider.
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
    check_key(top, "key", owner, provided=provided)
    return Header(key, texts["display_name"], texts["description"], _tags(top))


def check_key(
    section: Section, name: str, owner: str, *, provided: bool = False
) -> None:
    """Note an invalid key; see :func:`read_header`. Other types than text are noted by
    whoever reads the value."""
    key = section.values.get(name)
    if not isinstance(key, str):
        return
    pattern = _PROVIDED if provided else _KEY
    if pattern.fullmatch(key) and len(key) <= LONGEST:
        return
    wanted = f"letters, digits, _ and -, at most {LONGEST}"
    fix = re.sub(r"[^A-Za-z0-9_\-]+", "-", key).strip("-")[:LONGEST]
    section.problem(
        name, f"the key of {owner} is {wanted}, not {key!r:.80}", f"{name}: {fix}"
    )


def _tags(top: Section) -> tuple[str, ...]:
    tags = []
    for number, tag in enumerate(top.take("tags", list, [])):
        if isinstance(tag, str):
            tags.append(tag)
            continue
        what = f"a tag is a text, not {tag!r}"
        place = top.file.place(*top.steps, "tags", number)
        top.problems.append(Problem(what, place, f"quote it: {str(tag)!r}"))
    return tuple(tags)
