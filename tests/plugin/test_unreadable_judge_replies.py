"""A reply of a judge that cannot be read is an error of its document; the next run asks
the judge again."""

from __future__ import annotations

import json

import pytest

APP = """
from pathlib import Path

def answer(prompt):
    return "a polite answer"

def judge(prompt):
    log = Path("asked.txt")
    n = len(log.read_text().splitlines()) if log.exists() else 0
    with log.open("a") as stream:
        stream.write("asked\\n")
    return {replies!r}[min(n, {last})]

answer.version = judge.version = "1"
"""
NATIVE = """
prompt: "{{{{ q }}}}"
rows: [{{id: one, q: hello}}]
score: [{score}]
"""
LATTICEFLOW = """
key: polite
display_name: Polite
description: Is it polite?
tasks: [chat_completion]
config_spec:
  - {type: dataset, key: rows, display_name: Rows, default_value: rows}
definition:
  dataset: {key: "<< config.rows >>"}
  solver:
    type: single_turn_solver
    input_builder:
      type: chat_completion
      input_messages: [{role: user, content: "{{ sample.q }}"}]
  scorers:
    - type: model_as_a_judge_classifier
      model_key: judge-model
      user_prompt: "Is it polite? {{ solver_output.output }}"
      correct_labels: [correct]
      incorrect_labels: [incorrect]
"""
RUN = """
tasks: [{$ref: ./eval.yaml}]
datasets: [{$ref: ./rows.yaml}]
evaluation:
  key: small
  display_name: Small
  description: One row.
  task_specifications: [{key: one, task_key: polite}]
"""
ROWS = """
key: rows
display_name: Rows
description: A few rows.
source: {type: local, file_path: rows.jsonl}
"""
CASES = {
    "judge": (
        NATIVE.format(score="{judge: Is it polite?}"),
        [*["I cannot help."] * 2, json.dumps({"reason": "so", "pass": True})],
    ),
    "pairwise": (
        NATIVE.format(score="{pairwise: {rubric: Which is polite?, versus: hm}}"),
        [*["neither"] * 4, '{"better": "1"}'],
    ),
    "LatticeFlow": (LATTICEFLOW, ["perhaps", "correct"]),
}


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_documents_with_errors_are_judged_again(pytester, case):
    text, replies = CASES[case]
    name = "run.yaml" if case == "LatticeFlow" else "eval.yaml"
    pytester.makefile(".yaml", eval=text)
    if name == "run.yaml":
        pytester.makefile(".yaml", run=RUN, rows=ROWS)
        pytester.makefile(".jsonl", rows='{"id": "one", "q": "hello"}')
    pytester.makepyfile(app=APP.format(replies=replies, last=len(replies) - 1))
    command = [
        name,
        "--model=python:app:answer",
        "--evals-judge=python:app:judge",
        "--evals-max-errors=100%",
    ]

    def outcomes(*arguments):
        result = pytester.runpytest_subprocess(*command, *arguments)
        return result.parseoutcomes()

    def n_asked():
        return len((pytester.path / "asked.txt").read_text().splitlines())

    assert outcomes().get("errors")  # also when it was asked once more
    before = n_asked()
    assert "errors" not in outcomes("--evals-only=error")
    after = n_asked()
    assert before < after
    assert "errors" not in outcomes()
    assert n_asked() == after
