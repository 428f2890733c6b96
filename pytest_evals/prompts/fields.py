"""Fields of a task file whose values depend on the row.

A value is a column, a template, a function or a constant, decided as in lm-eval 0.4.13
(``api/task.py``, ``doc_to_text``, ``doc_to_target``, ``doc_to_choice``): a string that
equals a column's name is that column, any other string is a template.

Templates run in a sandbox and are compiled once per distinct text. They equal lm-eval
0.4.13, ``utils.py``, ``apply_template`` (strict about unknown names, trailing newline
kept, one filter ``regex_replace``), except that templates cannot reach Python
internals, and changes to a row do not affect other fields.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import lru_cache
from json import dumps
from typing import Any, NamedTuple

from jinja2 import (
    StrictUndefined,
    TemplateSyntaxError,
    Undefined,
    UndefinedError,
    meta,
    nodes,
    pass_context,
)
from jinja2 import Template as Compiled
from jinja2.runtime import Context
from jinja2.sandbox import SandboxedEnvironment

from pytest_evals.data.calls import ColumnError, FieldError, call
from pytest_evals.data.source_paths import likely_delimiter
from pytest_evals.errors import EvalsError, Place, abbreviated, did_you_mean
from pytest_evals.limits.budget import begin
from pytest_evals.limits.patterns import compiled
from pytest_evals.limits.templates import LimitedTemplates, is_simple
from pytest_evals.prompts.template_trees import (
    MARKS,
    NOT_COMPILED,
    SPOT,
    compile_error,
    instrumented,
    mark,
    report_null,
    syntax_error,
    with_marks,
)
from pytest_evals.prompts.text_values import number_fix

Row = Mapping[str, Any]  # a row of a dataset: column → value
Reader = Callable[[Row], Any]  # Row → value of a document. Raises :class:`FieldError`.


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """A key of the task file whose value depends on the row."""

    key: str  # name of the key, such as doc_to_text
    spec: Any  # name of a column, a template, a function, or a constant
    place: Place


def bind(
    field: Field,
    columns: Collection[str] | None,
    after: Callable[[str], Any],
    note: Callable[[str], object] | None = None,
) -> Reader:
    """Return a function that reads a field from a row. ``columns``: names of columns;
    ``None`` for the keys of each row. ``after``: converts the rendered text; may raise
    ``ValueError``. ``note``: called with a warning about a row, for nulls that a
    template renders."""
    spec = field.spec
    if callable(spec):
        return lambda row: call(spec, (row,), field.key, field.place)
    if isinstance(spec, dict):
        values = list(spec.values())
        return lambda _row: values
    if not isinstance(spec, str):
        return lambda _row: spec
    if columns is None:
        render = _template_reader(field, after, note)
        return lambda row: row[spec] if spec in row else render(row)
    if spec in columns:
        return _column_reader(field)
    return _template_reader(field, after, note)


def bind_value(field: Field) -> Reader:
    """Return a function that reads text, or a list or mapping: a template that is one
    expression, such as ``{{ words }}``, has its value."""
    read = bind(field, None, text_itself)
    spec = field.spec
    evaluate = compile_expression(spec) if isinstance(spec, str) else None
    if evaluate is None:
        return read

    def value(row: Row) -> Any:
        text = read(row)
        if spec in row or not text.startswith(("[", "(", "{")):
            return text
        found = evaluate(row)
        return found if isinstance(found, list | tuple | Mapping) else text

    return value


def text_itself(text: str) -> str:
    """Return rendered text unchanged."""
    return text


def number_or_text(text: str) -> int | str:
    """Return digits as an integer, so that a template can select a choice by position.
    ``007`` and ``²`` consist of digits but are not Python integers; lm-eval 0.4.13
    fails on them, here they remain strings."""
    if not (text.isdigit() and text.isascii()):
        return text
    return int(text) if text[0] != "0" or not text.strip("0") else text


def target_of_text(text: str) -> Any:
    """Return text in square brackets as a list, if it is a list literal."""
    if len(text) >= 2 and text[0] == "[" and text[-1] == "]":
        try:
            return ast.literal_eval(text)
        except (SyntaxError, ValueError):
            return text
    return text


def list_of_text(text: str) -> Sequence[Any]:
    """Return a list literal as a list, or a string literal as a string. Raises
    ValueError if it is neither."""
    found = _literal(text)
    return found if isinstance(found, str) else list(found)


@lru_cache(maxsize=1024)
def _literal(text: str) -> tuple[Any, ...] | str:
    """Parse a literal; cached, because many rows have the same text."""
    try:
        value = ast.literal_eval(text)
    except (SyntaxError, ValueError, TypeError, MemoryError, RecursionError):
        value = None
    if isinstance(value, str):
        return value
    if not isinstance(value, list | tuple):
        raise ValueError(
            f"the template rendered {abbreviated(text)!r}, which is not a list literal"
            '; write a list, such as ["yes", "no"]'
        )
    return tuple(value)


def _column_reader(field: Field) -> Reader:
    def read(row: Row) -> Any:
        try:
            return row[field.spec]
        except KeyError:
            message = f"{field.key}: this row has no column {field.spec!r}"
            raise FieldError(message, field.place) from None

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
                    note(
                        f"{field.place}: {field.key}: {name} is null and is rendered "
                        "as 'None', as in lm-eval; to omit it, write "
                        f"{{{{{name} or ''}}}}"
                    )
            return after(text)
        except Exception as error:  # noqa: BLE001 - of any expression of a template
            fault = template_fault(field.key, template, row, error)
            kind = ColumnError if fault.is_column else FieldError
            cause = None if fault.is_column else error
            found = kind(fault.message, field.place, fault.fix)
            found.column = fault.column
            raise found from cause

    return read


_COMMENT = re.compile(r"\{#.*?#\}", re.DOTALL)
_SINGLE_BRACES = re.compile(r"(?<![{\\\w])\{([A-Za-z_]\w*)\}(?!\})")
"""A value in the form of Python."""


def template_warnings(field: Field) -> Sequence[str]:
    """Return a warning if a template has a comment of Jinja, which is not sent, or no
    values but in single braces, which are sent as they are."""
    text = field.spec if isinstance(field.spec, str) else ""
    if "{{" not in text and (found := _SINGLE_BRACES.search(text)):
        message = f"{field.key}: {found[0]!r} is sent as it is"
        fix = f"write {{{{ {found[1]} }}}} to insert a value"
        return (f"{field.place}: {message}; {fix}",)
    found = _COMMENT.search(text)
    if found is None:
        return ()
    shown = abbreviated(found[0], 40)
    message = f"{field.key}: {shown!r} is a comment of the template and is not sent"
    return (f"{field.place}: {message}; to send it, write {{{{ '{{#' }}}} for {{#",)


def _rows_below(row: Row, name: str) -> str:
    """Return the column that is a list of rows with a column of that name."""
    first = {k: v[0] for k, v in row.items() if isinstance(v, list) and v}
    found = (k for k, v in first.items() if isinstance(v, Mapping) and name in v)
    return str(next(found, ""))


class TemplateFault(NamedTuple):
    """Why a template cannot be rendered."""

    message: str
    fix: str = ""
    is_column: bool = False  # whether the reason is a missing column
    column: str = ""  # its name


def template_fault(
    key: str, template: Template, row: Row, error: Exception
) -> TemplateFault:
    """Return the message for an exception of a template. ``key``: name of what has the
    template. ``row``: the values with which it was rendered."""
    columns = [str(name) for name in row]
    fix = f"the columns are {', '.join(columns) or 'none'}"
    if len(columns) == 1 and (found := likely_delimiter(columns[0])):
        fix = (
            f"the only column is {columns[0]!r}: the delimiter seems to be {found!r}; "
            f"add sep: {dumps(found)} to dataset_kwargs"
        )
    missing = sorted(name for name in template.names if name not in row)
    if rows := next(filter(None, (_rows_below(row, name) for name in missing)), ""):
        fix = f"the rows are below {rows!r}: write the file as a list of rows"
    if isinstance(error, UndefinedError):
        if not missing:
            return TemplateFault(f"{key}: {error}")
        hint = did_you_mean(missing[0], columns)
        message = f"{key} uses {missing[0]!r}, which is not a column{hint}"
        return TemplateFault(message, fix, is_column=True, column=missing[0])
    if isinstance(error, ValueError) and template.text.isidentifier():
        hint = did_you_mean(template.text, columns)
        message = f"{key}: unknown column {template.text!r}{hint}"
        return TemplateFault(message, fix, is_column=True)
    ours = type(error) is ValueError or isinstance(error, EvalsError)
    name = "" if ours else f"{type(error).__name__}: "
    return TemplateFault(
        f"{key}: {name}{error}", number_fix(error, template.names, row)
    )


_CHANGES = re.compile(
    r"\b(add|append|clear|discard|extend|insert|pop|popitem|remove|reverse|setdefault"
    r"|sort|update|\w+_update)\b"
)
"""Methods that modify a list, mapping or set of the template or the row."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Template:
    """A compiled template."""

    text: str
    names: frozenset[str]  # names that a row may have to provide
    render: Callable[[Mapping[str, Any]], str]
    """Renders a row. Raises ``jinja2.UndefinedError`` for a missing name, and any
    exception of its expressions."""
    folds: bool = False  # whether it may change the case of a rendered null

    def nulls(self, row: Mapping[str, Any], rendered: str) -> Sequence[str]:
        """Return the expressions whose value is null, rendered as "None". ``row`` is
        a row that renders without error."""
        may_have_nulls = "None" in rendered or self.folds
        if may_have_nulls or any(row.get(name) is None for name in self.names):
            return _nulls(self.text, row)
        return ()


_FOLDS = re.compile("capitalize|casefold|lower|replace|swapcase|title|upper")


def _nulls(text: str, row: Mapping[str, Any]) -> Sequence[str]:
    found: dict[str, None] = {}
    row = deepcopy(dict(row)) if _CHANGES.search(text) else row
    _instrumented(text).render({**row, _FOUND: found})
    return tuple(found)


_FOUND = "evals_found_nulls"  # name of the variable that collects them


@lru_cache(maxsize=512)
def _instrumented(text: str) -> Compiled:
    begin()
    environment = _environment(LimitedTemplates)
    return environment.from_string(instrumented(environment, text))


@pass_context
def _spot(context: Context, value: Any, name: str) -> Any:
    found: dict[str, None] = context[_FOUND]
    return report_null(value, name, lambda null: found.setdefault(null))


@lru_cache(maxsize=4096)
def compile_template(text: str) -> Template:
    """Return the template of a text. Raises EvalsError if the text is not a valid
    template; the message has the line."""
    try:
        environment, template, names = _compiled(text)
    except TemplateSyntaxError as error:
        line = f" (line {error.lineno} of the template)" if "\n" in text else ""
        raise EvalsError(f"{syntax_error(error)}{line}") from None
    except NOT_COMPILED as error:
        raise EvalsError(compile_error(error)) from None
    except ValueError as error:
        raise EvalsError(str(error)) from None
    needed = names - frozenset(environment.globals)
    if "{" not in text:
        fixed = template.render()
        return Template(text=text, names=needed, render=lambda _row: fixed)
    environment_globals = dict(environment.globals)
    changes = _CHANGES.search(text) is not None
    limited = isinstance(environment, LimitedTemplates)
    concat = environment.concat

    def render(row: Mapping[str, Any]) -> str:
        row = deepcopy(dict(row)) if changes else row
        if limited:
            begin()
        # Equals template.render(row), without copying the globals for each row.
        context = template.new_context({**environment_globals, **row}, shared=True)
        return concat(template.root_render_func(context))

    folds = _FOLDS.search(text) is not None
    return Template(text=text, names=needed, render=render, folds=folds)


@lru_cache(maxsize=1024)
def compile_expression(text: str) -> Callable[[Row], Any] | None:
    """Return a function that evaluates a template which is one expression, such as ``{{
    words }}``, to its value instead of text; ``None`` for other templates. The text is
    a valid template."""
    environment = _environment(LimitedTemplates)
    begin()
    match environment.parse(text).body:
        case [nodes.Output(nodes=[nodes.TemplateData()])]:
            return None
        case [nodes.Output(nodes=[value])]:
            pass
        case _:
            return None
    name = nodes.Name(_VALUE, "store", lineno=1)
    tree = nodes.Template([nodes.Assign(name, value, lineno=1)], lineno=1)
    tree.set_environment(environment)
    template = environment.from_string(tree)

    def evaluate(row: Row) -> Any:
        begin()
        context = template.new_context({**environment.globals, **row}, shared=True)
        environment.concat(template.root_render_func(context))
        found = context.vars[_VALUE]
        return str(found) if isinstance(found, Undefined) else found  # raises its error

    return evaluate


_VALUE = "evals_value"


@lru_cache(maxsize=1024)
def compile_marked(text: str, names: frozenset[str]) -> Callable[[Row, str, str], str]:
    """Return a function that renders a template and encloses text from certain values.
    Its arguments are a row, the text before and the text after each insertion. A number
    is not enclosed. Inserted text may come from one of the values if its expression
    uses a name of them, or a variable of the template."""
    environment = _environment(LimitedTemplates)
    begin()
    template = environment.from_string(with_marks(environment, text, names))
    return lambda row, before, after: template.render({**row, MARKS: (before, after)})


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
    environment.filters[MARKS] = mark
    return environment


def _regex_replace(text: str, pattern: str, replacement: str, count: int = 0) -> str:
    return compiled(pattern).sub(replacement, text, count)
