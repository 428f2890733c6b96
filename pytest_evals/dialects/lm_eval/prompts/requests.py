"""The four output types: what a question asks of the model, and what it is scored with.

Equals lm-eval 0.4.13, ``api/task.py``, ``construct_requests`` and ``process_results``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from pytest_evals.core.request import Loglikelihood, Prompt, Request, Rolling
from pytest_evals.data.calls import FieldError
from pytest_evals.dialects.lm_eval.prompts.question import (
    NO_CHOICE,
    Question,
    choice_at,
    gold_of,
    text_of,
)
from pytest_evals.dialects.lm_eval.prompts.recipe import Fields, Recipe
from pytest_evals.prompts.chat import Turn, final_turns, render


class Shape(NamedTuple):
    """What the first document shows of all.

    Args:
        multiple_inputs: The choices are questions, and ``doc_to_text`` says which of
            them is right.
        multiple_targets: Targets are lists.
    """

    multiple_inputs: bool = False
    multiple_targets: bool = False


class Built(NamedTuple):
    """Fields of the document, and its requests."""

    query: str
    choices: list[str]
    gold: int | list[int]
    requests: tuple[Request, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """What is the same for a question whatever is asked of it.

    Args:
        recipe: The task.
        shape: What the first document shows of all.
        turns: Description and shots.
    """

    recipe: Recipe
    shape: Shape
    turns: Sequence[Turn] = ()

    @property
    def fields(self) -> Fields:
        """How rows are read."""
        return self.recipe.fields

    def prompt(self, text: str, prefix: str, target_delimiter: str) -> Prompt:
        """Everything in front of the answer."""
        options = self.recipe.options
        turns = (*self.turns, *final_turns(text, prefix, target_delimiter))
        return render(turns, chat=options.chat, multiturn=options.fewshot_as_multiturn)

    def delimiter(self) -> str:
        """Between question and choice. A chat's template separates them already, unless
        the answer has begun."""
        if not self.recipe.options.chat:
            return self.fields.target_delimiter
        prefix = self.fields.prefix.spec if self.fields.prefix is not None else ""
        begun = isinstance(prefix, str) and prefix and not prefix[-1].isspace()
        return self.fields.target_delimiter if begun else ""


def _multiple_choice(question: Question, frame: Frame) -> Built:
    fields, delimiter = frame.fields, frame.delimiter()
    choices = _texts(question.choices, frame)
    if frame.shape.multiple_inputs:
        target = question.target
        query = target if isinstance(target, str) else str(target)
        gold = gold_of(question.text, question.choices, fields.text)
        asked = [
            Loglikelihood(frame.prompt(choice, question.prefix, ""), delimiter + query)
            for choice in choices
        ]
    else:
        query = text_of(question.text, fields.text)
        gold = _gold(question, frame)
        context = frame.prompt(query, question.prefix, fields.target_delimiter)
        asked = [Loglikelihood(context, delimiter + choice) for choice in choices]
    alone = frame.recipe.unconditioned_query
    if alone is not None or "acc_mutual_info" in frame.recipe.metrics:
        asked += [Loglikelihood(alone or "", delimiter + choice) for choice in choices]
    return Built(query, choices, gold, _repeated(asked, frame))


def _loglikelihood(question: Question, frame: Frame) -> Built:
    query = text_of(question.text, frame.fields.text)
    target = text_of(question.target, frame.fields.target)
    context = frame.prompt(query, question.prefix, frame.fields.target_delimiter)
    asked = [Loglikelihood(context, target)]
    return Built(query, [target], 0, _repeated(asked, frame))


def _rolling(question: Question, frame: Frame) -> Built:
    text = text_of(question.target, frame.fields.target)
    return Built(text, [], 0, _repeated([Rolling(text)], frame))


def _generate(question: Question, frame: Frame) -> Built:
    query = text_of(question.text, frame.fields.text)
    context = frame.prompt(query, question.prefix, frame.fields.target_delimiter)
    references, gold = _references(question, frame)
    requests = frame.recipe.sampling.requests(context, frame.recipe.repeats)
    return Built(query, references, gold, requests)


def _references(question: Question, frame: Frame) -> tuple[list[str], int | list[int]]:
    """The right texts; a list of positions if every target is a list."""
    target, field = question.target, frame.fields.target
    if frame.fields.choices is not None and not _is_free(target, question, frame):
        if not isinstance(target, int):
            what = f"{field.key} gave {target!r}; with doc_to_choice it is a position"
            raise FieldError(what, field.place)
        target = choice_at(question.choices, target, field)
    elif frame.shape.multiple_targets:
        if not isinstance(target, list | tuple | str):
            what = f"{field.key} gave {target!r}, and a list for the first document"
            raise FieldError(what, field.place)
        # A text among lists is taken apart into its characters, as lm-eval does.
        texts = [str(item) for item in target]
        return texts, list(range(len(texts)))
    text = str(target)
    return ([text], [0]) if frame.shape.multiple_targets else ([text], 0)


def _is_free(target: Any, question: Question, frame: Frame) -> bool:
    """Whether a target that names no choice is nobody's fault: only the task's own
    scoring looks at it."""
    n = len(question.choices)
    named = isinstance(target, int) and -n <= target < n
    return frame.recipe.own_scoring and not named


def _gold(question: Question, frame: Frame) -> int | list[int]:
    """The right choice, or the right ones."""
    target, choices = question.target, question.choices
    try:
        return gold_of(target, choices, frame.fields.target)
    except FieldError:
        if _is_free(target, question, frame):
            return NO_CHOICE
        raise


def _texts(choices: Sequence[Any], frame: Frame) -> list[str]:
    field = frame.fields.choices
    assert field is not None, "front ends refuse multiple_choice without choices"
    if not choices:
        raise FieldError(f"{field.key} gave no choices", field.place)
    return [text_of(choice, field) for choice in choices]


def _repeated(requests: Sequence[Request], frame: Frame) -> tuple[Request, ...]:
    return tuple(r for r in requests for _ in range(frame.recipe.repeats))


BUILDERS: Mapping[str, Callable[[Question, Frame], Built]] = {
    "generate_until": _generate,
    "loglikelihood": _loglikelihood,
    "loglikelihood_rolling": _rolling,
    "multiple_choice": _multiple_choice,
}
"""Name in task files → what it asks. Each raises ``FieldError`` for a question that
does not fit it."""
