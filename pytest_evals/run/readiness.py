"""Models that cannot be opened on this machine, known before the first document runs.

It matters only where a response is needed: a run whose responses are all stored needs
neither key nor library. So the documents of such a model are first answered from the
store alone, up to the first whose response is not there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from pytest_evals.core.dialogue import JUDGE, ModelSource
from pytest_evals.core.model import Model, ModelOpener
from pytest_evals.core.record import Record
from pytest_evals.core.request import Request, Response
from pytest_evals.core.task import Task
from pytest_evals.errors import EvalsError, ModelError, OptionError
from pytest_evals.run.cached_model import CachedModels
from pytest_evals.run.plan import Job, Plan
from pytest_evals.store.model import NOT_STORED

NO_MODEL = (
    "there is no model to ask\n"
    "  fix: give one, as in --model=hf:gpt2 (--evals-model=… where a conftest has "
    "taken --model), or set evals_model in the ini file"
)
NO_JUDGE = (
    "there is no judge to ask\n"
    "  fix: give one, as in --evals-judge=openai:gpt-4o, or set evals_judge in the ini "
    "file"
)
_WINDOW = 64
"""Documents that are rendered together: most often the first is not stored."""
_UNKNOWN = "nothing is known of this model's answers"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedRequests:
    """What is asked.

    Args:
        jobs: Documents.
        tested: Spec of the model that is tested, empty if there is none; ``None`` for
            one that somebody else opens.
        judge: The same of the judge.
        prepare: What makes the records that are asked of a task's own.
        reuses: Whether all of it may be taken from the store.
        no_judge: What is wrong with a judge that is not there.
    """

    jobs: Sequence[Job]
    tested: str | None
    judge: str | None
    prepare: Callable[[Task, list[Record]], list[Record]] | None = None
    reuses: bool = True
    no_judge: str = NO_JUDGE

    def specs(self, task: Task) -> Iterator[tuple[str, str | None, str]]:
        """The models that a task asks: how it names one, its spec, and what is wrong
        with an empty one."""
        if task.asks_model:
            yield "", self.tested, NO_MODEL
        for name, source in task.models.items():
            if source == JUDGE:
                yield "a judge", self.judge, self.no_judge
            elif isinstance(source, str):
                yield f"the model {name!r}", source, ""


def why_refused(asked: PlannedRequests, answers: CachedModels) -> EvalsError | None:
    """Why documents cannot be answered, if it is known and a response is needed;
    ``None`` otherwise.

    Args:
        asked: What is asked.
        answers: The store, in front of models that are not opened here.
    """
    faults = _Faults(asked, answers)
    tasks = {id(job.task): job.task for job in asked.jobs}
    found = {key: faults.of_task(task) for key, task in tasks.items()}
    jobs = [job for job in asked.jobs if found[id(job.task)] is not None]
    if not jobs:
        return None
    if not (asked.reuses and answers.reuses):
        return found[id(jobs[0].task)]
    with ExitStack() as closing:
        stored = _Stored(asked, answers, faults, closing)
        plan = Plan(jobs, asked.prepare, _WINDOW, auxiliary_models=stored.further)
        for job in jobs:
            if _lacks(plan.take(job, stored.open(asked.tested))):
                return found[id(job.task)]
    return None


def _lacks(record: Record) -> bool:
    """Whether a response of a document is not stored."""
    later = [one.response for one in record.exchanges]
    return any(one.error == NOT_STORED for one in (*record.responses, *later))


class _Faults:
    """Why models cannot be opened; each is looked at once."""

    def __init__(self, asked: PlannedRequests, answers: CachedModels) -> None:
        self._asked, self._answers = asked, answers
        self._known: dict[str, EvalsError | None] = {}

    def of_task(self, task: Task) -> EvalsError | None:
        """The first fault of the models that a task asks."""
        for name, spec, nothing in self._asked.specs(task):
            error = None if spec is None else self.of_spec(spec, nothing)
            if error is not None:
                return _named(error, task, name) if name else error
        for name, source in task.models.items():
            error = self.of_opener(source)
            if error is not None:
                return _named(error, task, f"the model {name!r}")
        return None

    def of_spec(self, spec: str, nothing: str = "") -> EvalsError | None:
        """That of a spec, or ``nothing`` if it is empty."""
        if not spec:
            return OptionError(nothing)
        if spec not in self._known:
            self._known[spec] = self._answers.unready(spec)
        return self._known[spec]

    @staticmethod
    def of_opener(source: ModelSource) -> EvalsError | None:
        """That of a function that opens a model, if it can say."""
        return source.why_unready() if isinstance(source, ModelOpener) else None


def _named(error: EvalsError, task: Task, name: str) -> EvalsError:
    kind = OptionError if isinstance(error, OptionError) else ModelError
    return kind(f"{task.name} ({task.source}) asks {name}: {error}")


class _Stored:
    """The stored responses of each model, opened once."""

    def __init__(
        self,
        asked: PlannedRequests,
        answers: CachedModels,
        faults: _Faults,
        closing: ExitStack,
    ) -> None:
        self._asked, self._answers = asked, answers
        self._faults, self._closing = faults, closing
        self._found: dict[str | None, Model] = {None: _Silent(_UNKNOWN)}

    def open(self, spec: str | None) -> Model:
        """The stored responses of the model that a spec names."""
        if spec not in self._found:
            self._found[spec] = self._opened(spec or "")
        return self._found[spec]

    def further(self, task: Task, name: str) -> Model:
        """Those of the model that a task calls by a name."""
        source = task.models[name]
        if source == JUDGE:
            return self.open(self._asked.judge)
        if isinstance(source, str):
            return self.open(source)
        # What identifies it is known when it is open, so that it must be opened.
        return _Silent(NOT_STORED if self._faults.of_opener(source) else _UNKNOWN)

    def _opened(self, spec: str) -> Model:
        found = self._answers.without_model(spec) if spec else None
        if found is None:
            # Nothing of it is stored. If it can be opened, its answers decide.
            return _Silent(NOT_STORED if self._faults.of_spec(spec) else _UNKNOWN)
        self._closing.callback(found.close)
        return found


class _Silent(Model):
    """Answers nothing, and says why."""

    name = ""

    def __init__(self, error: str) -> None:
        self._error = error

    def answer(self, requests: Sequence[Request], /) -> Iterable[tuple[int, Response]]:
        """The same for all requests."""
        return ((i, Response(error=self._error)) for i, _ in enumerate(requests))
