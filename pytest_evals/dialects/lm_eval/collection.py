"""``use_prompt: category:name``: question and answer from a collection of prompts.

A prompt of a collection beats what the task file says of text, target and choices, for
shots too. Equals lm-eval 0.4.13, ``prompts/__init__.py`` and ``api/task.py``; but a
file of prompts is looked for next to the task file first.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from pytest_evals.dialects.lm_eval.prompts.recipe import Fields
from pytest_evals.dialects.yaml_reader.section import Section
from pytest_evals.dialects.yaml_reader.yaml_file import read_yaml
from pytest_evals.errors import EvalsError, did_you_mean
from pytest_evals.prompts.fields import Field, Row, bind, text_itself

_KEY = "use_prompt"
_BUILT_IN: Mapping[str, Mapping[str, str]] = {
    "qa-basic": {
        "question-newline-answer": "Question: {{question}}\nAnswer:",
        "q-newline-a": "Q: {{question}}\nA:",
    }
}


class Prompt(NamedTuple):
    """What a prompt says of each row."""

    text: Field
    target: Field
    choices: Field | None

    def over(self, fields: Fields) -> Fields:
        """The fields with what the prompt says; choices only where there are some."""
        choices = None if fields.choices is None else self.choices
        return replace(fields, text=self.text, target=self.target, choices=choices)


class _Collection(NamedTuple):
    """Where a prompt is looked for."""

    dataset: str
    subset: str | None
    delimiter: str
    folders: tuple[Path, ...]
    """Folders that a file of prompts is looked for in."""


def read_prompt(top: Section, delimiter: str, base: Path) -> Prompt | None:
    """The prompt that a task file names; faults are among the section's problems.

    Args:
        top: The task file.
        delimiter: ``fewshot_delimiter``; stands for what a prompt does not give.
        base: Folder that relative paths are tried from after the task file's own.
    """
    given = top.text(_KEY)
    if not given:
        return None
    where = _Collection(
        dataset=str(top.values.get("dataset_path") or ""),
        subset=top.values.get("dataset_name") or None,
        delimiter=delimiter,
        folders=(top.place(_KEY).path.parent, base),
    )
    try:
        return _found(given, where, top)
    except EvalsError as error:
        top.problem(_KEY, f"{_KEY}: {error}")
        nothing = _field(top, "")
        return Prompt(nothing, nothing, nothing)


def _found(given: str, where: _Collection, top: Section) -> Prompt:
    category, colon, name = given.partition(":")
    if not colon or ":" in name:
        raise EvalsError(f"'category:name' is wanted, not {given!r}")
    if category == "promptsource":
        template = _promptsource(where, name)
        text, target = (_part(template, i, where.delimiter) for i in (0, 1))
        choices = _field(top, template.get_answer_choices_list)
        return Prompt(_field(top, text), _field(top, target), choices)
    if ".yaml" in category:
        return _of_file(category, name, where, top)
    # One template is question and target, as in lm-eval.
    field = _field(top, _entry(_entry(_BUILT_IN, category, "collection"), name))
    return Prompt(field, field, field)


def _field(top: Section, spec: Any) -> Field:
    return Field(key=_KEY, spec=spec, place=top.place(_KEY))


def _entry(known: Mapping[str, Any], name: str, noun: str = "prompt") -> Any:
    if name in known:
        return known[name]
    names = [str(key) for key in known]
    hint = did_you_mean(name, names) or f"; known: {', '.join(names)}"
    raise EvalsError(f"no {noun} called {name!r}{hint}")


def _promptsource(where: _Collection, name: str) -> Any:
    try:
        from promptsource.templates import DatasetTemplates
    except ImportError as error:
        if (error.name or "").partition(".")[0] != "promptsource":
            what = f"the library promptsource cannot be imported: {error}"
            raise EvalsError(what) from error
        what = "this prompt is one of the library promptsource; pip install it"
        raise EvalsError(what) from None
    try:
        known = DatasetTemplates(where.dataset, where.subset)
    except Exception as error:
        what = f"promptsource has nothing for {where.dataset!r} ({where.subset})"
        raise EvalsError(what) from error
    return _entry({each: known[each] for each in known.all_template_names}, name)


def _part(template: Any, position: int, delimiter: str) -> Callable[[Row], Any]:
    def read(row: Row) -> Any:
        parts = template.apply(row)
        return parts[position] if len(parts) == 2 else delimiter

    return read


def _of_file(category: str, name: str, where: _Collection, top: Section) -> Prompt:
    tried = [folder / os.path.expanduser(category) for folder in where.folders]
    path = next((path for path in tried if os.path.isfile(path)), tried[0])
    prompts = read_yaml(path).values.get("prompts")
    prompt = _entry(prompts if isinstance(prompts, dict) else {}, name)
    for key in ("doc_to_text", "doc_to_target"):
        if not isinstance(prompt, dict) or not isinstance(prompt.get(key), str):
            raise EvalsError(f"the prompt {name!r} of {category!r} has no text {key}")
    if "doc_to_choice" in prompt:
        what = f"the prompt {name!r} of {category!r} has doc_to_choice, which a file of"
        raise EvalsError(f"{what} prompts cannot give, as in lm-eval")
    # Always templates, never columns.
    text, target = (
        bind(_field(top, prompt[key]), (), text_itself)
        for key in ("doc_to_text", "doc_to_target")
    )
    return Prompt(_field(top, text), _field(top, target), None)
