"""Templates for questions with choices (``mcq``, ``boolq``, ``qa``), natural language
inference (``nli``), and continuations (``continuation``, ``copa``, ``hellaswag`` and
``translation``).

``language`` is that of the prompts, ``adapter`` maps a row to the values that a
template needs, and ``formulation`` is the presentation of the choices; ``None`` for
labels.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

from pytest_evals.core.doc import Doc
from pytest_evals.errors import EvalsError
from pytest_evals.guests.lighteval.language import standardize_tag
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

Adapter = Callable[[dict[str, Any]], Mapping[str, Any] | None] | Mapping[str, str]
"""A function of the row that may return ``None`` to skip it, or a mapping from the
template's value names to the row's columns."""
PromptFunction = Callable[[dict[str, Any], str], Doc | None]
"""Builds a document from a row and the name of the task."""
_REQUIRED = (
    *("answer", "cause_effect", "choices", "continuations", "ctx_a", "gold_idx"),
    *("hypothesis", "premise", "question", "source_text", "target_text"),
)
"""Values that must not be null; an instruction or a context may be."""


def _prompt_function(
    adapter: Adapter, build: Callable[[Mapping[str, Any]], Doc | None]
) -> PromptFunction:
    """Build a prompt function. ``build`` makes a document of the values that the
    adapter returns, or returns ``None`` to skip the row."""

    def prompt(line: dict[str, Any], task_name: str) -> Doc | None:
        values = _adapt(adapter, line)
        if values is None:
            return None
        for name in _REQUIRED:
            if name in values and values[name] is None:
                raise EvalsError(f"{name!r} must not be null")
        doc = build(values)
        return None if doc is None else replace(doc, task_name=task_name)

    return prompt


def _adapt(adapter: Adapter, row: dict[str, Any]) -> Mapping[str, Any] | None:
    if not isinstance(adapter, Mapping):
        return adapter(row)
    for name, column in adapter.items():
        if column not in row:
            columns = ", ".join(key for key in row if not key.startswith("__"))
            raise EvalsError(
                f"the row has no column {column!r} for {name!r}; its columns "
                f"are {columns}"
            )
    return {name: row[column] for name, column in adapter.items()}


def _positions(given: Any) -> list[int]:
    """An index or several as a list."""
    return list(given) if isinstance(given, list | tuple) else [given]


def get_mcq_prompt_function(
    language: Any, adapter: Adapter, formulation: Formulation | None = None
) -> PromptFunction:
    """Prompt function for multiple-choice questions.

    Args:
        adapter: Returns ``question``, ``choices``, ``gold_idx``, and optionally
            ``context`` and ``instruction``.
    """

    def build(given: Mapping[str, Any]) -> Doc:
        return _question_doc(template_language(language), given, formulation)

    return _prompt_function(adapter, build)


def get_boolq_prompt_function(
    language: Any, adapter: Adapter, formulation: Formulation | None = None
) -> PromptFunction:
    """Prompt function for yes/no questions.

    Args:
        adapter: Returns ``question``, ``answer`` (true for yes), and optionally
            ``context`` and ``instruction``.
    """

    def build(given: Mapping[str, Any]) -> Doc:
        words = template_language(language)
        choices = {
            "choices": [words.word("yes"), words.word("no")],
            "gold_idx": 0 if given["answer"] else 1,
            "instruction": given.get("instruction") or "",
        }
        return _question_doc(words, {**given, **choices}, formulation)

    return _prompt_function(adapter, build)


def get_qa_prompt_function(language: Any, adapter: Adapter) -> PromptFunction:
    """Prompt function for questions with free-form answers, all of which are correct.

    Args:
        adapter: Returns ``question``, ``choices``, and optionally ``context`` and
            ``instruction``.
    """

    def build(given: Mapping[str, Any]) -> Doc:
        answers = list(dict.fromkeys(given["choices"]))
        full = {**given, "choices": answers, "gold_idx": list(range(len(answers)))}
        return _question_doc(template_language(language), full, CFFormulation())

    return _prompt_function(adapter, build)


def _question_doc(
    words: TemplateLanguage, given: Mapping[str, Any], formulation: Formulation | None
) -> Doc:
    """The document of a question with choices; an empty instruction is kept."""
    formulation = formulation or MCFFormulation()
    instruction, context = given.get("instruction"), given.get("context")
    choices = [words.as_sentence(choice) for choice in given["choices"]]
    text = words.as_sentence(given["question"])
    query = f"{instruction}\n" if instruction else ""
    query += f"{words.as_sentence(context)}\n" if context else ""
    query += f"{words.heading('question_word')}{words.signs.sentence_space}{text}\n"
    query += _choice_list(words, choices, formulation)
    return Doc(
        query=query + words.heading("answer"),
        choices=_answer_texts(words, choices, formulation),
        gold_index=_positions(given["gold_idx"]),
        instruction=instruction,
        unconditioned_query=words.heading("answer"),
    )


def _choice_list(
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


def _answer_texts(
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
        adapter: Returns ``premise``, ``hypothesis``, ``gold_idx``, and optionally
            ``instruction``.
        relations: The relation that each choice represents, in order.
    """

    def build(given: Mapping[str, Any]) -> Doc | None:
        words = template_language(language)
        if isinstance(formulation, CFFormulation):
            return _confirmation_doc(words, given, relations)
        question = given["hypothesis"]
        shape: Formulation | None = formulation
        if isinstance(formulation, HybridFormulation):
            question, shape = _inline(words, question, relations), CFFormulation()
        full = {
            "question": question,
            "context": given["premise"],
            "choices": [words.word(_LABELS[one]) for one in relations],
            "gold_idx": given["gold_idx"],
            "instruction": given.get("instruction"),
        }
        return _question_doc(words, full, shape)

    return _prompt_function(adapter, build)


def _confirmation_doc(
    words: TemplateLanguage, given: Mapping[str, Any], relations: Sequence[Relation]
) -> Doc:
    """The premise as a question; each choice is yes, also or no and the hypothesis."""
    signs = words.signs
    confirmation = words.word("confirmation_word") + signs.question_mark
    instruction = given.get("instruction")
    query = f"{instruction}\n" if instruction else ""
    query += capitalize(open_ended(given["premise"])) + signs.word_space + confirmation
    rest = decapitalize(open_ended(given["hypothesis"]))
    return Doc(
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
        adapter: Returns ``context``, ``continuations``, ``gold_idx``, and optionally
            ``instruction``.
        fix_formatting: Whether to adjust case and punctuation.
    """

    def build(given: Mapping[str, Any]) -> Doc | None:
        words = template_language(language)
        if fix_formatting:
            given = _with_formatting(words, given)
        return _continuation_doc(words, given, formulation)

    return _prompt_function(adapter, build)


def get_copa_prompt_function(
    language: Any, adapter: Adapter, formulation: Formulation | None = None
) -> PromptFunction:
    """Prompt function for COPA: a cause or an effect, after ``because`` or
    ``therefore``.

    Args:
        adapter: Returns ``cause_effect`` (``cause`` or ``effect``), ``context``,
            ``continuations``, ``gold_idx``, and optionally ``instruction``.
    """

    def build(given: Mapping[str, Any]) -> Doc | None:
        words = template_language(language)
        kind = "cause_word" if given["cause_effect"] == "cause" else "effect_word"
        context = capitalize(open_ended(given["context"])) + words.signs.word_space
        full = {**given, "context": context + words.word(kind)}
        return _continuation_doc(words, _with_formatting(words, full), formulation)

    return _prompt_function(adapter, build)


def get_hellaswag_prompt_function(
    language: Any,
    adapter: Adapter,
    formulation: Formulation | None = None,
    wikihow_artifacts: Sequence[str] = WIKIHOW,
) -> PromptFunction:
    """Prompt function for HellaSwag, which removes WikiHow markup.

    Args:
        adapter: Returns ``ctx_a``, ``continuations``, ``gold_idx``, and optionally
            ``ctx_b``, ``activity_label`` and ``instruction``.
        wikihow_artifacts: Markers of the end of a sentence.
    """

    def build(given: Mapping[str, Any]) -> Doc | None:
        words = template_language(language)
        context = _hellaswag_context(words, given, wikihow_artifacts)
        stop = words.signs.full_stop + words.signs.sentence_space
        endings = [
            _clean(text, wikihow_artifacts, stop) for text in given["continuations"]
        ]
        if not all(endings):
            return None
        full = {**given, "context": context, "continuations": endings}
        return _continuation_doc(words, _with_formatting(words, full), formulation)

    return _prompt_function(adapter, build)


def get_translation_prompt_function(
    source_language: Any,
    target_language: Any,
    adapter: Adapter,
    formulation: Formulation | None = None,
) -> PromptFunction:
    """Prompt function for translations: ``EN: How are you? FR:``.

    Args:
        adapter: Returns ``source_text``, ``target_text`` (a string or several), and
            optionally ``gold_idx`` and ``instruction``.
    """

    def build(given: Mapping[str, Any]) -> Doc | None:
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
        return _continuation_doc(template_language("eng"), full, formulation)

    return _prompt_function(adapter, build)


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
    words: TemplateLanguage, given: Mapping[str, Any], formulation: Formulation | None
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
        query += "\n" + _choice_list(words, choices, formulation) + heading
        answers = _answer_texts(words, choices, formulation)
    return Doc(
        query=query,
        choices=answers,
        gold_index=_positions(given["gold_idx"]),
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
