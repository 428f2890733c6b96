"""Encloses text that a template inserts, to separate it from the template's own text.

The rubric contains the instructions of a judge; an answer in the rubric is data.
"""

from __future__ import annotations

import re
from typing import Any

from jinja2 import Environment, nodes, pass_context
from jinja2.runtime import Context
from jinja2.visitor import NodeTransformer

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
        node.nodes = [self._marked(one) for one in node.nodes]
        return node

    def visit_FilterBlock(self, node: nodes.FilterBlock) -> nodes.Node:
        """Enclose the whole block: its filter would change marks inside."""
        if not self._uses(node):
            return node
        return nodes.FilterBlock([node], _filter(None, node.lineno), lineno=node.lineno)

    def _marked(self, node: nodes.Expr) -> nodes.Expr:
        return _filter(node, node.lineno) if self._uses(node) else node

    def _uses(self, node: nodes.Node) -> bool:
        own = {node.name} if isinstance(node, nodes.Name) else set()
        inner = {one.name for one in node.find_all(nodes.Name)}
        return not self._names.isdisjoint(own | inner)


def _filter(node: nodes.Expr | None, line: int) -> nodes.Filter:
    return nodes.Filter(node, MARKS, [], [], None, None, lineno=line)
