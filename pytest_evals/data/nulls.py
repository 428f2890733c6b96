"""Nulls that a template writes into a text, where they read "None".

The tree of a template is marked: every expression whose value becomes text goes through
a filter first, which sees a null. That is the value of ``{{ … }}``, of each side of
``~``, of what a filter of text such as ``upper`` is given, and of what is formatted. A
template that handles a null itself (``or``, ``if``, ``default("", true)``, ``tojson``)
has none.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jinja2 import Environment, nodes
from jinja2.visitor import NodeTransformer

SPOT = "evals_spot_null"
"""Name of the filter: ``(value, name)`` to the value. An environment whose trees are
marked has it."""
_TEXT_FILTERS = frozenset(
    {
        "capitalize",
        "center",
        "e",
        "escape",
        "forceescape",
        "format",
        "indent",
        "join",
        "lower",
        "regex_replace",
        "replace",
        "safe",
        "string",
        "striptags",
        "title",
        "trim",
        "truncate",
        "upper",
        "urlize",
        "wordcount",
        "wordwrap",
    }
)
"""Filters that take what they are given for a text."""


def nulls_in(value: Any, name: str, note: Callable[[str], object]) -> Any:
    """The value as it is, for the filter; a null in it is noted.

    Args:
        value: Of an expression.
        name: The expression, as far as it can be named; with a star, each item of the
            value becomes text.
        note: Called with the name of a null.
    """
    if value is None:
        note(name.rstrip("*"))
    elif name[-1:] == "*" and isinstance(value, list | tuple) and None in value:
        note(f"{name[:-1]}[{value.index(None)}]")
    return value


NOT_COMPILED = (SyntaxError, RecursionError, MemoryError, OverflowError)
"""Raised by Jinja's parser and by Python's compiler for templates that are nested too
deeply, and are not errors of the template's syntax."""


def not_compiled(error: BaseException) -> str:
    """The reason of such an error, and how to mend it."""
    reason = f" ({error.msg})" if isinstance(error, SyntaxError) else ""
    return f"it is nested too deeply to be compiled{reason}; use fewer levels"


def marked(environment: Environment, text: str) -> nodes.Template:
    """The tree of a template whose nulls are seen.

    Raises:
        jinja2.TemplateSyntaxError: The text is no template.
    """
    tree = _Marker().visit(environment.parse(text))
    tree.set_environment(environment)
    assert isinstance(tree, nodes.Template)
    return tree


class _Marker(NodeTransformer):
    def visit_Output(self, node: nodes.Output) -> nodes.Output:
        self.generic_visit(node)
        node.nodes = [_spotted(one) for one in node.nodes]
        return node

    def visit_Concat(self, node: nodes.Concat) -> nodes.Concat:
        self.generic_visit(node)
        node.nodes = [_spotted(one) for one in node.nodes]
        return node

    def visit_Filter(self, node: nodes.Filter) -> nodes.Filter:
        self.generic_visit(node)
        if node.name in _TEXT_FILTERS and node.node is not None:
            node.node = _spotted(node.node, "*" * (node.name == "join"))
            if node.name == "format":
                node.args = [_spotted(one) for one in node.args]
        return node

    def visit_Mod(self, node: nodes.Mod) -> nodes.Mod:
        self.generic_visit(node)
        if isinstance(node.left, nodes.Const) and isinstance(node.left.value, str):
            node.right = _spotted(node.right, "*")
        return node

    def visit_Call(self, node: nodes.Call) -> nodes.Call:
        self.generic_visit(node)
        match node.node:
            case nodes.Getattr(node=nodes.Const(value=str()), attr="format"):
                node.args = [_spotted(one) for one in node.args]
        return node


def _spotted(node: nodes.Expr, star: str = "") -> nodes.Expr:
    if isinstance(node, nodes.TemplateData | nodes.Const):
        return node
    name = nodes.Const(_name_of(node) + star, lineno=node.lineno)
    return nodes.Filter(node, SPOT, [name], [], None, None, lineno=node.lineno)


def _name_of(node: nodes.Node | None) -> str:
    """An expression as it was written, as far as it is names and keys."""
    match node:
        case nodes.Name(name=name):
            return name
        case nodes.Getattr(node=held, attr=name):
            return f"{_name_of(held)}.{name}"
        case nodes.Getitem(node=held, arg=nodes.Const(value=key)):
            return f"{_name_of(held)}[{key!r}]"
        case nodes.Filter(node=inner):
            return _name_of(inner)
        case nodes.Call(node=inner):
            return f"{_name_of(inner)}(…)"
    return "an expression"
