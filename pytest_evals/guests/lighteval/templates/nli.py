"""Template for natural language inference: ``nli``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from pytest_evals.core.doc import Doc
from pytest_evals.guests.lighteval.templates.adapter import (
    Adapter,
    PromptFunction,
    prompt_function,
)
from pytest_evals.guests.lighteval.templates.formulation import (
    CFFormulation,
    Formulation,
    HybridFormulation,
    MCFFormulation,
)
from pytest_evals.guests.lighteval.templates.literals import (
    TemplateLanguage,
    capitalize,
    decapitalize,
    open_ended,
    template_language,
)
from pytest_evals.guests.lighteval.templates.multiple_choice import (
    get_mcq_prompt_function,
)

__all__ = ["Relation", "get_nli_prompt_function"]

Relation = Literal["entailment", "neutral", "contradiction"]
_ANSWERS = {"entailment": "yes", "neutral": "also", "contradiction": "no"}
_LABELS = {"entailment": "true", "neutral": "neither", "contradiction": "false"}


def get_nli_prompt_function(
    language: Any,
    adapter: Adapter,
    relations: Sequence[Relation],
    formulation: Formulation | None = None,
) -> PromptFunction:
    """Prompt function for pairs of premise and hypothesis.

    Args:
        language: Language of the prompts.
        adapter: Returns ``premise``, ``hypothesis``, ``gold_idx``, and optionally
            ``instruction``.
        relations: The relation that each choice represents, in order.
        formulation: Presentation of the choices; ``None`` for labels.
    """

    def build(given: Mapping[str, Any], task_name: str) -> Doc | None:
        words = template_language(language)
        if isinstance(formulation, CFFormulation):
            return _confirmation_doc(words, given, relations, task_name)
        labels = [words.word(_LABELS[one]) for one in relations]
        question = given["hypothesis"]
        shape: Formulation = formulation or MCFFormulation()
        if isinstance(formulation, HybridFormulation):
            question, shape = _inline(words, question, relations), CFFormulation()
        full = {
            "question": question,
            "context": given["premise"],
            "choices": labels,
            "gold_idx": given["gold_idx"],
            "instruction": given.get("instruction"),
        }
        return get_mcq_prompt_function(language, lambda row: row, shape)(
            full, task_name
        )

    return prompt_function(adapter, build)


def _confirmation_doc(
    words: TemplateLanguage,
    given: Mapping[str, Any],
    relations: Sequence[Relation],
    task_name: str,
) -> Doc:
    """The premise as a question; each choice is yes, also or no and the hypothesis."""
    signs = words.signs
    confirmation = words.word("confirmation_word") + signs.question_mark
    instruction = given.get("instruction")
    query = f"{instruction}\n" if instruction else ""
    query += capitalize(open_ended(given["premise"])) + signs.word_space + confirmation
    rest = decapitalize(open_ended(given["hypothesis"]))
    return Doc(
        task_name=task_name,
        query=query,
        choices=[
            f"{signs.sentence_space}{capitalize(words.word(_ANSWERS[one]))}{signs.comma}"
            f"{signs.word_space}{rest}"
            for one in relations
        ],
        gold_index=given["gold_idx"],
        instruction=instruction,
        unconditioned_query=confirmation,
    )


def _inline(
    words: TemplateLanguage, hypothesis: str, relations: Sequence[Relation]
) -> str:
    """The hypothesis followed by the labels, as a question; "neither" comes last."""
    signs = words.signs
    ordered = sorted(relations, key=lambda one: one == "neutral")
    *front, last = [capitalize(words.word(_LABELS[one])) for one in ordered]
    space = signs.word_space
    listed = f"{signs.comma}{space}".join(front)
    tail = f"{space}{words.word('or_word')}{space}{last}" if front else last
    text = open_ended(hypothesis)
    return f"{text}{signs.sentence_space}{listed}{tail}{signs.question_mark}"
