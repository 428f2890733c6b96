"""Templates for questions with choices (``mcq``, ``boolq``, ``qa``), natural language
inference (``nli``), and continuations (``continuation``, ``copa``, ``hellaswag`` and
``translation``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

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
from pytest_evals.limits.patterns import compiled


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
