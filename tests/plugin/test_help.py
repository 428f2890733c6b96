"""``--help`` and shell completion."""

import argparse

import pytest

from pytest_evals.plugin.settings.parser import add_options


def test_help_lists_the_options_in_groups_with_one_sentence_each(suite):
    result = suite.run("--help", model=None)
    result.stdout.fnmatch_lines(
        [f"evals: {name}:" for name in ("model", "selection", "prompts", "gates")]
        + [f"evals: {name}:" for name in ("store", "reports", "run", "LatticeFlow")]
    )
    result.stdout.fnmatch_lines(["evals: model:", "  --evals-model=SPEC *", "evals: *"])


@pytest.fixture
def complete(suite, monkeypatch):
    """Complete the value of an option in the way argcomplete does."""
    monkeypatch.setenv("_ARGCOMPLETE", "1")
    monkeypatch.chdir(suite.pytester.path)
    parser = pytest.Parser(_ispytest=True)
    add_options(parser)
    actions = {one.dest: one for one in parser.optparser._actions}

    def complete(name, prefix, **given):
        defaults = {"file_or_dir": [], "evals_include_path": None, "evals_dir": None}
        parsed = argparse.Namespace(**{**defaults, **given})
        return actions[name].completer(prefix, parsed_args=parsed)

    return complete


def test_task_names_are_completed_from_the_suite_and_the_include_paths(suite, complete):
    suite.task("quiz", tag="science")
    suite.group("questions", task=["quiz"])
    other = suite.pytester.mkdir("other")
    (other / "quick.yaml").write_text("task: quick\ndataset_path: json\n")
    assert complete("evals_tasks", "qu") == ["questions", "quick", "quiz"]
    assert complete("evals_tasks", "", file_or_dir=["other"]) == ["quick"]
    assert complete("evals_tasks", "quiz,s", file_or_dir=["evals"]) == ["quiz,science"]
    found = complete("evals_tasks", "q", file_or_dir=["evals"])
    assert found == ["questions", "quiz"]
    given = {"file_or_dir": ["evals/quiz.yaml"], "evals_include_path": ["other"]}
    assert "quick" in complete("evals_tasks", "q", **given)


def test_fixed_values_and_baselines_are_completed(suite, complete):
    assert complete("evals_cache", "o") == ["off", "only"]
    assert complete("evals_only", "wrong,m") == ["wrong,missing"]
    suite.pytester.mkdir(".evals").joinpath("baselines", "main").mkdir(parents=True)
    assert complete("evals_compare", "") == ["main"]
