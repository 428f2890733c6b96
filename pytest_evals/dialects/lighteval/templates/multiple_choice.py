"""Questions with choices: ``mcq``, ``boolq`` and ``qa``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pytest_evals.core.doc import Doc
from pytest_evals.dialects.lighteval.templates.adapter import (
    Adapter,
    PromptFunction,
    positions,
    prompt_function,
)
from pytest_evals.dialects.lighteval.templates.formulation import (
    CFFormulation,
    Formulation,
    MCFFormulation,
)
from pytest_evals.dialects.lighteval.templates.literals import Wording, wording_of

__all__ = [
    "get_boolq_prompt_function",
    "get_mcq_prompt_function",
    "get_qa_prompt_function",
    "listed",
    "question",
    "spoken",
]


def get_mcq_prompt_function(
    language: Any, adapter: Adapter, formulation: Formulation | None = None
) -> PromptFunction:
    """Prompts of questions with choices.

    Args:
        language: Of the prompts.
        adapter: Gives ``question``, ``choices``, ``gold_idx``, and perhaps ``context``
            and ``instruction``.
        formulation: How choices are put; ``None`` for labels.
    """

    def build(given: Mapping[str, Any], task_name: str) -> Doc | None:
        asked = _Asked(
            given["question"],
            given["choices"],
            positions(given["gold_idx"]),
            given.get("context"),
            given.get("instruction"),
        )
        return question(wording_of(language), asked, formulation, task_name)

    return prompt_function(adapter, build)


def get_boolq_prompt_function(
    language: Any, adapter: Adapter, formulation: Formulation | None = None
) -> PromptFunction:
    """Prompts of questions that are answered by yes or no.

    Args:
        language: Of the prompts.
        adapter: Gives ``question``, ``answer`` (whether it is yes), and perhaps
            ``context`` and ``instruction``.
        formulation: How choices are put; ``None`` for labels.
    """

    def build(given: Mapping[str, Any], task_name: str) -> Doc | None:
        words = wording_of(language)
        asked = _Asked(
            given["question"],
            [words.word("yes"), words.word("no")],
            [0 if given["answer"] else 1],
            given.get("context"),
            given.get("instruction") or "",
        )
        return question(words, asked, formulation, task_name)

    return prompt_function(adapter, build)


def get_qa_prompt_function(language: Any, adapter: Adapter) -> PromptFunction:
    """Prompts of questions with free answers, all of which are right.

    Args:
        language: Of the prompts.
        adapter: Gives ``question``, ``choices``, and perhaps ``context`` and
            ``instruction``.
    """

    def build(given: Mapping[str, Any], task_name: str) -> Doc | None:
        answers = list(dict.fromkeys(given["choices"]))
        asked = _Asked(
            given["question"],
            answers,
            list(range(len(answers))),
            given.get("context"),
            given.get("instruction"),
        )
        return question(wording_of(language), asked, CFFormulation(), task_name)

    return prompt_function(adapter, build)


@dataclass(frozen=True, slots=True)
class _Asked:
    """A question with its choices; an instruction that is empty stays one."""

    question: str
    choices: Sequence[str]
    golds: list[int]
    context: str | None = None
    instruction: str | None = None


def question(
    words: Wording, asked: _Asked, formulation: Formulation | None, task_name: str
) -> Doc:
    """The document of a question with choices."""
    formulation = formulation or MCFFormulation()
    space = words.signs.sentence_space
    choices = [words.whole(choice) for choice in asked.choices]
    query = f"{asked.instruction}\n" if asked.instruction else ""
    query += f"{words.whole(asked.context)}\n" if asked.context else ""
    query += f"{words.heading('question_word')}{space}{words.whole(asked.question)}\n"
    query += listed(words, choices, formulation)
    return Doc(
        task_name=task_name,
        query=query + words.heading("answer"),
        choices=spoken(words, choices, formulation),
        gold_index=asked.golds,
        instruction=asked.instruction,
        unconditioned_query=words.heading("answer"),
    )


def listed(words: Wording, choices: Sequence[str], formulation: Formulation) -> str:
    """The choices, a line each; nothing where they are not listed."""
    if isinstance(formulation, CFFormulation):
        return ""
    space, prefix = words.signs.sentence_space, formulation.choice_prefix
    return "".join(
        f"{space}{words.label(prefix, i)}{words.signs.full_stop}{space}{choice}\n"
        for i, choice in enumerate(choices)
    )


def spoken(
    words: Wording, choices: Sequence[str], formulation: Formulation
) -> list[str]:
    """The choices as answers behind a heading."""
    space = words.signs.sentence_space
    if isinstance(formulation, MCFFormulation):
        prefix = formulation.choice_prefix
        labels = [words.label(prefix, i) for i in range(len(choices))]
        return [space + label for label in labels]
    return [space + choice for choice in choices]
