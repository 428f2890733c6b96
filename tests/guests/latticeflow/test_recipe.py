"""Processing of a sample: rounds, trials, rows of a postprocessor, actions."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from pytest_evals import evaluate
from pytest_evals.core.request import Generate, Request, Response
from pytest_evals.core.result import TaskResult
from pytest_evals.core.task import TaskOptions

HEAD = "key: t\ndisplay_name: T\ndescription: D\n"
ROWS: list[dict[str, Any]] = [
    {"sample_id": "a", "question": "One?", "answer": "1"},
    {"sample_id": "b", "question": "Two?", "answer": "2"},
    {"sample_id": "c", "question": "Six?", "answer": "6"},
]
SOLVER = """
  dataset: {key: rows}
  solver:
    type: single_turn_solver
    input_builder:
      type: chat_completion
      input_messages: [{role: user, content: "{{ sample.question }}"}]
"""


class Canned:
    """A model with canned replies by the end of the prompt; repeated prompts get the
    next reply."""

    name = "canned"

    def __init__(self, answers: Mapping[str, Sequence[str]]) -> None:
        self._answers = answers
        self.requests: list[Generate] = []

    def answer(self, requests: Sequence[Request]) -> Iterator[tuple[int, Response]]:
        for i, request in enumerate(requests):
            assert isinstance(request, Generate) and not isinstance(request.prompt, str)
            self.requests.append(request)
            texts = self._answers[request.prompt[-1].content]
            yield i, Response(text=texts[request.repeat % len(texts)])


def run(folder: Path, definition: str, model: Canned, **options: Any) -> TaskResult:
    rows = options.pop("rows", ROWS)
    (folder / "rows.jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows))
    source = "source: {type: local, file_path: rows.jsonl}"
    (folder / "rows.yaml").write_text(f"key: rows\ndisplay_name: R\n{source}\n")
    (folder / "t.yaml").write_text(f"{HEAD}definition:{definition}")
    (result,) = evaluate(folder / "t.yaml", model, TaskOptions(**options)).tasks
    return result


def numbers(result: TaskResult) -> dict[str, float | None]:
    return {m.name: m.estimate and m.estimate.value for m in result.metrics}


EQUALS = '  scorers: [{type: string_equals, ground_truth: "{{ sample.answer }}"}]\n'
KNOWS = {"One?": ["1"], "Two?": ["two"], "Six?": ["6"]}


def test_answers_are_held_against_the_truth(tmp_path: Path) -> None:
    model = Canned(KNOWS)
    result = run(tmp_path, SOLVER + EQUALS, model)
    assert numbers(result) == {"accuracy": 2 / 3}
    assert [record.correct for record in result.records] == [True, False, True]
    assert {one.temperature for one in model.requests} == {0.0}


def test_no_file_stays_open_while_a_python_solver_waits(tmp_path: Path) -> None:
    """Thousands of samples wait at once, and an event loop holds three file
    descriptors."""

    open_files: list[int] = []

    class Watching(Canned):
        def answer(self, requests: Sequence[Request]) -> Iterator[tuple[int, Response]]:
            open_files.append(len(os.listdir("/dev/fd")))
            return super().answer(requests)

    definition = """
  dataset: {key: rows}
  solver:
    type: python
    run_solver_snippet: |
      async def run_solver(sample, model, trace):
          for word in ("first", "second", "third"):
              trace.append_user_message(word)
              trace.add_model_response(await model.predict(trace.items))
"""
    model = Watching({word: ["1"] for word in ("first", "second", "third")})
    rows = [{"question": f"{n}?", "answer": "1"} for n in range(20)]
    result = run(
        tmp_path, definition + EQUALS, model, rows=rows, allow_unsafe_code=True
    )
    assert numbers(result) == {"accuracy": 1.0}
    assert len(open_files) == 3
    assert max(open_files) <= open_files[0] + 3


def test_trials_ask_several_times_and_are_added_up_for_each_sample(
    tmp_path: Path,
) -> None:
    """By hand: 1, 1 and 0 of 2 trials are correct; pass@2 is 1 - (1 - p)^2."""
    model = Canned({"One?": ["1"], "Two?": ["2"], "Six?": ["6", "six"]})
    definition = f"""{SOLVER}
  scorers:
    - type: string_equals
      ground_truth: "{{{{ sample.answer }}}}"
      metrics:
        - {{type: mean, field: "is_correct.pass@2", name: once}}
        - {{type: mean, field: both, name: both}}
        - {{type: mean, key: m, field: is_correct, name: share}}
  trials:
    num_trials: 2
    score_aggregators:
      - {{score_name: is_correct, aggregator: {{function: "pass@k", k: 2}}}}
      - score_name: is_correct
        aggregator: {{function: "pass^k", k: 2, score_name: both}}
"""
    result = run(tmp_path, definition, model)
    assert numbers(result) == pytest.approx(
        {"once": 2.75 / 3, "both": 2.25 / 3, "share": 2.5 / 3}
    )
    assert {one.repeat for one in model.requests} == {0, 1}
    assert {one.temperature for one in model.requests} == {1.0}


def test_a_postprocessor_makes_rows_that_each_count(tmp_path: Path) -> None:
    """Sample a has two rows, b one, c none: 2 of 3 rows are correct."""
    definition = f"""{SOLVER}    postprocessor:
      type: python
      postprocess_snippet: |
        def postprocess(sample, solver_output):
            n = {{"a": 2, "b": 1, "c": 0}}[sample["sample_id"]]
            return [({{**sample, "row": i}}, solver_output) for i in range(n)]
{EQUALS}"""
    result = run(tmp_path, definition, Canned(KNOWS))
    assert numbers(result) == pytest.approx({"accuracy": 2 / 3})
    assert [record.correct for record in result.records] == [True, False, None]


def test_actions_leave_samples_out_of_all_numbers(tmp_path: Path) -> None:
    definition = f"""{SOLVER}{EQUALS}  actions:
    - key: no-b
      action: exclude_from_metrics
      filter: {{op: equals, expression: "{{{{ sample.sample_id }}}}", value: b}}
    - key: long
      action: exclude_from_metrics
      filter:
        op: is_true
        expression: "{{{{ solver_output.output | string == '6' }}}}"
"""
    result = run(tmp_path, definition, Canned(KNOWS))
    assert numbers(result) == {"accuracy": 1.0}
    assert [record.excluded for record in result.records] == ["", "no-b", "long"]
    assert result.n_excluded == 2


def test_an_action_that_fails_excludes_nothing_and_is_an_error(tmp_path: Path) -> None:
    definition = f"""{SOLVER}{EQUALS}  actions:
    - key: odd
      action: exclude_from_metrics
      filter: {{op: less_than, expression: "{{{{ sample.answer }}}}", value: 2}}
"""
    rows = [*ROWS[:2], {**ROWS[2], "answer": "six"}]
    result = run(tmp_path, definition, Canned(KNOWS), rows=rows)
    assert [record.excluded for record in result.records] == ["odd", "", ""]
    assert "action 'odd'" in result.records[2].error
    assert "'six' is not a number" in result.records[2].error
    assert numbers(result) == {"accuracy": 0.0} and result.metrics[0].n_scored == 2


def test_one_scorer_that_fails_leaves_the_others(tmp_path: Path) -> None:
    definition = f"""{SOLVER}  scorers:
    - {{type: string_equals, key: fine, ground_truth: "{{{{ sample.answer }}}}"}}
    - type: string_equals
      key: lacks
      ground_truth: "{{{{ sample.truth }}}}"
      metrics: [{{type: mean, field: is_correct, name: other}}]
"""
    result = run(tmp_path, definition, Canned(KNOWS))
    assert numbers(result) == {"accuracy": 2 / 3, "other": None}
    assert result.n_unscored == 3


def test_a_scorer_sees_all_samples_that_are_taken(tmp_path: Path) -> None:
    definition = """
  dataset: {key: rows}
  scorers:
    - type: python_all_samples
      compute_scores_snippet: |
        def compute_scores(samples):
            return [{"n": len(samples)} for _ in samples]
      metrics: [{type: max, field: n, name: n}]
"""
    model = Canned({})
    assert numbers(run(tmp_path, definition, model)) == {"n": 3.0}
    assert numbers(run(tmp_path, definition, model, limit=2)) == {"n": 2.0}
    short = definition.replace("for _ in samples]", "for _ in samples[1:]]")
    result = run(tmp_path, short, model)
    assert (
        "must return 3 scores, one per sample, not 2"
        in result.records[0].scores[0].unscored
    )


def test_a_conversation_has_several_rounds(tmp_path: Path) -> None:
    definition = f"""
  dataset: {{key: rows}}
  solver:
    type: multi_turn_solver
    message_builders:
      - {{type: chat_message, role: user, content: "{{{{ sample.question }}}}"}}
      - {{type: generate}}
      - type: chat_message
        role: user
        content: "Sure: {{{{ messages[-1].content }}}}?"
      - {{type: generate}}
{EQUALS}"""
    second = {f"Sure: {text}?": ["6"] for text in ("1", "two", "6")}
    model = Canned({**KNOWS, **second})
    result = run(tmp_path, definition, model)
    assert numbers(result) == {"accuracy": 1 / 3}
    assert [len(one.prompt) for one in model.requests] == [1, 1, 1, 3, 3, 3]


ALIKE = """
  dataset: {key: rows}
  solver:
    type: multi_turn_solver
    message_builders:
      - {type: chat_message, role: user, content: hello}
      - {type: generate}
      - {type: chat_message, role: user, content: "{{ sample.question }}"}
      - {type: generate}
"""


def test_conversations_that_begin_alike_share_no_answers(tmp_path: Path) -> None:
    """As in evals with ``turns``; all turns of a sample are one conversation."""
    model = Canned({**KNOWS, "hello": ["hi"]})
    result = run(tmp_path, ALIKE + EQUALS, model)
    assert numbers(result) == {"accuracy": 2 / 3}
    names = [f"t[{row['sample_id']}]" for row in ROWS]
    assert [one.conversation for one in model.requests] == names * 2


def test_a_deterministic_model_answers_equal_beginnings_once(tmp_path: Path) -> None:
    class Greedy(Canned):
        is_deterministic = True

    model = Greedy({**KNOWS, "hello": ["hi"]})
    assert numbers(run(tmp_path, ALIKE + EQUALS, model)) == {"accuracy": 2 / 3}
    assert [len(one.prompt) for one in model.requests] == [1, 3, 3, 3]


def test_samples_of_a_single_turn_share_equal_requests(tmp_path: Path) -> None:
    model = Canned(KNOWS)
    rows = [{"sample_id": n, "question": "One?", "answer": "1"} for n in "ab"]
    run(tmp_path, f"{SOLVER}{EQUALS}tags: [identical_prompts]\n", model, rows=rows)
    assert [one.conversation for one in model.requests] == [""]
