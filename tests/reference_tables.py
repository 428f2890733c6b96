"""Write the tables of the docs that are generated from the code::

    python tests/reference_tables.py

Options are those of the command line, keys those of the JSON Schema. A table is between
``<!-- table: NAME -->`` and ``<!-- end of table -->``.
"""

from __future__ import annotations

import ast
import inspect
import json
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest_evals
from pytest_evals.dialects.native.scorers import SCORERS
from pytest_evals.plugin.settings.option_table import TABLE, Option

PAGES = Path(__file__).parent.parent / "docs"
PACKAGE = Path(pytest_evals.__file__).parent
TASK_SCHEMA, EVAL_SCHEMA = (
    json.loads((PAGES / f"{name}.schema.json").read_text("utf-8"))
    for name in ("task", "eval")
)
MARKED = re.compile(
    r"(?P<begin><!-- table: (?P<name>[^\n]+) -->\n\n).*?"
    r"(?P<end>\n<!-- end of table -->)",
    re.DOTALL,
)
KINDS = {
    "string": "text",
    "number": "number",
    "integer": "whole number",
    "boolean": "true or false",
    "array": "list",
    "object": "mapping",
}


def written(page: str) -> str:
    """Return a page with its tables generated from the code."""
    made = makers()
    return MARKED.sub(lambda m: m["begin"] + made[m["name"]]() + m["end"], page)


def makers() -> dict[str, Callable[[], str]]:
    """The functions that make the tables, by name."""
    return {
        "options": options,
        "error rates": error_rates,
        "scorers": scorers,
        "changelog": changelog,
        "layers": layers,
        **{f"parts of {name}": parts_of(name) for name in PARTED},
        **{name: keys_of(name) for name in KEYS},
    }


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def options() -> str:
    return table(("option", "ini", "default", "what it does"), map(option_row, TABLE))


def option_row(option: Option) -> list[str]:
    names = [option.flag] if option.name != "model" else ["--model", option.flag]
    shown = [f"`{f'{name} {option.metavar}'.strip()}`" for name in names]
    default = f"`{option.default}`" if option.default else "-"
    return [
        ", ".join(shown).replace("|", r"\|"),
        f"`{option.dest}`" if option.ini else "-",
        "off" if option.kind == "flag" else default,
        option.help.replace("|", r"\|"),
    ]


ROW = re.compile(
    r"^\S.*?  +.*?  +\d+ +(?P<passed>\d+\.\d) +(?P<failed>\d+\.\d)(?P<above>.*)$",
    re.MULTILINE,
)
RULES = {
    "proportions": "correct or wrong",
    "means": "scores between 0 and 1",
    "repeats": "means over repeats",
    "answers": "correct or wrong, against a baseline",
    "paired": "scores between 0 and 1, against a baseline",
    "clusters": "clustered documents",
    "unbounded": "unbounded scores",
    "outliers": (
        "scores of unknown range with rare outliers, also against a baseline or in "
        "groups, and of known range"
    ),
    "f1": "F1 and MCC",
    "kl": "divergence (`kl`)",
    "groups": "groups of tasks",
    "sampled_runs": "sampled runs with a complete baseline",
    "sampled_groups": "groups of sampled tasks with a complete baseline",
    "corpus": "F1, perplexities and medians, against a baseline",
    "families": "any gate of a family",
    "labels": "a judge with human labels",
}
"""Name of a simulation -> the rule that it is about."""


def error_rates() -> str:
    """The highest rates of each simulation, from the page that contains all of them."""
    text = (PAGES / "gate_error_tables.md").read_text("utf-8")
    heads = (
        "rule",
        "cells",
        "passed %",
        "failed %",
        "above the stated rate",
        "command",
    )
    return table(heads, (error_row(name, text) for name in RULES))


def error_row(name: str, text: str) -> list[str]:
    printed = re.search(rf"^== {name}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    assert printed, name
    rows = list(ROW.finditer(printed[1]))
    highest = [max(float(row[kind]) for row in rows) for kind in ("passed", "failed")]
    above = sum("above" in row["above"] for row in rows)
    command = f"`python -m tests.simulations {name}`"
    return [RULES[name], str(len(rows)), *map(str, highest), str(above), command]


def scorers() -> str:
    rows = []
    for name, (make, bare) in SCORERS.items():
        about = inspect.getdoc(make) or ""
        names = [one for one in inspect.signature(make).parameters if one != "name"]
        listed = ", ".join(f"`{one}`" for one in names) or "-"
        first = " ".join(about.partition("\n\n")[0].split()).replace("``", "`")
        rows.append(
            [f"`{name}`", first.rstrip("."), listed, f"`{bare}`" if bare else "-"]
        )
    return table(("scorer", "what it checks", "arguments", "a bare value sets"), rows)


KEYS = ("task", "shots", "metric", "group", "gate", "eval")


def keys_of(name: str) -> Callable[[], str]:
    return lambda: table(("key", "what it is", "what it does"), key_rows(name))


def key_rows(name: str) -> list[list[str]]:
    kinds = TASK_SCHEMA["$defs"]
    task = kinds["task"]["properties"]
    group = kinds["group"]["properties"]
    found: Mapping[str, Any] = {
        "task": task,
        "shots": task["fewshot_config"]["properties"],
        "metric": task["metric_list"]["items"]["properties"],
        "group": {k: one for k, one in group.items() if "$ref" not in one},
        "gate": kinds["gate"]["anyOf"][1]["properties"],
        "eval": EVAL_SCHEMA["properties"],
    }[name]
    return [[f"`{key}`", kind(one), text(one)] for key, one in found.items()]


def text(one: Mapping[str, Any]) -> str:
    return one.get("description", "").rstrip(".").replace("|", r"\|")


def changelog() -> str:
    """``CHANGELOG.md`` without its title."""
    text = (PAGES.parent / "CHANGELOG.md").read_text(encoding="utf-8")
    return text.partition("\n\n")[2]


PARTED = (
    *("dialects", "gates", "guests", "guests/lighteval/metrics", "models", "plugin"),
    "reports",
)
"""Packages whose parts are in a table of the architecture."""


def parts_of(package: str) -> Callable[[], str]:
    """A table of the folders of a package, and of its own modules."""

    def made() -> str:
        folder = PACKAGE / package
        folders = sorted(one.parent for one in folder.glob("*/__init__.py"))
        modules = sorted(one for one in folder.glob("*.py") if one.stem != "__init__")
        rows = [(f"`{one.stem}{'/' * one.is_dir()}`", about(one)) for one in folders]
        rows += [(f"`{one.stem}`", about(one)) for one in modules]
        return table((f"in `{package}`", "contents"), rows)

    return made


def layers() -> str:
    """A table of the packages and their layers, as in the import contract."""
    project = tomllib.loads((PAGES.parent / "pyproject.toml").read_text("utf-8"))
    (contract,) = (
        one
        for one in project["tool"]["importlinter"]["contracts"]
        if one.get("containers") == ["pytest_evals"]
    )
    n_layers = len(contract["layers"])
    rows = []
    for depth, names in enumerate(contract["layers"], 1):
        for name in map(str.strip, names.split("|")):
            path = PACKAGE / name
            path = path if (path / "__init__.py").exists() else path.with_suffix(".py")
            rows.append((str(n_layers - depth), f"`{name}`", about(path)))
    return table(("layer", "package", "contents"), rows)


def about(path: Path) -> str:
    """The first sentence of the docstring of a module or package."""
    source = path / "__init__.py" if path.is_dir() else path
    return first_sentence(ast.get_docstring(ast.parse(source.read_text("utf-8"))) or "")


def first_sentence(docstring: str) -> str:
    """The first sentence of a docstring, as Markdown without its period."""
    paragraph = " ".join(docstring.partition("\n\n")[0].split())
    sentence = re.split(r"(?<=[\w)`])(?<! al)\.(?= |$)", paragraph)[0]
    return re.sub(r":\w+:`~?\.?([^`]+)`", r"`\1`", sentence).replace("``", "`")


def kind(one: Mapping[str, Any]) -> str:
    """The allowed values, in words."""
    if one.get("$comment") == "function":
        return "function"
    if "enum" in one and True in one["enum"]:
        return "true or false"
    if "enum" in one:
        return ", ".join(f"`{word}`" for word in one["enum"] if word is not None)
    if "anyOf" in one:
        kinds = dict.fromkeys(kind(part) for part in one["anyOf"])
        return " or ".join(one for one in kinds if one)
    if "pattern" in one:
        return "function"
    given = one.get("type", [])
    names = [given] if isinstance(given, str) else given
    return " or ".join(KINDS[name] for name in names if name != "null") or "anything"


def main() -> None:
    for path in PAGES.glob("*.md"):
        page = path.read_text(encoding="utf-8")
        path.write_text(written(page), encoding="utf-8")


if __name__ == "__main__":
    main()
