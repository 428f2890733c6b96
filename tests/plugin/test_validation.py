"""``--evals-validate``: files are checked, no requests are sent."""

from __future__ import annotations

import json

import pytest
import yaml

VALIDATE = ("--evals-validate", "evals")


def check(suite, *arguments):
    return suite.run(*VALIDATE, *arguments, model=None)


def test_valid_files_pass_without_a_model_and_write_no_files(suite):
    suite.task("second")
    done = check(suite, "-v")
    assert done.ret == 0
    done.stdout.fnmatch_lines(
        [
            "evals/quiz.yaml::quiz OK *",
            "evals/second.yaml::second OK *",
            "2 checked: 2 ok, 0 with problems, 0 out of reach; no model was used",
        ]
    )
    assert not (suite.pytester.path / ".evals").exists()


def test_all_problems_of_all_files_are_reported_at_once(suite):
    suite.task("a_first", metric_list=[{"metric": "exact_mach"}], taks=1)
    suite.task("z_last", test_split="tset")
    done = check(suite)
    assert done.ret == 1
    done.assert_outcomes(passed=1, failed=2)
    done.stdout.fnmatch_lines(
        [
            "evals/a_first.yaml:*unknown metric 'exact_mach'*",
            "evals/a_first.yaml:*no key 'taks'; did you mean 'task'?",
            "evals/z_last.yaml:*'tset'*",
            "3 checked: 1 ok, 2 with problems, 0 out of reach; no model was used",
        ]
    )


def test_a_problem_of_a_later_document_is_found(suite):
    text = "{{ question if question != 'quiz 3?' else question.no.such }}"
    suite.task("quiz", doc_to_text=text)
    done = check(suite)
    assert done.ret == 1
    done.stdout.fnmatch_lines(["evals/quiz.yaml:1: document q3 cannot be prompted: *"])


def test_validation_scores_the_reference_answer(suite):
    (suite.evals / "own.py").write_text(
        "def judge(row, results):\n    return {'right': row['no_such_column']}\n"
    )
    path = suite.task("quiz", process_results="FUNCTION")
    path.write_text(path.read_text().replace("FUNCTION", "!function own.judge"))
    done = check(suite)
    assert done.ret == 1
    done.stdout.fnmatch_lines(
        [
            "evals/quiz.yaml:1: document q0 cannot be scored, though answered with its "
            "target: process_results: KeyError: 'no_such_column' (evals/own.py:2)"
        ]
    )
    done.stdout.no_fnmatch_line("*document q1*")


LATTICEFLOW = """\
key: t
display_name: T
description: Says a word.
config_spec:
  - {type: dataset, key: ds, display_name: D, default_value: ds}
definition:
  dataset: {key: "<< config.ds >>"}
  solver:
    type: single_turn_solver
    input_builder:
      type: chat_completion
      input_messages: [{role: user, content: "{{ sample.q }}"}]
  scorers:
    - type: string_equals
      key: exact
      ground_truth: "{{ sample.word }}"
      value: "{{ solver_output.output | string }}"
    - type: model_as_a_judge_classifier
      key: verdict
      model_key: judge
      user_prompt: "Is {{ model_output }} right?"
      correct_labels: [RIGHT]
      incorrect_labels: [WRONG]
  actions: []
"""
ACTION = """actions:
    - key: drop
      action: exclude_from_metrics
      filter: {op: equals, expression: "{{ sample.wrod }}", value: x}
"""
JUDGE = LATTICEFLOW[
    LATTICEFLOW.index("    - type: model_as") : LATTICEFLOW.index("  act")
]


@pytest.mark.guests
@pytest.mark.parametrize(
    ("text", "other", "line", "fault"),
    [
        ("sample.word", "sample.wrod", 16, "ground_truth: unknown field 'wrod'"),
        ("sample.word", "sample.late", 16, "ground_truth: unknown field 'late'"),
        ("solver_output", "solver_outptu", 17, "value: 'solver_outptu' is undefined"),
        (
            "model_output",
            "model_outptu",
            21,
            "user_prompt: 'model_outptu' is undefined",
        ),
        (
            f"{JUDGE}  actions: []",
            f"  {ACTION}",
            21,
            "expression: unknown field 'wrod'",
        ),
        ("sample.word", "sample.word", 0, ""),
    ],
)
def test_templates_of_latticeflow_scorers_are_checked(suite, text, other, line, fault):
    """Also those of judges, and those that fail for the last document only."""
    (suite.evals / "quiz.yaml").unlink()
    (suite.evals / "t.yaml").write_text(LATTICEFLOW.replace(text, other))
    source = "source: {type: local, file_path: rows.jsonl}"
    (suite.evals / "ds.yaml").write_text(
        f"key: ds\ndisplay_name: D\ndescription: Words.\n{source}\n"
    )
    rows = [{"q": f"Say {n}.", "word": f"{n}", "late": "x"} for n in range(9)]
    del rows[-1]["late"]
    lines = (f"{json.dumps(row)}\n" for row in rows)
    (suite.evals / "rows.jsonl").write_text("".join(lines))
    done = check(suite)
    assert done.ret == (1 if fault else 0), done.stdout.str()
    if fault:
        done.stdout.fnmatch_lines([f"*: document ?*: evals/t.yaml:{line}: {fault}*"])


def test_validation_does_not_call_a_score_hook(suite):
    """It may need the responses of a real model."""
    suite.pytester.makeconftest("def pytest_evals_score(record, task):\n    1 / 0\n")
    assert check(suite).ret == 0


def test_an_unreachable_dataset_is_not_a_failure(suite, monkeypatch):
    import datasets

    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", True)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    suite.task("far", dataset_path="acme/private-set", dataset_kwargs=None)
    done = check(suite, "-v")
    assert done.ret == 0
    done.stdout.fnmatch_lines(
        [
            "evals/far.yaml::far NOT CHECKED *",
            "not checked: far: evals/far.yaml:2: the dataset 'acme/private-set' *",
            "2 checked: 1 ok, 0 with problems, 1 out of reach; no model was used",
        ]
    )


@pytest.mark.parametrize(
    ("key", "code"),
    [
        ("custom_dataset", "def custom(**_):\n    return load_dataset('acme/set')\n"),
        ("process_results", "rows = load_dataset('acme/set')\n\ndef custom(*_): ...\n"),
    ],
)
def test_code_that_needs_an_unreachable_dataset_is_not_checked(
    suite, monkeypatch, key, code
):
    import datasets

    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", True)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    source = f"from datasets import load_dataset\n\n{code}"
    (suite.evals / "own.py").write_text(source)
    path = suite.task("quiz", **{key: "FUNCTION"})
    path.write_text(path.read_text().replace("FUNCTION", "!function own.custom"))
    done = check(suite)
    assert done.ret == 0
    done.stdout.fnmatch_lines(["not checked: quiz: *ConnectionError: *acme/set*"])


def test_the_summary_lists_the_first_unreachable_tasks(suite, monkeypatch):
    import datasets

    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", True)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    (suite.evals / "quiz.yaml").unlink()
    for n in range(23):
        suite.task(f"far{n}", dataset_path=f"acme/set{n}", dataset_kwargs=None)
    done = check(suite)
    assert done.stdout.str().count("not checked: far") == 20
    done.stdout.fnmatch_lines(["not checked: 3 more tasks; -rs lists them"])


@pytest.mark.slow
def test_a_remote_file_is_not_checked_if_its_server_is_unreachable(suite, monkeypatch):
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    files = {"test": "http://127.0.0.1:9/rows.jsonl"}
    suite.task("quiz", dataset_kwargs={"data_files": files})
    result = check(suite)
    assert result.ret == 0
    result.assert_outcomes(skipped=1)


def test_gates_are_checked_if_the_dataset_is_unreachable(suite, monkeypatch):
    import datasets

    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", True)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    gates = ["exact_mach >= 0.5", {"must_pass": ["who-knows"]}]
    suite.task("far", dataset_path="acme/set", dataset_kwargs=None, gates=gates)
    done = check(suite)
    assert done.ret == 1
    done.stdout.fnmatch_lines(["evals/far.yaml:*: unknown metric 'exact_mach'; *"])
    done.stdout.no_fnmatch_line("*who-knows*")


def test_a_missing_data_file_is_a_failure(suite):
    suite.task("quiz", dataset_kwargs={"data_files": {"test": "nowhere.jsonl"}})
    done = check(suite)
    assert done.ret == 1
    done.stdout.fnmatch_lines(["*data file not found: evals/nowhere.jsonl*"])


@pytest.mark.parametrize(
    ("gate", "message"),
    [
        ("quiz/exact_mach >= 0.5", "*unknown metric 'exact_mach'; did you mean *"),
        ("quizz/exact_match >= 0.5", "*unknown task 'quizz'; did you mean 'quiz'?"),
        ("exact_match >= 0.5", "*does not name its task"),
    ],
)
def test_gates_files_are_checked(suite, gate, message):
    (suite.evals / "gates.yaml").write_text(yaml.safe_dump({"gates": [gate]}))
    done = check(suite)
    assert done.ret == 1
    done.stdout.fnmatch_lines([f"evals/gates.yaml:2: {message}"])


def test_problems_of_a_shared_gates_file_are_reported_once(suite):
    suite.task("second")
    suite.task("third", test_split="tset")
    (suite.evals / "gates.yaml").write_text("gates: [quiz/exact_match > much]\n")
    done = check(suite)
    done.assert_outcomes(failed=3)
    output, _, _ = done.stdout.str().partition("short test summary info")
    assert output.count("expected a finite number") == 1
    done.stdout.fnmatch_lines(["*the problem that was reported above"])
    done.stdout.fnmatch_lines(["evals/third.yaml:*'tset'*"])


def test_warnings_are_listed_and_do_not_fail(suite):
    suite.task("quiz", num_fewshot=1)
    done = check(suite)
    assert done.ret == 0
    done.stdout.fnmatch_lines(
        ["warning: quiz: few-shot examples come from the evaluated *"]
    )


def test_other_tests_do_not_run(suite):
    suite.pytester.makepyfile(**{"evals/test_other": "def test_it():\n    assert 0\n"})
    done = check(suite)
    assert done.ret == 0
    done.assert_outcomes(passed=1)


@pytest.mark.parametrize(
    "mode",
    [
        "--evals-validate",
        "--evals-plan",
        "--evals-cache-info=evals/quiz.yaml::quiz[q0]",
    ],
)
def test_a_test_that_cannot_be_imported_does_not_stop_modes_without_a_run(mode, suite):
    suite.pytester.makepyfile(
        **{
            "evals/test_helper": "from .nothing import x",
            "evals/test_exit": "import sys; sys.exit('was run')",
        }
    )
    result = suite.run("evals", mode, model="scripted:answers.jsonl")
    assert result.ret == pytest.ExitCode.OK
    result.stdout.no_fnmatch_line("*was run*")


def test_a_module_with_evals_that_cannot_be_imported_is_a_problem_of_its_own(suite):
    suite.pytester.makepyfile(
        **{"evals/test_evals": "import pytest_evals as ev\nimport nothing_here"}
    )
    result = suite.run("evals", "--evals-validate", "-v", model=None)
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(
        ["*quiz OK*", "*PROBLEMS*", "*No module named 'nothing_here'*"]
    )


def test_an_invalid_scorer_in_python_is_a_problem_with_its_line(suite):
    source = "import pytest_evals as ev\nSCORERS = [\n    ev.starts_with([])]\n"
    suite.pytester.makepyfile(**{"evals/test_evals": source})
    result = suite.run("evals", "--evals-validate", model=None)
    what = "*evals/test_evals.py:3: starts_with: text is a list, not text*"
    result.stdout.fnmatch_lines([what])
    assert "_hookexec" not in result.stdout.str()


def test_evals_in_python_are_validated_beside_tests(suite):
    suite.pytester.makepyfile(
        **{
            "evals/test_evals": """
            import pytest_evals as ev

            @ev.eval(score=ev.exact())
            def bot():
                yield ev.case("q", target="t", id="one")

            def test_other(): assert 0
            """
        }
    )
    result = suite.run("evals", "--evals-validate", "-v", model=None)
    result.stdout.fnmatch_lines(["*quiz OK*", "*bot OK*"])


@pytest.mark.slow
def test_validation_selects_tasks_like_a_run(suite):
    suite.task("broken", metric_list=[{"metric": "nope"}])
    assert check(suite, "--evals-tasks=quiz").ret == 0
    done = suite.run("--evals-validate", "evals/quiz.yaml::quiz", model=None)
    assert done.ret == 0
    done.assert_outcomes(passed=1)
    typo = check(suite, "--evals-tasks=quizz")
    assert typo.ret == 1
    typo.stdout.fnmatch_lines(
        ["*unknown task, group or tag 'quizz'; did you mean 'quiz'?"]
    )


def test_validation_checks_only_the_name_of_the_model(suite):
    assert suite.run(*VALIDATE, model="scripted:break").ret == 0
    done = suite.run(*VALIDATE, model="hf:no/such/folder")
    assert done.ret == 1
    done.stdout.fnmatch_lines(["*no folder 'no/such/folder'*"])


def test_validation_without_files_has_pytests_exit_code(suite):
    empty = suite.pytester.mkdir("empty")
    assert suite.run("--evals-validate", str(empty), model=None).ret == 5


@pytest.mark.slow
def test_validation_is_the_same_with_workers(suite):
    suite.task("second", metric_list=[{"metric": "nope"}])
    suite.task("third", num_fewshot=1)
    done = check(suite, "-n2")
    assert done.ret == 1
    done.assert_outcomes(passed=2, failed=1)
    done.stdout.fnmatch_lines(
        [
            "warning: third: few-shot examples come from the evaluated *",
            "3 checked: 2 ok, 1 with problems, 0 out of reach; no model was used",
        ]
    )


def test_validation_checks_the_members_of_groups(suite):
    suite.task("second")
    group = {"group": "both", "task": ["quiz", "second"]}
    (suite.evals / "both.yaml").write_text(yaml.safe_dump(group))
    done = check(suite)
    assert done.ret == 0
    done.assert_outcomes(passed=2)
    group["task"] = ["quiz", "secnd"]
    (suite.evals / "both.yaml").write_text(yaml.safe_dump(group))
    done = check(suite)
    assert done.ret == 1
    done.stdout.fnmatch_lines(["evals/both.yaml:*'secnd'*"])


@pytest.mark.parametrize(
    ("keys", "why"),
    [
        ("score:\n- semantic: {model: 'opnai:e'}\n", "t.yaml:4: semantic: unknown"),
        (
            "score:\n- exact\n- judge: {rubric: r, models: [openai:a, 'openai:b,x=1']}",
            "t.yaml:5: judge: the openai model takes no argument 'x'",
        ),
        (
            "user: {goal: a, model: 'scripted:no.jsonl'}\nscore: exact\n",
            "t.yaml:3: user: no.jsonl: cannot be read",
        ),
    ],
)
def test_invalid_models_of_scorers_and_users_have_their_line(pytester, keys, why):
    text = f"prompt: '{{{{q}}}}'\nrows: [{{q: a, target: b}}]\n{keys}"
    (pytester.path / "t.yaml").write_text(text)
    command = ["t.yaml", "--model=scripted:echo", "--evals-validate"]
    found = pytester.runpytest(*command)
    assert found.ret == 1
    assert why in found.stdout.str()
