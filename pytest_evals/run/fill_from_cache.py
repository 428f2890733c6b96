"""Fill documents that were not selected from the response cache, so that gates are
judged over whole tasks.

Sends no requests. A task is filled if the cache contains all responses to all documents
that were left out, by this model. Its gates then have the verdicts of the full run; the
gates of other tasks are skipped.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

from pytest_evals.core.record import Record
from pytest_evals.core.task import Task
from pytest_evals.run.batches import Batches, Job
from pytest_evals.run.config import RunConfig
from pytest_evals.run.flow import Flow, score
from pytest_evals.run.inference import Inference
from pytest_evals.run.suite import Suite, TaskRun
from pytest_evals.store.model import StoredModel


def fill_from_cache(
    suite: Suite, inference: Inference, config: RunConfig, hook: Any, flow: Flow
) -> dict[str, int]:
    """Score documents that were left out and whose responses are stored; return their
    number by task.

    Tasks with follow-up requests are not filled. If a user's hook changes requests or
    scores, no task is: hooks belong to the folder of an item, and these documents have
    no item.
    """
    for one in (hook.pytest_evals_requests, hook.pytest_evals_score):
        if one.get_hookimpls():
            return {}
    filled: dict[str, int] = {}
    with ExitStack() as closing:
        runs = [run for run in suite.tasks.values() if _is_partial(run, suite)]
        model = _stored(inference, config.full_spec, closing) if runs else None
        for run in runs if model is not None else ():
            assert model is not None
            lacking = [index for index in run.indices if index not in run.records]
            records = _answered(run.task, lacking, model)
            if len(records) == len(lacking):
                render = model.render if config.chat else None
                for record in records:
                    flow.finish(score(record, run.task), run.task, render)
                filled[run.task.name] = len(records)
    return filled


def _is_partial(run: TaskRun, suite: Suite) -> bool:
    """Whether a gate belongs to a task with documents that were left out."""
    gated = {
        name
        for one in suite.all()
        for gate in one.gates
        for name in suite.tasks_of(gate.task)
    }
    lacks = run.task.name in gated and len(run.records) < len(run.ids)
    return lacks and run.task.follow_up is None


def _stored(inference: Inference, spec: str, closing: ExitStack) -> StoredModel | None:
    tested = inference.tested
    if len(tested) > 1:
        return None
    if tested:
        (model,) = tested
        return model.unopened() if isinstance(model, StoredModel) else None
    found = inference.answers.without_model(spec) if spec else None
    if found is not None:
        closing.callback(found.close)
    return found


def _answered(task: Task, indices: list[int], model: StoredModel) -> list[Record]:
    """Return the answered documents up to the first whose responses are not stored."""
    jobs = [Job(task, index) for index in indices]
    batches = Batches(jobs)
    answered = []
    for job in jobs:
        record = batches.take(job, model)
        missing = [one for one in record.responses if one.error and not one.is_refusal]
        if missing or (record.error and not record.responses):
            break
        answered.append(record)
    return answered
