"""What a task file says of a value of a document, and how a row gives that value.

A value is a column, a template, a function or fixed. Which of them is decided as
lm-eval 0.4.13 does (``api/task.py``, ``doc_to_text``, ``doc_to_target``,
``doc_to_choice``): a text that equals a column's name is that column, every other text
is a template.

Templates run in a sandbox and are compiled once for each distinct text. They equal
lm-eval 0.4.13, ``utils.py``, ``apply_template`` (strict about unknown names, trailing
newline kept, one filter ``regex_replace``), except that a template cannot reach into
Python, and that a row which it changes is changed for itself alone.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from jinja2 import (
    StrictUndefined,
    TemplateSyntaxError,
    UndefinedError,
    meta,
    pass_context,
)
from jinja2 import Template as Compiled
from jinja2.runtime import Context
from jinja2.sandbox import SandboxedEnvironment

from pytest_evals.data.calls import ColumnError, FieldError, call
from pytest_evals.data.nulls import NOT_COMPILED, SPOT, marked, not_compiled, nulls_in
from pytest_evals.errors import EvalsError, Place, did_you_mean
from pytest_evals.limits.budget import begin
from pytest_evals.limits.patterns import compiled
from pytest_evals.limits.templates import LimitedTemplates, is_simple

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


_CHANGES = re.compile(
    r"\b(add|append|clear|discard|extend|insert|pop|popitem|remove|reverse|setdefault"
    r"|sort|update|\w+_update)\b"
)
"""Methods that change a list, a mapping or a set: of the template, or of the row."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Template:
    """A compiled template.

    Args:
        text: As written.
        names: Names that a row may have to supply.
        render: A row to text. Raises ``jinja2.UndefinedError`` for a name that the row
            lacks, and whatever the expressions in it raise.
        folds: Whether it may change the letters of a null.
    """

    text: str
    names: frozenset[str]
    render: Callable[[Mapping[str, Any]], str]
    folds: bool = False

    def nulls(self, row: Mapping[str, Any], rendered: str) -> Sequence[str]:
        """The expressions whose value is null, which reads "None" in the text.

        Args:
            row: A row that renders.
            rendered: What it renders to.
        """
        suspect = "None" in rendered or self.folds
        if suspect or any(row.get(name) is None for name in self.names):
            return _nulls(self.text, row)
        return ()


_FOLDS = re.compile("capitalize|casefold|lower|replace|swapcase|title|upper")


def _nulls(text: str, row: Mapping[str, Any]) -> Sequence[str]:
    found: dict[str, None] = {}
    row = deepcopy(dict(row)) if _CHANGES.search(text) else row
    _marked(text).render({**row, _FOUND: found})
    return tuple(found)


_FOUND = "evals_found_nulls"
"""Name of the variable that collects them."""


@lru_cache(maxsize=512)
def _marked(text: str) -> Compiled:
    begin()
    environment = _environment(LimitedTemplates)
    return environment.from_string(marked(environment, text))


@pass_context
def _spot(context: Context, value: Any, name: str) -> Any:
    found: dict[str, None] = context[_FOUND]
    return nulls_in(value, name, lambda null: found.setdefault(null))


@lru_cache(maxsize=4096)
def compile_template(text: str) -> Template:
    """The template of a text.

    Raises:
        EvalsError: The text is no template; the message says why and in which line of
            the text.
    """
    try:
        environment, template, names = _compiled(text)
    except TemplateSyntaxError as error:
        line = f" (line {error.lineno} of the template)" if "\n" in text else ""
        raise EvalsError(f"{error.message}{line}") from None
    except NOT_COMPILED as error:
        raise EvalsError(not_compiled(error)) from None
    except ValueError as error:
        raise EvalsError(str(error)) from None
    needed = names - frozenset(environment.globals)
    if "{" not in text:
        fixed = template.render()
        return Template(text=text, names=needed, render=lambda _row: fixed)
    known = dict(environment.globals)
    changes = _CHANGES.search(text) is not None
    limited = isinstance(environment, LimitedTemplates)
    concat = environment.concat

    def render(row: Mapping[str, Any]) -> str:
        row = deepcopy(dict(row)) if changes else row
        if limited:
            begin()
        # As template.render(row), without copying a chain of globals for each row.
        context = template.new_context({**known, **row}, shared=True)
        return concat(template.root_render_func(context))

    folds = _FOLDS.search(text) is not None
    return Template(text=text, names=needed, render=render, folds=folds)


def _compiled(text: str) -> tuple[SandboxedEnvironment, Compiled, frozenset[str]]:
    environment = _environment(LimitedTemplates)
    begin()
    parsed = environment.parse(text)
    names = frozenset(meta.find_undeclared_variables(parsed))
    if is_simple(parsed):
        environment = _environment(SandboxedEnvironment)
    return environment, environment.from_string(text), names


@lru_cache(maxsize=2)
def _environment(kind: type[SandboxedEnvironment]) -> SandboxedEnvironment:
    environment = kind(undefined=StrictUndefined, keep_trailing_newline=True)
    environment.filters["regex_replace"] = _regex_replace
    environment.filters[SPOT] = _spot
    return environment


def _regex_replace(text: str, pattern: str, replacement: str, count: int = 0) -> str:
    return compiled(pattern).sub(replacement, text, count)
