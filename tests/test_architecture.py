"""Architecture rules: allowed imports, and the size of modules."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
import warnings
from functools import cache
from pathlib import Path

import pytest

import pytest_evals
from tests.tools.measures import ROOT, traces

PACKAGE = Path(pytest_evals.__file__).parent

WITH_ALL = (
    "harness.py",
    "guests/harness/__init__.py",
    "__init__.py",
    "plugin/hooks.py",
    "dialects/",
    "scorers/custom_metrics",
    "guests/latticeflow",
    "guests/lighteval",
)
"""Public names, fixtures that pytest looks up, and names that task files may use."""


@cache
def read() -> dict[str, tuple[str, ast.Module]]:
    """Text and tree of every module of the package."""
    sources = {
        str(path.relative_to(PACKAGE)): path.read_text(encoding="utf-8")
        for path in sorted(PACKAGE.rglob("*.py"))
    }
    return {name: (source, ast.parse(source)) for name, source in sources.items()}


def modules_after(code: str) -> set[str]:
    """Names of all modules that a new interpreter has loaded after running code."""
    script = f"{code}\nimport sys, json; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    return set(json.loads(done.stdout.splitlines()[-1]))


def test_plugin_loads_only_pytest_and_the_standard_library() -> None:
    """It is imported in every pytest run of an environment, with evals or without."""
    before = modules_after("import pytest, _pytest.config, unittest")
    loaded = modules_after("import pytest, unittest, pytest_evals.plugin.hooks")
    new = {name.partition(".")[0] for name in loaded - before}
    assert new - set(sys.stdlib_module_names) == {"pytest_evals"}


def test_session_without_eval_files_loads_no_room_of_the_house(
    pytester: pytest.Pytester,
) -> None:
    """Test suites without evals pay for the options only."""
    pytester.makepyfile(
        test_other="""
        import sys

        def test_nothing_of_ours_is_loaded():
            ours = {n for n in sys.modules if n.startswith("pytest_evals.")}
            rooms = {n.split(".")[1] for n in ours}
            light = {"plugin", "hookspecs", "errors", "dialects", "data", "masking"}
            assert rooms <= {*light, "run"}, ours
            assert "pytest_evals.masking.values" not in ours
            dialects = {n for n in ours if n.startswith("pytest_evals.dialects.")}
            assert dialects == {"pytest_evals.dialects.detect"}
        """
    )
    pytester.makefile(".yaml", compose="services:\n  web:\n    image: nginx\n")
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider")
    result.assert_outcomes(passed=1)
    result.stdout.no_fnmatch_line("*evals:*")
    assert not (pytester.path / ".evals").exists()


def test_a_plain_suite_of_lm_eval_loads_no_other_dialect_and_no_shims(
    pytester: pytest.Pytester,
) -> None:
    """A YAML file without Python needs neither guests nor lm_eval's classes; every
    import costs start-up time."""
    pytester.makeconftest(
        """
        import sys

        def pytest_unconfigure():
            parts = ("pytest_evals.guests", "shims")
            ours = [n for n in sys.modules if n.startswith("pytest_evals.")]
            print("LOADED", sorted(n for n in ours if any(p in n for p in parts)))
        """
    )
    (pytester.path / "rows.jsonl").write_text('{"q": "1+1=", "a": "2"}\n')
    pytester.makefile(
        ".yaml",
        sums="""
        task: sums
        dataset_path: json
        dataset_kwargs: {data_files: rows.jsonl}
        test_split: train
        output_type: multiple_choice
        doc_to_text: q
        doc_to_choice: ["2", "3"]
        doc_to_target: a
        gates: [acc >= 0.5]
        """,
    )
    result = pytester.runpytest_subprocess("--model=scripted:first", "-s")
    result.assert_outcomes(passed=2)
    result.stdout.fnmatch_lines("LOADED []")


def test_collecting_imports_no_large_library() -> None:
    """A model is loaded when the first document is set up, not before."""
    loaded = modules_after(
        "import pytest_evals.plugin.session, pytest_evals.plugin.execution.start, "
        "pytest_evals.dialects.lm_eval.task"
    )
    assert not {"torch", "transformers", "scipy", "numpy", "datasets"} & loaded


@pytest.mark.filterwarnings("default:longer than 400 lines")
def test_modules_have_docstrings_and_long_ones_are_reported() -> None:
    """A module of more than 400 lines may have two responsibilities."""
    for name, (source, _) in read().items():
        if source.count("\n") > 400:
            warnings.warn(f"longer than 400 lines: {name}", stacklevel=1)
    untold = [name for name, (_, tree) in read().items() if not ast.get_docstring(tree)]
    assert untold == []


Documented = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


def arguments(node: Documented) -> set[str] | None:
    """Names that ``Args:`` may describe: parameters, or the fields of a class; ``None``
    if any may be given."""
    if isinstance(node, ast.ClassDef):
        fields = {
            one.target.id
            for one in node.body
            if isinstance(one, ast.AnnAssign)
            if isinstance(one.target, ast.Name)
        }
        made = [one for one in node.body if isinstance(one, ast.FunctionDef)]
        created = [arguments(one) for one in made if one.name == "__init__"]
        slots = {
            one.value
            for x in node.body
            if isinstance(x, ast.Assign) and ast.unparse(x.targets[0]) == "__slots__"
            for one in ast.walk(x.value)
            if isinstance(one, ast.Constant)
        }
        return None if None in created else fields.union(slots, *filter(None, created))
    given = node.args
    if given.kwarg is not None:
        return None
    named = [*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg]
    return {one.arg for one in named if one is not None}


def test_docstrings_describe_arguments_that_exist() -> None:
    """Also one that was renamed."""
    found = []
    for name, (_, tree) in read().items():
        for node in ast.walk(tree):
            if not isinstance(node, Documented) or (known := arguments(node)) is None:
                continue
            text = (ast.get_docstring(node) or "").partition("Args:\n")[2]
            section = text.partition("\n\n")[0]
            for entry in re.findall(r"^ {4}\*?(\w+(?:, \w+)*):", section, re.MULTILINE):
                unknown = {*entry.split(", ")} - known
                found += [f"{name}:{node.lineno}: {one}" for one in unknown]
            if section.startswith(" " * 5):
                found.append(f"{name}:{node.lineno}: indentation")
    assert found == []


def test_private_modules_have_no_list_of_public_names() -> None:
    """``__all__`` is for the names that users import, and for names that are used."""
    listed = [name for name, (_, tree) in read().items() if "__all__" in assigned(tree)]
    assert [name for name in listed if not name.startswith(WITH_ALL)] == []
    assert "__init__.py" in listed


def assigned(tree: ast.Module) -> set[str]:
    """Names that a module assigns."""
    return {
        target.id
        for node in tree.body
        if isinstance(node, ast.Assign | ast.AnnAssign)
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
        if isinstance(target, ast.Name)
    }


def test_public_names_resolve_lazily() -> None:
    """``import pytest_evals`` is cheap; each name is imported on first use."""
    loaded = modules_after("import pytest_evals")
    assert {n for n in loaded if n.startswith("pytest_evals")} == {"pytest_evals"}
    for name in pytest_evals.__all__:
        assert getattr(pytest_evals, name).__name__ == name
    with pytest.raises(AttributeError, match="no attribute 'Dok'"):
        pytest_evals.Dok  # noqa: B018


def test_values_have_nouns_as_names() -> None:
    """``what``, ``own``, ``again`` and ``ways`` do not say what the value is."""
    vague = {"what", "own", "again", "ways"}
    found = [
        f"{name}:{node.lineno}"
        for name, (_, tree) in read().items()
        for node in ast.walk(tree)
        if (isinstance(node, ast.Name) and node.id in vague)
        or (isinstance(node, ast.arg) and node.arg in vague)
    ]
    assert not found


FOREIGN_NAMES = {"Filter", "Message", "Metric", "ModelResponse", "Task"}
"""Classes that task files of other programs import by these names."""


@pytest.mark.guests
def test_public_classes_have_names_of_their_own() -> None:
    """A class name identifies one class in the whole package."""
    names = [
        node.name
        for _, tree in read().values()
        for node in tree.body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    ]
    assert {name for name in names if names.count(name) > 1} == FOREIGN_NAMES


def is_vacuous(condition: ast.expr) -> bool:
    """Whether an assertion of this condition can hold whatever the code does: a branch
    or an operand is a constant, or both sides of a comparison are the same."""
    match condition:
        case ast.IfExp(body=body, orelse=other):
            return is_vacuous(body) or is_vacuous(other)
        case ast.BoolOp(values=operands):
            return any(map(is_vacuous, operands))
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return is_vacuous(operand)
        case ast.Compare(left=ast.Name(left), comparators=[ast.Name(right)]):
            return left == right
        case ast.Compare(left=left, comparators=[right]):
            return isinstance(left, ast.Constant) and isinstance(right, ast.Constant)
    return isinstance(
        condition, ast.Constant | ast.Tuple | ast.Lambda | ast.GeneratorExp
    )


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("x == y if y is not None else True", True),
        ("x if y else 'never'", True),
        ("x == 'one' or 'two'", True),
        ("not ('one' and x)", True),
        ("(x, 'a message')", True),
        ("x == x", True),
        ("1 == 2", True),
        ("(y for y in x)", True),
        ("x == (y if z else None)", False),
        ("x == 1 if z else not x", False),
        ("x or y == 1", False),
        ("x == ()", False),
    ],
)
def test_vacuous_assertions_are_detected(condition: str, expected: bool) -> None:
    assert is_vacuous(ast.parse(condition, mode="eval").body) is expected


@pytest.mark.slow
def test_no_assertion_holds_whatever_the_code_does() -> None:
    found = [
        f"{path}:{node.lineno}: {ast.unparse(node.test)}"
        for folder in ("tests", "example_suites")
        for path in (PACKAGE.parent / folder).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Assert) and is_vacuous(node.test)
    ]
    assert found == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("walk", "most_modules", "most_hops"),
    [
        ("one document, evaluate", 15, 40),
        ("one document, pytest", 22, 60),
        ("first gate, pytest", 25, 95),
    ],
)
def test_documents_and_gates_cross_few_modules(
    walk: str, most_modules: int, most_hops: int
) -> None:
    titles = [title for title, _ in traces(ROOT)]
    (found,) = (title for title in titles if title.startswith(walk))
    modules, hops = re.findall(r"\d+", found)
    assert int(modules) <= most_modules
    assert int(hops) <= most_hops
