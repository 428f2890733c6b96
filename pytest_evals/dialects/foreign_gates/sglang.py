"""Thresholds in tests of SGLang, which are Python: the source is parsed, never run."""

from __future__ import annotations

import ast
import math
import operator
import re
import shlex
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from pytest_evals.dialects.foreign_gates.suite import (
    Converted,
    ConvertedGate,
    UnconvertibleError,
    Values,
    nearest,
    number,
)

_MARKS = ("SCORE_THRESHOLDS", "AccuracyTestParams(", "eval_name=")
"""Text in such tests; other Python files are not parsed."""
_STRICT = {"assertGreater": True, "assertGreaterEqual": False, "Gt": True, "GtE": False}
"""Assertions and operators → whether the threshold itself fails."""
_OPERATORS = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}
_POSITIONS = ("dataset", "baseline_accuracy", "num_examples")
"""Arguments of ``AccuracyTestParams`` by position."""


class SglangCheck(NamedTuple):
    """A threshold. ``n``: documents, if limited; ``model``: empty for every model."""

    evaluation: str
    threshold: Any
    n: Any
    model: str = ""
    is_strict: bool = False


def is_sglang_test(path: Path) -> bool:
    """Whether a Python file may have thresholds of SGLang."""
    text = path.read_text("utf-8", errors="replace")
    return "sglang" in text and any(mark in text for mark in _MARKS)


def read_sglang(path: Path) -> dict[str, Any]:
    """The thresholds of a file: ``{"checks": [SglangCheck, …]}``. Raises
    UnconvertibleError if it is not Python, or has no threshold."""
    try:
        tree = ast.parse(path.read_bytes())
    except (SyntaxError, ValueError) as error:
        raise UnconvertibleError(f"it cannot be parsed: {error}") from None
    checks = [*_Source(tree).checks()]
    if not checks:
        raise UnconvertibleError("it has no threshold of SGLang")
    return {"checks": checks}


class _Source:
    """The calls and thresholds of a file. Numbers may be named and computed."""

    def __init__(self, tree: ast.Module) -> None:
        self._tree = tree
        self._names: dict[str, Any] = {}
        for node in ast.walk(tree):
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                name, value = node.targets[0].id, self._value(node.value)
                self._names[name] = None if name in self._names else value

    def checks(self) -> Iterator[SglangCheck]:
        """Yield the thresholds; one that is not a number as its source."""
        evals = [one for one in map(self._eval_of, ast.walk(self._tree)) if one]
        name, n = evals[0] if evals else ("", None)
        for node in ast.walk(self._tree):
            if isinstance(node, (ast.Assign, ast.AnnAssign)) and name:
                for model, threshold in self._table(node):
                    yield SglangCheck(name, threshold, n, model)
            if isinstance(node, ast.FunctionDef):
                yield from self._asserted(node)
            if isinstance(node, ast.Call) and _called(node) == "AccuracyTestParams":
                given = self._arguments(node)
                if "baseline_accuracy" in given:
                    dataset, n_own = (
                        str(given.get("dataset")),
                        given.get("num_examples"),
                    )
                    yield SglangCheck(dataset, given["baseline_accuracy"], n_own)

    def _table(self, node: ast.Assign | ast.AnnAssign) -> Iterator[tuple[str, Any]]:
        """Models and thresholds of a dictionary called ``…SCORE_THRESHOLDS``."""
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        names = [one.id for one in targets if isinstance(one, ast.Name)]
        if isinstance(node.value, ast.Dict) and "SCORE_THRESHOLDS" in " ".join(names):
            for key, value in zip(node.value.keys, node.value.values, strict=True):
                if key is not None:
                    yield str(self._shown(key)), self._shown(value)

    def _asserted(self, function: ast.FunctionDef) -> Iterator[SglangCheck]:
        """``self.assertGreater(metrics["score"], 0.62)`` or ``assert metrics["score"]
        > 0.62`` after an ``eval_name``."""
        found: tuple[str, Any] | None = None
        for node in ast.walk(function):
            found = self._eval_of(node) or found
        if found is None:
            return
        for node in ast.walk(function):
            sides, is_strict = [], None
            if isinstance(node, ast.Call):
                sides, is_strict = node.args, _STRICT.get(_called(node))
            elif isinstance(node, ast.Assert) and isinstance(node.test, ast.Compare):
                sides = [node.test.left, *node.test.comparators]
                is_strict = _STRICT.get(type(node.test.ops[0]).__name__)
            if is_strict is None or len(sides) < 2:
                continue
            if "score" in ast.dump(sides[0]):
                edge = self._shown(sides[1])
                yield SglangCheck(found[0], edge, found[1], is_strict=is_strict)

    def _eval_of(self, node: ast.AST) -> tuple[str, Any] | None:
        """``eval_name`` and ``num_examples`` of a call."""
        given = self._arguments(node) if isinstance(node, ast.Call) else {}
        name = given.get("eval_name")
        return (name, given.get("num_examples")) if isinstance(name, str) else None

    def _arguments(self, call: ast.Call) -> dict[str, Any]:
        given = zip(_POSITIONS, call.args, strict=False)
        named = [(one.arg, one.value) for one in call.keywords if one.arg]
        return {name: self._shown(value) for name, value in [*given, *named]}

    def _shown(self, node: ast.expr) -> Any:
        """The value of an expression; its source if that is unknown."""
        value = self._value(node)
        is_none = isinstance(node, ast.Constant) and value is None
        return ast.unparse(node) if value is None and not is_none else value

    def _value(self, node: ast.expr) -> Any:
        match node:
            case ast.Constant(value=value):
                return value
            case ast.Name(id=name) | ast.Attribute(attr=name):
                return self._names.get(name)
            case ast.BinOp(left=left, op=op, right=right):
                sides = self._value(left), self._value(right)
                if type(op) in _OPERATORS and all(
                    isinstance(one, int | float) for one in sides
                ):
                    with suppress(ArithmeticError):
                        return _OPERATORS[type(op)](*sides)
        return None


def _called(node: ast.Call) -> str:
    function = node.func
    return str(getattr(function, "attr", getattr(function, "id", "")))


def convert_sglang(values: Values, folder: str, _: str) -> Converted:
    """Thresholds that :func:`read_sglang` found in a test of SGLang."""
    suite = Converted()
    for check in values["checks"]:
        try:
            task = nearest(check.evaluation)
            least = number(f"threshold of {check.evaluation}", check.threshold)
        except UnconvertibleError as error:
            suite.left_out.append(str(error))
            continue
        suite.add_task(task.task)
        edge = math.nextafter(least, math.inf) if check.is_strict else least
        entry: dict[str, Any] = {**task._asdict(), "min": edge, "advisory": True}
        if check.model:
            name = re.sub(r"[^\w.-]", "-", check.model.rpartition("/")[2])
            entry |= {"when": {"model": name}, "id": name}
        sign = ">" if check.is_strict else ">="
        origin = f"{check.model or check.evaluation}: SGLang, {sign} {least:g}"
        gate = ConvertedGate(entry, origin)
        suite.gates += [gate] * (gate not in suite.gates)
        limit = f"num_examples={check.n} of {check.evaluation}"
        suite.left_out += [limit] * (bool(check.n) and limit not in suite.left_out)
    if not suite.gates:
        raise UnconvertibleError("; ".join(suite.left_out))
    suite.left_out.insert(
        0, "prompts of simple-evals: the suite has lm-eval's, so its gates are advisory"
    )
    suite.commands.append(
        f"pytest --model=NAME=serve:COMMAND --evals-apply-chat-template "
        f"{shlex.quote(folder)}, with a NAME of gates.yaml"
    )
    return suite
