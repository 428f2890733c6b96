"""Jinja templates, in a sandbox, compiled once for each distinct text.

Equals lm-eval 0.4.13, ``utils.py``, ``apply_template`` (strict about unknown names,
trailing newline kept, one filter ``regex_replace``), except that a template cannot
reach into Python, and that a row which it changes is changed for itself alone.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from jinja2 import StrictUndefined, TemplateSyntaxError, meta, pass_context
from jinja2 import Template as Compiled
from jinja2.runtime import Context
from jinja2.sandbox import SandboxedEnvironment

from pytest_evals.data.nulls import (
    NOT_COMPILED,
    SPOT,
    marked,
    not_compiled,
    nulls_in,
)
from pytest_evals.errors import EvalsError
from pytest_evals.limits.budget import begin
from pytest_evals.limits.patterns import compiled
from pytest_evals.limits.templates import LimitedTemplates, is_simple

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
