"""The size and wording of the package, and the modules that documents and gates pass.

    python -m tests.tools.measures [--tree DIR] [--verbose]

``--tree`` measures another checkout, such as an older commit's. Sizes, names, words,
comments, contributors' tasks and cycles are read from its files. Documents and gates
are traced in runs of a small suite with a scripted model. The trace of one document
(its row, requests, responses, scores, results) consists of the calls that a run of 5
documents has in addition to a run of 4, and a run of 6 in addition to one of 5: setup
is not counted, work in batches is. A hop is a call from one module of the package into
another.

Speed is measured by other scripts:

    python tests/bench/plugin_overhead.py             cost of the plugin per document
    python tests/bench/collection.py                  documents collected per second
    python tests/bench/index.py --tree LM_EVAL/tasks  start next to lm-eval's tasks
    python tests/bench/bootstrap.py --gates           confidence limits by resampling
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import re
import subprocess
import sys
import tempfile
import tokenize
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from io import StringIO
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
PACKAGE = "pytest_evals"
TRACER = Path(__file__).with_name("crossings.py")
SIZES = (4, 5, 6)
TASK = """\
task: sums
dataset_path: json
dataset_kwargs: {data_files: {test: rows.jsonl}}
test_split: test
output_type: multiple_choice
doc_to_text: "{{question}}"
doc_to_choice: "{{choices}}"
doc_to_target: answer
metric_list:
  - metric: acc
  - metric: acc_norm
gates:
  - acc >= 0.1
"""
# Nouns that end like participles.
NOUNS = frozenset(
    {
        *("bed", "embed", "king", "need", "ring", "seed", "speed", "string", "thing"),
        "warning",
    }
)
# Established terms: continuous batching, instruction following, early stopping …
TERMS = frozenset(
    {
        *(
            "batching",
            "encoding",
            "following",
            "formatting",
            "masking",
            "packing",
            "padding",
        ),
        *("pooling", "reasoning", "reporting", "resampling", "sampling", "scoring"),
        *("sharding", "stopping", "streaming"),
    }
)
# Participles as the first part of a term: "shared prefixes", "cached model".
TERM_PARTS = frozenset({"cached", "padded", "paired", "scored", "shared", "weighted"})
# pytest's --last-failed, prediction-powered inference, and the model kind.
TERM_NAMES = frozenset({"last_failed", "prediction_powered", "scripted"})
# Vague words: software does not say or tell anything.
VAGUE = re.compile(r"\b(say|says|said|stands?|told|tells?|whoever|whatever)\b", re.I)
WORD = re.compile(r"\w+")
PAGES = ("README.md", "CONTRIBUTING.md", "docs/*.md")

Trace = Mapping[str, Any]
Calls = Counter[tuple[str, str, str]]


def main() -> None:
    """Print the measures of a tree."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--tree", type=Path, default=ROOT)
    parser.add_argument("--verbose", action="store_true", help="list what is counted")
    options = parser.parse_args()
    tree = options.tree.resolve()
    for measure in (size, names, words, comments, contributions, cycles, traces):
        for line, details in measure(tree):
            print(line)
            for detail in details if options.verbose else ():
                print(f"    {detail}")


Lines = Iterator[tuple[str, Iterable[str]]]


def size(tree: Path) -> Lines:
    """Lines and modules of the package."""
    lines = {
        _module(tree, path): path.read_text(encoding="utf-8").count("\n")
        for path in _files(tree)
    }
    longest = sorted(lines.items(), key=lambda entry: -entry[1])[:10]
    yield (
        f"package: {sum(lines.values()):,} lines in {len(lines)} modules",
        (f"{n} {name}" for name, n in longest),
    )


def names(tree: Path) -> Lines:
    """Public class names that are used twice; modules named by participles."""
    homes = defaultdict(list)
    for path in _files(tree):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                homes[node.name].append(_module(tree, path))
    twice = {name: where for name, where in sorted(homes.items()) if len(where) > 1}
    yield (
        f"public classes: {sum(map(len, homes.values()))}, of which "
        f"{sum(map(len, twice.values()))} share {len(twice)} names",
        (f"{name}: {', '.join(where)}" for name, where in twice.items()),
    )
    modules = [_module(tree, path) for path in _files(tree)]
    participles = [name for name in modules if _is_participle(name.rpartition(".")[2])]
    yield f"modules named by participles: {len(participles)}", participles


def _is_participle(name: str) -> bool:
    parts = name.split("_")
    known = NOUNS | TERMS
    return name not in TERM_NAMES and any(
        len(part) > 3
        and part.endswith(("ing", "ed"))
        and part not in known
        and not (part in TERM_PARTS and part != parts[-1])
        for part in parts
    )


def words(tree: Path) -> Lines:
    """Vague words per 1,000 words of docstrings, messages and pages of the docs."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for path in _files(tree):
        parsed = ast.parse(path.read_text(encoding="utf-8"))
        docstrings = {id(node): node.value for node in _docstrings(parsed)}
        messages = [
            node.value
            for node in ast.walk(parsed)
            if isinstance(node, ast.Constant) and id(node) not in docstrings
            if isinstance(node.value, str) and " " in node.value.strip()
        ]
        package = ".".join(_module(tree, path).split(".")[:2])
        for text in docstrings.values():
            _count(text, counts["docstrings"], counts[package])
        for text in messages:
            _count(text, counts["messages"], counts[package])
    for page in _pages(tree):
        text = page.read_text(encoding="utf-8")
        _count(text, counts["docs"], counts[page.name])
    total = Counter[str]()
    for kind in ("docstrings", "messages", "docs"):
        total += counts[kind]
    yield (
        f"vague words per 1,000 of docstrings, messages and docs: {_rate(total)}",
        (),
    )
    for kind in ("docstrings", "messages", "docs"):
        yield f"  {kind}: {_rate(counts.pop(kind))}", ()
    yield (
        "  by package and page (see --verbose)",
        (f"{name}: {_rate(n)}" for name, n in sorted(counts.items()) if n["vague"]),
    )


def _count(text: str, *counters: Counter[str]) -> None:
    for counter in counters:
        counter.update(vague=len(VAGUE.findall(text)), words=len(WORD.findall(text)))


def _rate(count: Counter[str]) -> str:
    rate = 1000 * count["vague"] / max(count["words"], 1)
    return f"{rate:.2f} ({count['vague']} of {count['words']:,})"


def _pages(tree: Path) -> Iterator[Path]:
    """The pages for users, without the changelog, which quotes earlier messages."""
    for pattern in PAGES:
        yield from (one for one in tree.glob(pattern) if one.name != "changelog.md")


def _docstrings(tree: ast.AST) -> Iterator[ast.Constant]:
    """Docstrings, and strings below assignments that document names."""
    for node in ast.walk(tree):
        match node:
            case ast.Expr(value=ast.Constant(value=str()) as text):
                yield text


def comments(tree: Path) -> Lines:
    """The share of lines of the package that are comments."""
    n_lines = n_comments = 0
    by_package: dict[str, Counter[str]] = defaultdict(Counter)
    for path in _files(tree):
        text = path.read_text(encoding="utf-8")
        package = ".".join(_module(tree, path).split(".")[:2])
        lines = text.count("\n")
        found = sum(
            token.type == tokenize.COMMENT
            for token in tokenize.generate_tokens(StringIO(text).readline)
        )
        n_lines, n_comments = n_lines + lines, n_comments + found
        by_package[package] += Counter(lines=lines, comments=found)
    yield (
        f"comment lines: {n_comments:,} of {n_lines:,}, "
        f"{100 * n_comments / n_lines:.1f}%",
        (
            f"{name}: {100 * n['comments'] / n['lines']:.1f}%"
            for name, n in sorted(by_package.items())
        ),
    )


def contributions(tree: Path) -> Lines:
    """Files of the package to change for each task in CONTRIBUTING.md's table."""
    page = tree / "CONTRIBUTING.md"
    rows = page.read_text(encoding="utf-8").splitlines() if page.exists() else []
    tasks = {}
    for row in rows:
        cells = [cell.strip() for cell in row.strip("|").split("|")]
        if len(cells) == 3 and cells[2].startswith("`tests"):
            named = re.findall(r"`([\w/]+(?:\.\w+)+)`", cells[1])
            tasks[cells[0]] = [*named, *["one more"] * cells[1].count("a module")]
    most = max(map(len, tasks.values()), default=0)
    yield (
        f"files to change for {len(tasks)} contributors' tasks: at most {most}",
        (f"{len(files)} {task}: {', '.join(files)}" for task, files in tasks.items()),
    )


def cycles(tree: Path) -> Lines:
    """Cycles of imports among modules, with those under ``TYPE_CHECKING``."""
    components = [
        sorted(component)
        for component in _components(_imports(tree))
        if len(component) > 1
    ]
    yield (
        f"import cycles: {len(components)} (with TYPE_CHECKING), "
        f"{sum(map(len, components))} modules in them",
        (", ".join(component) for component in components),
    )


def _imports(tree: Path) -> dict[str, list[str]]:
    """Modules of the package that each of them imports."""
    paths = {_module(tree, path): path for path in _files(tree)}
    imports = {}
    for name, path in paths.items():
        found: set[str] = set()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            match node:
                case ast.Import(names=names):
                    found |= {one.name for one in names}
                case ast.ImportFrom(module=str(module), names=names):
                    parts = {f"{module}.{one.name}" for one in names}
                    found |= parts & {*paths} or {module}
        imports[name] = sorted(found & {*paths} - {name})
    return imports


def _components(imports: Mapping[str, list[str]]) -> Iterator[set[str]]:
    """Strongly connected components: modules that import each other, in any steps."""
    reached = {name: _reached(name, imports) for name in imports}
    seen: set[str] = set()
    for name in sorted(imports):
        if name not in seen:
            component = {other for other in reached[name] if name in reached[other]} | {
                name
            }
            seen |= component
            yield component


def _reached(name: str, imports: Mapping[str, list[str]]) -> set[str]:
    reached: set[str] = set()
    queue = [name]
    while queue:
        new = set(imports[queue.pop()]) - reached
        reached |= new
        queue += new
    return reached


def traces(tree: Path) -> Lines:
    """Modules and hops of a document and of a gate; imports of a small suite."""
    with tempfile.TemporaryDirectory() as folder:
        runs = {
            how: [_trace(tree, Path(folder) / f"{how}-{n}", how, n) for n in SIZES]
            for how in ("evaluate", "pytest")
        }
    for how, three in runs.items():
        calls = _document([_calls(trace["calls"]) for trace in three])
        yield _walk(f"one document, {how}", calls)
    small = runs["pytest"][0]
    yield _walk("first gate, pytest", _calls(small["gate"]))
    ours = [name for name in small["modules"] if name.partition(".")[0] == PACKAGE]
    yield (
        f"modules imported for {SIZES[0]} documents: {len(ours)} of the package, "
        f"{len(small['modules'])} in all",
        ours,
    )
    foreign = [name for name in ours if _is_foreign(name)]
    yield f"  of guests or shims: {len(foreign)}", foreign


def _is_foreign(name: str) -> bool:
    """Whether a module serves another dialect than lm-eval's YAML."""
    return name.startswith(f"{PACKAGE}.guests") or "shims" in name.split(".")


def _trace(tree: Path, folder: Path, how: str, n_documents: int) -> Trace:
    folder.mkdir()
    (folder / "sums.yaml").write_text(TASK)
    rows = (
        {
            "question": f"What is {i} + 1?",
            "choices": [f"{i + 1}", f"{i + 2}"],
            "answer": 0,
        }
        for i in range(1, n_documents + 1)
    )
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    out = folder / "trace.json"
    arguments = ["sums.yaml", "scripted:first"]
    if how == "pytest":
        arguments = ["--model=scripted:first", "--rootdir=.", "-pno:cacheprovider"]
    done = subprocess.run(
        [sys.executable, str(TRACER), str(out), how, *arguments],
        cwd=folder,
        env=_environment(tree),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"{how} failed:\n{done.stdout}{done.stderr}")
    trace: Trace = json.loads(out.read_text())
    return trace


def _calls(listed: list[list[Any]]) -> Calls:
    return Counter({(call[0], call[1], call[2]): call[3] for call in listed})


def _document(runs: list[Calls]) -> Calls:
    """Calls for one more document: the smaller of the two differences."""
    small, middle, large = runs
    return (middle - small) & (large - middle)


def _walk(title: str, calls: Calls) -> tuple[str, Iterable[str]]:
    modules = {name for call in calls for name in call[:2] if name}
    return (
        f"{title}: {len(modules)} modules in {calls.total()} hops",
        (
            f"{n} {_short(caller) or 'outside'} -> {_short(callee)}: {function}"
            for (caller, callee, function), n in sorted(calls.items())
        ),
    )


def _short(name: str) -> str:
    return name.removeprefix(f"{PACKAGE}.")


def _files(tree: Path) -> list[Path]:
    return sorted((tree / PACKAGE).rglob("*.py"))


def _module(tree: Path, path: Path) -> str:
    parts = path.relative_to(tree).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _environment(tree: Path) -> dict[str, str]:
    """Nothing of this process but its paths: a run masks the secrets that it finds in
    the environment, which takes calls. The tree's package is the only plugin.
    """
    return {
        **{name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ},
        "PYTHONPATH": str(tree),
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        "PYTEST_PLUGINS": f"{PACKAGE}.plugin.hooks",
    }


if __name__ == "__main__":
    main()
