"""Collection of a folder of task files, and selection from it."""

from __future__ import annotations

import pytest

from pytest_evals.plugin.settings.option_table import TABLE


def ids_of(result: pytest.RunResult) -> list[str]:
    return [line for line in result.outlines if "::" in line]


def test_every_document_is_an_item_named_by_its_id_column_and_gates_come_last(suite):
    suite.task("quiz", gates=["exact_match >= 0.5"])
    result = suite.run("--collect-only", "-q", "evals")
    assert ids_of(result) == [
        *(f"evals/quiz.yaml::quiz[q{i}]" for i in range(10)),
        "evals/quiz.yaml::quiz::exact_match",
    ]


@pytest.mark.slow
def test_a_package_is_imported_for_the_tests_in_it_and_not_for_documents(suite):
    (suite.evals / "__init__.py").write_text("import lm_eval_that_is_not_there")
    suite.run("evals").assert_outcomes(passed=10)
    suite.run("evals", "--evals-validate").assert_outcomes(passed=1)
    (suite.evals / "test_it.py").write_text("def test_it(): pass")
    result = suite.run("evals", "-k", "q1 or q2 or test_it")
    result.assert_outcomes(errors=1)
    assert "No module named 'lm_eval_that_is_not_there'" in result.stdout.str()
    (suite.evals / "__init__.py").write_text("def setup_module(): print('set up')")
    result = suite.run("evals", "-s")
    result.assert_outcomes(passed=11)
    assert result.stdout.str().count("set up") == 1


def test_help_lists_every_option_with_its_default(suite):
    result = suite.run("--help", model=None)
    assert result.ret == 0
    text = " ".join(result.stdout.str().split())
    for option in TABLE:
        assert f"{option.flag}" in text
        assert f"{option.help}" in text.replace("- ", "-"), option.flag
    assert "response from the model. Default: 5%." in text
    assert "changes a verdict. Default: 1%." in text


def test_gates_of_all_files_run_after_all_documents(suite):
    for name in ("quiz", "zoo"):
        suite.task(name, gates=["exact_match >= 0.5"])
    ids = ids_of(suite.run("--collect-only", "-q", "evals"))
    assert [i.endswith("]") for i in ids] == [True] * 20 + [False] * 2


def test_documents_without_id_column_are_named_by_their_row(suite):
    (suite.evals / "quiz.jsonl").write_text(
        '{"question": "a?", "answer": "b"}\n{"question": "c?", "answer": "d"}\n'
    )
    assert ids_of(suite.run("--collect-only", "-q", "evals")) == [
        "evals/quiz.yaml::quiz[0]",
        "evals/quiz.yaml::quiz[1]",
    ]


@pytest.mark.parametrize(
    ("selected", "n"),
    [
        ("evals/quiz.yaml", 11),
        ("evals/quiz.yaml::quiz", 11),
        ("evals/quiz.yaml::quiz[q3]", 1),
        ("evals/quiz.yaml::quiz::exact_match", 11),
    ],
)
def test_node_id_selects_task_document_or_gate_with_its_documents(suite, selected, n):
    suite.task("quiz", gates=["exact_match >= 0.5"])
    assert len(ids_of(suite.run("--collect-only", "-q", selected))) == n


def test_k_and_m_select_documents_by_name_and_by_tag(suite):
    suite.task("quiz", tag=["easy", "small"])
    suite.task("zoo", tag="animals")
    picked = ids_of(suite.run("--collect-only", "-q", "-k", "q3", "evals"))
    assert picked == ["evals/quiz.yaml::quiz[q3]", "evals/zoo.yaml::zoo[q3]"]
    tagged = ids_of(
        suite.run("--collect-only", "-q", "-m", "animals", "--strict-markers", "evals")
    )
    assert tagged == [f"evals/zoo.yaml::zoo[q{i}]" for i in range(10)]
    assert not ids_of(suite.run("--collect-only", "-q", "-m", "not evals", "evals"))


def test_unrelated_yaml_files_are_not_collected(suite):
    (suite.evals / "compose.yaml").write_text("services:\n  task: {image: x}\n")
    (suite.evals / "broken.yaml").write_text("a: [1\n")
    (suite.evals / "list.yaml").write_text("- task: x\n  output_type: y\n")
    result = suite.run("--collect-only", "-q", "evals")
    assert {i.partition("::")[0] for i in ids_of(result)} == {"evals/quiz.yaml"}
    assert result.ret == 0


def test_limit_takes_the_first_documents(suite):
    first = ids_of(suite.run("--collect-only", "-q", "--evals-limit=2", "evals"))
    assert first == ["evals/quiz.yaml::quiz[q0]", "evals/quiz.yaml::quiz[q1]"]
    share = ids_of(suite.run("--collect-only", "-q", "--evals-limit=25%", "evals"))
    assert len(share) == 3


def test_sample_is_part_of_a_larger_sample_of_the_same_seed(suite):
    small = ids_of(suite.run("--collect-only", "-q", "--evals-sample=3", "evals"))
    large = ids_of(suite.run("--collect-only", "-q", "--evals-sample=6", "evals"))
    assert len(small) == 3
    assert len(large) == 6
    assert set(small) < set(large)


def test_tasks_option_takes_names_globs_and_tags(suite):
    suite.task("quiz")
    suite.task("zoo_cats", tag="animals")
    suite.task("zoo_dogs", tag="animals")

    def tasks(pattern: str) -> set[str]:
        result = suite.run("--collect-only", "-q", f"--evals-tasks={pattern}", "evals")
        return {i.partition("::")[2].partition("[")[0] for i in ids_of(result)}

    assert tasks("quiz") == {"quiz"}
    assert tasks("zoo_*") == {"zoo_cats", "zoo_dogs"}
    assert tasks("animals,quiz") == {"zoo_cats", "zoo_dogs", "quiz"}


@pytest.mark.slow
def test_unknown_task_is_a_usage_error_with_the_closest_name(suite):
    result = suite.run("--evals-tasks=quis", "evals")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(
        ["ERROR: --evals-tasks: unknown task, group or tag 'quis'; did you mean *z'?"]
    )


def test_a_duplicate_task_name_is_an_error_with_both_locations(suite):
    path = suite.task("quiz")
    (suite.evals / "again.yaml").write_text(path.read_text())
    result = suite.run("--collect-only", "evals")
    result.stdout.fnmatch_lines(
        [
            "evals/quiz.yaml:1: there is already a task called 'quiz', at "
            "evals/again.yaml:1",
        ]
    )
    assert result.ret == pytest.ExitCode.INTERRUPTED


def test_all_errors_of_a_file_are_one_collection_error(suite):
    suite.task("zoo", output_type="multiple_choise", metric_lists=[])
    result = suite.run("evals", "--continue-on-collection-errors")
    result.stdout.fnmatch_lines(
        [
            "evals/zoo.yaml:*: unknown output_type 'multiple_choise'; "
            "did you mean 'multiple_choice'?",
            "*zoo.yaml:*metric_lists*did you mean 'metric_list'?*",
            "ERROR evals/zoo.yaml - evals/zoo.yaml:*",
        ]
    )
    result.assert_outcomes(passed=10, errors=1)
    assert result.ret == 1


ROWS = {
    "inline.yaml": 'prompt: "{{q}}"\nscore: exact\nrows:\n  - {q: a, target: x}\n'
    "  - q: b\n    target: x\n",
    "table.yaml": 'prompt: "{{q}}"\nscore: exact\ndataset: rows.csv\n',
    "rows.csv": 'q,target\n"two\nlines",x\n\nb,x\n',
    "lines.yaml": "task: lines\ndataset_path: json\ntest_split: test\n"
    "dataset_kwargs: {data_files: {test: rows.jsonl}}\noutput_type: generate_until\n"
    'doc_to_text: "{{q}}"\ndoc_to_target: "{{target}}"\n',
    "rows.jsonl": '{"q": "a", "target": "x"}\n\n{"q": "b", "target": "x"}\n',
    "both.yaml": "group: both\ntask: [lines]\n",
    "test_bot.py": "import pytest_evals as ev\n\n\n@ev.eval(score=ev.exact())\n"
    "def bot():\n    yield ev.case('Hi', target='Hi')\n",
}


@pytest.fixture
def rows(suite):
    """Rows in a YAML, a CSV and a JSONL file, one of them with an empty line."""
    (suite.evals / "quiz.yaml").unlink()
    for name, text in ROWS.items():
        (suite.evals / name).write_text(text)
    return suite


@pytest.mark.parametrize("editor", ["", "VS Code"])
def test_editors_open_a_document_at_its_row(rows, editor):
    """VS Code opens the eval file in any case, so only rows in it have lines of their
    own there."""
    rows.pytester.makepyfile(vscode_pytest="")
    rows.pytester.syspathinsert()
    plugins = ["-p", "vscode_pytest"] if editor else []
    items, _ = rows.pytester.inline_genitems("evals", *plugins)
    found = {item.nodeid: item.location[:2] for item in items}
    lines = {
        "evals/inline.yaml::inline[0]": ("evals/inline.yaml", 3),
        "evals/inline.yaml::inline[1]": ("evals/inline.yaml", 4),
        "evals/table.yaml::table[0]": ("evals/rows.csv", 1),
        "evals/table.yaml::table[1]": ("evals/rows.csv", 4),
        "evals/lines.yaml::lines[0]": ("evals/rows.jsonl", 0),
        "evals/lines.yaml::lines[1]": ("evals/rows.jsonl", 2),
        "evals/test_bot.py::bot[0]": ("evals/test_bot.py", 3),
    }
    if editor:
        for nodeid in [one for one in lines if "rows." in lines[one][0]]:
            lines[nodeid] = (nodeid.partition("::")[0], 0)
    assert found == lines


def test_the_tree_of_editors_has_levels_of_groups_and_tasks(rows):
    shown = rows.run("--collect-only", "evals").outlines
    start = shown.index("    <TaskFile both.yaml>")
    assert shown[start + 1 : start + 4] == [
        "      <TreeLevel both>",
        "        <TreeLevel lines>",
        "          <DocItem lines[0]>",
    ]
    assert ids_of(rows.run("--collect-only", "-q", "evals/inline.yaml")) == [
        "evals/inline.yaml::inline[0]",
        "evals/inline.yaml::inline[1]",
    ]
