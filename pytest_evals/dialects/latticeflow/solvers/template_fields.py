"""Fields of sections that hold templates: read and compiled, with faults as problems of
the file."""

from __future__ import annotations

from collections.abc import Callable

from pytest_evals.dialects.latticeflow.prompts.templates import (
    SampleTemplate,
    compile_template,
)
from pytest_evals.dialects.latticeflow.solvers.solver_model import SolverChain
from pytest_evals.dialects.yaml_reader.section import Section
from pytest_evals.errors import TaskFileError

Lines = Callable[[str], SolverChain]
"""Key of a model → the line to it; an empty key is the model that is tested."""
ROLES = ("system", "user", "assistant")


def required_text(section: Section, key: str, example: str = "…") -> str:
    """A text that must be there, empty if it is not."""
    if section.values.get(key) is None:
        section.raw(key)
        section.problem(key, f"{key} is missing", f'{key}: "{example}"')
        return ""
    return section.text(key)


def text_template(section: Section, key: str, text: str) -> SampleTemplate | None:
    """The template of a text under a key."""
    try:
        return compile_template(text, section.place(key), key)
    except TaskFileError as error:
        section.problems.extend(error.problems)
        return None


def template(
    section: Section, key: str, example: str, *, required: bool = True
) -> SampleTemplate | None:
    """The template under a key; ``None`` if there is none."""
    if not required and section.values.get(key) is None:
        section.raw(key)
        return None
    text = required_text(section, key, example)
    return text_template(section, key, text)


def chat_role(section: Section, key: str, default: str) -> str:
    """Who speaks."""
    return section.one_of(key, "role", ROLES, default)


def line_to(section: Section, key: str, lines: Lines) -> SolverChain:
    """The line to the model whose key stands there."""
    model = required_text(section, key, "<< config.my_model >>")
    try:
        return lines(model) if model else SolverChain()
    except TaskFileError as error:
        section.problems.extend(error.problems)
        return SolverChain()
