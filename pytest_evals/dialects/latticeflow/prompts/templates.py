"""Templates (``{{ }}``) of LatticeFlow's files: text and expressions, in a sandbox.

Source: ``latticeflow-core`` 3.17.0 (strict about unknown names, no escaping, one
trailing newline is dropped, ``do`` and loop controls). In addition, templates cannot
reach Python internals or modify a row, and a mapping's key takes precedence over its
method of the same name, so that ``{{ sample.items }}`` is the column.

An error in a template is an error of one document: :class:`FieldError`, with the file
and the template's line.
"""

from __future__ import annotations

import re
import traceback
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

from jinja2 import (
    StrictUndefined,
    TemplateSyntaxError,
    Undefined,
    UndefinedError,
    nodes,
)
from jinja2 import Template as Compiled
from jinja2.environment import TemplateExpression
from jinja2.sandbox import SandboxedEnvironment

from pytest_evals.data.calls import FieldError
from pytest_evals.data.nulls import (
    NOT_COMPILED,
    SPOT,
    compile_error,
    instrumented,
    report_null,
    syntax_error,
)
from pytest_evals.dialects.latticeflow.prompts.filters import FILTERS, dumps
from pytest_evals.errors import (
    EvalsError,
    Place,
    Problem,
    TaskFileError,
    suggestion,
    unknown_name,
)
from pytest_evals.limits.budget import begin
from pytest_evals.limits.templates import LimitedTemplates, is_simple

_CHANGES = re.compile(
    r"\bdo\b|\.\s*(?:add|append|clear|discard|extend|insert|pop|popitem|remove|reverse"
    r"|setdefault|sort|update)\s*\("
)
"""Template code that may modify a value."""
Pieces = Sequence[str | tuple[str, str]]
"""Literal texts, and columns as pairs of a variable and a key."""
_PLAIN = frozenset({str, int, float, bool})
"""Types that Jinja renders like ``str``. Nulls are refused."""
_MISSING = object()


class NullFieldError(FieldError):
    """A value to render as text is null in one document's data."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleTemplate:
    """Text with ``{{ }}`` expressions. ``what``: name of the field, for messages:
    ``ground_truth``."""

    text: str
    place: Place
    what: str
    _compiled: Compiled
    _pieces: Pieces | None = None

    def render(self, variables: Mapping[str, Any]) -> str:
        """Return the text for one document.

        Raises:
            FieldError: A name is undefined, or an expression fails.
        """
        text = None if self._pieces is None else render_pieces(self._pieces, variables)
        if text is not None:
            return text
        return str(self._run(self._compiled.render, variables))

    def _run(self, function: Callable[..., Any], variables: Mapping[str, Any]) -> Any:
        variables_ = deepcopy(dict(variables)) if _may_change(self.text) else variables
        begin()
        try:
            return function(variables_)
        except Exception as error:
            message = _error_message(error, self.text, sorted(variables))
            what = f"{self.what}: {message}"
            if isinstance(error, _NullError):
                shown = "…" if " " in error.name else error.name
                fix = f"add a value, or write {{{{ {shown} or '' }}}}"
                raise NullFieldError(what, self.place, fix) from error
            raise FieldError(what, self.place) from error


@dataclass(frozen=True, slots=True, kw_only=True)
class Expression(SampleTemplate):
    """Expression of a filter: evaluates to a value, not to text."""

    _single: TemplateExpression | None

    def value(self, variables: Mapping[str, Any]) -> Any:
        """Return the value of a single ``{{ expression }}``, otherwise the rendered
        text.

        Raises:
            FieldError: A name is undefined, or an expression fails.
        """
        value_ = self._value(variables)
        if isinstance(value_, Undefined):
            what = f"{self.what}: {value_._undefined_message}"
            raise FieldError(what, self.place)
        return value_

    def exists(self, variables: Mapping[str, Any]) -> bool:
        """Return whether the value exists; ``null`` does.

        Raises:
            FieldError: An expression fails for another reason.
        """
        try:
            return not isinstance(self._value(variables), Undefined)
        except FieldError as error:
            if isinstance(error.__cause__, UndefinedError):
                return False
            raise

    def _value(self, variables: Mapping[str, Any]) -> Any:
        if self._single is None:
            return self.render(variables)
        return self._run(self._single, variables)


def compile_template(text: str, place: Place, what: str) -> SampleTemplate:
    """Return the compiled template of a text.

    Args:
        text: Its source, after substitution of ``<< config.x >>``.
        what: Name of the field, for messages.

    Raises:
        TaskFileError: It is not a valid template.
    """
    parsed = _parse(text, place, what)
    return SampleTemplate(
        text=text,
        place=place,
        what=what,
        _compiled=parsed.compiled,
        _pieces=parsed.pieces,
    )


def compile_expression(text: str, place: Place) -> Expression:
    """Return the compiled expression of a text. Braces are added if it has none;
    without them LatticeFlow never matches.

    Raises:
        TaskFileError: It is not a valid expression.
    """
    bare = text.strip()
    if "{{" not in bare and "{%" not in bare:
        bare = f"{{{{ {bare} }}}}"
    parsed = _parse(bare, place, "expression")
    return Expression(
        text=bare,
        place=place,
        what="expression",
        _compiled=parsed.compiled,
        _single=parsed.single,
    )


class _Parsed(NamedTuple):
    compiled: Compiled
    single: TemplateExpression | None
    """Evaluates the text, if it is a single expression."""
    pieces: Pieces | None
    """Pieces of the text, if it only inserts columns."""


def _parse(text: str, place: Place, what: str) -> _Parsed:
    try:
        return _parsed(text)
    except TemplateSyntaxError as error:
        line = f" (line {error.lineno} of the template)" if "\n" in text else ""
        reason = f"{syntax_error(error)}{line}"
        problem = Problem(f"{what} is not a valid template: {reason}", place)
        raise TaskFileError([problem]) from None
    except NOT_COMPILED as error:
        problem = Problem(
            f"{what} is not a valid template: {compile_error(error)}", place
        )
        raise TaskFileError([problem]) from None
    except ValueError as error:
        problem = Problem(f"{what} is not a valid template: {error}", place)
        raise TaskFileError([problem]) from None


@lru_cache(maxsize=4096)
def _parsed(text: str) -> _Parsed:
    environment = _environment(_Limited)
    begin()
    parsed = environment.parse(text)
    body = parsed.body
    if is_simple(parsed):
        environment = _environment(_Environment)
    compiled = environment.from_string(instrumented(environment, text))
    pieces = pieces_of(body)
    match body:
        case [nodes.Output(nodes=[nodes.Expr() as expression])] if not isinstance(
            expression, nodes.TemplateData
        ):
            result = nodes.Name("result", "store", lineno=1)
            single = [nodes.Assign(result, expression, lineno=1)]
            single_template = environment.from_string(nodes.Template(single, lineno=1))
            return _Parsed(compiled, TemplateExpression(single_template, False), pieces)
    return _Parsed(compiled, None, pieces)


@lru_cache(maxsize=4096)
def _may_change(text: str) -> bool:
    return bool(_CHANGES.search(text))


class _Missing(StrictUndefined):
    """Undefined value whose message suggests similar names."""

    __slots__ = ()

    @property
    def _undefined_message(self) -> str:
        owner, name = self._undefined_obj, self._undefined_name
        if self._undefined_hint or not isinstance(owner, Mapping) or name is None:
            return super()._undefined_message
        known = sorted(map(str, owner))
        return unknown_name("field", name, known)


class _Environment(SandboxedEnvironment):
    def getattr(self, obj: Any, attribute: str) -> Any:
        if isinstance(obj, Mapping) and attribute in obj:
            return obj[attribute]
        return super().getattr(obj, attribute)


class _Limited(_Environment, LimitedTemplates):
    pass


@lru_cache(maxsize=2)
def _environment(kind: type[_Environment]) -> _Environment:
    environment = kind(
        undefined=_Missing,
        autoescape=False,
        extensions=["jinja2.ext.do", "jinja2.ext.loopcontrols"],
    )
    environment.filters.update(FILTERS)
    environment.filters[SPOT] = _spot
    environment.policies["json.dumps_function"] = dumps
    return environment


class _NullError(Exception):
    def __init__(self, name: str) -> None:
        super().__init__(f"{name} is null and would be rendered as 'None'")
        self.name = name


def _spot(value: Any, name: str) -> Any:
    return report_null(value, name, _refuse_null)


def _refuse_null(name: str) -> None:
    raise _NullError(name)


def _error_message(error: BaseException, text: str, names: list[str]) -> str:
    ours = isinstance(error, UndefinedError | _NullError | EvalsError)
    kind = "" if ours else f"{type(error).__name__}: "
    unknown = _UNKNOWN.fullmatch(str(error))
    hint = ""
    if unknown and isinstance(error, UndefinedError):
        hint = suggestion(unknown[1], names)
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno for frame in frames if frame.filename == "<template>"]
    where = f" (line {lines[-1]} of the template)" if lines and "\n" in text else ""
    return f"{kind}{error}{hint}{where}"


_UNKNOWN = re.compile(r"'(\w+)' is undefined")


def pieces_of(body: Sequence[nodes.Node]) -> Pieces | None:
    """Return the pieces of a parsed template; ``None`` if it has other nodes."""
    pieces: list[str | tuple[str, str]] = []
    for output in body:
        if not isinstance(output, nodes.Output):
            return None
        for node in output.nodes:
            match node:
                case nodes.TemplateData(data=text):
                    pieces.append(text)
                case nodes.Getattr(node=nodes.Name(name=variable), attr=name):
                    pieces.append((variable, name))
                case nodes.Getitem(
                    node=nodes.Name(name=variable), arg=nodes.Const(value=str() as name)
                ):
                    pieces.append((variable, name))
                case _:
                    return None
    return tuple(pieces)


def render_pieces(pieces: Pieces, variables: Mapping[str, Any]) -> str | None:
    """Return the rendered text; ``None`` if Jinja is needed, for the value or for its
    error message."""
    parts: list[str] = []
    for piece in pieces:
        if isinstance(piece, str):
            parts.append(piece)
            continue
        variable, name = piece
        row = variables.get(variable)
        value = row.get(name, _MISSING) if type(row) is dict else _MISSING
        if type(value) not in _PLAIN:
            return None
        parts.append(str(value))
    return "".join(parts)
