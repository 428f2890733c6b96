"""Values and prompts of task classes by the keys of their configuration, in lm-eval's
order (0.4.13, ``api/task.py``, ``doc_to_text`` etc., ``fewshot_context`` and
``construct_requests``)."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any

from pytest_evals.dialects.lm_eval.prompts.question import (
    answer_text,
    choice_at,
    number_or_list,
    text_of,
)
from pytest_evals.errors import Place
from pytest_evals.prompts.chat import (
    Turn,
    example_turns,
    final_turns,
    join_text,
    render,
)
from pytest_evals.prompts.fields import (
    Field,
    bind,
    list_of_text,
    number_or_text,
    target_of_text,
    text_itself,
)


def field_of(task: Any, key: str, spec: Any) -> Field:
    """A key for error messages; its place is the file of the class."""
    file = getattr(sys.modules.get(type(task).__module__), "__file__", None)
    return Field(key=key, spec=spec, place=Place(Path(file or "task.py")))


def value_of(
    task: Any, key: str, doc: Any, given: Any, columns: Collection[str] | None
) -> Any:
    """Evaluate a key such as ``doc_to_text`` for a document. ``given``: column,
    template, function or value; ``None`` for the configuration's. ``columns``: column
    names; ``None`` for the document's keys. Raises FieldError if evaluation fails.
    Raises NotImplementedError if the class has neither the key nor a method of its
    name."""
    spec = getattr(task.config, key) if given is None else given
    if spec is None:
        message = (
            f"{type(task).__name__} has neither a method {key} nor a config key of"
        )
        raise NotImplementedError(f"{message} that name")
    return bind(field_of(task, key, spec), columns, _converter(task, key))(doc)


def _converter(task: Any, key: str) -> Callable[[str], Any]:
    digits = task.config.doc_to_choice is not None
    if key in ("doc_to_choice", "doc_to_image", "doc_to_audio"):
        return list_of_text
    if key == "doc_to_text":
        return number_or_text if digits else text_itself
    if key == "doc_to_target":
        return number_or_list if digits else target_of_text
    return text_itself


def prompts_of(
    task: Any, doc: Any, n_shots: int, system: str, prefix: str | None
) -> list[list[Turn]]:
    """The chat turns before the answer, for each question of a document. Raises
    FieldError if a value has an invalid type."""
    config = task.config
    description = ""
    if config.description:
        description = value_of(task, "description", doc, None, None) or ""
    front = join_text(system, description, config.fewshot_delimiter)
    turns = [Turn("system", front)] if front else []
    if n_shots:
        alone = task.fewshot_cfg.split == config.test_split
        for row in task.sampler.sample(n=n_shots, eval_doc=doc if alone else None):
            turns += _shot(task, row)
    delimiter = config.target_delimiter
    if task.multiple_input:
        texts, delimiter = task.doc_to_choice(doc), ""
    else:
        texts = [task.doc_to_text(doc)]
    field = field_of(task, "doc_to_text", config.doc_to_text)
    return [
        [*turns, *final_turns(text_of(text, field), prefix or "", delimiter)]
        for text in texts
    ]


def _shot(task: Any, row: Any) -> Sequence[Turn]:
    shots = task.fewshot_cfg
    text = task.doc_to_text(row, shots.doc_to_text)
    choices: Sequence[Any] = ()
    if shots.doc_to_choice:
        choices = task.doc_to_choice(row, shots.doc_to_choice)
    target = task.doc_to_target(row, shots.doc_to_target)
    of_text = field_of(task, "doc_to_text", shots.doc_to_text)
    prefix = ""
    if shots.gen_prefix:
        prefix = value_of(task, "gen_prefix", row, shots.gen_prefix, None) or ""
    if task.multiple_input:
        text, choices = choice_at(choices, text, of_text), ()
    return example_turns(
        text_of(text, of_text),
        answer_text(target, choices, field_of(task, "doc_to_target", target)),
        prefix,
        shots.target_delimiter,
        shots.fewshot_delimiter,
    )


def render_prompt(
    turns: Sequence[Turn], template: Callable[..., Any] | None, multiturn: bool
) -> Any:
    """Render turns as plain text, or with a chat template."""
    prompt = render(turns, chat=template is not None, multiturn=multiturn)
    if template is None or isinstance(prompt, str):
        return prompt
    has_answer_prefix = prompt[-1].role == "assistant"
    messages = [message._asdict() for message in prompt]
    return template(messages, add_generation_prompt=not has_answer_prefix)


def choice_arguments(
    task: Any, doc: Any, ctx: Any, chat: bool
) -> list[tuple[Any, ...]]:
    """Context and continuation of each choice; those of ``acc_mutual_info`` follow."""
    config, choices = task.config, task.doc_to_choice(doc)
    delimiter, prefix = config.target_delimiter, config.gen_prefix
    if chat and not (prefix and not prefix[-1].isspace()):
        delimiter = ""
    if task.multiple_input:
        target = task.doc_to_target(doc)
        arguments = [(context, f"{delimiter}{target}") for context in ctx]
    else:
        arguments = [(ctx, f"{delimiter}{choice}") for choice in choices]
    if "acc_mutual_info" in task.aggregation():
        arguments += [("", f"{delimiter}{choice}") for choice in choices]
    return arguments
