"""Templates for questions with choices: ``mcq``, ``boolq`` and ``qa``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pytest_evals.core.doc import Doc
from pytest_evals.guests.lighteval.templates.adapter import (
    Adapter,
    PromptFunction,
    positions,
    prompt_function,
)
from pytest_evals.guests.lighteval.templates.formulation import (
    CFFormulation,
    Formulation,
    MCFFormulation,
)
from pytest_evals.guests.lighteval.templates.literals import (
    TemplateLanguage,
    template_language,
)

__all__ = [
    "answer_texts",
    "choice_list",
    "get_boolq_prompt_function",
    "get_mcq_prompt_function",
    "get_qa_prompt_function",
    "question_doc",
]


def get_mcq_prompt_function(
    language: Any, adapter: Adapter, formulation: Formulation | None = None
) -> PromptFunction:
    """Prompt function for multiple-choice questions.

    Args:
        language: Language of the prompts.
        adapter: Returns ``question``, ``choices``, ``gold_idx``, and optionally
            ``context`` and ``instruction``.
        formulation: Presentation of the choices; ``None`` for labels.
    """

    def build(given: Mapping[str, Any], task_name: str) -> Doc | None:
        question = _ChoiceQuestion(
            given["question"],
            given["choices"],
            positions(given["gold_idx"]),
            given.get("context"),
            given.get("instruction"),
        )
        return question_doc(
            template_language(language), question, formulation, task_name
        )

    return prompt_function(adapter, build)


def get_boolq_prompt_function(
    language: Any, adapter: Adapter, formulation: Formulation | None = None
) -> PromptFunction:
    """Prompt function for yes/no questions.

    Args:
        language: Language of the prompts.
        adapter: Returns ``question``, ``answer`` (true for yes), and optionally
            ``context`` and ``instruction``.
        formulation: Presentation of the choices; ``None`` for labels.
    """

    def build(given: Mapping[str, Any], task_name: str) -> Doc | None:
        words = template_language(language)
        question = _ChoiceQuestion(
            given["question"],
            [words.word("yes"), words.word("no")],
            [0 if given["answer"] else 1],
            given.get("context"),
            given.get("instruction") or "",
        )
        return question_doc(words, question, formulation, task_name)

    return prompt_function(adapter, build)


def get_qa_prompt_function(language: Any, adapter: Adapter) -> PromptFunction:
    """Prompt function for questions with free-form answers, all of which are correct.

    Args:
        language: Language of the prompts.
        adapter: Returns ``question``, ``choices``, and optionally ``context`` and
            ``instruction``.
    """

    def build(given: Mapping[str, Any], task_name: str) -> Doc | None:
        answers = list(dict.fromkeys(given["choices"]))
        question = _ChoiceQuestion(
            given["question"],
            answers,
            list(range(len(answers))),
            given.get("context"),
            given.get("instruction"),
        )
        return question_doc(
            template_language(language), question, CFFormulation(), task_name
        )

    return prompt_function(adapter, build)


@dataclass(frozen=True, slots=True)
class _ChoiceQuestion:
    """A question with its choices; an empty instruction is kept as such."""

    question: str
    choices: Sequence[str]
    golds: list[int]
    context: str | None = None
    instruction: str | None = None


def question_doc(
    words: TemplateLanguage,
    question: _ChoiceQuestion,
    formulation: Formulation | None,
    task_name: str,
) -> Doc:
    """The document of a question with choices."""
    formulation = formulation or MCFFormulation()
    space = words.signs.sentence_space
    choices = [words.as_sentence(choice) for choice in question.choices]
    text = words.as_sentence(question.question)
    query = f"{question.instruction}\n" if question.instruction else ""
    query += f"{words.as_sentence(question.context)}\n" if question.context else ""
    query += f"{words.heading('question_word')}{space}{text}\n"
    query += choice_list(words, choices, formulation)
    return Doc(
        task_name=task_name,
        query=query + words.heading("answer"),
        choices=answer_texts(words, choices, formulation),
        gold_index=question.golds,
        instruction=question.instruction,
        unconditioned_query=words.heading("answer"),
    )


def choice_list(
    words: TemplateLanguage, choices: Sequence[str], formulation: Formulation
) -> str:
    """The choices, one a line; empty if the formulation does not list them."""
    if isinstance(formulation, CFFormulation):
        return ""
    space, prefix = words.signs.sentence_space, formulation.choice_prefix
    return "".join(
        f"{space}{words.label(prefix, i)}{words.signs.full_stop}{space}{choice}\n"
        for i, choice in enumerate(choices)
    )


def answer_texts(
    words: TemplateLanguage, choices: Sequence[str], formulation: Formulation
) -> list[str]:
    """The answers that follow the heading: labels or texts."""
    space = words.signs.sentence_space
    if isinstance(formulation, MCFFormulation):
        prefix = formulation.choice_prefix
        labels = [words.label(prefix, i) for i in range(len(choices))]
        return [space + label for label in labels]
    return [space + choice for choice in choices]
