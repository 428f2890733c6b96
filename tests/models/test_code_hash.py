"""The hash of the code that computes answers changes with that code, wherever the code
is, and with nothing else."""

import ast
import shutil
import tokenize
from pathlib import Path

import pytest

import pytest_evals
from pytest_evals.models.engine.code_hash import (
    NOT_COMPUTING,
    code_hash,
    computing_sources,
    hash_of,
    without_comments,
)

PACKAGE = Path(pytest_evals.__file__).parent
ROOTS = ("pytest_evals.models.hf.model", "pytest_evals.models.vllm.model")
SMALL = {
    "models/kind/model.py": "from pytest_evals.models.tools import add\n\n\n"
    "def answer(x):\n    from pytest_evals.models.late import half\n\n"
    "    return half(add(x, 1))\n",
    "models/tools.py": "import math\n\n\n@staticmethod\ndef add(a, b):\n"
    '    """Add."""\n    return a + b\n\n\ndef other(a):\n    return math.sqrt(a)\n',
    "models/late.py": "from pytest_evals.errors import fault\n\nHALF = 0.5\n\n\n"
    "def half(x):\n    return HALF * x\n",
    "errors.py": "def fault():\n    return 1\n",
}


def written(folder, changes=()):
    """Hash of a small package; a change is (path, old, new) or (path, None, text)."""
    shutil.rmtree(folder / "package", ignore_errors=True)
    sources = dict(SMALL)
    for path, old, new in changes:
        assert old is None or old in sources[path]
        sources[path] = new if old is None else sources[path].replace(old, new)
    for path, text in sources.items():
        file = folder / "package" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    root = "pytest_evals.models.kind.model"
    return hash_of(computing_sources(root, folder / "package").values())


KIND, TOOLS, LATE = list(SMALL)[:3]
MOVED = [
    (KIND, "pytest_evals.models.tools", "pytest_evals.models.engine.sums"),
    ("models/engine/sums.py", None, SMALL[TOOLS]),
]
SPLIT = [
    (TOOLS, SMALL[TOOLS][SMALL[TOOLS].index("\n\n\ndef other") :], "\n"),
    (TOOLS, "import math\n", "from pytest_evals.models.roots import other\n"),
    (
        "models/roots.py",
        None,
        "import math\n\n\ndef other(a):\n    return math.sqrt(a)\n",
    ),
]


@pytest.mark.parametrize(
    "changes",
    [
        MOVED,
        SPLIT,
        [(TOOLS, '"""Add."""', '"""Add two\n\n    numbers: "a" and \'b\'."""')],
        [(LATE, "HALF = 0.5", "# Why: it's half.\nHALF = 0.5  # of one\n\n")],
        [("errors.py", "1", "2")],
    ],
    ids=["module moved", "function moved", "docstring", "comment", "error message"],
)
def test_a_change_that_computes_nothing_else_keeps_the_hash(tmp_path, changes):
    assert written(tmp_path, changes) == written(tmp_path)


@pytest.mark.parametrize(
    "changes",
    [
        [(KIND, "x, 1", "x, 2")],
        [(TOOLS, "a + b", "a - b")],
        [(TOOLS, "@staticmethod", "@classmethod")],
        [(TOOLS, "import math", "import cmath as math")],
        [*MOVED, ("models/engine/sums.py", None, SMALL[TOOLS].replace("+", "-"))],
        [*SPLIT, ("models/roots.py", "sqrt", "cbrt")],
        [(LATE, "0.5", "0.25")],
        [(LATE, "HALF = 0.5", 'HALF = "# a"'), (LATE, "HALF *", "len(HALF) *")],
    ],
)
def test_changed_code_changes_the_hash_also_where_it_moved(tmp_path, changes):
    assert written(tmp_path, changes) != written(tmp_path)


@pytest.mark.parametrize("root", ROOTS)
def test_every_module_of_an_engine_is_covered_or_named_as_not_computing(root):
    found = computing_sources(root, PACKAGE)
    folder = PACKAGE / "models" / root.split(".")[2]
    names = {
        ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts)
        for path in folder.rglob("*.py")
        if path.name != "__init__.py"
    }
    kind = root.removesuffix("model") + "kind"
    assert names - found.keys() - NOT_COMPUTING - {kind} == set()
    assert code_hash(root) == hash_of(found.values())


def test_modules_without_effect_exist():
    paths = [PACKAGE.joinpath(*name.split(".")[1:]) for name in NOT_COMPUTING]
    missing = [p for p in paths if not (p.is_dir() or p.with_suffix(".py").is_file())]
    assert not missing


def tokenized(path):
    """The source without comments and docstrings, by Python's own tools."""
    text = path.read_text()
    lines = text.splitlines(keepends=True)
    cuts = [
        (token.start, token.end)
        for token in tokenize.generate_tokens(iter(lines).__next__)
        if token.type == tokenize.COMMENT
    ]
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Expr(value=ast.Constant(value=str())):
                line = lines[node.end_lineno - 1].encode()[: node.end_col_offset]
                end = node.end_lineno, len(line.decode())
                cuts.append(((node.lineno, node.col_offset), end))
    for (first, start), (last, end) in sorted(cuts, reverse=True):
        kept = lines[first - 1][:start] + lines[last - 1][end:]
        lines[first - 1 : last] = [kept]
    return "\n".join(line.rstrip() for line in lines if line.strip())


@pytest.mark.slow
def test_comments_and_docstrings_are_those_of_python():
    names = {name for root in ROOTS for name in computing_sources(root, PACKAGE)}
    for name in sorted(names):
        path = PACKAGE.joinpath(*name.split(".")[1:]).with_suffix(".py")
        assert without_comments(path.read_text()) == tokenized(path), path
