"""Documents that ``--evals-select`` leaves out, out of the store, so that gates are
judged over all of a task.

Nothing is asked: a task is completed where every document that was left out has all of
its responses in the store, by this very model and for this very request. Its gates then
say what they would say of the whole run. Elsewhere they are skipped, as ever.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

from pytest_evals.core.model import Model
from pytest_evals.run.inference import Job, Plan
from pytest_evals.run.scoring import score
from pytest_evals.store.stored import StoredModel

if TYPE_CHECKING:
    from pytest_evals.core.record import Record
    from pytest_evals.core.task import Task
    from pytest_evals.plugin.session import EvalSession
    from pytest_evals.plugin.suite.runs import TaskRun

__all__ = ["complete"]


def complete(session: EvalSession) -> None:
    """Add what is stored of documents that were left out.

    Tasks that ask on (judges, talks) are not completed, nor is anything where a hook of
    the user's changes requests or scores: hooks go by the folder of an item, and there
    is none.
    """
    hooks = session.config.hook
    for hook in (hooks.pytest_evals_requests, hooks.pytest_evals_score):
        if hook.get_hookimpls():
            return
    runs = [run for run in session.runs.values() if _lacks(run, session)]
    if not runs:
        return
    with ExitStack() as stack:
        model = _stored(session, stack)
        if model is None:
            return
        for run in runs:
            _complete(run, session, model)


def _lacks(run: TaskRun, session: EvalSession) -> bool:
    """Whether a gate is about a task of which documents were left out."""
    known = session.known
    gated = {
        name
        for one in known.all()
        for gate in one.gates
        for name in known.tasks_of(gate.task)
    }
    lacks = run.task.name in gated and len(run.records) < len(run.ids)
    return lacks and run.task.follow_up is None


def _stored(session: EvalSession, stack: ExitStack) -> StoredModel | None:
    """The stored responses of the model that was asked, if all documents ask the same
    one and it is stored at all."""
    own = session.models.opened
    if len(own) > 1:
        return None
    if own:
        (model,) = own
        return model.unopened() if isinstance(model, StoredModel) else None
    if not session.options.model:
        return None
    found = session.models.answers.without_model(session.model_spec())
    if found is not None:
        stack.callback(found.close)
    return found


def _complete(run: TaskRun, session: EvalSession, model: StoredModel) -> None:
    task = run.task
    lacking = [index for index in run.indices if index not in run.records]
    found = _answered(task, lacking, model)
    if len(found) < len(lacking):
        return
    chat = session.options.apply_chat_template
    for record in found:
        session.finish(task, score(record, task), model.render if chat else None)
    session.completed[task.name] = len(found)


def _answered(task: Task, indices: list[int], model: Model) -> list[Record]:
    """The documents, as far as their responses are stored; the first one that is not
    ends it."""
    jobs = [Job(task, index) for index in indices]
    plan = Plan(jobs)
    found = []
    for job in jobs:
        record = plan.take(job, model)
        if record.error or any(response.error for response in record.responses):
            break
        found.append(record)
    return found
