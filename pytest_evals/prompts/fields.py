"""What a task file says of a value of a document, and how a row gives that value.

A value is a column, a template, a function or fixed. Which of them is decided as
lm-eval 0.4.13 does (``api/task.py``, ``doc_to_text``, ``doc_to_target``,
``doc_to_choice``): a text that equals a column's name is that column, every other text
is a template.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from jinja2 import UndefinedError

from pytest_evals.data.calls import ColumnError, FieldError, call
from pytest_evals.errors import EvalsError, Place, did_you_mean
from pytest_evals.prompts.template import compile_template

Row = Mapping[str, Any]
"""A row of a dataset: column → value."""
Reader = Callable[[Row], Any]
"""A row to a value of a document. Raises :class:`FieldError`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """A key of the task file whose value depends on the row.

    Args:
        key: Name of the key, such as ``doc_to_text``.
        spec: Name of a column, a template, a function, or a fixed value.
        place: Where it stands.
    """

    key: str
    spec: Any
    place: Place


def bind(
    field: Field,
    columns: Collection[str] | None,
    after: Callable[[str], Any],
    note: Callable[[str], object] | None = None,
) -> Reader:
    """How rows give the value of a field.

    Args:
        field: The key and what it says.
        columns: Names that count as columns; ``None`` where the keys of each row do.
        after: What becomes of a rendered text. May raise ``ValueError``.
        note: Called with what is odd about a row: nulls that a template writes.
    """
    spec = field.spec
    if callable(spec):
        return lambda row: call(spec, (row,), field.key, field.place)
    if isinstance(spec, dict):
        values = list(spec.values())
        return lambda _row: values
    if not isinstance(spec, str):
        return lambda _row: spec
    if columns is None:
        return _own_key_reader(field, _template_reader(field, after, note))
    if spec in columns:
        return _column_reader(field)
    return _template_reader(field, after, note)


def text_itself(text: str) -> str:
    """A rendered text as it is."""
    return text


def number_or_text(text: str) -> int | str:
    """Digits as a number, so that a template can name a choice by its position.

    ``007`` and ``²`` are digits and yet no Python numbers; lm-eval 0.4.13 fails on
    them, here they stay texts.
    """
    if not (text.isdigit() and text.isascii()):
        return text
    return int(text) if text[0] != "0" or not text.strip("0") else text


def target_of_text(text: str) -> Any:
    """A text in square brackets as a list, if it is the literal of one."""
    if len(text) >= 2 and text[0] == "[" and text[-1] == "]":
        try:
            return ast.literal_eval(text)
        except (SyntaxError, ValueError):
            return text
    return text


def list_of_text(text: str) -> Sequence[Any]:
    """The list that a rendered text is the literal of; or a text, if it is that of one.

    Raises:
        ValueError: It is neither.
    """
    found = _literal(text)
    return found if isinstance(found, str) else list(found)


@lru_cache(maxsize=1024)
def _literal(text: str) -> tuple[Any, ...] | str:
    """The same few texts come from many rows, and parsing them is slow."""
    try:
        value = ast.literal_eval(text)
    except (SyntaxError, ValueError, TypeError, MemoryError, RecursionError):
        value = None
    if isinstance(value, str):
        return value
    if not isinstance(value, list | tuple):
        raise ValueError(f"the template gave {_short(text)}, which is no list literal")
    return tuple(value)


def _column_reader(field: Field) -> Reader:
    def read(row: Row) -> Any:
        try:
            return row[field.spec]
        except KeyError:
            what = f"{field.key}: this row has no column {field.spec!r}"
            raise FieldError(what, field.place) from None

    return read


def _template_reader(
    field: Field,
    after: Callable[[str], Any],
    note: Callable[[str], object] | None = None,
) -> Reader:
    try:
        template = compile_template(field.spec)
    except EvalsError as error:
        raise FieldError(f"{field.key}: {error}", field.place) from None

    def read(row: Row) -> Any:
        try:
            text = template.render(row)
            if note is not None:
                for name in template.nulls(row, text):
                    note(f"{field.key}: {name} is null and reads 'None', as in lm-eval")
            return after(text)
        except UndefinedError as error:
            missing = sorted(name for name in template.names if name not in row)
            raise _undefined(field, missing, row, error) from None
        except Exception as error:
            if isinstance(error, ValueError) and field.spec.isidentifier():
                raise _no_column(field, row) from None
            ours = type(error) is ValueError or isinstance(error, EvalsError)
            name = "" if ours else f"{type(error).__name__}: "
            raise FieldError(f"{field.key}: {name}{error}", field.place) from error

    return read


def _own_key_reader(field: Field, render: Reader) -> Reader:
    return lambda row: row[field.spec] if field.spec in row else render(row)


def _no_column(field: Field, row: Row) -> FieldError:
    """For a plain word that is no column and no fixed value that the key can have."""
    columns = [str(name) for name in row]
    hint = did_you_mean(field.spec, columns)
    what = f"{field.key}: no column called {field.spec!r}{hint}"
    return ColumnError(what, field.place, f"the columns are {', '.join(columns)}")


def _undefined(
    field: Field, missing: list[str], row: Row, error: UndefinedError
) -> FieldError:
    if not missing:
        return FieldError(f"{field.key}: {error}", field.place)
    columns = [str(name) for name in row]
    hint = did_you_mean(missing[0], columns)
    return ColumnError(
        f"{field.key} uses {missing[0]!r}, which is no column{hint}",
        field.place,
        f"the columns are {', '.join(columns)}",
    )


def _short(text: str, limit: int = 60) -> str:
    return repr(text if len(text) <= limit else text[: limit - 1] + "…")
