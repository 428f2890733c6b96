"""Record verdicts of BFCL's own checker on made calls.

``python tests/parity/record_bfcl.py FOLDER`` reads the unpacked wheel of bfcl-eval
2026.3.23 (``pip download --no-deps bfcl-eval``) in FOLDER, compares all its single-turn
answers in Python with our rules, and writes ``tests/scorers/bfcl_verdicts.json.gz``.
"""

from __future__ import annotations

import copy
import gzip
import importlib
import json
import sys
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

from pytest_evals.scorers.bfcl import bfcl_fault

VERSION = "2026.3.23"
OUT = Path(__file__).parents[1] / "scorers" / "bfcl_verdicts.json.gz"
CATEGORIES = (
    "simple_python",
    "multiple",
    "parallel",
    "parallel_multiple",
    "live_simple",
    "live_multiple",
    "live_parallel",
    "live_parallel_multiple",
)
Call = dict[str, dict[str, Any]]
Checker = Callable[[Any, Any, Any, str], bool | None]
_SCHEMAS: list[dict[str, Any]] = [
    {"type": "string"},
    {"type": "integer"},
    {"type": "float"},
    {"type": "boolean"},
    {"type": "any"},
    {"type": "dict"},
    {"type": "array", "items": {"type": "string"}},
    {"type": "array", "items": {"type": "integer"}},
    {"type": "array", "items": {"type": "float"}},
    {"type": "array", "items": {"type": "dict"}},
    {"type": "tuple", "items": {"type": "integer"}},
    {"type": "array", "items": {"type": "array"}},
]
_TRUTHS: dict[str, list[list[Any]]] = {
    "string": [["Oslo"], ["New York, NY", ""], ["a-b", "c"], [""], [None, "x"]],
    "integer": [[3], [1, 2, ""], ["n"], [None, 4]],
    "float": [[1.5], [2.0, 3.25, ""], [4]],
    "boolean": [[True], [False, ""]],
    "any": [["text"], [5, ""]],
    "dict": [
        [{"beds": [1, 2], "view": ["sea", ""]}],
        ["", {"a": ["x", "Y-z"], "b": [[1, 2]]}],
        [""],
    ],
    "array of string": [[["a", "B c"]], [["x"], ["x", "y"], ""]],
    "array of integer": [[[1, 2]], [[3], ""]],
    "array of float": [[[1.5, 2.0]], [[1, 2]]],
    "array of dict": [[[{"name": ["Ann"], "age": [30, ""]}]], ["", [{"k": [1]}]]],
    "tuple of integer": [[[1, 2]]],
    "array of array": [[[[1, 2], [3]]], [[["a"], ["b"]]]],
}
_VALUES: list[Any] = [
    *(True, False, None, "", 0, 1, 2, 3.0, 1.5, "OSLO", "a_b", "new york ny", "3"),
    *([], [1], [1, 2], [1.0, 2], ["A", "b-c"], ["x", "y"], [[1, 2], [3]]),
    *({}, {"beds": 1}, {"beds": True, "view": "SEA"}, {"a": "yz"}, [{"name": "ann"}]),
]


def kind(schema: dict[str, Any]) -> str:
    """The name of a type, with that of its items."""
    items = schema.get("items")
    return f"{schema['type']} of {items['type']}" if items else str(schema["type"])


def made_case(rng: Random) -> tuple[list[Any], list[Any], list[Call]]:
    """Functions, ground truth and a reply that is often wrong in one respect."""
    functions, truth = [], list[Any]()
    for n in range(rng.choice((1, 1, 2, 3))):
        names = [f"p{m}" for m in range(rng.randint(1, 4))]
        properties = {name: rng.choice(_SCHEMAS) for name in names}
        required = [name for name in names if rng.random() < 0.5]
        name = f"tool{n}"
        parameters = {
            "type": "dict",
            "properties": properties,
            "required": required,
        }
        functions.append({"name": name, "parameters": parameters})
        accepted = {
            key: rng.choice(_TRUTHS[kind(one)]) for key, one in properties.items()
        }
        truth += [{name: accepted}] * rng.choice((1, 1, 2))
    reply = [first_accepted(one) for one in truth]
    if rng.random() < 0.85:
        reply = mutated(reply, truth, rng)
    return functions, truth, reply


def first_accepted(truth: dict[str, dict[str, list[Any]]]) -> Call:
    """The call with the first accepted values."""
    ((name, accepted),) = truth.items()
    return {
        name: {
            key: plain(next(one for one in values if one != ""))
            for key, values in accepted.items()
            if any(one != "" for one in values)
        }
    }


def plain(value: Any) -> Any:
    """A value with the first accepted values inside of mappings."""
    if isinstance(value, dict) and all(isinstance(v, list) for v in value.values()):
        firsts = {k: [one for one in v if one != ""] for k, v in value.items()}
        return {k: plain(v[0]) for k, v in firsts.items() if v}
    return [*map(plain, value)] if isinstance(value, list) else value


def mutated(reply: list[Call], truth: list[Any], rng: Random) -> list[Call]:
    """A reply that differs in one respect."""
    reply = copy.deepcopy(reply)
    call = rng.choice(reply)
    ((name, arguments),) = call.items()
    key = rng.choice([*arguments]) if arguments else ""
    way = rng.randrange(10)
    if way == 0:
        arguments.pop(key, None)
    elif way == 1:
        arguments["unknown"] = 1
    elif way == 2:
        reply.append(copy.deepcopy(call))
    elif way == 3:
        rng.shuffle(reply)
    elif way == 4:
        reply.remove(call)
        reply.append({f"{name}x": arguments})
    elif way == 5 and key:
        accepted = next(one[name][key] for one in truth if key in one.get(name, ()))
        arguments[key] = plain(rng.choice(accepted))
    elif way == 6 and key and isinstance(arguments[key], int | float):
        value = arguments[key]
        arguments[key] = float(value) if isinstance(value, int) else int(value)
    elif key:
        arguments[key] = copy.deepcopy(rng.choice(_VALUES))
    return reply


def checker_in(folder: Path) -> Checker:
    """BFCL's checker. Its table of models and its converters for Java and JavaScript
    are replaced, so that no package is needed."""
    settings = types.ModuleType("bfcl_eval.constants.model_config")
    model = types.SimpleNamespace(underscore_to_dot=False)
    settings.MODEL_CONFIG_MAPPING = {"m": model}  # type: ignore[attr-defined]
    sys.modules[settings.__name__] = settings
    path = "bfcl_eval.eval_checker.ast_eval"
    for language in ("java", "js"):
        module_name = f"{path}.type_convertor.{language}_type_converter"
        converter = types.ModuleType(module_name)
        setattr(converter, f"{language}_type_converter", None)
        sys.modules[module_name] = converter
    sys.path.insert(0, str(folder))
    module = importlib.import_module(f"{path}.ast_checker")
    language = importlib.import_module("bfcl_eval.constants.enums").Language.PYTHON

    def check(functions: Any, reply: Any, truth: Any, category: str) -> bool | None:
        given = copy.deepcopy((functions, reply, truth))
        try:
            return bool(module.ast_checker(*given, language, category, "m")["valid"])
        except Exception:  # noqa: BLE001 - of the checker
            return None

    return check


def category_of(truth: list[Any]) -> str:
    """The name of a category that selects the checker's branch."""
    return "parallel" if len(truth) > 1 else "multiple"


def ours(functions: list[Any], reply: list[Call], truth: list[Any]) -> bool:
    """The verdict of our rules."""
    calls = [next(iter(call.items())) for call in reply]
    return not bfcl_fault(calls, truth, functions)


def published(folder: Path) -> Iterator[tuple[str, list[Any], list[Any]]]:
    """Category, functions and ground truth of each row in Python."""
    data = folder / "bfcl_eval" / "data"
    for category in CATEGORIES:
        name = f"BFCL_v4_{category}.json"
        questions = (data / name).read_text("utf-8").splitlines()
        answers = (data / "possible_answer" / name).read_text("utf-8").splitlines()
        for question, answer in zip(questions, answers, strict=True):
            functions = json.loads(question)["function"]
            yield category, functions, json.loads(answer)["ground_truth"]


def main(folder: Path) -> None:
    """Compare all published rows; record made ones."""
    check, rng = checker_in(folder), Random(7)
    n = n_other = 0
    for category, functions, truth in published(folder):
        first = [first_accepted(one) for one in truth]
        replies = [first, first[::-1], *(mutated(first, truth, rng) for _ in range(8))]
        for reply in replies:
            verdict = check(functions, reply, truth, category)
            n += 1
            n_other += verdict is not None and verdict != ours(functions, reply, truth)
    print(f"{n} replies to published rows, {n_other} differ")
    cases = []
    while len(cases) < 1000:
        functions, truth, reply = made_case(rng)
        verdict = check(functions, reply, truth, category_of(truth))
        if verdict is not None:
            cases.append([functions, truth, reply, verdict])
    lines = ",\n".join(json.dumps(one, separators=(",", ":")) for one in cases)
    source = json.dumps(f"bfcl-eval {VERSION}: eval_checker.ast_eval.ast_checker")
    text = f'{{"source":{source},"cases":[\n{lines}\n]}}\n'
    OUT.write_bytes(gzip.compress(text.encode("utf-8"), mtime=0))
    right = sum(case[3] for case in cases)
    print(f"{len(cases)} made cases, {right} right")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
