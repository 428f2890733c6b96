"""Python of task files while an event loop is running, as in a notebook."""

import asyncio

import pytest

from pytest_evals import evaluate
from pytest_evals.guests.latticeflow.snippets import no_running_loop

TASK = """
key: notebook
display_name: N
description: D
definition:
  dataset: {key: rows}
  solver:
    type: python
    run_solver_snippet: |
      import asyncio

      async def run_solver(sample, model, trace):
          trace.append_user_message(sample["question"])
          await asyncio.sleep(0.001)
          calls = [model.predict(trace.items) for _ in range(2)]
          trace.add_model_response((await asyncio.gather(*calls))[0])
          return trace
  scorers:
    - type: python
      compute_scores_snippet: |
        import asyncio

        async def later(sample, solver_output):
            await asyncio.sleep(0)
            return solver_output.trace.get_last_assistant_text() == sample["target"]

        def compute_scores(sample, solver_output):
            return {"is_correct": asyncio.run(later(sample, solver_output))}
      metrics:
        - type: python
          compute_metrics_snippet: |
            async def compute_metrics(scores):
                return {"right": sum(score["is_correct"] for score in scores)}
"""
ROWS = "key: rows\ndisplay_name: R\nsource: {type: local, file_path: rows.jsonl}\n"


def test_snippets_may_wait_and_ask_where_a_loop_runs_already(tmp_path):
    (tmp_path / "task.yaml").write_text(TASK)
    (tmp_path / "rows.yaml").write_text(ROWS)
    row = '{"sample_id": "%s", "question": "1 + %s?", "target": "%s"}\n'
    text = row % ("a", 1, 2) + row % ("b", 2, 3)
    (tmp_path / "rows.jsonl").write_text(text)
    (tmp_path / "answers.jsonl").write_text('{"text": "2"}\n')
    spec = f"scripted:{tmp_path / 'answers.jsonl'}"

    async def cell():
        task = asyncio.current_task()
        result = evaluate(tmp_path / "task.yaml", spec)
        assert asyncio.current_task() is task
        await asyncio.sleep(0)
        return result

    (found,) = asyncio.run(cell()).tasks
    assert [metric.name for metric in found.metrics] == ["right"]
    assert found.metrics[0].estimate.value == 1
    assert not [record.error for record in found.records if record.error]


def test_the_outer_loop_continues_after_an_error():
    async def cell():
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        with pytest.raises(ZeroDivisionError), no_running_loop():
            with pytest.raises(RuntimeError):
                asyncio.get_running_loop()
            raise ZeroDivisionError
        assert asyncio.get_running_loop() is loop
        assert asyncio.current_task() is task

    asyncio.run(cell())
