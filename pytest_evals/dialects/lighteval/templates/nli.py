"""Whether a hypothesis follows from a premise: ``nli``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from pytest_evals.core.doc import Doc
from pytest_evals.dialects.lighteval.templates.adapter import (
    Adapter,
    PromptFunction,
    prompt_function,
)
from pytest_evals.dialects.lighteval.templates.formulation import (
    CFFormulation,
    Formulation,
    HybridFormulation,
    MCFFormulation,
)
from pytest_evals.dialects.lighteval.templates.literals import (
    Wording,
    capitalize,
    decapitalize,
    open_ended,
    wording_of,
)
from pytest_evals.dialects.lighteval.templates.multiple_choice import (
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
    """Prompts of premise and hypothesis.

    Args:
        language: Of the prompts.
        adapter: Gives ``premise``, ``hypothesis``, ``gold_idx``, and perhaps
            ``instruction``.
        relations: What the choices say, in their order.
        formulation: How they are put; ``None`` for labels.
    """

    def build(given: Mapping[str, Any], task_name: str) -> Doc | None:
        words = wording_of(language)
        if isinstance(formulation, CFFormulation):
            return _confirmed(words, given, relations, task_name)
        labels = [words.word(_LABELS[one]) for one in relations]
        asked = given["hypothesis"]
        shape: Formulation = formulation or MCFFormulation()
        if isinstance(formulation, HybridFormulation):
            asked, shape = _inline(words, asked, relations), CFFormulation()
        full = {
            "question": asked,
            "context": given["premise"],
            "choices": labels,
            "gold_idx": given["gold_idx"],
            "instruction": given.get("instruction"),
        }
        return get_mcq_prompt_function(language, lambda row: row, shape)(
            full, task_name
        )

    return prompt_function(adapter, build)


def _confirmed(
    words: Wording,
    given: Mapping[str, Any],
    relations: Sequence[Relation],
    task_name: str,
) -> Doc:
    """The premise, asked to be confirmed, and the hypothesis behind yes, also or no."""
    signs = words.signs
    asked = words.word("confirmation_word") + signs.question_mark
    instruction = given.get("instruction")
    query = f"{instruction}\n" if instruction else ""
    query += capitalize(open_ended(given["premise"])) + signs.word_space + asked
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
        unconditioned_query=asked,
    )


def _inline(words: Wording, hypothesis: str, relations: Sequence[Relation]) -> str:
    """The hypothesis with the labels behind it, as a question; neither comes last."""
    signs = words.signs
    ordered = sorted(relations, key=lambda one: one == "neutral")
    *front, last = [capitalize(words.word(_LABELS[one])) for one in ordered]
    space = signs.word_space
    listed = f"{signs.comma}{space}".join(front)
    tail = f"{space}{words.word('or_word')}{space}{last}" if front else last
    text = open_ended(hypothesis)
    return f"{text}{signs.sentence_space}{listed}{tail}{signs.question_mark}"
