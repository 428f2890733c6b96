"""Thresholds in tests of SGLang, which are Python: the source is parsed, never run."""

from __future__ import annotations

import ast
import math
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from pytest_evals.dialects.foreign_gates.nearest import nearest
from pytest_evals.dialects.foreign_gates.suite import (
    Converted,
    ConvertedGate,
    UnconvertibleError,
    Values,
    number,
)

_MARKS = ("SCORE_THRESHOLDS", "AccuracyTestParams(", "eval_name=")
"""Text in such tests; other Python files are not parsed."""
_STRICT = {"assertGreater": True, "assertGreaterEqual": False}


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
    """The thresholds of a file: ``{"checks": [SglangCheck, …]}``.

    Raises:
        UnconvertibleError: It is not Python, or has no threshold.
    """
    try:
        tree = ast.parse(path.read_bytes())
    except (SyntaxError, ValueError) as error:
        raise UnconvertibleError(f"it cannot be parsed: {error}") from None
    checks = [*_checks(tree)]
    if not checks:
        raise UnconvertibleError("it has no threshold of SGLang")
    return {"checks": checks}


def _checks(tree: ast.Module) -> Iterator[SglangCheck]:
    evals = [one for one in map(_eval_of, ast.walk(tree)) if one]
    name, n = evals[0] if evals else ("", None)
    for node in ast.walk(tree):
        if isinstance(node, (ast.Assign, ast.AnnAssign)) and name:
            for model, threshold in _table(node):
                yield SglangCheck(name, threshold, n, model)
        if isinstance(node, ast.FunctionDef):
            yield from _asserted(node)
        if isinstance(node, ast.Call) and _called(node) == "AccuracyTestParams":
            given = _keywords(node)
            if "baseline_accuracy" in given:
                dataset, n_own = str(given.get("dataset")), given.get("num_examples")
                yield SglangCheck(dataset, given["baseline_accuracy"], n_own)


def _table(node: ast.Assign | ast.AnnAssign) -> Iterator[tuple[str, Any]]:
    """Models and thresholds of a dictionary called ``…SCORE_THRESHOLDS``."""
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    names = [one.id for one in targets if isinstance(one, ast.Name)]
    table = node.value
    if not isinstance(table, ast.Dict) or not any(
        "SCORE_THRESHOLDS" in n for n in names
    ):
        return
    for key, value in zip(table.keys, table.values, strict=True):
        if isinstance(key, ast.Constant) and isinstance(value, ast.Constant):
            yield str(key.value), value.value


def _asserted(function: ast.FunctionDef) -> Iterator[SglangCheck]:
    """``self.assertGreater(metrics["score"], 0.62)`` after an ``eval_name``."""
    found: tuple[str, Any] | None = None
    for node in ast.walk(function):
        found = _eval_of(node) or found
    if found is None:
        return
    for node in ast.walk(function):
        name = _called(node) if isinstance(node, ast.Call) else ""
        if isinstance(node, ast.Call) and name in _STRICT and len(node.args) > 1:
            edge = node.args[1]
            if "score" in ast.dump(node.args[0]) and isinstance(edge, ast.Constant):
                yield SglangCheck(
                    found[0], edge.value, found[1], is_strict=_STRICT[name]
                )


def _eval_of(node: ast.AST) -> tuple[str, Any] | None:
    """``eval_name`` and ``num_examples`` of a call."""
    given = _keywords(node) if isinstance(node, ast.Call) else {}
    name = given.get("eval_name")
    return (name, given.get("num_examples")) if isinstance(name, str) else None


def _keywords(node: ast.Call) -> dict[str, Any]:
    return {
        one.arg: one.value.value
        for one in node.keywords
        if one.arg and isinstance(one.value, ast.Constant)
    }


def _called(node: ast.Call) -> str:
    function = node.func
    return str(getattr(function, "attr", getattr(function, "id", "")))


def convert_sglang(values: Values, folder: str, _: str) -> Converted:
    """Thresholds that :func:`read_sglang` found in a test of SGLang."""
    suite = Converted()
    for check in values["checks"]:
        try:
            task = nearest(check.evaluation)
        except UnconvertibleError as error:
            suite.left_out.append(str(error))
            continue
        suite.add_task(task.task)
        least = number("threshold", check.threshold)
        edge = math.nextafter(least, math.inf) if check.is_strict else least
        entry: dict[str, Any] = {**task._asdict(), "min": edge, "advisory": True}
        if check.model:
            name = re.sub(r"[^\w.-]", "-", check.model.rpartition("/")[2])
            entry |= {"when": {"model": name}, "id": name}
        sign = ">" if check.is_strict else ">="
        origin = f"{check.model or check.evaluation}: SGLang, {sign} {least:g}"
        suite.gates.append(ConvertedGate(entry, origin))
        if check.n:
            suite.left_out.append(f"num_examples={check.n} of {check.evaluation}")
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
