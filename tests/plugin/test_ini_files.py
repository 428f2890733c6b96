"""Options in ini files: pytest's two ways to read TOML, and the allowed values."""

import pytest

native = pytest.mark.skipif(
    pytest.version_tuple < (9, 0), reason="TOML's own types came with pytest 9.0"
)


@native
@pytest.mark.parametrize(
    ("line", "outcomes"),
    [
        ("evals_limit = 3", {"passed": 2, "wrong": 1}),
        ("evals_limit = 0.5", {"passed": 4, "wrong": 1}),
        ('evals_limit = "30%"', {"passed": 2, "wrong": 1}),
        ("evals_strict = true", {"passed": 9, "failed": 1}),
        ("evals_strict = false", {"passed": 9, "wrong": 1}),
        ('evals_tasks = ["quiz"]', {"passed": 9, "wrong": 1}),
        ('evals_gate = ["exact_match >= 0.5"]', {"passed": 10, "wrong": 1}),
        ('evals_gate = "exact_match >= 0.5"', {"passed": 10, "wrong": 1}),
        ("evals_seed = 0\nevals_sample = 10\nevals_max_errors = 0", {"passed": 9}),
        ('evals_include_path = ["evals"]', {"passed": 9, "wrong": 1}),
        ('evals_python_files = ["a_*.py", "b_*.py"]', {"passed": 9, "wrong": 1}),
    ],
)
def test_values_have_the_types_of_toml(suite, line, outcomes):
    suite.knows(wrong=[1])
    suite.pytester.makefile(".toml", pytest=f"[pytest]\n{line}\n")
    assert outcomes.items() <= suite.run("evals").parseoutcomes().items()


@native
@pytest.mark.parametrize("workers", [(), ("-n2",)])
def test_gen_kwargs_may_be_tables_and_lists(suite, workers):
    suite.pytester.makepyprojecttoml(
        """
        [tool.pytest]
        evals_gen_kwargs = {temperature = 0.5, max_gen_toks = 7, until = ["x", "y"]}
        evals_metadata = ["a=1", "b=two"]
        """
    )
    (suite.pytester.path / "tox.ini").unlink()
    assert suite.run("evals", *workers).ret == 0
    options = suite.results()["options"]
    assert options["gen_kwargs"] == {
        "temperature": 0.5,
        "max_gen_toks": 7,
        "until": ["x", "y"],
    }
    assert options["metadata"] == {"a": 1, "b": "two"}


@native
@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("evals_limit = [1]", "evals_limit in *pytest.toml: list [[]1]; write one *"),
        ("evals_limit = true", "--evals-limit=true: expected a number of documents*"),
        ("evals_seed = 1.5", "--evals-seed=1.5: expected a whole number"),
        ('evals_strict = "maybe"', "evals_strict in *: str 'maybe'; write true or *"),
        ("evals_model = {a = 1}", "\"{'a': 1}\" has no model kind*"),
    ],
)
def test_an_invalid_type_is_refused(suite, line, message):
    suite.pytester.makefile(".toml", pytest=f"[pytest]\n{line}\n")
    result = suite.run("evals", model=None if "model" in line else "scripted:break")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"ERROR: {message}"])


@native
def test_an_invalid_number_is_refused_with_its_location_and_can_be_overridden(suite):
    suite.pytester.makefile(".toml", pytest="[pytest]\nevals_limit = 2\n")
    result = suite.run("evals", "--evals-sample=3")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["  --evals-limit is set by evals_limit in *.toml; *"])
    assert suite.run("evals", "--evals-limit=").parseoutcomes() == {"passed": 10}
    changed = suite.run("evals", "-o", "evals_limit=4")
    assert changed.parseoutcomes() == {"passed": 4}


def test_the_ini_options_table_accepts_numbers_booleans_and_lists(suite):
    suite.knows(wrong=[1])
    (suite.pytester.path / "tox.ini").unlink()
    suite.pytester.makepyprojecttoml(
        """
        [tool.pytest.ini_options]
        evals_limit = 3
        evals_strict = true
        evals_tasks = ["quiz", "qui*"]
        """
    )
    outcomes = suite.run("evals", "-W", "error").parseoutcomes()
    assert outcomes == {"passed": 2, "failed": 1}
