"""Detect models that cannot be opened on this machine before the first document runs.

A fully cached run needs neither key nor library. So the documents of such a model are
first looked up in the cache, up to the first one without a stored response.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from pytest_evals.core.dialogue import JUDGE, ModelSource
from pytest_evals.core.model import Model, ModelOpener
from pytest_evals.core.record import Record
from pytest_evals.core.task import Task
from pytest_evals.errors import EvalsError, ModelError, OptionError
from pytest_evals.run.batches import Batches, Job
from pytest_evals.run.cached_model import CachedModels
from pytest_evals.run.inference import SilentModel
from pytest_evals.store.model import NOT_STORED

NO_MODEL = (
    "no model is set\n"
    "  fix: pass one, such as --model=hf:gpt2 (--evals-model=… if a conftest "
    "defines --model), or set evals_model in the ini file"
)
NO_JUDGE = (
    "no judge is set\n"
    "  fix: pass one, such as --evals-judge=openai:gpt-4o, or set evals_judge in the "
    "ini file"
)
_WINDOW = 64
"""Documents that are rendered together; a cache miss is usually the first one."""
_UNKNOWN = "the responses of this model are not available"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedRequests:
    """The requests of a run."""

    jobs: Sequence[Job]
    tested: str | None
    """Spec of the tested model, empty if missing; ``None`` if it is opened elsewhere.
    """
    judge: str | None  # spec of the judge, likewise
    prepare: Callable[[Task, list[Record]], list[Record]] | None = None
    """Maps the records of a task to those that are sent."""
    reuses: bool = True  # whether stored responses are used
    no_judge: str = NO_JUDGE  # error message if there is no judge

    def specs(self, task: Task) -> Iterator[tuple[str, str | None, str]]:
        """The models of a task: the task's name for each, its spec, and the error for
        an empty spec."""
        if task.asks_model:
            yield "", self.tested, NO_MODEL
        for name, source in task.models.items():
            if source == JUDGE:
                yield "a judge", self.judge, self.no_judge
            elif isinstance(source, str):
                yield f"the model {name!r}", source, ""


def why_refused(planned: PlannedRequests, answers: CachedModels) -> EvalsError | None:
    """The error of the model if a response is needed and the model cannot be opened;
    ``None`` otherwise."""
    faults = _Faults(planned, answers)
    tasks = {id(job.task): job.task for job in planned.jobs}
    errors = {key: faults.of_task(task) for key, task in tasks.items()}
    jobs = [job for job in planned.jobs if errors[id(job.task)] is not None]
    if not jobs:
        return None
    if not (planned.reuses and answers.reuses):
        return errors[id(jobs[0].task)]
    with ExitStack() as closing:
        stored = _Stored(planned, answers, faults, closing)
        batches = Batches(
            jobs, planned.prepare, _WINDOW, auxiliary_models=stored.further
        )
        for job in jobs:
            record = batches.take(job, stored.open(planned.tested))
            if any(one.error == NOT_STORED for one in record.all_responses):
                return errors[id(job.task)]
    return None


class _Faults:
    """Errors of models that cannot be opened; each model is checked once."""

    def __init__(self, planned: PlannedRequests, answers: CachedModels) -> None:
        self._planned, self._answers = planned, answers
        self._known: dict[str, EvalsError | None] = {}

    def of_task(self, task: Task) -> EvalsError | None:
        """The first error of the models of a task."""
        for name, spec, nothing in self._planned.specs(task):
            error = None if spec is None else self.of_spec(spec, nothing)
            if error is not None:
                return _with_task(error, task, name) if name else error
        for name, source in task.models.items():
            error = self.of_opener(source)
            if error is not None:
                return _with_task(error, task, f"the model {name!r}")
        return None

    def of_spec(self, spec: str, nothing: str = "") -> EvalsError | None:
        """The error of a spec, or ``nothing`` if it is empty."""
        if not spec:
            return OptionError(nothing)
        if spec not in self._known:
            self._known[spec] = self._answers.unready(spec)
        return self._known[spec]

    @staticmethod
    def of_opener(source: ModelSource) -> EvalsError | None:
        """The error of a function that opens a model, if it provides a check."""
        return source.why_unready() if isinstance(source, ModelOpener) else None


def _with_task(error: EvalsError, task: Task, name: str) -> EvalsError:
    kind = OptionError if isinstance(error, OptionError) else ModelError
    return kind(f"{task.name} ({task.source}) needs {name}: {error}")


class _Stored:
    """The stored responses of each model, opened once."""

    def __init__(
        self,
        planned: PlannedRequests,
        answers: CachedModels,
        faults: _Faults,
        closing: ExitStack,
    ) -> None:
        self._planned, self._answers = planned, answers
        self._faults, self._closing = faults, closing
        self._models: dict[str | None, Model] = {None: SilentModel(_UNKNOWN)}

    def open(self, spec: str | None) -> Model:
        if spec not in self._models:
            self._models[spec] = self._opened(spec or "")
        return self._models[spec]

    def further(self, task: Task, name: str) -> Model:
        source = task.models[name]
        if source == JUDGE:
            return self.open(self._planned.judge)
        if isinstance(source, str):
            return self.open(source)
        # Its fingerprint is unknown until it is open, so it must be opened.
        return SilentModel(NOT_STORED if self._faults.of_opener(source) else _UNKNOWN)

    def _opened(self, spec: str) -> Model:
        found = self._answers.without_model(spec) if spec else None
        if found is None:
            # It has no fingerprint. If it can be opened, its responses decide.
            return SilentModel(NOT_STORED if self._faults.of_spec(spec) else _UNKNOWN)
        self._closing.callback(found.close)
        return found
