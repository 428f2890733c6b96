"""The flow of a document: take its responses, score them, keep the record, write its
sample. ``evaluate()``, pytest's items and the fast path all call :meth:`Flow.run`."""

from __future__ import annotations

import math
import time
from collections import defaultdict
from collections.abc import Callable, Container, Hashable, Iterable
from contextlib import suppress
from dataclasses import replace
from typing import Any, NamedTuple

from pytest_evals.core.doc import Doc, WatchedRow, as_list
from pytest_evals.core.finite import is_finite
from pytest_evals.core.model import Model
from pytest_evals.core.record import Record, Score, Status, slim
from pytest_evals.core.request import Generate, Loglikelihood, Render, Request
from pytest_evals.core.task import Task
from pytest_evals.errors import DocumentError, SpendCapError
from pytest_evals.gates.documents import Required, with_required
from pytest_evals.reports.files.samples import Sample, rendered, sample_of
from pytest_evals.reports.html.thumbnails import DatasetThumbnails
from pytest_evals.run.batches import Job
from pytest_evals.run.config import RunConfig
from pytest_evals.run.error_budget import ErrorBudget
from pytest_evals.run.inference import Inference
from pytest_evals.run.run_writer import RunWriter
from pytest_evals.run.suite import Suite, TaskRun
from pytest_evals.run.task_responses import ReasoningWarnings
from pytest_evals.scorers.user_code import UserCode

EXAMPLES = 3
"""Wrong documents of a metric that are kept completely, for the message of a failed
gate."""


class Scored(NamedTuple):
    """A scored document, and the seconds of its responses and of scoring."""

    record: Record
    took_s: float


class Flow:
    """Runs documents one by one, and keeps each record once."""

    def __init__(
        self,
        config: RunConfig,
        suite: Suite,
        inference: Inference,
        writer: RunWriter,
        *,
        on_record: Callable[[str, Record], None] | None,
        on_task: Callable[[TaskRun], None],
    ) -> None:
        """Create the flow of a run. ``on_record`` is called with the name of the task
        whenever a record is kept, ``on_task`` when all documents of a task are
        complete."""
        self._suite, self._inference, self._writer = suite, inference, writer
        self._chat, self._keeps_whole = config.chat, config.keeps_records
        self._on_record, self._on_task = on_record, on_task
        self._has_samples = config.writes or any(
            gate.baseline for one in suite.all() for gate in one.gates
        )
        self._thumbnails = DatasetThumbnails() if config.shows_images else None
        self._required: dict[str, Required] = {}
        is_removed = "think_end_token=" in config.full_spec
        self._reasoning = ReasoningWarnings(is_removed=is_removed)
        self._budgets = defaultdict[Hashable, ErrorBudget](
            lambda: ErrorBudget(config.max_errors)
        )
        self.failed: set[Hashable] = set()  # keys of models that have raised an error
        self.send: Callable[[Record, Sample | None], None] | None = None
        """On a worker of pytest-xdist: receives records, which its controller keeps."""
        self.on_keep: Callable[[Record, Sample], None] | None = None
        """In a part of a run: receives each record that is kept."""

    def run(self, key: Hashable, job: Job, score_hook: Any = None) -> Scored:
        """Take the responses to a document by the key of its model, score them, keep
        the record and write its sample. ``score_hook``: a user's
        ``pytest_evals_score``, if there is one.

        Raises:
            ModelError: The model failed, or failed on too many documents.
            SpendCapError: A request of the document was not sent.
        """
        taken = self._take(key, job)
        start = time.perf_counter()
        record = score(taken, job.task, score_hook)
        took_s = time.perf_counter() - start
        took_s += sum(response.elapsed_s for response in record.responses)
        took_s += sum(one.response.elapsed_s for one in record.exchanges)
        render = self._inference.opened[key].render if self._chat else None
        self.finish(record, job.task, render)
        return Scored(record, took_s)

    def run_all(
        self,
        key: Hashable,
        jobs: Iterable[Job],
        score_hook: Any,
        decided: Container[str],
    ) -> None:
        """Run documents, except those of tasks whose gates are decided meanwhile."""
        for job in jobs:
            if job.task.name not in decided:
                with suppress(SpendCapError):  # later ones may be stored
                    self.run(key, job, score_hook)

    def _take(self, key: Hashable, job: Job) -> Record:
        inference = self._inference
        model = inference.opened[key]
        try:
            record = inference.batches[key].take(job, model, inference.on_answer)
            budget = self._budgets[key]
            if record.error or record.exchanges or budget.lost:
                budget.add(record)
            else:
                budget.n_asked += bool(record.requests)
            if not record.error:
                self._check_choices(record)
                if job.task.repeats > 1:
                    self._check_repeats(record, job.task, model)
        except SpendCapError as error:
            inference.hold_back(job.task.name, str(error))
            raise
        except (Exception, SystemExit):
            self.failed.add(key)
            raise
        return record

    def _check_choices(self, record: Record) -> None:
        """Warn if the correct choice occurs twice: one of the two counts as wrong."""
        choices = record.doc.choices
        is_scored = record.requests and isinstance(record.requests[0], Loglikelihood)
        if not is_scored or len({*choices}) == len(choices):
            return
        golds = {*as_list(record.doc.gold_index)}
        texts = {choices[gold] for gold in golds if 0 <= gold < len(choices)}
        if any(text in texts and n not in golds for n, text in enumerate(choices)):
            self._inference.warnings.add(
                f"{record.task}: the text of the correct choice occurs twice in the "
                "choices, and only one of the two counts as correct",
                record.doc.id,
            )

    def _check_repeats(self, record: Record, task: Task, model: Model) -> None:
        """Warn if the answers to a document are one."""
        responses = record.own_responses
        if len(responses) < task.repeats or len(
            {*map(id, responses)}
        ) * task.repeats > len(responses):
            return
        why = f"{model.name or 'the model'} is deterministic at temperature 0"
        if record.requests and isinstance(record.requests[0], Loglikelihood):
            why = "log-likelihoods are computed once"
        self._inference.warnings.add(
            f"{task.name}: repeats: {task.repeats} give one answer, because {why}: "
            "they carry no information, and gates count one answer; set a temperature "
            "above 0, or remove repeats",
            record.doc.id,
        )

    def finish(self, record: Record, task: Task, render: Render | None = None) -> None:
        """Keep a scored record, or send it to the controller."""
        required = self._required.get(task.name)
        if required is None:
            required = self._required[task.name] = self._suite.required(task.name)
        if any(required):
            record = with_required(record, task, required)
        sample, shown = None, record
        if self._has_samples:
            shown = rendered(record, render) if render else record
            thumbnails = self._thumbnails
            small = thumbnails.of(shown.requests) if thumbnails is not None else None
            sample = sample_of(shown, task, small)
        generates = any(isinstance(one, Generate) for one in record.requests)
        generates = generates or bool(record.exchanges)
        if generates and (text := self._reasoning.of(shown, task)):
            self._inference.warnings.add(text, f"{task.name}[{record.doc.id}]")
        run = self._suite.tasks[task.name]
        is_example = is_worst(record, task, run.worst)
        kept = record if is_example or self._keeps_whole else slim(record)
        (self.send or self.keep)(kept, sample)

    def keep(self, record: Record, sample: Sample | None) -> None:
        """Keep a record and write its sample. A document that ran twice, since its
        worker died or a plugin reruns failures, counts once: by its first answer."""
        run = self._suite.tasks[record.task]
        earlier = run.records.get(record.index)
        if earlier is not None and earlier.status is Status.SCORED:
            return
        if sample is not None:
            if self.on_keep is not None:
                self.on_keep(record, sample)
            replaces = earlier is not None
            self._writer.add(record.task, record.index, sample, replaces=replaces)
        run.records[record.index] = record
        if any(score.is_tied for score in record.scores):
            run.tied.append(record.doc.id)
        run.result = None
        if self._on_record is not None:
            self._on_record(record.task, record)
        if len(run.records) == len(run.ids):
            self._on_task(run)

    def lose(self, nodeid: str, why: str) -> None:
        """Record a document that no worker could finish as an error of its task; ignore
        other items."""
        for run in self._suite.tasks.values():
            if nodeid.startswith(f"{run.nodeid}[") and nodeid in run.document_ids():
                place = run.document_ids().index(nodeid)
                index, id_ = run.indices[place], run.ids[place]
                doc = Doc("", [], 0, id=id_, task_name=run.task.name)
                record = Record(task=run.task.name, index=index, doc=doc, error=why)
                self.keep(record, sample_of(record, run.task))


def is_worst(record: Record, task: Task, worst: dict[str, list[float]]) -> bool:
    """Whether a document is an example for a metric: one of its first wrong documents,
    or of those with the worst values so far if it has no wrong ones. ``worst``: metric
    → values of its examples, the best one last; is changed."""
    if record.error or record.excluded:
        return False
    found = False
    for score in record.scores:
        given = 0.0 if score.correct is False else score.value
        if score.correct or score.unscored or not is_finite(given):
            continue
        lower = (
            o.key == score.key for o in task.metrics if o.higher_is_better is False
        )
        value = -given if score.correct is None and any(lower) else given
        known = worst.setdefault(score.key, [])
        if len(known) < EXAMPLES or value < known[-1]:
            known[:] = sorted([*known, value])[:EXAMPLES]
            found = True
    return found


def score(record: Record, task: Task, hook: Any = None) -> Record:
    """Return the record with its scores, or with an error. ``hook``: a user's
    ``pytest_evals_score``; the task scores if it returns ``None``."""
    if record.error:
        return record
    scores: tuple[Score, ...] = ()
    error = ""
    try:
        found = None
        if hook is not None:
            with UserCode("pytest_evals_score"):
                found = hook(record=record, task=task)
        scores = tuple(task.score(record) if found is None else found)
        if scores and _is_tied(record, task.repeats):
            scores = tuple(
                one if one.correct is None else replace(one, is_tied=True)
                for one in scores
            )
    except DocumentError as problem:
        error = str(problem)
    scored = Record(  # not replace(), which takes as long as scoring
        task=record.task,
        index=record.index,
        doc=record.doc,
        requests=record.requests,
        responses=record.responses,
        exchanges=record.exchanges,
        scores=scores,
        error=error,
    )
    if task.exclude is not None and not error:
        try:
            scored = replace(scored, excluded=task.exclude(scored))
        except DocumentError as problem:
            scored = replace(scored, error=str(problem))
    if isinstance(record.doc.row, WatchedRow):
        record.doc.row.end_of_scoring()
    return scored


def _is_tied(record: Record, repeats: int) -> bool:
    """Whether the best choice of a document is not unique by its log-probabilities,
    before a metric normalizes them."""
    if record.requests:
        if not isinstance(record.requests[0], Loglikelihood):
            return False
        pairs = [*zip(record.requests, record.responses, strict=True)]
    else:
        pairs = [(one.request, one.response) for one in record.exchanges]
    n = len(record.doc.choices)
    best, found = -math.inf, list[Request]()
    for request, response in pairs[::repeats][: n if n > 1 else None]:
        if not isinstance(request, Loglikelihood) or response.logprob is None:
            return False
        if response.logprob > best:
            best, found = response.logprob, []
        if response.logprob == best:
            found.append(request)
    return len(found) > 1 and len(set(found)) > 1
