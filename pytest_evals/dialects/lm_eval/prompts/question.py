"""From a row to a question, its choices and target, and the requests of a document."""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from pytest_evals.core.request import Loglikelihood, Prompt, Request, Rolling
from pytest_evals.data.calls import FieldError
from pytest_evals.dialects.lm_eval.prompts.recipe import Fields, Recipe
from pytest_evals.prompts.chat import Turn, final_turns, render
from pytest_evals.prompts.fields import (
    Field,
    Reader,
    Row,
    bind,
    list_of_text,
    number_or_text,
    target_of_text,
    text_itself,
)
from pytest_evals.scorers.choices import NO_CHOICE


class Question(NamedTuple):
    """What a row says, not yet checked against an output type.

    Args:
        text: The question, or the position of the right choice.
        target: The answer, its position, or a list of either.
        choices: The choices; empty if the task has none. A text stands for its letters,
            as in lm-eval.
        prefix: How the answer begins.
        description: Text in front of everything.
        notes: What is odd about the row.
    """

    text: Any
    target: Any
    choices: Sequence[Any]
    prefix: str
    description: str
    notes: Sequence[str] = ()


class Readers:
    """How the rows of a task, or those of its shots, become questions."""

    def __init__(
        self,
        fields: Fields,
        columns: Collection[str],
        description: Field | None = None,
        *,
        digits: bool,
        for_shots: bool = False,
    ) -> None:
        """Bind the fields to the columns.

        Args:
            fields: What the task file says.
            columns: The columns of the documents that are asked.
            description: Text in front of everything.
            digits: Whether rendered digits are the position of a choice.
            for_shots: A shot's prefix is a column if the row has it, while a document's
                is one if the dataset has it.

        Raises:
            FieldError: A template does not compile.
        """
        self._fields = fields
        self._notes: list[str] = []
        note = self._notes.append
        as_text = number_or_text if digits else text_itself
        as_target = _digits_then_list if digits else target_of_text
        self._text = bind(fields.text, columns, as_text, note)
        self._target = bind(fields.target, columns, as_target, note)
        choices = fields.choices
        self._choices = bind(choices, columns, list_of_text, note) if choices else None
        self._prefix = _optional(fields.prefix, None if for_shots else columns, note)
        self._description = _optional(description, None, note)
        self._description_field = description

    def question(self, row: Row) -> Question:
        """What a row says.

        Raises:
            FieldError: A template or function fails, or gives a value of a kind that
                its key cannot have.
        """
        notes = self._notes
        notes.clear()
        question = Question(
            self._text(row),
            self._target(row),
            self._listed(row),
            _text_or_nothing(self._prefix, row, self._fields.prefix),
            _text_or_nothing(self._description, row, self._description_field),
        )
        return question._replace(notes=tuple(notes)) if notes else question

    def _listed(self, row: Row) -> Sequence[Any]:
        field = self._fields.choices
        if self._choices is None or field is None:
            return ()
        choices = self._choices(row)
        if not isinstance(choices, list | tuple | str):
            what = f"{field.key} gave {_shown(choices)}, not a list of choices"
            raise FieldError(what, field.place)
        return choices


def text_of(value: Any, field: Field) -> str:
    """The value, which has to be a text.

    Raises:
        FieldError: It is something else.
    """
    if not isinstance(value, str):
        fix = ""
        column = isinstance(field.spec, str) and field.spec.isidentifier()
        if isinstance(value, int | float) and column:
            fix = f'{field.key}: "{{{{{field.spec}}}}}"'
        raise FieldError(
            f"{field.key} gave {_shown(value)}, not a text", field.place, fix
        )
    return value


def choice_at(choices: Sequence[Any], position: Any, field: Field) -> Any:
    """The choice at a position.

    Raises:
        FieldError: There is none.
    """
    try:
        return choices[position]
    except (IndexError, TypeError):
        what = f"{field.key} gave {position!r}, and there are {len(choices)} choices"
        raise FieldError(what, field.place) from None


def answer_text(target: Any, choices: Sequence[Any], field: Field) -> str | None:
    """A shot's answer as text; ``None`` without one, as a target that is an empty text
    says. A choice may be empty and is an answer all the same.

    Raises:
        FieldError: The target names no text.
    """
    if target is None or target == "":
        return None
    position = _position(target)
    if choices and position is not None:
        target = choice_at(choices, position, field)
    elif isinstance(target, list) and target:
        target = target[0]
    return text_of(target, field)


def gold_of(target: Any, choices: Sequence[Any], field: Field) -> int | list[int]:
    """Position of the right choice, or positions of the right ones; ``NO_CHOICE`` for a
    target that is not among the choices.

    Raises:
        FieldError: The target is of a kind that names no choice.
    """
    if isinstance(target, list | tuple):
        return [_one_gold(item, choices, field) for item in target]
    return _one_gold(target, choices, field)


def _one_gold(target: Any, choices: Sequence[Any], field: Field) -> int:
    if isinstance(target, str):
        return choices.index(target) if target in choices else NO_CHOICE
    position = _position(target)
    if position is None:
        what = f"{field.key} gave {_shown(target)}, which names no choice"
        raise FieldError(what, field.place)
    return position if position < len(choices) else NO_CHOICE


def _position(value: Any) -> int | None:
    """A whole number as ``int``, whatever library it comes from; else ``None``."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    try:
        return operator.index(value)
    except TypeError:
        return None


def _digits_then_list(text: str) -> Any:
    number = number_or_text(text)
    return target_of_text(text) if isinstance(number, str) else number


def _optional(
    field: Field | None,
    columns: Collection[str] | None,
    note: Callable[[str], object],
) -> Reader | None:
    if field is None or (field.spec == "" and columns is None):
        return None
    return bind(field, columns, text_itself, note)


def _text_or_nothing(read: Reader | None, row: Row, field: Field | None) -> str:
    if read is None or field is None:
        return ""
    value = read(row)
    return "" if value is None else text_of(value, field)


def _shown(value: Any) -> str:
    text = repr(value)
    short = text if len(text) <= 60 else text[:59] + "…"
    return short if value is None else f"{short} ({type(value).__name__})"


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
