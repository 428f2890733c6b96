"""``use_prompt: category:name``: question and answer from a prompt collection.

A prompt overrides the task's ``doc_to_text``, ``doc_to_target`` and ``doc_to_choice``,
for few-shot examples too. Equals lm-eval 0.4.13, ``prompts/__init__.py`` and
``api/task.py``, except that a prompt file next to the task file comes first.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from pytest_evals.dialects.lm_eval.prompts.recipe import Fields
from pytest_evals.dialects.yaml_reader.section import Section
from pytest_evals.dialects.yaml_reader.yaml_file import read_yaml
from pytest_evals.errors import EvalsError, suggestion
from pytest_evals.prompts.fields import Field, bind, text_itself

_KEY = "use_prompt"
_BUILT_IN: Mapping[str, Mapping[str, str]] = {
    "qa-basic": {
        "question-newline-answer": "Question: {{question}}\nAnswer:",
        "q-newline-a": "Q: {{question}}\nA:",
    }
}


class Prompt(NamedTuple):
    """Templates of a prompt."""

    text: Field
    target: Field
    choices: Field | None

    def apply_to(self, fields: Fields) -> Fields:
        """Replace text and target, and choices if the task has choices."""
        choices = None if fields.choices is None else self.choices
        return replace(fields, text=self.text, target=self.target, choices=choices)


def read_prompt(top: Section, base: Path) -> Prompt | None:
    """Read the prompt that a task file names; errors go to the section's problems.
    ``base``: second folder for relative paths, after the task file's own folder."""
    name = top.text(_KEY)
    if not name:
        return None
    try:
        return _find_prompt(name, (top.place(_KEY).path.parent, base), top)
    except EvalsError as error:
        top.problem(_KEY, f"{_KEY}: {error}")
        nothing = _field(top, "")
        return Prompt(nothing, nothing, nothing)


def _find_prompt(spec: str, folders: Sequence[Path], top: Section) -> Prompt:
    category, colon, name = spec.partition(":")
    if not colon or ":" in name:
        raise EvalsError(f"expected 'category:name', not {spec!r}")
    if category == "promptsource":
        raise EvalsError(
            "the library promptsource does not run on Python 3.10 or later; write "
            "doc_to_text and doc_to_target"
        )
    if ".yaml" in category:
        return _from_file(category, name, folders, top)
    # Like lm-eval, use one template for question and target.
    field = _field(top, _entry(_entry(_BUILT_IN, category, "collection"), name))
    return Prompt(field, field, field)


def _field(top: Section, spec: Any) -> Field:
    return Field(key=_KEY, spec=spec, place=top.place(_KEY))


def _entry(known: Mapping[str, Any], name: str, noun: str = "prompt") -> Any:
    if name in known:
        return known[name]
    names = [str(key) for key in known]
    hint = suggestion(name, names)
    raise EvalsError(f"unknown {noun} {name!r}{hint}")


def _from_file(
    category: str, name: str, folders: Sequence[Path], top: Section
) -> Prompt:
    candidates = [folder / os.path.expanduser(category) for folder in folders]
    path = next((path for path in candidates if os.path.isfile(path)), candidates[0])
    prompts = read_yaml(path).values.get("prompts")
    prompt = _entry(prompts if isinstance(prompts, dict) else {}, name)
    for key in ("doc_to_text", "doc_to_target"):
        if not isinstance(prompt, dict) or not isinstance(prompt.get(key), str):
            raise EvalsError(f"the prompt {name!r} of {category!r} has no string {key}")
    if "doc_to_choice" in prompt:
        message = (
            f"the prompt {name!r} of {category!r} has doc_to_choice, which prompt files"
        )
        raise EvalsError(f"{message} do not support, as in lm-eval")
    # These strings are templates, never column names.
    text, target = (
        bind(_field(top, prompt[key]), (), text_itself)
        for key in ("doc_to_text", "doc_to_target")
    )
    return Prompt(_field(top, text), _field(top, target), None)
