"""Checks of rows, and the part of answers that is scored."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import pytest_evals as ev
from pytest_evals import RunResult, evaluate
from pytest_evals.errors import TaskFileError

ANSWERS = {
    "refund": "We will refund 4.90. Answer: yes",
    "hours": "No idea",
}


def run(folder: Path, text: str, **more) -> RunResult:
    """The result of an eval file with a model that answers by the row's question."""
    (folder / "eval.yaml").write_text(text, "utf-8")
    return evaluate(folder / "eval.yaml", lambda prompt: ANSWERS[prompt], **more)


def scores(result: RunResult) -> dict[str, dict[str, float]]:
    """Id of a case → name of a metric → its value."""
    (task,) = result.tasks
    return {
        record.doc.id: {one.metric: one.value for one in record.scores}
        for record in task.records
    }


ROWS = """\
prompt: "{{q}}"
rows:
  - {id: r, q: refund, checks: [{contains: "4.90"}, {regex: "yes$"},
     not: {contains: "no"}]}
  - {id: h, q: hours, word: idea, checks: [{contains: "{{word}}"}, {contains: nine}]}
"""


def test_each_row_has_its_own_scorers_and_their_share_is_the_metric(tmp_path):
    result = run(tmp_path, ROWS + "score: checks\n")
    assert scores(result) == {"r": {"checks": 1.0}, "h": {"checks": 0.5}}
    (task,) = result.tasks
    wrong = task.records[1].scores[0]
    assert (wrong.correct, wrong.explanation) == (
        False,
        "contains: does not contain 'nine'",
    )


def test_checks_in_python_may_be_scorers():
    @ev.eval(score="checks")
    def bot():
        yield ev.case(
            "refund",
            id="r",
            checks=[ev.contains("refund"), {"exact": None}],
            target="x",
        )

    assert scores(evaluate(bot, ANSWERS.get)) == {"r": {"checks": 0.5}}


@pytest.mark.parametrize(
    ("given", "line"),
    [
        ('prompt: "{{q}}"\nrows:\n  - {id: a, q: one, checks: [{contains: a}]}\n'
         "  - {id: b, q: two}\n", "eval.yaml:4"),
        ('prompt: "{{q}}"\nrows:\n  - {id: b, q: two, checks: []}\n', "eval.yaml:3"),
        ('prompt: "{{q}}"\ndataset: rows.jsonl\n', "rows.jsonl:2"),
        ("rows:\n  - id: a\n    turns: [{user: one, checks: [{contains: a}]}]\n"
         "  - {id: b, turns: [one, two]}\n", "eval.yaml:4"),
    ],
)  # fmt: skip
def test_a_row_without_checks_is_an_error_of_its_line(tmp_path, given, line):
    """Turns with checks are enough."""
    rows = [{"id": "a", "q": "one", "checks": ["no_tool_calls"]}, {"id": "b", "q": "2"}]
    (tmp_path / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)))
    with pytest.raises(TaskFileError) as error:
        run(tmp_path, given + "score: checks\n")
    (problem,) = error.value.problems
    assert f"{problem}".startswith(f"{tmp_path / line}: row 'b': no checks")


@pytest.mark.parametrize(
    ("checks", "score", "message"),
    [
        ("[{contains: a}]", "contains: a", "rows have checks, and score does not"),
        ("[{contains: a}]", "judge: Is it right?", "rows have checks, and score does"),
        ("[{contain: a}]", "checks", "row 'r': score: unknown scorer 'contain'; did"),
        ("[{contains: 4.90}]", "checks", "text is 4.9, not text\n  fix: quote it"),
        ("[{contains: '{{nope}}'}]", "checks", "row 'r': contains: text"),
        ("[{judge: Good?}]", "checks", "judge asks a model"),
        ("4", "checks", "checks is 4"),
    ],
)  # fmt: skip
def test_faults_of_checks_are_found_before_the_run(tmp_path, checks, score, message):
    text = f'prompt: "{{{{q}}}}"\nrows: [{{id: r, q: refund, checks: {checks}}}]\n'
    with pytest.raises(TaskFileError) as error:
        run(
            tmp_path,
            f"{text}score: {{{score}}}\n"
            if ":" in score
            else f"{text}score: {score}\n",
        )
    assert message in str(error.value)


PART = """\
prompt: "{{q}}"
rows: [{id: r, q: refund, target: "yes"}, {id: h, q: hours, target: "yes"}]
"""


def test_an_eval_scores_a_part_of_answers_and_one_without_it_is_wrong(tmp_path):
    text = (
        "extract: {after: 'Answer:'}\n"
        "score:\n"
        "- exact\n"
        "- not: {contains: 'no'}\n"
        "- regex: {pattern: '4', extract: {regex: 'refund (.*)'}}\n"
    )
    result = run(tmp_path, PART + text)
    assert scores(result) == {
        "r": {"exact": 1, "not_contains": 1, "regex": 1},
        "h": {"exact": 0, "not_contains": 0, "regex": 0},
    }
    (task,) = result.tasks
    assert task.records[1].scores[0].explanation == (
        'nothing to extract: {"after": "Answer:"}'
    )


def test_judges_and_functions_get_the_part(judge):
    @ev.eval(score=[ev.judge("Is it yes?")], extract={"after": "Answer:"})
    def bot():
        yield ev.case("refund", id="r")
        yield ev.case("hours", id="h")

    @bot.score
    def length(answer, response):
        return len(answer) + len(response.text) / 100

    found = scores(evaluate(bot, ANSWERS.get, judge=judge))
    assert found["r"] == {"judge": 1.0, "length": 3.32}
    assert found["h"] == {"judge": 0.0, "length": 0.07}
    assert len(judge.seen) == 1
    assert "refund 4.90" not in judge.seen[0]
