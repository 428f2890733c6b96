"""Texts that go on in one of several ways: ``continuation``, ``copa``, ``hellaswag``
and ``translation``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pytest_evals.core.doc import Doc
from pytest_evals.dialects.lighteval.language import standardize_tag
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
from pytest_evals.dialects.lighteval.templates.literals import (
    Wording,
    capitalize,
    open_ended,
    wording_of,
)
from pytest_evals.dialects.lighteval.templates.multiple_choice import listed, spoken
from pytest_evals.limits.patterns import compiled

__all__ = [
    "get_continuation_prompt_function",
    "get_copa_prompt_function",
    "get_hellaswag_prompt_function",
    "get_translation_prompt_function",
]

_BRACKETS = compiled(r"\[.*?\]")
WIKIHOW = (" [title]",)
"""What stands for the end of a sentence in HellaSwag's texts."""


def get_continuation_prompt_function(
    language: Any,
    adapter: Adapter,
    formulation: Formulation | None = None,
    fix_formatting: bool = True,
) -> PromptFunction:
    """Prompts of texts with several continuations.

    Args:
        language: Of the prompts.
        adapter: Gives ``context``, ``continuations``, ``gold_idx``, and perhaps
            ``instruction``.
        formulation: How continuations are put; ``None`` for labels.
        fix_formatting: Whether case and signs are made to fit.
    """

    def build(given: Mapping[str, Any], task_name: str) -> Doc | None:
        words = wording_of(language)
        if fix_formatting:
            given = _fitting(words, given)
        return _continued(words, given, formulation, task_name)

    return prompt_function(adapter, build)


def get_copa_prompt_function(
    language: Any, adapter: Adapter, formulation: Formulation | None = None
) -> PromptFunction:
    """Prompts of a cause or an effect, by ``because`` or ``therefore``.

    Args:
        language: Of the prompts.
        adapter: Gives ``cause_effect`` (``cause`` or ``effect``), ``context``,
            ``continuations``, ``gold_idx``, and perhaps ``instruction``.
        formulation: How continuations are put; ``None`` for labels.
    """

    def build(given: Mapping[str, Any], task_name: str) -> Doc | None:
        words = wording_of(language)
        kind = "cause_word" if given["cause_effect"] == "cause" else "effect_word"
        context = capitalize(open_ended(given["context"])) + words.signs.word_space
        full = {**given, "context": context + words.word(kind)}
        return _continued(words, _fitting(words, full), formulation, task_name)

    return prompt_function(adapter, build)


def get_hellaswag_prompt_function(
    language: Any,
    adapter: Adapter,
    formulation: Formulation | None = None,
    wikihow_artifacts: Sequence[str] = WIKIHOW,
) -> PromptFunction:
    """Prompts of HellaSwag, whose texts are cleaned.

    Args:
        language: Of the prompts.
        adapter: Gives ``ctx_a``, ``continuations``, ``gold_idx``, and perhaps
            ``ctx_b``, ``activity_label`` and ``instruction``.
        formulation: How continuations are put; ``None`` for labels.
        wikihow_artifacts: Texts that stand for the end of a sentence.
    """

    def build(given: Mapping[str, Any], task_name: str) -> Doc | None:
        words = wording_of(language)
        context = _story(words, given, wikihow_artifacts)
        stop = words.signs.full_stop + words.signs.sentence_space
        endings = [
            _clean(text, wikihow_artifacts, stop) for text in given["continuations"]
        ]
        if not all(endings):
            return None
        full = {**given, "context": context, "continuations": endings}
        return _continued(words, _fitting(words, full), formulation, task_name)

    return prompt_function(adapter, build)


def get_translation_prompt_function(
    source_language: Any,
    target_language: Any,
    adapter: Adapter,
    formulation: Formulation | None = None,
) -> PromptFunction:
    """Prompts of translations: ``EN: How are you? FR:``.

    Args:
        source_language: Of the text.
        target_language: Of the translations.
        adapter: Gives ``source_text``, ``target_text`` (a text or several), and perhaps
            ``gold_idx`` and ``instruction``.
        formulation: How translations are put; ``None`` for labels.
    """

    def build(given: Mapping[str, Any], task_name: str) -> Doc | None:
        source, target = wording_of(source_language), wording_of(target_language)
        targets = given["target_text"]
        targets = [targets] if isinstance(targets, str) else list(targets)
        text = source.whole(given["source_text"])
        full = {
            "context": f"{_tag(source)}: {text} {_tag(target)}:",
            "continuations": [target.whole(one) for one in targets],
            "gold_idx": given.get("gold_idx", list(range(len(targets)))),
            "instruction": given.get("instruction"),
        }
        # Everything around the two texts is English, whatever their languages.
        return _continued(wording_of("eng"), full, formulation, task_name)

    return prompt_function(adapter, build)


def _tag(words: Wording) -> str:
    return standardize_tag(words.code).upper()


def _fitting(words: Wording, given: Mapping[str, Any]) -> dict[str, Any]:
    """With case and signs that fit."""
    context = words.whole(given["context"])
    return {
        **given,
        "context": context,
        "continuations": [
            words.ended(words.following(context, text))
            for text in given["continuations"]
        ],
    }


def _continued(
    words: Wording,
    given: Mapping[str, Any],
    formulation: Formulation | None,
    task_name: str,
) -> Doc:
    """The document of a text with continuations."""
    formulation = formulation or MCFFormulation()
    instruction = f"{given['instruction']}\n" if given.get("instruction") else ""
    context, choices = given["context"], list(given["continuations"])
    query, alone = instruction + context, ""
    if isinstance(formulation, CFFormulation):
        space = words.space_after(context)
        answers = [space + text for text in choices]
    else:
        alone = words.heading("answer")
        query += "\n" + listed(words, choices, formulation) + alone
        answers = spoken(words, choices, formulation)
    return Doc(
        task_name=task_name,
        query=query,
        choices=answers,
        gold_index=positions(given["gold_idx"]),
        instruction=instruction,
        unconditioned_query=alone,
    )


def _story(words: Wording, given: Mapping[str, Any], artifacts: Sequence[str]) -> str:
    """Label and both parts of the beginning."""
    text = words.whole(_clean(given["ctx_a"], artifacts))
    rest = words.whole(_clean(given.get("ctx_b") or "", artifacts))
    if rest:
        text += words.space_after(text) + words.following(text, rest)
    label = capitalize(given.get("activity_label") or "")
    return f"{label}:\n{text}" if label else text


def _clean(text: str, artifacts: Sequence[str], stop: str = ". ") -> str:
    for artifact in artifacts:
        text = text.replace(artifact, stop)
    return _BRACKETS.sub("", text).replace("  ", " ").strip()
