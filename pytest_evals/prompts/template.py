"""Jinja templates, in a sandbox, compiled once for each distinct text.

Equals lm-eval 0.4.13, ``utils.py``, ``apply_template`` (strict about unknown names,
trailing newline kept, one filter ``regex_replace``), except that a template cannot
reach into Python, and that a row which it changes is changed for itself alone.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from jinja2 import StrictUndefined, TemplateSyntaxError, meta
from jinja2 import Template as Compiled
from jinja2.sandbox import SandboxedEnvironment

from pytest_evals.errors import EvalsError
from pytest_evals.limits.budget import begin
from pytest_evals.limits.patterns import compiled
from pytest_evals.limits.templates import LimitedTemplates, is_simple

__all__ = ["Template", "compile_template"]

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
    """

    text: str
    names: frozenset[str]
    render: Callable[[Mapping[str, Any]], str]


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
    except (RecursionError, MemoryError, SyntaxError):
        what = "parentheses, loops or conditions are nested too deeply"
        raise EvalsError(what) from None
    except (ValueError, OverflowError) as error:
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

    return Template(text=text, names=needed, render=render)


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
    return environment


def _regex_replace(text: str, pattern: str, replacement: str, count: int = 0) -> str:
    return compiled(pattern).sub(replacement, text, count)
