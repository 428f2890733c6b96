"""Names, ids and texts from data that change the writing direction, or are workflow
commands of GitHub's log: none of them has an effect in the output."""

from __future__ import annotations

import json
import re

import pytest
import yaml

EVIL = "a\u202eb##[error]c\n::error file=x::d\r\n##[group]e\x1b[31mf\u2066g"
CONFTEST = f"""
import pytest
from pytest_evals import Generate, Response

EVIL = {EVIL!r}

class Evil:
    name = "m" + EVIL
    info = {{"x" + EVIL: EVIL, "dtype": EVIL}}
    notes = [EVIL]

    def answer(self, requests):
        for position, request in enumerate(requests):
            if not isinstance(request, Generate):
                yield position, Response(logprob=-1.0 - position % 2, greedy=False)
            elif position == 1:
                yield position, Response(error=EVIL)
            else:
                yield position, Response(text=EVIL)

@pytest.fixture(scope="session")
def eval_model():
    return Evil()

def pytest_evals_metrics(task, records):
    return {{EVIL + ",x": 0.5}}

def pytest_evals_score(record, task):
    if record.index == 2 and task.name == "quiz":
        raise ValueError(EVIL)
"""


def evil_lines(text):
    """Lines that change the writing direction or contain workflow commands, except for
    this package's own annotations, which name a file of the suite."""
    found = []
    for line in text.split("\n"):
        own = re.match(r"::(error|warning) (file=evals/\w+\.yaml|title=evals)", line)
        rest = line[2:] if own else line
        if (
            re.search("[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]", rest)
            or "##[" in rest
            or rest.lstrip().startswith("::")
            or "\x1b" in rest
        ):
            found.append(line)
    return found


@pytest.fixture
def evil(suite):
    rows = [
        {
            "id": f"{EVIL}{i}",
            "question": f"{EVIL} q{i}",
            "answer": f"{EVIL} a{i}",
            "choices": [f"{EVIL}1", f"{EVIL}2"],
            "right": 0,
        }
        for i in range(5)
    ]
    common = {
        "dataset_kwargs": {"data_files": {"test": "rows.jsonl"}},
        "task_alias": EVIL,
        "metadata": {"version": EVIL},
        "description": EVIL,
    }
    must = {"must_pass": [rows[1]["id"]]}
    suite.task(
        "quiz",
        filter_list=[{"name": EVIL, "filter": [{"function": "take_first"}]}],
        gates=["exact_match >= 0.9", must],
        **common,
    )
    suite.task(
        "mc",
        output_type="multiple_choice",
        doc_to_choice="{{choices}}",
        doc_to_target="{{right}}",
        metric_list=[{"metric": "acc"}],
        gates=["acc <= 0.1"],
        **common,
    )
    suite.group("both", task=["quiz", "mc"], group_alias=EVIL)
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    (suite.evals / "rows.jsonl").write_text(lines)
    suite.pytester.makeconftest(CONFTEST)
    return suite


@pytest.mark.slow
@pytest.mark.parametrize("workers", ["-n0", "-n2"])
def test_no_output_of_a_run_contains_control_characters(evil, workers, monkeypatch):
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(evil.pytester.path / "step.md"))
    result = evil.pytester.runpytest_subprocess(
        "evals",
        workers,
        "-v",
        "-rA",
        "--evals-max-errors=100%",
        "--junitxml=junit.xml",
        "--evals-junit=docs",
        "--evals-markdown=summary.md",
    )
    output = result.stdout.str() + "\n" + result.stderr.str()
    assert evil_lines(output) == []
    assert "evals/quiz.yaml::quiz[a_b_#[error]c_.error_file=x.d__#[group]" in output
    assert "::error file=evals/quiz.yaml,line=" in output
    for name in ("junit.xml", "summary.md", "step.md"):
        assert evil_lines((evil.pytester.path / name).read_text()) == [], name
    node = re.search(r"evals/quiz\.yaml::quiz\[.*g3\](?= )", output)
    assert node is not None
    again = evil.pytester.runpytest(node[0], "--evals-max-errors=100%")
    again.assert_outcomes(passed=0)
    assert "1 wrong" in again.stdout.str()


@pytest.mark.parametrize(
    "mode",
    [
        ["--collect-only"],
        ["--evals-plan"],
        ["--evals-write-out=1"],
        ["--evals-validate"],
        ["--evals-strict", "--evals-max-errors=100%"],
    ],
)
def test_no_output_of_other_modes_contains_control_characters(evil, mode):
    output = evil.pytester.runpytest("evals", *mode).stdout.str()
    assert evil_lines(output) == []
    assert "quiz" in output


@pytest.mark.parametrize(
    "wrong",
    [
        {"task": f"x{EVIL}"},
        {"task": "x##"},
        {EVIL: 1},
        {"output_type": EVIL},
        {"metric_list": [{"metric": EVIL}]},
        {"test_split": EVIL},
        {"gates": [f"{EVIL} >= 1"]},
        {"gates": [{"metric": "exact_match", "min": 0.1, "id": EVIL}]},
        {"doc_to_text": "{{ question | " + EVIL.replace("\n", " ") + " }}"},
        {"doc_to_target": "{{ nope[0].x }}"},
        {"dataset_path": EVIL},
    ],
)
def test_no_message_about_a_file_contains_control_characters(suite, wrong, monkeypatch):
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    suite.task("quiz", **wrong)
    result = suite.run("evals", "-x")
    assert evil_lines(result.stdout.str() + "\n" + result.stderr.str()) == []
    assert result.ret != 0


@pytest.mark.slow
def test_no_message_about_an_option_contains_control_characters(suite):
    for option in ("tasks", "limit", "gate", "metadata", "compare", "judge", "sample"):
        result = suite.run("evals", f"--evals-{option}={EVIL}")
        assert evil_lines(result.stdout.str() + "\n" + result.stderr.str()) == []


def test_ids_that_become_equal_are_replaced_by_row_numbers(suite):
    path = suite.task("quiz")
    rows = [
        {"id": one, "question": "quiz 0?", "answer": "a0"}
        for one in ("a\u202eb", "a\u2066b")
    ]
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    (suite.evals / "quiz.jsonl").write_text(lines)
    result = suite.run(str(path), "-v")
    result.stdout.fnmatch_lines(
        [
            "*the column 'id' cannot be used as ids, so rows are numbered "
            "from 0: *both become "
            "'a_b'"
        ]
    )
    result.stdout.fnmatch_lines(["*::quiz[[]0] PASSED*", "*::quiz[[]1] PASSED*"])


HOOK = """
from pathlib import Path
from pytest_evals import Asked, Doc, Generate, Metric, Place, Score, Task

class Rows:
    def ids(self): return ["fine", {id!r}]
    def indices(self): return [0, 1]
    def total(self): return 2

def pytest_evals_load_tasks(path, config):
    if path.suffix != ".mine":
        return None
    return [Task(
        name={name!r},
        source=Place(path),
        rows=Rows(),
        ask=lambda i: Asked(Doc("q", [], 0), (Generate("q"),)),
        score=lambda record: (Score(metric="x", value=1.0),),
        metrics=(),
    )]
"""


@pytest.mark.parametrize(
    ("name", "id_", "what"),
    [
        ("quiz", "a\u202eb", "quiz: a document cannot have the id 'a\\u202eb'"),
        (
            "quiz",
            "x ##[error]",
            "quiz: a document cannot have the id 'x \\x23#[error]'",
        ),
        ("a\u202e", "b", "a task cannot be called 'a\\u202e'"),
        ("a##", "b", "a task cannot be called 'a##'"),
    ],
)
def test_tasks_of_other_plugins_cannot_have_control_characters_in_names(
    pytester, name, id_, what
):
    pytester.makeini("[pytest]\n")
    pytester.makeconftest(HOOK.format(name=name, id=id_))
    (pytester.path / "suite.mine").write_text(yaml.safe_dump({"task": "x"}))
    result = pytester.runpytest("suite.mine", "--model=scripted:echo")
    result.stdout.fnmatch_lines([f"suite.mine: {what}".replace("[", "[[]")])
    assert evil_lines(result.stdout.str()) == []
