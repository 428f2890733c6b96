"""Questions: fields of a row, and the requests of a document."""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple

from pytest_evals.core.request import Loglikelihood, Prompt, Request, Rolling
from pytest_evals.data.calls import FieldError
from pytest_evals.dialects.lm_eval.prompts.recipe import Fields, Recipe
from pytest_evals.errors import abbreviated
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
    """The evaluated fields of a row, not yet checked against an output type."""

    text: Any  # the question, or the index of the correct choice
    target: Any  # the answer, its index, or a list of either
    choices: Sequence[Any]
    """The choices; empty if the task has none. Each character of a string is a choice,
    as in lm-eval."""
    prefix: str
    description: str
    notes: Sequence[str] = ()


class Readers:
    """Evaluates the fields of a task's documents or few-shot examples."""

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
            digits: Whether rendered digits are the index of a choice.
            for_shots: For few-shot examples the row decides whether the prefix is a
                column; for documents, the dataset decides.
        """
        self._fields = fields
        self._notes: list[str] = []
        note = self._notes.append
        as_text = number_or_text if digits else text_itself
        as_target = number_or_list if digits else target_of_text
        self._text = bind(fields.text, columns, as_text, note)
        self._target = bind(fields.target, columns, as_target, note)
        choices = fields.choices
        self._choices = bind(choices, columns, list_of_text, note) if choices else None
        self._prefix = _bind_optional(
            fields.prefix, None if for_shots else columns, note
        )
        self._description = _bind_optional(description, None, note)
        self._description_field = description

    def question(self, row: Row) -> Question:
        """Evaluate the fields of a row. Raises FieldError if a template or function
        fails, or returns an invalid type."""
        notes = self._notes
        notes.clear()
        question = Question(
            self._text(row),
            self._target(row),
            self._choice_list(row),
            _optional_string(self._prefix, row, self._fields.prefix),
            _optional_string(self._description, row, self._description_field),
        )
        return question._replace(notes=tuple(notes)) if notes else question

    def _choice_list(self, row: Row) -> Sequence[Any]:
        field = self._fields.choices
        if self._choices is None or field is None:
            return ()
        choices = self._choices(row)
        if not isinstance(choices, list | tuple | str):
            message = (
                f"{field.key} returned {_described(choices)}, not a list of choices"
            )
            raise FieldError(message, field.place)
        return choices


def text_of(value: Any, field: Field) -> str:
    """Return the value if it is a string. Raises FieldError if it is not a string."""
    if not isinstance(value, str):
        fix = ""
        is_column = isinstance(field.spec, str) and field.spec.isidentifier()
        if isinstance(value, int | float) and is_column:
            fix = f'{field.key}: "{{{{{field.spec}}}}}"'
        raise FieldError(
            f"{field.key} returned {_described(value)}, not a string", field.place, fix
        )
    return value


def choice_at(choices: Sequence[Any], position: Any, field: Field) -> Any:
    """The choice at an index. Raises FieldError if the index is out of range."""
    try:
        return choices[position]
    except (IndexError, TypeError):
        message = f"{field.key} returned {position!r}, but the document has "
        message += f"{len(choices)} choices"
        raise FieldError(message, field.place) from None


def answer_text(target: Any, choices: Sequence[Any], field: Field) -> str | None:
    """The answer of a few-shot example; ``None`` if the target is null or empty. A
    choice may be empty and still is an answer. Raises FieldError if the answer is not a
    string. Raises FieldError if the target names no text."""
    if target is None or target == "":
        return None
    position = _position(target)
    if choices and position is not None:
        target = choice_at(choices, position, field)
    elif isinstance(target, list) and target:
        target = target[0]
    return text_of(target, field)


def gold_of(target: Any, choices: Sequence[Any], field: Field) -> int | list[int]:
    """Index of the correct choice, or indices; ``NO_CHOICE`` if the target is not among
    the choices. Raises FieldError if the target's type cannot identify a choice."""
    if isinstance(target, list | tuple):
        return [_one_gold(item, choices, field) for item in target]
    return _one_gold(target, choices, field)


def _one_gold(target: Any, choices: Sequence[Any], field: Field) -> int:
    if isinstance(target, str):
        return choices.index(target) if target in choices else NO_CHOICE
    position = _position(target)
    if position is None:
        message = f"{field.key} returned {_described(target)}, which does not "
        message += "identify a choice"
        raise FieldError(message, field.place)
    return position if position < len(choices) else NO_CHOICE


def _position(value: Any) -> int | None:
    """The value as ``int`` if it is an integer of any type; else ``None``."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    try:
        return operator.index(value)
    except TypeError:
        return None


def number_or_list(text: str) -> Any:
    """Parse a rendered target: an index, else a list or string."""
    number = number_or_text(text)
    return target_of_text(text) if isinstance(number, str) else number


def _bind_optional(
    field: Field | None, columns: Collection[str] | None, note: Callable[[str], object]
) -> Reader | None:
    if field is None or (field.spec == "" and columns is None):
        return None
    return bind(field, columns, text_itself, note)


def _optional_string(read: Reader | None, row: Row, field: Field | None) -> str:
    if read is None or field is None:
        return ""
    value = read(row)
    return "" if value is None else text_of(value, field)


def _described(value: Any) -> str:
    short = abbreviated(repr(value))
    return short if value is None else f"{short} ({type(value).__name__})"


class Shape(NamedTuple):
    """Properties of the first document that apply to all. ``multiple_inputs``: the
    choices are questions; ``doc_to_text`` is the index of the correct one.
    ``multiple_targets``: targets are lists."""

    multiple_inputs: bool = False
    multiple_targets: bool = False


class BuiltRequests(NamedTuple):
    """Fields of a document and its requests."""

    query: str
    choices: list[str]
    gold: int | list[int]
    requests: tuple[Request, ...]


class PromptContext(NamedTuple):
    """Everything but the question that determines a prompt."""

    recipe: Recipe
    shape: Shape
    turns: Sequence[Turn] = ()

    @property
    def fields(self) -> Fields:
        """Fields of the documents."""
        return self.recipe.fields

    def prompt(self, text: str, prefix: str, target_delimiter: str) -> Prompt:
        """The prompt before the answer."""
        options = self.recipe.options
        if not (options.chat or prefix or self.turns):
            return text
        turns = (*self.turns, *final_turns(text, prefix, target_delimiter))
        return render(turns, chat=options.chat, multiturn=options.fewshot_as_multiturn)

    def delimiter(self) -> str:
        """Delimiter between question and choice; empty in a chat unless the answer has
        a prefix, because the chat template separates them."""
        if not self.recipe.options.chat:
            return self.fields.target_delimiter
        prefix = self.fields.prefix.spec if self.fields.prefix is not None else ""
        has_prefix = isinstance(prefix, str) and prefix and not prefix[-1].isspace()
        return self.fields.target_delimiter if has_prefix else ""


def _multiple_choice(question: Question, frame: PromptContext) -> BuiltRequests:
    fields, delimiter = frame.fields, frame.delimiter()
    choices = _texts(question.choices, frame)
    if frame.shape.multiple_inputs:
        target = question.target
        query = target if isinstance(target, str) else str(target)
        gold = gold_of(question.text, question.choices, fields.text)
        requests = [
            Loglikelihood(frame.prompt(choice, question.prefix, ""), delimiter + query)
            for choice in choices
        ]
    else:
        query = text_of(question.text, fields.text)
        gold = _gold(question, frame)
        context = frame.prompt(query, question.prefix, fields.target_delimiter)
        requests = [Loglikelihood(context, delimiter + choice) for choice in choices]
    unconditioned = frame.recipe.unconditioned_query
    if unconditioned is not None or "acc_mutual_info" in frame.recipe.metrics:
        requests += [
            Loglikelihood(unconditioned or "", delimiter + choice) for choice in choices
        ]
    return BuiltRequests(query, choices, gold, _repeated(requests, frame))


def _loglikelihood(question: Question, frame: PromptContext) -> BuiltRequests:
    query = text_of(question.text, frame.fields.text)
    target = text_of(question.target, frame.fields.target)
    context = frame.prompt(query, question.prefix, frame.fields.target_delimiter)
    requests = [Loglikelihood(context, target)]
    return BuiltRequests(query, [target], 0, _repeated(requests, frame))


def _rolling(question: Question, frame: PromptContext) -> BuiltRequests:
    text = text_of(question.target, frame.fields.target)
    return BuiltRequests(text, [], 0, _repeated([Rolling(text)], frame))


def _generate(question: Question, frame: PromptContext) -> BuiltRequests:
    query = text_of(question.text, frame.fields.text)
    context = frame.prompt(query, question.prefix, frame.fields.target_delimiter)
    references, gold = _references(question, frame)
    requests = frame.recipe.sampling.requests(context, frame.recipe.repeats)
    return BuiltRequests(query, references, gold, requests)


def _references(
    question: Question, frame: PromptContext
) -> tuple[list[str], int | list[int]]:
    """The references; with their indices as a list if targets are lists."""
    target, field = question.target, frame.fields.target
    if frame.fields.choices is not None and not _is_unused_target(
        target, question, frame
    ):
        if not isinstance(target, int):
            message = f"{field.key} returned {target!r}; with doc_to_choice it must be "
            message += "an index"
            raise FieldError(message, field.place)
        target = choice_at(question.choices, target, field)
    elif frame.shape.multiple_targets:
        if not isinstance(target, list | tuple | str):
            message = (
                f"{field.key} returned {target!r}, but a list for the first document"
            )
            raise FieldError(message, field.place)
        # A string among lists is split into characters, as in lm-eval.
        texts = [str(item) for item in target]
        return texts, list(range(len(texts)))
    text = str(target)
    return ([text], [0]) if frame.shape.multiple_targets else ([text], 0)


def _is_unused_target(target: Any, question: Question, frame: PromptContext) -> bool:
    """Whether a target that identifies no choice is valid, because only the task's own
    scoring uses it."""
    n = len(question.choices)
    is_index = isinstance(target, int) and -n <= target < n
    return frame.recipe.own_scoring and not is_index


def _gold(question: Question, frame: PromptContext) -> int | list[int]:
    target, choices = question.target, question.choices
    try:
        return gold_of(target, choices, frame.fields.target)
    except FieldError:
        if _is_unused_target(target, question, frame):
            return NO_CHOICE
        raise


def _texts(choices: Sequence[Any], frame: PromptContext) -> list[str]:
    field = frame.fields.choices
    assert field is not None, "read_recipe rejects multiple_choice without choices"
    if not choices:
        raise FieldError(f"{field.key} returned no choices", field.place)
    return [text_of(choice, field) for choice in choices]


def _repeated(requests: Sequence[Request], frame: PromptContext) -> tuple[Request, ...]:
    n = frame.recipe.repeats
    return tuple(requests if n == 1 else (r for r in requests for _ in range(n)))


BUILDERS: Mapping[str, Callable[[Question, PromptContext], BuiltRequests]] = {
    "generate_until": _generate,
    "loglikelihood": _loglikelihood,
    "loglikelihood_rolling": _rolling,
    "multiple_choice": _multiple_choice,
}
"""Output type → builder of its requests; raises ``FieldError`` for an unsuitable
question."""
