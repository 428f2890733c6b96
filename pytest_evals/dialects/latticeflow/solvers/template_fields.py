"""Reads and compiles template fields of sections."""

from __future__ import annotations

from collections.abc import Callable

from pytest_evals.dialects.latticeflow.prompts.templates import (
    SampleTemplate,
    compile_template,
)
from pytest_evals.dialects.latticeflow.solvers.model_client import ModelClient
from pytest_evals.dialects.yaml_reader.section import Section
from pytest_evals.errors import TaskFileError

Models = Callable[[str], ModelClient]
"""Key of a model → its client; an empty key is the tested model."""
ROLES = ("system", "user", "assistant")


def required_text(section: Section, key: str, example: str = "…") -> str:
    """Return a required string, empty if it is missing."""
    if section.values.get(key) is None:
        section.raw(key)
        section.problem(key, f"{key} is missing", f'{key}: "{example}"')
        return ""
    return section.text(key)


def text_template(section: Section, key: str, text: str) -> SampleTemplate | None:
    """Return the template of a text under a key."""
    try:
        return compile_template(text, section.place(key), key)
    except TaskFileError as error:
        section.problems.extend(error.problems)
        return None


def template(
    section: Section, key: str, example: str, *, required: bool = True
) -> SampleTemplate | None:
    """Return the template under a key, or ``None``."""
    if not required and section.values.get(key) is None:
        section.raw(key)
        return None
    text = required_text(section, key, example)
    return text_template(section, key, text)


def chat_role(section: Section, key: str, default: str) -> str:
    """Return the role of a message."""
    return section.one_of(key, "role", ROLES, default)


def model_client(section: Section, key: str, models: Models) -> ModelClient:
    """Return the client of the model whose key is set."""
    model = required_text(section, key, "<< config.my_model >>")
    try:
        return models(model) if model else ModelClient()
    except TaskFileError as error:
        section.problems.extend(error.problems)
        return ModelClient()
