"""Documents with nulls, labels out of range, or all with the same prompt: reported
before any request is sent, by a run and by ``--evals-validate``."""

from __future__ import annotations

import json

import pytest

BREAK = "scripted:break"
"""A model that fails at the first request: earlier output did not need a model."""
NOTES = [
    "*warning: quiz: evals/quiz.yaml:8: doc_to_text: hint is null and is rendered as "
    "'None', as in lm-eval; to omit it, write {{hint or ''}} "
    "(3 documents, first document q1)",
    "*warning: labels: evals/labels.yaml:9: doc_to_target is neither a choice nor "
    "the position of one, from 0, so the answer counts as wrong, as in lm-eval; "
    "correct the target (2 documents, first document q1)",
    "*warning: same: all 10 documents send the same prompt; check "
    "the names of columns if "
    "this is intended, set metadata: {identical_prompts: true}",
]


def rewrite(suite, name, **columns):
    """Set columns of a task's rows, by position."""
    path = suite.evals / f"{name}.jsonl"
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    for i, row in enumerate(rows):
        row |= {column: value(i) for column, value in columns.items()}
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


@pytest.fixture
def odd(suite):
    """Three of lm-eval's files: nulls, labels out of range, a misspelt column."""
    suite.task("quiz", doc_to_text="{{hint}} {{question}}")
    rewrite(suite, "quiz", hint=lambda i: None if i in (1, 4, 9) else "?")
    suite.task(
        "labels",
        output_type="multiple_choice",
        doc_to_choice=["a", "b"],
        doc_to_target="label",
        metric_list=[{"metric": "acc"}],
    )
    rewrite(suite, "labels", label=lambda i: 7 if i in (1, 2) else i % 2)
    suite.task("same", doc_to_text="questoin")
    return suite


@pytest.mark.parametrize(
    "arguments", [("--model=scripted:first",), ("--evals-validate",)]
)
def test_suspicious_documents_of_lm_eval_files_are_warnings(odd, arguments):
    done = odd.run(*arguments, "evals", model=None)
    assert done.ret == 0
    for note in NOTES:
        done.stdout.fnmatch_lines([note])
    if arguments == ("--evals-validate",):
        return
    warnings = odd.results()["warnings"]
    assert {note.partition("warning: ")[2] for note in NOTES} <= set(warnings)
    assert odd.results()["results"]["quiz"]["sample_len"] == 10
    prompts = [row["arguments"]["gen_args_0"]["arg_0"] for row in odd.samples()]
    assert prompts[1] == "None quiz 1?"


@pytest.mark.parametrize("workers", [(), ("-n2",)])
def test_suspicious_documents_are_reported_once_before_the_first_request(odd, workers):
    run = odd.pytester.runpytest_subprocess if workers else odd.pytester.runpytest
    done = run(f"--model={BREAK}", *workers, "evals")
    text = done.stdout.str()
    for note in NOTES:
        done.stdout.fnmatch_lines([note])
        assert text.count(note.removeprefix("*warning: ")) == 1
    assert text.index("send the same prompt") < text.index("FAILURES")


def test_invalid_documents_are_reported_before_the_first_request(suite):
    suite.task("quiz", doc_to_text="question")
    rewrite(suite, "quiz", question=lambda i: None if i in (3, 8) else f"quiz {i}?")
    done = suite.run("evals", model=BREAK)
    done.stdout.fnmatch_lines(
        [
            "evals: warning: quiz: 2 of 10 documents cannot be prompted, first "
            "document q3: evals/quiz.yaml:8: doc_to_text returned None, not a string",
            "evals/quiz.yaml *",
        ]
    )
    done = suite.run("--evals-validate", "evals", model=None)
    assert done.ret == 1
    done.stdout.fnmatch_lines(
        [
            "*document q3 cannot be prompted (2 documents in all): *doc_to_text "
            "returned None*"
        ]
    )


def test_two_equal_rows_are_not_reported(suite):
    rewrite(suite, "quiz", question=lambda i: f"quiz {i // 2}?")
    done = suite.run("evals", "--evals-limit=2")
    done.stdout.no_fnmatch_line("*same prompt*")


@pytest.mark.parametrize(
    "keys",
    [
        {"doc_to_text": "", "output_type": "loglikelihood", "doc_to_target": "{{id}}"},
        {"doc_to_target": "{{question}}", "output_type": "loglikelihood_rolling"},
        {
            "doc_to_text": "Which one?",
            "output_type": "multiple_choice",
            "doc_to_choice": "{{[id, question]}}",
            "doc_to_target": 0,
        },
    ],
)
def test_documents_with_any_different_request_are_not_identical(suite, keys):
    suite.task("quiz", metric_list=None, **keys)
    done = suite.run("evals", model="scripted:first")
    done.stdout.no_fnmatch_line("*same prompt*")


def test_identical_prompts_are_detected_behind_few_shot_examples(suite):
    suite.task("quiz", doc_to_text="questoin", num_fewshot=2)
    done = suite.run("evals", model="scripted:first")
    done.stdout.fnmatch_lines(["*quiz: all 10 documents send the same prompt*"])


@pytest.mark.parametrize("arguments", [(), ("--evals-validate",)])
def test_identical_prompts_can_be_allowed(suite, arguments):
    suite.task("quiz", doc_to_text="Why?", metadata={"identical_prompts": True})
    done = suite.run(*arguments, "evals", model="scripted:first")
    done.stdout.no_fnmatch_line("*same prompt*")


LATTICEFLOW = {
    "rows.yaml": "key: rows\ndisplay_name: R\n"
    "source: {type: local, file_path: rows.jsonl}\n",
    "rows.jsonl": '{"q": "1?", "a": "1"}\n{"q": null, "a": "2"}\n'
    '{"q": "3?", "a": null}\n',
    "task.yaml": """\
key: sums
display_name: S
description: D
tags: [TAGS]
definition:
  dataset: {key: rows}
  solver:
    type: single_turn_solver
    input_builder:
      type: chat_completion
      input_messages: [{role: user, content: "PROMPT"}]
  scorers:
    - {type: string_equals, ground_truth: "{{ sample.a }}"}
""",
}


@pytest.fixture
def latticeflow(pytester):
    """Return a function that writes a task of three samples and runs it."""

    def run(*arguments, prompt="Add {{ sample.q }}", tags=""):
        for name, text in LATTICEFLOW.items():
            text = text.replace("PROMPT", prompt).replace("TAGS", tags)
            pytester.path.joinpath(name).write_text(text)
        return pytester.runpytest(*arguments)

    return run


NULL_PROMPT = (
    "task.yaml:11: content: sample.q is null and would be rendered as 'None'",
    "  fix: add a value, or write {{ sample.q or '' }}",
)
NULL_TARGET = (
    "task.yaml:13: ground_truth: sample.a is null and would be rendered as 'None'",
    "  fix: add a value, or write {{ sample.a or '' }}",
)


@pytest.mark.guests
def test_in_native_files_a_null_is_an_error_of_the_document(latticeflow):
    done = latticeflow("--model=scripted:echo")
    done.assert_outcomes(errors=2)
    done.stdout.fnmatch_lines(
        [
            "evals: warning: sums: 2 of 3 documents cannot be prompted, first "
            f"document 1: {NULL_PROMPT[0]}",
            "*ERROR at call of sums[[]1]*",
            *NULL_PROMPT,
            "*ERROR at call of sums[[]2]*",
            *NULL_TARGET,
        ]
    )
    done = latticeflow("--evals-validate")
    assert done.ret == 1
    done.stdout.fnmatch_lines([f"*{NULL_PROMPT[0]}", f"*{NULL_TARGET[0]}"])


@pytest.mark.guests
@pytest.mark.parametrize(
    ("arguments", "tags", "allowed"),
    [
        ((), "", False),
        ((), "identical_prompts", True),
        (("--evals-metadata=identical_prompts=true",), "", True),
    ],
)
@pytest.mark.parametrize("mode", ["--evals-validate", "--model=scripted:first"])
def test_in_native_files_identical_prompts_are_errors(
    latticeflow, mode, arguments, tags, allowed
):
    done = latticeflow(mode, *arguments, prompt="Add {{ 1 + 1 }}", tags=tags)
    message = (
        "*task.yaml:1: all 3 documents send the same prompt; check the names of columns"
    )
    if allowed:
        done.stdout.no_fnmatch_line(message)
        return
    assert done.ret == 1
    done.stdout.fnmatch_lines(
        [
            message,
            "  fix: correct the template; if it is intended: tags: "
            "[[]identical_prompts]",
        ]
    )


TALK = """\
    type: multi_turn_solver
    message_builders:
      - {type: chat_message, role: user, content: "Hello."}
      - {type: generate}
      - {type: chat_message, role: user, content: "LATER"}
      - {type: generate}
"""


@pytest.mark.guests
@pytest.mark.parametrize("later", ["{{ sample.a or 3 }}", "Bye."])
def test_conversations_are_compared_as_a_whole(latticeflow, pytester, later):
    latticeflow("--collect-only")
    path = pytester.path / "task.yaml"
    head, _, tail = path.read_text().partition("    type: single_turn_solver\n")
    scorers = tail[tail.index("  scorers:") :].replace("sample.a", "sample.a or 3")
    path.write_text(head + TALK.replace("LATER", later) + scorers)
    done = pytester.runpytest("--model=scripted:first")
    same = "*all 3 documents send the same prompt*"
    if later == "Bye.":
        done.stdout.fnmatch_lines([same])
    else:
        done.stdout.no_fnmatch_line(same)


LIGHTEVAL = """
from lighteval.metrics.metrics import Metrics
from lighteval.tasks.lighteval_task import LightevalTaskConfig
from lighteval.tasks.requests import Doc

def prompt(line, task_name=None):
    return Doc("questoin", [" a", " b"], 0, task_name=task_name, specific=SPECIFIC)

TASKS_TABLE = [
    LightevalTaskConfig(
        name="quiz", prompt_function=prompt, metrics=[METRIC], hf_repo="json",
        hf_subset="default", hf_data_files={"test": "quiz.jsonl"},
        hf_avail_splits=["test"], evaluation_splits=["test"], generation_size=5,
    )
]
"""


@pytest.mark.guests
def test_identical_prompts_of_a_lighteval_task_are_errors(suite):
    (suite.evals / "quiz.yaml").unlink()
    text = LIGHTEVAL.replace("METRIC", "Metrics.loglikelihood_acc")
    (suite.evals / "eval_quiz.py").write_text(text.replace("SPECIFIC", "None"))
    done = suite.run("evals", model="scripted:first")
    done.assert_outcomes(errors=10)
    done.stdout.fnmatch_lines(
        [
            "evals/eval_quiz.py:*: all 10 documents send the same prompt; *",
            "  fix: correct the prompt function; if this is intended, pass "
            "--evals-metadata=identical_prompts=true",
        ]
    )
    allow = "--evals-metadata=identical_prompts=true"
    assert suite.run("evals", allow, model="scripted:first").ret == 0


CLASS = """
from lm_eval.api.task import ConfigurableTask

class Quiz(ConfigurableTask):
    def __init__(self, config=None):
        super().__init__(config=dict(dataset_path="json", test_split="test",
            dataset_kwargs={"data_files": {"test": "evals/quiz.jsonl"}},
            doc_to_text="questoin", doc_to_target="{{answer}}"))
"""


def test_identical_prompts_of_a_task_class_are_a_warning(suite):
    (suite.evals / "own.py").write_text(CLASS)
    path = suite.evals / "quiz.yaml"
    path.write_text("task: quiz\nclass: !function own.Quiz\n")
    done = suite.run("evals", model="scripted:first")
    done.stdout.fnmatch_lines(
        ["evals: warning: quiz: all 10 documents send the same prompt*", "evals/quiz*"]
    )
    path.write_text(f"{path.read_text()}metadata: {{identical_prompts: true}}\n")
    done = suite.run("evals", model="scripted:first")
    done.stdout.no_fnmatch_line("*same prompt*")


BREAKING = """
from pytest_evals import Asked, Doc, Estimate, Generate, Metric, Place, Score, Task

class Rows:
    def ids(self): return ["a", "b", "c"]
    def indices(self): return range(3)
    def total(self): return 3

def ask(index):
    if index == 1:
        raise RuntimeError("a fault of the dialect")
    return Asked(Doc("q", [], 0, id="abc"[index]), (Generate(f"q{index}"),))

def pytest_evals_load_tasks(path, config):
    if path.suffix != ".quiz":
        return None
    mean = lambda values: Estimate(sum(values) / len(values))
    return [
        Task(
            name="own", source=Place(path, 1), rows=Rows(), ask=ask,
            score=lambda record: (Score(metric="one", value=1.0),),
            metrics=(Metric(name="one", aggregate=mean),),
        )
    ]
"""


@pytest.mark.parametrize("workers", [(), ("-n2",)])
def test_an_error_during_the_prompt_check_is_reported_with_its_document(suite, workers):
    suite.pytester.makeconftest(BREAKING)
    (suite.evals / "own.quiz").write_text("")
    run = suite.pytester.runpytest_subprocess if workers else suite.pytester.runpytest
    done = run("--model=scripted:first", "evals/own.quiz", *workers)
    assert done.ret == 1
    done.stdout.fnmatch_lines(["*a fault of the dialect*"])
    assert "INTERNALERROR" not in done.stdout.str() + done.stderr.str()
