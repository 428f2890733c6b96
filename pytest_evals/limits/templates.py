"""Jinja environments with limits on time and memory.

Loops, calls, filters, and operations that create strings are counted while a template
runs; see :mod:`pytest_evals.limits.budget`. The semantics of templates do not change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial, wraps
from types import GeneratorType
from typing import Any, cast

from jinja2 import Template, nodes, pass_context
from jinja2.compiler import CodeGenerator, Frame
from jinja2.runtime import Context, LoopContext
from jinja2.sandbox import ImmutableSandboxedEnvironment, SandboxedEnvironment

from pytest_evals.limits.budget import (
    begin,
    counted,
    size_inside,
    size_of_binary,
    size_of_call,
    size_of_filter,
    size_of_result,
    spend,
    step,
    weight,
)

_COUNTED = "rounds that are counted"
"""A filter name that cannot be written in a template."""
_SIMPLE = (
    *(nodes.Add, nodes.And, nodes.Compare, nodes.Concat, nodes.CondExpr, nodes.Const),
    *(nodes.Dict, nodes.Getattr, nodes.Getitem, nodes.If, nodes.List, nodes.Name),
    *(nodes.Neg, nodes.Not, nodes.Operand, nodes.Or, nodes.Output, nodes.Pair),
    *(nodes.Slice, nodes.Sub, nodes.Template, nodes.TemplateData, nodes.Test),
    nodes.Tuple,
)
"""Functions whose result is at most as long as their arguments."""
_SHORT_SIGN = 100
_SIMPLE_FILTERS = frozenset(
    (
        *("capitalize", "count", "d", "default", "first", "float", "int", "last"),
        *("length", "list", "lower", "string", "title", "trim", "upper"),
    )
)
_SIMPLE_METHODS = frozenset(
    (
        *("capitalize", "count", "endswith", "find", "get", "index", "isdigit"),
        *("isupper", "items", "keys", "lower", "lstrip", "removeprefix"),
        *("removesuffix", "rstrip", "split", "splitlines", "startswith", "strip"),
        *("title", "upper", "values"),
    )
)


def is_simple(template: nodes.Template) -> bool:
    """Return whether a template needs no limits: it has no loops or variables of its
    own, and no operation that enlarges its operands."""
    waiting: list[nodes.Node] = [template]
    while waiting:
        node = waiting.pop()
        if not isinstance(node, _SIMPLE) and not _is_simple_call(node):
            return False
        waiting += node.iter_child_nodes()
    return True


def _is_simple_call(node: nodes.Node) -> bool:
    if not isinstance(node, nodes.Filter | nodes.Call):
        return False
    if node.kwargs or node.dyn_args is not None or node.dyn_kwargs is not None:
        return False
    if isinstance(node, nodes.Filter):
        name, names = node.name, _SIMPLE_FILTERS
        signs = node.args if name in ("join", "replace") else None
    elif isinstance(node.node, nodes.Getattr):
        name, names = node.node.attr, _SIMPLE_METHODS
        signs = {"join": [node.node.node], "replace": node.args}.get(name)
    else:
        return False
    return name in names if signs is None else all(map(_is_short, signs))


def _is_short(sign: nodes.Node) -> bool:
    if not isinstance(sign, nodes.Const) or not isinstance(sign.value, str):
        return False
    return len(sign.value) <= _SHORT_SIGN


class _Generator(CodeGenerator):
    """Code generator that routes the creation of strings through the environment."""

    def write_commons(self) -> None:
        super().write_commons()
        self.writeline("written = environment.written")

    def visit_Concat(self, node: nodes.Concat, frame: Frame) -> None:
        context = frame.eval_ctx
        join = "markup_join" if context.autoescape else "str_join"
        if context.volatile:
            join = "(markup_join if context.eval_ctx.volatile else str_join)"
        self.write(f"environment.joined({join}, (")
        for part in node.nodes:
            self.visit(part, frame)
            self.write(", ")
        self.write("))")

    def visit_Getitem(self, node: nodes.Getitem, frame: Frame) -> None:
        if isinstance(node.arg, nodes.Slice):
            self._through("made", super().visit_Getitem, node, frame)
        else:
            super().visit_Getitem(node, frame)

    def visit_List(self, node: nodes.List, frame: Frame) -> None:
        self._through("built", super().visit_List, node, frame)

    def visit_Dict(self, node: nodes.Dict, frame: Frame) -> None:
        self._through("built", super().visit_Dict, node, frame)

    def visit_Tuple(self, node: nodes.Tuple, frame: Frame) -> None:
        if node.ctx == "load":
            self._through("built", super().visit_Tuple, node, frame)
        else:
            super().visit_Tuple(node, frame)

    def _through(
        self, method: str, visit: Callable[[Any, Frame], None], node: Any, frame: Frame
    ) -> None:
        self.write(f"environment.{method}(")
        visit(node, frame)
        self.write(")")

    def _output_child_pre(
        self, node: nodes.Expr, frame: Frame, finalize: CodeGenerator._FinalizeInfo
    ) -> None:
        context = frame.eval_ctx
        if context.volatile or context.autoescape or finalize.src is not None:
            super()._output_child_pre(node, frame, finalize)
        else:
            self.write("written(")


class _Template(Template):
    """A template whose counting starts when it is rendered."""

    def render(self, *arguments: Any, **named: Any) -> str:
        begin()
        return super().render(*arguments, **named)

    def generate(self, *arguments: Any, **named: Any) -> Iterator[str]:
        begin()
        return super().generate(*arguments, **named)


class LimitedTemplates(SandboxedEnvironment):
    """A sandboxed environment that counts operations."""

    code_generator_class = _Generator
    template_class = _Template
    intercepted_binops = frozenset(["*", "**", "%", "+"])

    @staticmethod
    def concat(parts: Iterable[str]) -> str:
        """Join the output of a template, a macro or a block."""
        texts = list(parts)
        spend(sum(map(len, texts)))
        return "".join(texts)

    def compile(self, *arguments: Any, **named: Any) -> Any:
        """Compile as Jinja does, which evaluates constant expressions."""
        if _COUNTED not in self.filters:
            filters = {name: _limited(name, one) for name, one in self.filters.items()}
            self.filters = {**filters, _COUNTED: _rounds}
        begin()
        return super().compile(*arguments, **named)

    def _generate(self, source: nodes.Template, *arguments: Any, **named: Any) -> str:
        for loop in source.find_all(nodes.For):
            lines = {"lineno": loop.iter.lineno}
            loop.iter = nodes.Filter(loop.iter, _COUNTED, [], [], None, None, **lines)
        return super()._generate(source, *arguments, **named)

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        """Evaluate ``left * right`` and other binary operations."""
        spend(size_of_binary(operator, left, right))
        return super().call_binop(context, operator, left, right)

    def call(
        __self,  # as Jinja has it, since any name may be an argument's
        __context: Context,
        __obj: Any,
        *arguments: Any,
        **named: Any,
    ) -> Any:
        """Call a method, a macro or a function."""
        step(10)
        if arguments and isinstance(arguments[0], GeneratorType):
            arguments = (list(arguments[0]), *arguments[1:])
        if isinstance(__obj, LoopContext):  # a loop that goes over what is inside
            arguments = tuple(map(counted, arguments))
        spend(size_of_call(__obj, arguments, named))
        return __self.made(super().call(__context, __obj, *arguments, **named))

    @staticmethod
    def made(value: Any) -> Any:
        """Count a created value."""
        spend(size_of_result(value))
        return value

    @staticmethod
    def built(value: Any) -> Any:
        """Count a list or mapping. Without a limit, a list that contains the same list
        twice would double with each iteration of a loop."""
        for one in value.values() if isinstance(value, dict) else value:
            if isinstance(one, list | tuple | dict | set):
                spend(weight(value))
                break
        return value

    @staticmethod
    def written(value: Any) -> str:
        """Count a value converted to a string."""
        kind = type(value)
        if kind is str:
            return cast("str", value)
        if kind is not int:
            spend(size_inside(value))
        return str(value)

    @staticmethod
    def joined(join: Callable[[Any], str], parts: tuple[Any, ...]) -> str:
        """Evaluate ``a ~ b``."""
        spend(sum(map(weight, parts)))
        return join(parts)


class LimitedChatTemplates(LimitedTemplates, ImmutableSandboxedEnvironment):
    """An environment for chat templates, configured as in transformers."""


@pass_context  # so that it is not done when a template is compiled
def _rounds(_context: Context, items: Iterable[Any]) -> Iterable[Any]:
    return counted(items)


def _limited(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    if name in _SIMPLE_FILTERS:
        return wraps(function)(partial(_counting, function))
    n_before = int(hasattr(function, "jinja_pass_arg"))

    @wraps(function)
    def limited(*arguments: Any, **named: Any) -> Any:
        before, given = arguments[:n_before], arguments[n_before:]
        if name == "join" and given and isinstance(given[0], GeneratorType):
            given = (list(given[0]), *given[1:])
        spend(size_of_filter(name, given, named))
        made = function(*before, *given, **named)
        if isinstance(made, GeneratorType):
            return counted(made)
        return LimitedTemplates.made(made)

    return limited


def _counting(function: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
    made = function(*arguments, **named)
    if type(made) is str or type(made) is list:
        spend(len(made))
    return made
