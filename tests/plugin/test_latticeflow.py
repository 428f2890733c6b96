"""LatticeFlow's files, collected and run by pytest."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

pytestmark = pytest.mark.guests

PROJECT = Path(__file__).parents[1] / "task_files" / "valid" / "latticeflow"
RUN = ("--model=scripted:model.jsonl", "-p", "no:cacheprovider")


def write(folder, files):
    for name, text in files.items():
        (folder / name).write_text(text)


def results(pytester):
    runs = sorted((pytester.path / ".evals" / "runs").iterdir())
    return json.loads((runs[-1] / "results.json").read_text())


def metrics(pytester, task):
    numbers = results(pytester)["results"][task]
    return {
        key.removesuffix(",none"): value
        for key, value in numbers.items()
        if key.endswith(",none") and "stderr" not in key
    }


def samples(pytester, task):
    runs = sorted((pytester.path / ".evals" / "runs").iterdir())
    lines = (runs[-1] / f"samples_{task}.jsonl").read_text().splitlines()
    return {row["id"]: row for row in map(json.loads, lines)}


@pytest.fixture
def project(pytester):
    """The project of ``tests/task_files``, and a model that always replies A."""
    shutil.copytree(PROJECT, pytester.path / "evals")
    (pytester.path / "model.jsonl").write_text('{"text": "A"}\n')
    pytester.makeini("[pytest]\n")
    return pytester


GOLDEN = {"coverage": 0.625, "recall": 5 / 7, "precision": 5 / 7, "f1_score": 5 / 7}
"""Of the recorded tool calls, computed by hand from ``tool_traces.jsonl``: t4 is
excluded, of the others 5 of 7 required calls are made, and 2 calls are not required."""


@pytest.mark.slow
@pytest.mark.parametrize("workers", [[], ["-n2"]])
def test_a_run_file_is_run_with_its_policies(project, workers):
    run = project.runpytest_inprocess("evals/run.yaml", *RUN, *workers)
    # 12 documents, of which t2, t3 and t5 make the wrong calls, and both tasks about
    # letters have l4 wrong; t4 is excluded, which passes; and 5 gates
    outcomes = run.parseoutcomes()
    assert outcomes == {"passed": 12, "wrong": 5}, run.stdout.str()
    found = metrics(project, "tools")
    assert {name: found[name] for name in GOLDEN} == pytest.approx(GOLDEN)
    assert found["all_required_calls_made_mean"] == 0.25
    assert metrics(project, "agree") == {"agreement": 1.0}
    assert metrics(project, "sys") == {"word_length": 2.0}
    py = metrics(project, "py")
    # two metrics have an accuracy: the metric's key is put before every name
    assert (py["custom_mean_length"], py["custom_n"]) == (1.0, 2.0)
    assert (py["multi_A_recall"], py["multi_macro_precision"]) == (1.0, 0.25)
    excluded = samples(project, "tools")["t4"]
    assert excluded["excluded"] == "skip-empty"
    assert excluded["scores.any"]["num_required_calls_total"] == 0
    counts = results(project)["counts"]["tools"]
    assert counts["excluded"] == 1


@pytest.mark.slow
@pytest.mark.parametrize("threshold", [75, -1])
def test_a_rule_that_can_never_fail_or_pass_is_a_warning(project, threshold):
    """Its author did not write it for this program."""
    path = project.path / "evals" / "run.yaml"
    text = path.read_text().replace("threshold: 0.5", f"threshold: {threshold}")
    path.write_text(text)
    run = project.runpytest_inprocess("evals/run.yaml", *RUN)
    assert run.ret == (threshold > 0)
    verb = "never holds" if threshold > 0 else "always holds"
    run.stdout.fnmatch_lines(
        [f"*accuracy is between 0 and 1, so >= {threshold} {verb}*"]
    )


def test_folders_are_collected_without_entities_of_run_files(project):
    run = project.runpytest_inprocess("evals", "--collect-only", "-q")
    assert run.ret == 0
    ids = [line for line in run.stdout.lines if "::" in line and "[" in line]
    assert any(line.startswith("evals/run.yaml::mcqa[l1]") for line in ids)
    assert not any("mcqa_bleu_all_params" in line for line in ids)


def test_samples_with_one_id_are_numbered_with_a_warning(project):
    row = '{"sample_id": "a", "question": "One?", "target": "1"}\n'
    write(
        project.path / "evals",
        {
            "rows.jsonl": row + row.replace("One", "Two"),
            "quiz.yaml": QUIZ,
            "rows.yaml": "key: rows\ndisplay_name: R\n"
            "source: {type: local, file_path: rows.jsonl}\n",
        },
    )
    run = project.runpytest_inprocess("evals/quiz.yaml", "-p", "no:cacheprovider")
    run.stdout.fnmatch_lines(
        ["*column 'sample_id' cannot be used as ids*both have 'a'*"]
    )


@pytest.mark.slow
def test_the_model_of_a_run_file_is_used_without_a_model_option(project):
    """It answers with the sample's target; its file is written in Python."""
    target = '{"sample_id": "a", "question": "One?", "target": "1"}\n'
    write(
        project.path / "evals",
        {
            "rows.jsonl": target + target.replace("a", "b", 1).replace("One", "Two"),
            "quiz.yaml": QUIZ,
            "rows.yaml": "key: rows\ndisplay_name: R\n"
            "source: {type: local, file_path: rows.jsonl}\n",
        },
    )
    path = "evals/quiz.yaml"
    run = project.runpytest_inprocess(path, "-p", "no:cacheprovider")
    assert run.parseoutcomes() == {"passed": 2}, run.stdout.str()
    assert metrics(project, "quiz-spec") == {"accuracy": 1.0}
    other = project.runpytest_inprocess(path, *RUN)
    assert other.parseoutcomes() == {"wrong": 2}, other.stdout.str()


QUIZ = """
tasks:
  - key: quiz
    display_name: Quiz
    description: Short answers.
    definition:
      dataset: {key: rows}
      solver:
        type: single_turn_solver
        input_builder:
          type: chat_completion
          input_messages: [{role: user, content: "{{ sample.question }}"}]
      scorers:
        - {type: string_equals, ground_truth: "{{ sample.target }}"}
evaluation:
  key: quizzes
  display_name: Quizzes
  task_specifications:
    - {key: quiz-spec, task_key: quiz, model_key: offline-echo}
"""

TASK = """
key: {key}
display_name: Words
description: Compares words.
tags: ["Data Quality"]
definition:
  dataset: {{key: words}}
  scorers:
    - type: python
      compute_scores_snippet: |
{code}
      metrics: [{{type: mean, field: ok, name: share}}]
"""


@pytest.fixture
def words(pytester):
    """A folder with a dataset of three words."""

    def write_task(code, key="words-task"):
        lines = "\n".join(f"        {line}" for line in code.strip("\n").split("\n"))
        write(pytester.path, {f"{key}.yaml": TASK.format(key=key, code=lines)})
        return pytester

    pytester.makeini("[pytest]\n")
    write(
        pytester.path,
        {
            "words.csv": "sample_id,word,n\n01,one,1\n02,,2\n03,three,x\n",
            "words.yaml": "key: words\ndisplay_name: W\n"
            "source: {type: local, file_path: words.csv}\n",
        },
    )
    return write_task


def test_a_dataset_is_evaluated_without_any_model(words):
    """Cells are typed by column; ids stay strings, and an empty cell is null."""
    pytester = words(
        """
def compute_scores(sample):
    known = {"01": "one", "02": None, "03": "three"}
    assert sample["word"] == known[sample["sample_id"]]
    return {"ok": sample["word"] is not None and isinstance(sample["n"], str)}
"""
    )
    run = pytester.runpytest_inprocess("words-task.yaml", "-p", "no:cacheprovider")
    assert run.parseoutcomes() == {"passed": 3}, run.stdout.str()
    assert metrics(pytester, "words-task") == {"share": pytest.approx(2 / 3)}
    marked = pytester.runpytest_inprocess("-m", "Data_Quality", "-q", "--collect-only")
    assert "words-task[01]" in marked.stdout.str()


@pytest.mark.slow
def test_a_failing_snippet_is_an_error_of_its_document(words):
    """Whichever way a snippet fails, the others continue; its output is shown with its
    error."""
    pytester = words(
        """
import os
def compute_scores(sample):
    match sample["sample_id"]:
        case "01": return 1 / 0
        case "02":
            while True: pass
        case "03": return ["nonsense"]
        case "04":
            print("on the way")
            os._exit(0)
        case "05":
            print("unheard")
            return {"ok": True}
        case "06": raise KeyboardInterrupt
        case "07": return {"ok": {1, 2}}
        case "08":
            class Odd:
                def __repr__(self): raise RuntimeError("no words")
            return Odd()
    return {"ok": 0}
"""
    )
    rows = "".join(f"{n:02},w,1\n" for n in range(1, 10))
    write(pytester.path, {"words.csv": f"sample_id,word,n\n{rows}"})
    run = pytester.runpytest_inprocess(
        "words-task.yaml",
        "--evals-latticeflow-snippet-timeout=0.5",
        "-p",
        "no:cacheprovider",
    )
    assert run.parseoutcomes() == {"errors": 7, "passed": 2}
    text = run.stdout.str()
    for message in (
        "words-task.yaml:12: compute_scores: ZeroDivisionError: division by zero "
        "(words-task.yaml:14)",
        "TimeoutError: not finished after 0.5 s (words-task.yaml:16)",
        "compute_scores must return scores by name, not ['nonsense']",
        "compute_scores: SystemExit: 0 (words-task.yaml:20)",
        "compute_scores: KeyboardInterrupt (words-task.yaml:24)",
        "must return JSON values, not {1, 2} of type set",
        "compute_scores: RuntimeError: no words (words-task.yaml:28)",
        "Captured stdout call ---",
        "on the way",
    ):
        assert message in text
    assert "unheard" not in text
    assert metrics(pytester, "words-task") == {"share": 0.5}


@pytest.mark.slow
def test_parameters_are_set_on_the_command_line(pytester):
    pytester.makeini("[pytest]\nevals_latticeflow_config = word=abc\n")
    shutil.copy(PROJECT / "tasks" / "system_check.yaml", pytester.path)
    pytester.runpytest_inprocess("system_check.yaml", "-p", "no:cacheprovider")
    assert metrics(pytester, "system-check") == {"word_length": 3.0}
    typed = ("--evals-latticeflow-config=word=ab", "-p", "no:cacheprovider")
    pytester.runpytest_inprocess("system_check.yaml", *typed)
    assert metrics(pytester, "system-check") == {"word_length": 2.0}
    wrong = pytester.runpytest_inprocess(
        "system_check.yaml", "--evals-latticeflow-config=word"
    )
    assert wrong.ret == 4
    wrong.stderr.fnmatch_lines(
        ["*--evals-latticeflow-config=word: expected KEY=VALUE*"]
    )
    unknown = pytester.runpytest_inprocess(
        "system_check.yaml", "--evals-latticeflow-config=wrd=a"
    )
    assert unknown.ret == 4
    unknown.stderr.fnmatch_lines(["*has a parameter 'wrd'; did you mean 'word'?"])


HP = """
key: hp
display_name: Trivia
description: Answers that a judge rates.
definition:
  dataset: {key: hp-data}
  solver:
    type: single_turn_solver
    input_builder:
      type: chat_completion
      input_messages:
        - {role: user, content: "Answer briefly. {{ sample.question }}"}
  scorers:
    - type: model_as_a_judge_classifier
      model_key: "openai$gpt-4-1-nano"
      user_prompt: |
        Truth: {{ sample.answer }}
        Answer: {{ solver_output.output }}
      correct_labels: [correct]
      incorrect_labels: [incorrect]
"""


def test_a_judge_rates_answers(pytester):
    """The task of LatticeFlow's documentation, reworded."""
    pytester.makeini("[pytest]\n")
    write(
        pytester.path,
        {
            "hp.yaml": HP,
            "data.yaml": "key: hp-data\ndisplay_name: D\nfile_path: hp.jsonl\n",
            "hp.jsonl": '{"question": "Which owl?", "answer": "Hedwig"}\n'
            '{"question": "Which house?", "answer": "Ravenclaw"}\n'
            '{"question": "Which wand?", "answer": "Elder"}\n',
            "model.jsonl": '{"regex": "owl", "text": "Hedwig!"}\n{"text": "Troll"}\n',
            "judge.jsonl": '{"regex": "Hedwig!", "text": "Correct"}\n'
            '{"regex": "wand|Elder", "text": "maybe"}\n{"text": "incorrect"}\n',
        },
    )
    judge = "--evals-judge=scripted:judge.jsonl"
    run = pytester.runpytest_inprocess("hp.yaml", *RUN, judge)
    assert run.parseoutcomes() == {"passed": 1, "wrong": 1, "errors": 1}
    text = run.stdout.str()
    assert "maybe" in text
    row = samples(pytester, "hp")["0"]
    assert (
        row["correct"] is True and row["exchanges"][0]["model"] == "openai$gpt-4-1-nano"
    )
    assert metrics(pytester, "hp")["accuracy"] == 0.5


@pytest.mark.slow
def test_each_invalid_file_is_one_collection_error(pytester):
    """``tests/task_files/latticeflow``; the expected errors are in the files."""
    # into the working directory: a missing path would be looked up on the
    # Hub, again and again.
    folder = PROJECT.parents[1] / "latticeflow"
    shutil.copytree(folder, pytester.path, dirs_exist_ok=True)
    pytester.makeini("[pytest]\n")
    wrong = [
        path.relative_to(pytester.path)
        for path in pytester.path.rglob("*.wrong.yaml")
        if "# wrong: " in path.read_text()
    ]
    run = pytester.runpytest_inprocess(*wrong, "--collect-only", "-q")
    assert run.ret == pytest.ExitCode.INTERRUPTED
    errors = [line for line in run.outlines if line.startswith("ERROR ")]
    assert sorted(line.split(" ")[1] for line in errors) == sorted(map(str, wrong))
    output = run.stdout.str()
    for path in wrong:
        assert f"\n{path}:" in output, path
    assert "Traceback" not in output


GRADED = """\
evaluation:
  key: e
  display_name: E
  task_specifications: [{task_key: graded}]
datasets:
  - {key: rows, display_name: R, source: {type: local, file_path: rows.jsonl}}
tasks:
  - key: graded
    display_name: G
    description: D
    definition:
      dataset: {key: rows}
      solver:
        type: single_turn_solver
        input_builder:
          type: chat_completion
          input_messages: [{role: user, content: "{{ sample.q }}"}]
      scorers:
        - type: model_as_a_judge_scorer
          model_key: judge
          user_prompt: "Grade {{ solver_output.output }}"
          score_min: LEAST
          score_max: MOST
METRICS
policies:
  - key: p
    display_name: P
    rules:
      - key: good
        display_name: Good
        definition: {type: threshold, metric: METRIC, operator: "OP", threshold: LIMIT}
        scope: all_latest
"""
MEANS = """\
          metrics:
            - {type: mean, field: score}
            - {type: max, field: score, name: best}
            - {type: std_dev, field: score}
"""


@pytest.fixture
def graded(pytester):
    """Run two samples that a judge grades with 7, on a scale from 0 to 10."""
    pytester.makeini("[pytest]\n")

    def run(metric, op, limit, means="", scale=("0", "10")):
        words = {"METRICS\n": means, "METRIC": metric, "OP": op, "LIMIT": limit}
        words |= {"LEAST": scale[0], "MOST": scale[1]}
        text = GRADED
        for word, given in words.items():
            text = text.replace(word, given)
        write(
            pytester.path,
            {
                "run.yaml": text,
                "rows.jsonl": '{"q": "1?"}\n{"q": "2?"}\n',
                "judge.jsonl": '{"text": "7"}\n',
            },
        )
        judge = "--evals-judge=scripted:judge.jsonl"
        return pytester.runpytest("run.yaml", "--model=scripted:echo", judge)

    return run


@pytest.mark.parametrize(
    ("metric", "op", "limit", "means", "share"),
    [
        ("score", ">=", "7", "", "0.7"),
        ("score", "<=", "3", "", "0.3"),
        ("score", "=", "5", "", "0.5"),
        ("score_mean", ">", "7.5", MEANS, "0.75"),
        ("best", ">=", "10", MEANS, "1"),
    ],
)
def test_a_threshold_on_the_scale_of_a_judge_is_refused(
    graded, metric, op, limit, means, share
):
    """LatticeFlow stores a grade from ``score_min`` to ``score_max`` from 0 to 1."""
    done = graded(metric, op, limit, means)
    assert done.ret == pytest.ExitCode.USAGE_ERROR
    line = GRADED[: GRADED.index("- key: good")].count("\n") + means.count("\n")
    bound = ">=" if op == "=" else op
    verb = "always" if bound[0] == "<" else "never"
    done.stderr.fnmatch_lines(
        [
            f"ERROR: run.yaml:{line}: {metric} is between 0 and 1, so {bound} "
            f"{limit} {verb} holds; values from 0 to 10 are stored in that range, did "
            f"you mean {bound} {share}[?]"
        ]
    )


@pytest.mark.parametrize(("op", "limit"), [(">=", "7"), (">", "1"), ("<", "0")])
def test_a_threshold_that_no_grade_can_meet_is_refused(graded, op, limit):
    done = graded("score", op, limit, scale=("0.0", "1.0"))
    assert done.ret == pytest.ExitCode.USAGE_ERROR
    done.stderr.fnmatch_lines([f"*score is between 0 and 1, so {op} {limit} never*"])


def test_a_custom_gate_on_the_scale_of_a_judge_is_refused(graded, pytester):
    (pytester.path / "gates.yaml").write_text("gates:\n  - graded/score >= 6.5\n")
    done = graded("score", ">=", "0.5")
    assert done.ret == pytest.ExitCode.USAGE_ERROR
    done.stderr.fnmatch_lines(
        ["ERROR: gates.yaml:2: score is between*never holds; *did you mean >= 0.65[?]"]
    )


@pytest.mark.parametrize(("op", "ret"), [(">=", 0), (">", 1)])
def test_a_threshold_from_0_to_1_applies_to_the_fraction(graded, pytester, op, ret):
    assert graded("score", op, "0.7").ret == ret
    assert metrics(pytester, "graded") == {"score": 0.7}


def test_the_spread_of_grades_may_have_any_threshold(graded):
    assert graded("score_std_dev", "<=", "2", MEANS).ret == 0
