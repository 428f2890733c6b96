"""Templates (``{{ }}``) of LatticeFlow's files: text and expressions, in a sandbox,
with LatticeFlow's additional filters.

Source: ``latticeflow-core`` 3.17.0 (strict about unknown names, no escaping, one
trailing newline is dropped, ``do`` and loop controls). In addition, templates cannot
reach Python internals or modify a row, and a mapping's key takes precedence over its
method of the same name, so that ``{{ sample.items }}`` is the column.

An error in a template is an error of one document: :class:`FieldError`, with the file
and the template's line.
"""

from __future__ import annotations

import json
import re
import traceback
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import lru_cache, partial
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
from pytest_evals.errors import (
    EvalsError,
    Place,
    Problem,
    TaskFileError,
    suggestion,
    unknown_name,
)
from pytest_evals.limits.budget import begin
from pytest_evals.limits.patterns import compiled
from pytest_evals.limits.templates import LimitedTemplates, is_simple
from pytest_evals.prompts.template_trees import (
    NOT_COMPILED,
    SPOT,
    compile_error,
    instrumented,
    report_null,
    syntax_error,
)


def dumps(value: Any, **kwargs: Any) -> str:
    """Return JSON, also of objects with ``to_dict`` or ``model_dump``. Raises
    ``TypeError`` for other values."""
    return json.dumps(value, default=_as_plain, **kwargs)


def _as_plain(value: Any) -> Any:
    for name in ("to_dict", "model_dump"):
        if callable(dump := getattr(value, name, None)):
            return dump()
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} cannot be written as JSON")


def _merge(left: Any, right: Any) -> dict[Any, Any]:
    for side in (left, right):
        if not isinstance(side, Mapping):
            raise TypeError(f"merge takes two mappings, not {side!r:.60}")
    merged = dict(left)
    for key, value in right.items():
        mine = merged.get(key)
        both = isinstance(mine, Mapping) and isinstance(value, Mapping)
        merged[key] = _merge(mine, value) if both else value
    return merged


def _regex_replace(  # the signature that task files call
    value: Any,
    pattern: str,
    repl: str,
    multiline: bool = False,
    ignorecase: bool = False,
    count: int = 0,
) -> str:
    flags = (re.MULTILINE if multiline else 0) | (re.IGNORECASE if ignorecase else 0)
    return compiled(pattern, flags).sub(repl, str(value), count)


FILTERS: Mapping[str, Callable[..., Any]] = {
    "fromjson": lambda text: json.loads(
        text if isinstance(text, str | bytes) else str(text)
    ),
    "json_escape": lambda text: json.dumps(str(text))[1:-1],
    "merge": _merge,
    "regex_replace": _regex_replace,
    "zip": lambda *columns: list(zip(*columns, strict=False)),
}

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


class _Parsed(NamedTuple):
    compiled: Compiled
    single: TemplateExpression | None  # evaluates the text, if a single expression
    pieces: Pieces | None  # of the text, if it only inserts columns
    may_change: bool  # whether it may modify values


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleTemplate:
    """Text with ``{{ }}`` expressions. ``field``: its name, for messages:
    ``ground_truth``."""

    text: str
    place: Place
    field: str
    _parsed: _Parsed

    def render(self, variables: Mapping[str, Any]) -> str:
        """Return the text for one document."""
        pieces = self._parsed.pieces
        text = None if pieces is None else render_pieces(pieces, variables)
        if text is not None:
            return text
        return str(self._run(self._parsed.compiled.render, variables))

    def for_sample(self, sample: Mapping[str, Any]) -> str:
        """Return the text for a sample without an output."""
        return self.render({"sample": sample})

    def _run(self, function: Callable[..., Any], variables: Mapping[str, Any]) -> Any:
        values = deepcopy(dict(variables)) if self._parsed.may_change else variables
        begin()
        try:
            return function(values)
        except Exception as error:
            message = _error_message(error, self.text, sorted(variables))
            problem = f"{self.field}: {message}"
            if isinstance(error, _NullError):
                shown = "…" if " " in error.name else error.name
                fix = f"add a value, or write {{{{ {shown} or '' }}}}"
                raise NullFieldError(problem, self.place, fix) from error
            raise FieldError(problem, self.place) from error

    def value(self, variables: Mapping[str, Any]) -> Any:
        """Return the value of a single ``{{ expression }}``, otherwise the rendered
        text."""
        value = self._value(variables)
        if isinstance(value, Undefined):
            message = f"{self.field}: {value._undefined_message}"
            raise FieldError(message, self.place)
        return value

    def exists(self, variables: Mapping[str, Any]) -> bool:
        """Return whether the value exists; ``null`` does. Errors other than an unknown
        name are raised."""
        try:
            return not isinstance(self._value(variables), Undefined)
        except FieldError as error:
            if isinstance(error.__cause__, UndefinedError):
                return False
            raise

    def _value(self, variables: Mapping[str, Any]) -> Any:
        if self._parsed.single is None:
            return self.render(variables)
        return self._run(self._parsed.single, variables)


def compile_template(text: str, place: Place, field: str) -> SampleTemplate:
    """Return the template of a text, in which ``<< config.x >>`` is substituted. Raises
    ``TaskFileError``."""
    try:
        parsed = _parsed(text)
    except TemplateSyntaxError as error:
        line = f" (line {error.lineno} of the template)" if "\n" in text else ""
        reason = f"{syntax_error(error)}{line}"
    except NOT_COMPILED as error:
        reason = compile_error(error)
    except ValueError as error:
        reason = str(error)
    else:
        return SampleTemplate(text=text, place=place, field=field, _parsed=parsed)
    raise TaskFileError([Problem(f"{field} is not a valid template: {reason}", place)])


def compile_expression(text: str, place: Place) -> SampleTemplate:
    """Return the template of an expression. Braces are added if it has none; without
    them LatticeFlow never matches. Raises ``TaskFileError``."""
    bare = text.strip()
    if "{{" not in bare and "{%" not in bare:
        bare = f"{{{{ {bare} }}}}"
    return compile_template(bare, place, "expression")


@lru_cache(maxsize=4096)
def _parsed(text: str) -> _Parsed:
    environment = _environment(_Limited)
    begin()
    parsed = environment.parse(text)
    if is_simple(parsed):
        environment = _environment(_Environment)
    compiled = environment.from_string(instrumented(environment, text))
    single = None
    match parsed.body:
        case [nodes.Output(nodes=[nodes.Expr() as expression])] if not isinstance(
            expression, nodes.TemplateData
        ):
            result = nodes.Name("result", "store", lineno=1)
            body = [nodes.Assign(result, expression, lineno=1)]
            tree = environment.from_string(nodes.Template(body, lineno=1))
            single = TemplateExpression(tree, False)
    may_change = _CHANGES.search(text) is not None
    return _Parsed(compiled, single, pieces_of(parsed.body), may_change)


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
    environment.filters[SPOT] = partial(report_null, note=_refuse_null)
    environment.policies["json.dumps_function"] = dumps
    return environment


class _NullError(Exception):
    def __init__(self, name: str) -> None:
        super().__init__(f"{name} is null and would be rendered as 'None'")
        self.name = name


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
    error field."""
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
