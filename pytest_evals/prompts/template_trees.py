"""Filters in the syntax trees of templates: nulls, and marks around inserted text.

Every expression whose value becomes text first passes a filter that detects nulls,
which would be rendered as "None". This covers ``{{ … }}``, both sides of ``~``, inputs
of text filters such as ``upper``, and arguments of string formatting. Nulls that a
template handles itself (``or``, ``if``, ``default("", true)``, ``tojson``) are not
reported.

Marks separate inserted text from the template's own. The rubric contains the
instructions of a judge; an answer in the rubric is data.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from jinja2 import Environment, TemplateSyntaxError, nodes, pass_context
from jinja2.filters import FILTERS
from jinja2.runtime import Context
from jinja2.tests import TESTS
from jinja2.visitor import NodeTransformer

from pytest_evals.errors import unknown_name

SPOT = "evals_spot_null"
"""Name of the filter: ``(value, name)`` → value. Environments with instrumented trees
define it."""
_TEXT_FILTERS = (
    "capitalize", "center", "e", "escape", "forceescape", "format", "indent", "join",
    "lower", "regex_replace", "replace", "safe", "string", "striptags", "title", "trim",
    "truncate", "upper", "urlize", "wordcount", "wordwrap",
)  # fmt: skip
"""Filters that convert their input to text."""


def report_null(value: Any, name: str, note: Callable[[str], object]) -> Any:
    """Return the value unchanged and report a null in it. ``name``: name of the
    expression; with a star, each item of the value becomes text. ``note``: called with
    the name of a null."""
    if value is None:
        note(name.rstrip("*"))
    elif name[-1:] == "*" and isinstance(value, list | tuple) and None in value:
        note(f"{name[:-1]}[{value.index(None)}]")
    return value


NOT_COMPILED = (SyntaxError, RecursionError, MemoryError, OverflowError)
"""Exceptions of Jinja's parser and Python's compiler for templates that are nested too
deeply; they are not syntax errors of the template."""


def compile_error(error: BaseException) -> str:
    """Return the reason of such an error, and a fix."""
    reason = f" ({error.msg})" if isinstance(error, SyntaxError) else ""
    return f"it is nested too deeply to be compiled{reason}; use fewer levels"


def syntax_error(error: TemplateSyntaxError) -> str:
    """Return the reason of a syntax error, with a similar name or the syntax."""
    message = (error.message or "").rstrip(".")
    named = re.fullmatch(r"No (filter|test) named '(.*)'", message)
    if named is None:
        return f"{message}; write values as {{{{ name }}}}, statements as {{% … %}}"
    return unknown_name(named[1], named[2], FILTERS if named[1] == "filter" else TESTS)


def instrumented(environment: Environment, text: str) -> nodes.Template:
    """Return the instrumented tree of a template. Raises jinja2.TemplateSyntaxError if
    the text is not a valid template."""
    tree = _Instrumenter().visit(environment.parse(text))
    tree.set_environment(environment)
    assert isinstance(tree, nodes.Template)
    return tree


class _Instrumenter(NodeTransformer):
    def visit_Output(
        self, node: nodes.Output | nodes.Concat
    ) -> nodes.Output | nodes.Concat:
        self.generic_visit(node)
        node.nodes = [_with_filter(one) for one in node.nodes]
        return node

    visit_Concat = visit_Output

    def visit_Filter(self, node: nodes.Filter) -> nodes.Filter:
        self.generic_visit(node)
        if node.name in _TEXT_FILTERS and node.node is not None:
            node.node = _with_filter(node.node, "*" * (node.name == "join"))
            if node.name == "format":
                node.args = [_with_filter(one) for one in node.args]
        return node

    def visit_Mod(self, node: nodes.Mod) -> nodes.Mod:
        self.generic_visit(node)
        if isinstance(node.left, nodes.Const) and isinstance(node.left.value, str):
            node.right = _with_filter(node.right, "*")
        return node

    def visit_Call(self, node: nodes.Call) -> nodes.Call:
        self.generic_visit(node)
        match node.node:
            case nodes.Getattr(node=nodes.Const(value=str()), attr="format"):
                node.args = [_with_filter(one) for one in node.args]
        return node


def _with_filter(node: nodes.Expr, star: str = "") -> nodes.Expr:
    if isinstance(node, nodes.TemplateData | nodes.Const):
        return node
    name = nodes.Const(_name_of(node) + star, lineno=node.lineno)
    return nodes.Filter(node, SPOT, [name], [], None, None, lineno=node.lineno)


def _name_of(node: nodes.Node | None) -> str:
    """Return an expression as written, if it consists of names and keys."""
    match node:
        case nodes.Name(name=name):
            return name
        case nodes.Getattr(node=owner, attr=name):
            return f"{_name_of(owner)}.{name}"
        case nodes.Getitem(node=owner, arg=nodes.Const(value=key)):
            return f"{_name_of(owner)}[{key!r}]"
        case nodes.Filter(node=inner):
            return _name_of(inner)
        case nodes.Call(node=inner):
            return f"{_name_of(inner)}(…)"
    return "an expression"


MARKS = "evals_marks"
"""Name of the filter that encloses a value, and of the variable with the texts before
and after it."""
_NUMBER = re.compile(r"[0-9.,:%€$£+-]{1,40}")
"""Text that needs no marks. Words need them: several may add up to an order."""
_OF_JINJA = ("caller", "kwargs", "loop", "self", "varargs")
"""Names that templates do not set, and whose values may be of the enclosed ones."""


def with_marks(
    environment: Environment, text: str, names: frozenset[str]
) -> nodes.Template:
    """Return the tree of a valid template that encloses the output of expressions which
    use these names or variables of the template."""
    tree = environment.parse(text)
    variables = {one.name for one in tree.find_all(nodes.Name) if one.ctx != "load"}
    variables |= {one.name for one in tree.find_all(nodes.Macro)}
    tree = _Marker(names | variables | {*_OF_JINJA}).visit(tree)
    tree.set_environment(environment)
    assert isinstance(tree, nodes.Template)
    return tree


@pass_context
def mark(context: Context, value: Any) -> str:
    """Return the value as text between the marks, if it is not a number."""
    text = str(value)
    before, after = context[MARKS]
    return text if _NUMBER.fullmatch(text) else f"{before}{text}{after}"


class _Marker(NodeTransformer):
    def __init__(self, names: frozenset[str]) -> None:
        self._names = names

    def visit_Output(self, node: nodes.Output) -> nodes.Output:
        self.generic_visit(node)
        node.nodes = [
            _filter(one, one.lineno) if self._uses(one) else one for one in node.nodes
        ]
        return node

    def visit_FilterBlock(self, node: nodes.FilterBlock) -> nodes.Node:
        """Enclose the whole block: its filter would change marks inside."""
        if not self._uses(node):
            return node
        return nodes.FilterBlock([node], _filter(None, node.lineno), lineno=node.lineno)

    def _uses(self, node: nodes.Node) -> bool:
        names = {node.name} if isinstance(node, nodes.Name) else set()
        inner = {one.name for one in node.find_all(nodes.Name)}
        return not self._names.isdisjoint(names | inner)


def _filter(node: nodes.Expr | None, line: int) -> nodes.Filter:
    return nodes.Filter(node, MARKS, [], [], None, None, lineno=line)
