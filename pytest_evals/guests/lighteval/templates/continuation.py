"""Templates for continuations: ``continuation``, ``copa``, ``hellaswag`` and
``translation``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pytest_evals.core.doc import Doc
from pytest_evals.guests.lighteval.language import standardize_tag
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
    capitalize,
    open_ended,
    template_language,
)
from pytest_evals.guests.lighteval.templates.multiple_choice import (
    answer_texts,
    choice_list,
)
from pytest_evals.limits.patterns import compiled

__all__ = [
    "get_continuation_prompt_function",
    "get_copa_prompt_function",
    "get_hellaswag_prompt_function",
    "get_translation_prompt_function",
]

_BRACKETS = compiled(r"\[.*?\]")
WIKIHOW = (" [title]",)
"""Marker of the end of a sentence in HellaSwag."""


def get_continuation_prompt_function(
    language: Any,
    adapter: Adapter,
    formulation: Formulation | None = None,
    fix_formatting: bool = True,
) -> PromptFunction:
    """Prompt function for a context with several continuations.

    Args:
        language: Language of the prompts.
        adapter: Returns ``context``, ``continuations``, ``gold_idx``, and optionally
            ``instruction``.
        formulation: Presentation of the continuations; ``None`` for labels.
        fix_formatting: Whether to adjust case and punctuation.
    """

    def build(given: Mapping[str, Any], task_name: str) -> Doc | None:
        words = template_language(language)
        if fix_formatting:
            given = _with_formatting(words, given)
        return _continuation_doc(words, given, formulation, task_name)

    return prompt_function(adapter, build)


def get_copa_prompt_function(
    language: Any, adapter: Adapter, formulation: Formulation | None = None
) -> PromptFunction:
    """Prompt function for COPA: a cause or an effect, after ``because`` or
    ``therefore``.

    Args:
        language: Language of the prompts.
        adapter: Returns ``cause_effect`` (``cause`` or ``effect``), ``context``,
            ``continuations``, ``gold_idx``, and optionally ``instruction``.
        formulation: Presentation of the continuations; ``None`` for labels.
    """

    def build(given: Mapping[str, Any], task_name: str) -> Doc | None:
        words = template_language(language)
        kind = "cause_word" if given["cause_effect"] == "cause" else "effect_word"
        context = capitalize(open_ended(given["context"])) + words.signs.word_space
        full = {**given, "context": context + words.word(kind)}
        return _continuation_doc(
            words, _with_formatting(words, full), formulation, task_name
        )

    return prompt_function(adapter, build)


def get_hellaswag_prompt_function(
    language: Any,
    adapter: Adapter,
    formulation: Formulation | None = None,
    wikihow_artifacts: Sequence[str] = WIKIHOW,
) -> PromptFunction:
    """Prompt function for HellaSwag, which removes WikiHow markup.

    Args:
        language: Language of the prompts.
        adapter: Returns ``ctx_a``, ``continuations``, ``gold_idx``, and optionally
            ``ctx_b``, ``activity_label`` and ``instruction``.
        formulation: Presentation of the continuations; ``None`` for labels.
        wikihow_artifacts: Markers of the end of a sentence.
    """

    def build(given: Mapping[str, Any], task_name: str) -> Doc | None:
        words = template_language(language)
        context = _hellaswag_context(words, given, wikihow_artifacts)
        stop = words.signs.full_stop + words.signs.sentence_space
        endings = [
            _clean(text, wikihow_artifacts, stop) for text in given["continuations"]
        ]
        if not all(endings):
            return None
        full = {**given, "context": context, "continuations": endings}
        return _continuation_doc(
            words, _with_formatting(words, full), formulation, task_name
        )

    return prompt_function(adapter, build)


def get_translation_prompt_function(
    source_language: Any,
    target_language: Any,
    adapter: Adapter,
    formulation: Formulation | None = None,
) -> PromptFunction:
    """Prompt function for translations: ``EN: How are you? FR:``.

    Args:
        source_language: Language of the source text.
        target_language: Language of the translations.
        adapter: Returns ``source_text``, ``target_text`` (a string or several), and
            optionally ``gold_idx`` and ``instruction``.
        formulation: Presentation of the translations; ``None`` for labels.
    """

    def build(given: Mapping[str, Any], task_name: str) -> Doc | None:
        source, target = (
            template_language(source_language),
            template_language(target_language),
        )
        targets = given["target_text"]
        targets = [targets] if isinstance(targets, str) else list(targets)
        text = source.as_sentence(given["source_text"])
        full = {
            "context": f"{_tag(source)}: {text} {_tag(target)}:",
            "continuations": [target.as_sentence(one) for one in targets],
            "gold_idx": given.get("gold_idx", list(range(len(targets)))),
            "instruction": given.get("instruction"),
        }
        # Labels and headings are English for all languages.
        return _continuation_doc(template_language("eng"), full, formulation, task_name)

    return prompt_function(adapter, build)


def _tag(words: TemplateLanguage) -> str:
    return standardize_tag(words.code).upper()


def _with_formatting(
    words: TemplateLanguage, given: Mapping[str, Any]
) -> dict[str, Any]:
    """Adjust case and punctuation of the context and the continuations."""
    context = words.as_sentence(given["context"])
    return {
        **given,
        "context": context,
        "continuations": [
            words.with_punctuation(words.with_case(context, text))
            for text in given["continuations"]
        ],
    }


def _continuation_doc(
    words: TemplateLanguage,
    given: Mapping[str, Any],
    formulation: Formulation | None,
    task_name: str,
) -> Doc:
    """The document of a context with continuations."""
    formulation = formulation or MCFFormulation()
    instruction = f"{given['instruction']}\n" if given.get("instruction") else ""
    context, choices = given["context"], list(given["continuations"])
    query, heading = instruction + context, ""
    if isinstance(formulation, CFFormulation):
        space = words.space_after(context)
        answers = [space + text for text in choices]
    else:
        heading = words.heading("answer")
        query += "\n" + choice_list(words, choices, formulation) + heading
        answers = answer_texts(words, choices, formulation)
    return Doc(
        task_name=task_name,
        query=query,
        choices=answers,
        gold_index=positions(given["gold_idx"]),
        instruction=instruction,
        unconditioned_query=heading,
    )


def _hellaswag_context(
    words: TemplateLanguage, given: Mapping[str, Any], artifacts: Sequence[str]
) -> str:
    text = words.as_sentence(_clean(given["ctx_a"], artifacts))
    rest = words.as_sentence(_clean(given.get("ctx_b") or "", artifacts))
    if rest:
        text += words.space_after(text) + words.with_case(text, rest)
    label = capitalize(given.get("activity_label") or "")
    return f"{label}:\n{text}" if label else text


def _clean(text: str, artifacts: Sequence[str], stop: str = ". ") -> str:
    for artifact in artifacts:
        text = text.replace(artifact, stop)
    return _BRACKETS.sub("", text).replace("  ", " ").strip()
