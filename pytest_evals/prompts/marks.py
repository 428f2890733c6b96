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
_WORD = re.compile(r"[\w.,:%€$£+-]{1,40}")
"""Text that needs no marks: a single word contains neither orders nor tags."""


def with_marks(
    environment: Environment, text: str, names: frozenset[str]
) -> nodes.Template:
    """Return the tree of a valid template that encloses the output of expressions which
    use these names or variables of the template."""
    tree = environment.parse(text)
    variables = {one.name for one in tree.find_all(nodes.Name) if one.ctx != "load"}
    variables |= {one.name for one in tree.find_all(nodes.Macro)}
    tree = _Marker(names | variables).visit(tree)
    tree.set_environment(environment)
    assert isinstance(tree, nodes.Template)
    return tree


@pass_context
def mark(context: Context, value: Any) -> str:
    """Return the value as text between the marks, if it is not a single word."""
    text = str(value)
    before, after = context[MARKS]
    return text if _WORD.fullmatch(text) else f"{before}{text}{after}"


class _Marker(NodeTransformer):
    def __init__(self, names: frozenset[str]) -> None:
        self._names = names

    def visit_Output(self, node: nodes.Output) -> nodes.Output:
        self.generic_visit(node)
        node.nodes = [self._marked(one) for one in node.nodes]
        return node

    def _marked(self, node: nodes.Expr) -> nodes.Expr:
        used = {one.name for one in node.find_all(nodes.Name)}
        used |= {node.name} if isinstance(node, nodes.Name) else set()
        if not used & self._names:
            return node
        return nodes.Filter(node, MARKS, [], [], None, None, lineno=node.lineno)
