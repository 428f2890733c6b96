"""``{{ }}`` of LatticeFlow's files: texts and expressions, in a sandbox.

Facts: ``latticeflow-core`` 3.17.0 (strict about unknown names, no escaping, one newline
at the end of a template is dropped, ``do`` and loop controls). Beyond that a template
can neither reach into Python nor change a row, and a key of a mapping beats the
mapping's method of the same name, so that ``{{ sample.items }}`` is the column.

A fault of a template is a fault of one document: :class:`FieldError`, with the file and
the template's line.
"""

from __future__ import annotations

import re
import traceback
from collections.abc import Callable, Mapping
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
    marked,
    not_compiled,
    nulls_in,
)
from pytest_evals.dialects.latticeflow.prompts.column_templates import (
    Pieces,
    filled,
    pieces_of,
)
from pytest_evals.dialects.latticeflow.prompts.filters import FILTERS, dumps
from pytest_evals.errors import (
    EvalsError,
    Place,
    Problem,
    TaskFileError,
    did_you_mean,
)
from pytest_evals.limits.budget import begin
from pytest_evals.limits.templates import LimitedTemplates, is_simple

_CHANGES = re.compile(
    r"\bdo\b|\.\s*(?:add|append|clear|discard|extend|insert|pop|popitem|remove|reverse"
    r"|setdefault|sort|update)\s*\("
)
"""What a template says that may change a value."""


class NullFieldError(FieldError):
    """A value that becomes text is null, in the data of one document."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleTemplate:
    """A text with ``{{ }}`` in it.

    Args:
        text: As written.
        place: Where.
        what: What the text is, for messages: ``ground_truth``.
    """

    text: str
    place: Place
    what: str
    _compiled: Compiled
    _pieces: Pieces | None = None

    def render(self, variables: Mapping[str, Any]) -> str:
        """The text for one document.

        Raises:
            FieldError: A name is not there, or an expression fails.
        """
        text = None if self._pieces is None else filled(self._pieces, variables)
        if text is not None:
            return text
        return str(self._run(self._compiled.render, variables))

    def _run(self, function: Callable[..., Any], variables: Mapping[str, Any]) -> Any:
        given = deepcopy(dict(variables)) if _may_change(self.text) else variables
        begin()
        try:
            return function(given)
        except Exception as error:
            told = _told(error, self.text, sorted(variables))
            what = f"{self.what}: {told}"
            if isinstance(error, _NullError):
                shown = "…" if " " in error.name else error.name
                fix = f"fill it in, or write {{{{ {shown} or '' }}}}"
                raise NullFieldError(what, self.place, fix) from error
            raise FieldError(what, self.place) from error


@dataclass(frozen=True, slots=True, kw_only=True)
class Expression(SampleTemplate):
    """What filters compare: a value, not a text."""

    _lone: TemplateExpression | None

    def value(self, variables: Mapping[str, Any]) -> Any:
        """The value of a lone ``{{ expression }}``, as it is; else the text.

        Raises:
            FieldError: Something is not there, or an expression fails.
        """
        found = self._value(variables)
        if isinstance(found, Undefined):
            what = f"{self.what}: {found._undefined_message}"
            raise FieldError(what, self.place)
        return found

    def exists(self, variables: Mapping[str, Any]) -> bool:
        """Whether there is such a value; an existing ``null`` is one.

        Raises:
            FieldError: An expression fails in another way.
        """
        try:
            return not isinstance(self._value(variables), Undefined)
        except FieldError as error:
            if isinstance(error.__cause__, UndefinedError):
                return False
            raise

    def _value(self, variables: Mapping[str, Any]) -> Any:
        if self._lone is None:
            return self.render(variables)
        return self._run(self._lone, variables)


def compile_template(text: str, place: Place, what: str) -> SampleTemplate:
    """The template of a text.

    Args:
        text: As written, after ``<< config.x >>`` was put in.
        place: Where.
        what: What the text is, for messages.

    Raises:
        TaskFileError: It is no template.
    """
    parsed = _parse(text, place, what)
    return SampleTemplate(
        text=text,
        place=place,
        what=what,
        _compiled=parsed.compiled,
        _pieces=parsed.pieces,
    )


def compile_expression(text: str, place: Place, what: str) -> Expression:
    """The expression of a text. One without braces is taken as if it had them, which
    upstream it never matches anything without.

    Raises:
        TaskFileError: It is no expression.
    """
    bare = text.strip()
    if "{{" not in bare and "{%" not in bare:
        bare = f"{{{{ {bare} }}}}"
    parsed = _parse(bare, place, what)
    return Expression(
        text=bare, place=place, what=what, _compiled=parsed.compiled, _lone=parsed.lone
    )


class _Parsed(NamedTuple):
    compiled: Compiled
    lone: TemplateExpression | None
    """What gives the value, if the text is one expression and nothing else."""
    pieces: Pieces | None
    """What the text is made of, if that is nothing but columns and texts."""


def _parse(text: str, place: Place, what: str) -> _Parsed:
    try:
        return _parsed(text)
    except TemplateSyntaxError as error:
        line = f" (line {error.lineno} of the template)" if "\n" in text else ""
        reason = (error.message or "").rstrip(".")
        problem = Problem(f"{what} is no template: {reason}{line}", place)
        raise TaskFileError([problem]) from None
    except NOT_COMPILED as error:
        problem = Problem(f"{what} is no template: {not_compiled(error)}", place)
        raise TaskFileError([problem]) from None
    except ValueError as error:
        problem = Problem(f"{what} is no template: {error}", place)
        raise TaskFileError([problem]) from None


@lru_cache(maxsize=4096)
def _parsed(text: str) -> _Parsed:
    environment = _environment(_Limited)
    begin()
    parsed = environment.parse(text)
    body = parsed.body
    if is_simple(parsed):
        environment = _environment(_Environment)
    compiled = environment.from_string(marked(environment, text))
    pieces = pieces_of(body)
    match body:
        case [nodes.Output(nodes=[nodes.Expr() as expression])] if not isinstance(
            expression, nodes.TemplateData
        ):
            result = nodes.Name("result", "store", lineno=1)
            lone = [nodes.Assign(result, expression, lineno=1)]
            alone = environment.from_string(nodes.Template(lone, lineno=1))
            return _Parsed(compiled, TemplateExpression(alone, False), pieces)
    return _Parsed(compiled, None, pieces)


@lru_cache(maxsize=4096)
def _may_change(text: str) -> bool:
    return bool(_CHANGES.search(text))


class _Missing(StrictUndefined):
    """A name that is not there; it says which near one is."""

    __slots__ = ()

    @property
    def _undefined_message(self) -> str:
        held, name = self._undefined_obj, self._undefined_name
        if self._undefined_hint or not isinstance(held, Mapping) or name is None:
            return super()._undefined_message
        known = sorted(map(str, held))
        listed = f"; there are: {', '.join(known)}" if known else ""
        return f"there is no {name!r}{did_you_mean(str(name), known) or listed}"


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
    """A value that becomes text is null."""

    def __init__(self, name: str) -> None:
        super().__init__(f"{name} is null, which would read 'None'")
        self.name = name


def _spot(value: Any, name: str) -> Any:
    return nulls_in(value, name, _refuse_null)


def _refuse_null(name: str) -> None:
    raise _NullError(name)


def _told(error: BaseException, text: str, names: list[str]) -> str:
    ours = isinstance(error, UndefinedError | _NullError | EvalsError)
    kind = "" if ours else f"{type(error).__name__}: "
    unknown = _UNKNOWN.fullmatch(str(error))
    hint = ""
    if unknown and isinstance(error, UndefinedError):
        hint = did_you_mean(unknown[1], names) or f"; there are: {', '.join(names)}"
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno for frame in frames if frame.filename == "<template>"]
    where = f" (line {lines[-1]} of the template)" if lines and "\n" in text else ""
    return f"{kind}{error}{hint}{where}"


_UNKNOWN = re.compile(r"'(\w+)' is undefined")
