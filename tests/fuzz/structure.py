"""Suites with a gate that fails, and changes of their structure. Each may lose the gate;
then the run must say so."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable
from contextlib import suppress
from pathlib import PurePosixPath

import yaml

from tests.fuzz.mutations import FOLDER, Files, typo

__all__ = ["gated"]

NATIVE = """\
prompt: "Say {{q}}"
rows:
  - {id: a, q: one, target: eins}
  - {id: b, q: two, target: zwei}
score: exact
owner: me
version: 1
"""
TASK = """\
task: quiz
dataset_path: json
dataset_kwargs:
  data_files: {test: quiz.jsonl}
test_split: test
output_type: generate_until
doc_to_text: "{{q}}"
doc_to_target: "{{target}}"
metric_list:
  - metric: exact_match
"""
MODULE = """\
import pytest_evals as ev


@ev.eval(score=[ev.exact()], gates=["exact >= 0.9"])
def quiz():
    yield ev.case("one", target="eins")


@quiz.score
def short(answer):
    return True
"""
PASSES = 'prompt: "{{q}}"\nrows: [{q: one, target: one}]\ngates: [exact >= 0.9]\n'
TOP, LISTED = "gates: [{} >= 0.9]\n", "gates:\n  - {{metric: {}, min: 0.9}}\n"


def gated(seeds: list[random.Random], rng: random.Random) -> tuple[Files, list[str]]:
    """A suite after one change for each seed, and what was changed."""
    files: Files = {"pytest.ini": b"[pytest]\n", "evals/passes.yaml": PASSES.encode()}
    files["evals/quiz.jsonl"] = b'{"q": "one", "target": "eins"}\n'
    kind = rng.choice(("native", "native", "lm_eval", "lm_eval", "group", "python"))
    where = rng.choice(("top", "top", "file", "metadata"))
    metric = "exact_match" if kind in ("lm_eval", "group") else "exact"
    text = {"native": NATIVE, "python": MODULE}.get(kind, TASK)
    gates = rng.choice((TOP, LISTED)).format(metric)
    if kind == "python":
        files["evals/test_quiz.py"] = text.encode()
        return files, [_changed(files, "evals/test_quiz.py", PYTHON, seeds[0])]
    name = "evals/quiz.yaml"
    if kind == "group":
        name, files["evals/quiz.yaml"] = "evals/all.yaml", text.encode()
        text = "group: all_of_it\ntask:\n  - quiz\n"
        text += "aggregate_metric_list:\n  - metric: exact_match\n"
    if where == "file":
        owner = "all_of_it" if kind == "group" else "quiz"
        files["evals/gates.yaml"] = f"gates:\n  - {owner}/{metric} >= 0.9\n".encode()
    elif where == "metadata":
        text = re.sub("version: 1\n", "", text)
        text += "metadata:\n" + re.sub("(?m)^", "  ", f"version: 1\n{gates}".rstrip())
    else:
        text = text + gates if rng.random() < 0.7 else gates + text
    files[name] = f"{text.rstrip()}\n".encode()
    if where == "file" and rng.random() < 0.8:
        changes = [
            _changed(files, "evals/gates.yaml", GATES_FILE, one) for one in seeds
        ]
    else:
        changes = [_changed(files, name, YAML, one) for one in seeds]
    return files, changes


Change = Callable[[Files, str, random.Random], str]


def _changed(
    files: Files, name: str, changes: tuple[Change, ...], rng: random.Random
) -> str:
    """Change a file that is still there in one way; describe the change."""
    if not isinstance(files.get(name), bytes) or files[name].startswith(b"<a "):
        return f"{name}: as it is"
    return f"{name}: {rng.choice(changes)(files, name, rng)}"


def _text(change: Callable[[str, random.Random], tuple[str, str]]) -> Change:
    """A change of a text as a change of files."""

    def changed(files: Files, name: str, rng: random.Random) -> str:
        try:
            text = files[name].decode()
        except UnicodeError:
            return "as it is"
        new, what = change(text, rng)
        files[name] = new.encode()
        return what

    return changed


KEY = re.compile(r"(?m)^([ \t]*(?:- )?)([A-Za-z_]+)(?=:)")


@_text
def _misspelt(text: str, rng: random.Random) -> tuple[str, str]:
    found = [m for m in KEY.finditer(text) if m[2] not in ("owner", "version", "id")]
    if not found:
        return text, "as it is"
    key = rng.choice([m for m in found if not m[1]] or found)
    forms = (typo(key[2], rng), key[2].upper(), key[2].title(), key[2] + "s")
    new = rng.choice((forms[0], *forms))
    return text[: key.start(2)] + new + text[key.end(2) :], f"{key[2]} is {new!r}"


@_text
def _moved_gates(text: str, rng: random.Random) -> tuple[str, str]:
    """The gates below another key, or with another name."""
    key = rng.choice(
        (
            *(
                "quality_gates",
                "gate",
                "checks",
                "metadata",
                "x",
                "generation",
                "gates",
            ),
            *("generation_kwargs", "task_list", "fewshot_config", "extract", "model"),
        )
    )
    gates = re.search(r"(?m)^gates: \[.*\]\n?$", text)
    new = re.sub("(?m)^( *)gates:", rf"\1{key}:\n\1  gates:", text)
    new = re.sub(r"(?m)^(  - \{metric)", r"  \1", new)
    if rng.random() < 0.5:
        key = rng.choice(
            ("quality_gates", "gate", "Gates", "GATES", "gates_", "my_gates")
        )
        new = re.sub("(?m)^( *)gates:", rf"\1{key}:", text)
    inner = re.search(r"(?m)^( +)(?:- )?(\w+): .*$", text)
    if gates and inner and rng.random() < 0.25:  # in a mapping that is there
        key, indent = (
            f"the mapping of {inner[2]}",
            " " * (inner.start(2) - inner.start()),
        )
        rest = text.replace(gates[0], "")
        new = rest.replace(inner[0], f"{inner[0]}\n{indent}{gates[0].strip()}", 1)
    return new, f"gates in {key!r}"


@_text
def _indentation(text: str, rng: random.Random) -> tuple[str, str]:
    lines = text.splitlines()
    at, n = rng.randrange(len(lines)), rng.choice((1, 2, 4))
    match rng.randrange(5):
        case 0:
            return "".join(
                f"{' ' * n}{one}\n" for one in lines
            ), f"all further in by {n}"
        case 1:
            lines[at] = " " * n + lines[at]
        case 2:
            lines[at] = lines[at].removeprefix(" ").removeprefix(" ")
        case 3:
            lines[at] = "\t" + lines[at].lstrip()
        case _:
            key = rng.choice(("eval", "quiz", "tests", "- x", "-"))
            inner = "".join(f"    {one}\n" for one in lines)
            inner = inner if key != "-" else "  - " + inner.lstrip()
            return (f"{key}:\n" if key != "-" else "") + inner, f"below {key!r}"
    return "\n".join(lines) + "\n", f"indentation of line {at + 1}"


def _encoding(files: Files, name: str, rng: random.Random) -> str:
    kind = rng.choice(("BOM", "CRLF", "CR", "utf-16", "utf-16-le", "tabs", "latin-1"))
    raw = files[name]
    try:
        text = raw.decode()
    except UnicodeError:
        return "as it is"
    files[name] = {
        "BOM": b"\xef\xbb\xbf" + raw,
        "CRLF": raw.replace(b"\n", b"\r\n"),
        "CR": b"# a comment\r" + raw.replace(b"\n", b"\r"),
        "tabs": raw.replace(b"  ", b"\t"),
        "latin-1": raw + "# é\n".encode("latin-1"),
    }.get(kind) or text.encode(kind)
    return kind


@_text
def _syntax(text: str, rng: random.Random) -> tuple[str, str]:
    """The same content in other words, or more of it."""
    try:
        values = yaml.safe_load(text)
        flow = json.dumps(values)
    except (yaml.YAMLError, TypeError):
        return text, "as it is"
    gates = re.search(r"(?m)^gates: (\[.*\])$", text)
    anchored = f"base: &base {flow}\n<<: *base\n"
    forms = {
        "a document before": f"---\nx: 1\n---\n{text}",
        "a document after": f"{text}---\nx: 1\n",
        "two documents": text.replace("\nrows:", "\n---\nrows:", 1).replace(
            "\nmetric_list:", "\n---\nmetric_list:", 1
        ),
        "a directive": f"%YAML 1.1\n---\n{text}",
        "one line": flow + "\n",
        "several lines of JSON": json.dumps(values, indent=1) + "\n",
        "quoted keys": KEY.sub(r'\1"\2"', text),
        "single quotes": KEY.sub(r"\1'\2'", text),
        "space before colons": re.sub(r"(?m)^(\w+):", r"\1 :", text),
        "question marks": re.sub(r"(?m)^(gates|rows|prompt|task):", r"? \1\n:", text),
        "a tag": re.sub(r"(?m)^(gates|rows):", r"!!str \1:", text),
        "a merge": anchored,
        "an anchor": re.sub(r"(?m)^gates: (.*)$", r"x: &x \1\ngates: *x", text),
        "no gates before": f"gates: []\n{text}",
        "no gates after": f"{text}gates: []\n",
        "no rows after": f"{text}rows: []\n",
        "again": text + text,
        "a text": re.sub(r"(?m)^gates: \[(.*)\]$", r"gates: |\n  \1", text),
        "a value below": re.sub(r"(?m)^(task|group|prompt): ", r"\1:\n  ", text),
        "cut": text + "x: [\n",
        "foreign key": text
        + rng.choice(
            (
                "class: x\n",
                "key: x\n",
                "include: a.yaml\n",
                "group: x\n",
                "evaluation: 1\n",
            )
        ),
    }
    if gates:
        forms["a mapping"] = text.replace(gates[1], "{metric: exact, min: 0.9}")
    what = rng.choice([*forms])
    return forms[what], what


def _renamed(files: Files, name: str, rng: random.Random) -> str:
    path = PurePosixPath(name)
    new = rng.choice((".YAML", ".Yml", ".yaml.txt", ".yaml~", ".yml.bak", ".yaml.orig"))
    files[str(path.with_suffix(new))] = files.pop(name)
    return f"renamed to {path.stem}{new}"


def _linked(files: Files, name: str, rng: random.Random) -> str:
    """Move a file, or its folder, and put a link in its place."""
    if rng.random() < 0.5:
        files[f"shared/{PurePosixPath(name).name}"] = files[name]
        files[name] = f"<a link to ../{f'shared/{PurePosixPath(name).name}'}>".encode()
        for one in ("gates.yaml", "quiz.jsonl", "quiz.yaml"):
            if f"evals/{one}" in files and f"evals/{one}" != name:
                content = files.pop(f"evals/{one}")
                files[f"shared/{one}"] = content
        return "a link to the folder shared"
    for one in [*files]:
        if one.startswith("evals/") and "passes" not in one:
            files[f"shared/{one}"] = files.pop(one)
    files["evals/link"] = b"<a link to ../shared/evals>"
    return "in a folder that is a link"


YAML: tuple[Change, ...] = (
    _misspelt, _misspelt, _misspelt, _moved_gates, _indentation, _indentation, _encoding,
    _syntax, _syntax, _syntax, _renamed, _linked,
)  # fmt: skip


def _renamed_gates(files: Files, name: str, rng: random.Random) -> str:
    new = rng.choice((
        "Gates.yaml", "GATES.YML", "gate.yaml", "gates (1).yaml", "gates.json", "gates.yaml.txt",
        "gates.yaml~", "gates.yml.bak", "my-gates.yaml", "gates_v2.yaml", "quality.yml", "gates.conf",
        "gates.toml", "gates", "gates.yaml.old", "sub/gates.yaml", "../other/gates.yaml",
    ))  # fmt: skip
    raw = files.pop(name)
    path = f"other/{new[9:]}" if new.startswith("../") else f"evals/{new}"
    if new.endswith("toml"):
        raw = raw.replace(b"gates:\n  - ", b'gates = ["').replace(b"0.9\n", b'0.9"]\n')
    if "json" in new:
        with suppress(yaml.YAMLError, TypeError):  # it may be damaged already
            raw = json.dumps(yaml.safe_load(raw)).encode()
    files[path] = raw
    return f"renamed to {path}"


def _no_file(files: Files, name: str, rng: random.Random) -> str:
    files[name] = rng.choice(
        (FOLDER, b"<a link to nowhere>", b"<a link to passes.yaml>")
    )
    return files[name].decode()


GATES_FILE: tuple[Change, ...] = (
    _renamed_gates, _renamed_gates, _renamed_gates, _no_file, _misspelt, _indentation, _encoding,
    _syntax, _linked,
)  # fmt: skip


@_text
def _python(text: str, rng: random.Random) -> tuple[str, str]:
    """A module that defines the eval, and loses it."""
    imports, rest = text.split("\n\n\n", 1)
    passing = rest.replace('target="eins"', 'target="one"')
    other = rest.replace("quiz", "other")
    inner = "".join(f"    {line}\n" if line else "\n" for line in rest.splitlines())
    kinds = {
        "twice": f"{rest}\n\n{passing}",
        "three times": f"{rest}\n\n{other}\n\n{passing}",
        "overwritten": f"{rest}\n\nquiz = {rng.choice(('None', '[1]', 'print'))}\n",
        "deleted": f"{rest}\n\ndel quiz\n",
        "in a function": f"def test_quiz():\n{inner}",
        "in a function that is called": f"def make():\n{inner}\n\nmake()\n",
        "in a loop": f"for _ in range(2):\n{inner}",
        "in a class": f"class {rng.choice(('TestQuiz', 'Quiz'))}:\n"
        + inner.split("    @quiz.score")[0],
        "in a list": f"{rest}\n\nquizzes = [quiz]\ndel quiz\n",
        "private": rest.replace("quiz", "_quiz"),
        "in a condition": f"if True:\n{inner}",
        "a lambda twice": "quiz = ev.eval(gates=['exact >= 0.9'])"
        "(lambda: [ev.case('one', target='eins')])\n"
        "quiz = ev.eval(lambda: [ev.case('one', target='one')])\n",
        "wrapped": f"{rest}\n\nimport functools\n\n"
        "quiz = functools.wraps(quiz)(lambda: None)\n",
        "replaced by a test": f"{rest}\n\ndef quiz():\n    pass\n",
        "async in a function": f"async def make():\n{inner}",
    }  # fmt: skip
    what = rng.choice([*kinds])
    return f"{imports}\n\n\n{kinds[what]}", what


PYTHON: tuple[Change, ...] = (_python,)
