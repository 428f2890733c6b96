"""Documents that an auxiliary model judges, in whole runs."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

TASKS = """
import pytest
from pytest_evals import (
    Ask, Asked, Doc, DocumentError, Estimate, Generate, Metric, Place, Score, Task
)

class Rows:
    def __init__(self, lines): self.lines = lines
    def ids(self): return [line.split("=")[0] for line in self.lines]
    def indices(self): return range(len(self.lines))
    def total(self): return len(self.lines)

def pytest_evals_load_tasks(path, config):
    if path.suffix != ".quiz":
        return None
    lines = path.read_text().split()

    def ask(index):
        question, answer = lines[index].split("=")
        doc = Doc(question, [answer], 0, id=question, row={"q": question})
        return Asked(doc, (Generate(question),) if ASKS else ())

    def follow_up(record):
        text = record.responses[0].text if ASKS else record.doc.query
        yield [Ask("grader", Generate(f"{text} or {record.doc.choices[0]}?"))]

    def score(record):
        reply = record.exchanges[0].text
        if reply not in ("yes", "no"):
            return (Score(metric="right", value=None, unscored=f"the judge: {reply}"),)
        right = reply == "yes"
        return (Score(metric="right", value=float(right), correct=right),)

    mean = lambda values: Estimate(sum(values) / len(values))
    return [
        Task(
            name=path.stem,
            source=Place(path, 1),
            rows=Rows(lines),
            ask=ask,
            follow_up=follow_up,
            models={"grader": GRADER},
            asks_model=ASKS,
            score=score,
            metrics=(Metric(name="right", aggregate=mean),),
        )
    ]

ASKS = True
GRADER = ""
"""


@pytest.fixture
def judged(suite):
    """Four sums, a model that answers two of them correctly, and a judge that
    recognises correct sums."""
    suite.pytester.makeconftest(TASKS)
    (suite.evals / "sums.quiz").write_text("a=1 b=2 c=3 d=4")
    (suite.pytester.path / "model.json").write_text('{"a": "1", "b": "2", "c": "x"}')
    judge = {"1 or 1?": "yes", "2 or 2?": "yes", "x or 3?": "no"}
    (suite.pytester.path / "judge.json").write_text(json.dumps(judge))
    return suite


RUN = ("evals/sums.quiz", "--evals-judge=scripted:judge.json")


@pytest.mark.parametrize("arguments", [[], ["-n2"]])
def test_a_judge_rates_answers_and_is_reported_separately_from_the_model(
    judged, arguments
):
    (judged.pytester.path / "model.json").write_text(
        '{"a": "1", "b": "2", "c": "x", "d": "x"}'
    )
    judge = {"1 or 1?": "yes", "2 or 2?": "yes", "x or 3?": "no", "x or 4?": "no"}
    (judged.pytester.path / "judge.json").write_text(json.dumps(judge))
    result = judged.run(*RUN, *arguments, model="scripted:model.json")
    assert result.parseoutcomes() == {"passed": 2, "wrong": 2}
    results = judged.results()
    assert [*results["judges"]] == ["scripted:judge.json"]
    assert results["results"]["sums"]["right,none"] == 0.5
    rows = {row["id"]: row for row in judged.samples("sums")}
    (exchange,) = rows["a"]["exchanges"]
    assert exchange["model"] == "grader" and exchange["resp"] == "yes"
    assert exchange["arguments"]["arg_0"] == "1 or 1?"


def test_a_document_whose_judge_fails_has_no_score(judged):
    result = judged.run(*RUN, model="scripted:model.json")
    # the model has no answer to d, so the judge gets no request about it
    assert result.parseoutcomes() == {"passed": 2, "errors": 1, "wrong": 1}
    shutil.rmtree(judged.pytester.path / ".evals")
    judge = {"1 or 1?": "yes", "2 or 2?": "perhaps"}
    (judged.pytester.path / "judge.json").write_text(json.dumps(judge))
    result = judged.run(*RUN, "--evals-max-errors=100%", model="scripted:model.json")
    by_id = {row["id"]: row for row in judged.samples("sums")}
    assert by_id["b"]["status"] == "unscored"
    assert by_id["c"]["status"] == "errored"
    assert judged.results()["results"]["sums"]["right,none"] == 1.0
    assert result.ret == 1


def test_replies_of_a_judge_are_stored(judged):
    judged.pytester.makeconftest(
        TASKS
        + """
class Counting:
    name = "counting"
    fingerprint = {"counting": 1}

    def answer(self, requests):
        from pytest_evals import Response
        for i, _ in enumerate(requests):
            with open("requests", "a") as file:
                file.write("x")
            yield i, Response(text="yes")

@pytest.fixture(scope="session")
def eval_judge():
    return Counting()
"""
    )
    (judged.evals / "sums.quiz").write_text("a=1 b=2")
    for _ in range(2):
        result = judged.run("evals/sums.quiz", model="scripted:model.json")
        assert result.parseoutcomes() == {"passed": 2}
    assert (judged.pytester.path / "requests").read_text() == "xx"


def test_without_a_judge_the_run_is_refused_before_any_model_is_opened(judged):
    result = judged.run("evals/sums.quiz", model="scripted:model.json")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    text = result.stderr.str()
    assert "sums (" in text and "sums.quiz:1) needs a judge: no judge is set" in text
    assert "--evals-judge=" in text


def test_an_invalid_judge_spec_is_refused(judged):
    judge = "--evals-judge=scriptd:first"
    result = judged.run("evals/sums.quiz", judge, model="scripted:model.json")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert "did you mean 'scripted'?" in result.stderr.str()


def test_a_task_may_name_its_judge_and_need_no_model(judged):
    changed = TASKS.replace("ASKS = True", "ASKS = False")
    judged.pytester.makeconftest(
        changed.replace('GRADER = ""', 'GRADER = "scripted:judge.json"')
    )
    judge = {"a or 1?": "yes", "b or 2?": "no", "c or 3?": "no", "d or 4?": "no"}
    (judged.pytester.path / "judge.json").write_text(json.dumps(judge))
    result = judged.run("evals/sums.quiz", model="")
    assert result.parseoutcomes() == {"passed": 1, "wrong": 3}


def test_a_judge_that_is_the_model_is_opened_once(judged):
    judged.pytester.makeconftest(
        TASKS
        + """
class Both:
    name = "both"

    def answer(self, requests):
        from pytest_evals import Response
        with open("opened", "a") as file:
            file.write(f"{id(self)} ")
        for i, request in enumerate(requests):
            yield i, Response(text="yes")

def pytest_evals_open_model(spec, config):
    return Both()
"""
    )
    run = ("evals/sums.quiz", "--evals-judge=own:x", "--evals-cache=off")
    result = judged.run(*run, model="own:x")
    assert result.parseoutcomes() == {"passed": 4}
    opened = (judged.pytester.path / "opened").read_text().split()
    assert len(opened) == 2 and len(set(opened)) == 1


def test_a_run_with_another_judge_is_not_comparable(judged):
    (judged.evals / "sums.quiz").write_text("a=1 b=2 c=3")
    assert (
        judged.run(*RUN, "--evals-save-baseline=main", model="scripted:model.json").ret
        == 0
    )
    other = ("evals/sums.quiz", "--evals-judge=scripted:first", "--evals-compare=main")
    result = judged.run(*other, model="scripted:model.json")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    message = "sums: grader is scripted:first instead of scripted:judge.json"
    assert message in result.stderr.str()


TASK_WITH_JUDGE = """
task: capitals
dataset_path: json
dataset_kwargs: {data_files: {test: capitals.jsonl}}
test_split: test
output_type: generate_until
doc_to_text: "{{q}}"
doc_to_target: "{{a}}"
metric_list:
  - metric: !function my_metrics.confirmed
gates: [confirmed >= 0.9]
"""


def test_the_judge_on_the_page_about_custom_metrics_grades_answers(pytester):
    page = Path(__file__).parents[2].joinpath("docs", "custom_metrics.md").read_text()
    section = page.split("## Judges")[1]
    pytester.makepyfile(my_metrics=section.split("```python\n")[1].split("```")[0])
    rows = [{"q": "France?", "a": "Paris"}, {"q": "Italy?", "a": "Rome"}]
    lines = "\n".join(json.dumps(row) for row in rows)
    (pytester.path / "capitals.jsonl").write_text(lines)
    (pytester.path / "capitals.yaml").write_text(TASK_WITH_JUDGE)
    grades = {
        "France?\nIt is Paris.\nIs that Paris? Reply with yes or no.": "yes",
        "Italy?\nMilan\nIs that Rome? Reply with yes or no.": "No",
    }
    answers = {"France?": "It is Paris.", "Italy?": "Milan"}
    (pytester.path / "judge.json").write_text(json.dumps(grades))
    (pytester.path / "model.json").write_text(json.dumps(answers))
    run = pytester.runpytest(
        "capitals.yaml",
        "--model=scripted:model.json",
        "--evals-judge=scripted:judge.json",
    )
    run.stdout.fnmatch_lines(["capitals * confirmed * 0.500 *"])
    assert run.parseoutcomes() == {"passed": 1, "wrong": 1, "failed": 1}
