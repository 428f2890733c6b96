"""The models of a session: opened once each, asked through one plan each.

Folders may override the fixtures ``eval_model`` and ``eval_judge``; documents that see
the same definitions of them share models and a plan.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any, cast

import pytest
from _pytest.fixtures import TopRequest

from pytest_evals.core.dialogue import JUDGE
from pytest_evals.core.record import Record
from pytest_evals.core.request import Model, Request, Response
from pytest_evals.core.result import Reuse
from pytest_evals.core.task import Task
from pytest_evals.errors import EvalsError
from pytest_evals.plugin.asking.furthers import Definition, Furthers, model_of
from pytest_evals.plugin.asking.losses import Losses
from pytest_evals.plugin.asking.usage import with_usage
from pytest_evals.run.cached_model import Answers
from pytest_evals.run.inference import WINDOW, Job, Plan, ask
from pytest_evals.run.user_hooks import prepared

if TYPE_CHECKING:
    from pytest_evals.plugin.nodes import DocItem
    from pytest_evals.reports.files.rendered import Render

__all__ = ["Models", "Prepare"]


class Models:
    """Which model answers which document, and the plan of each model."""

    def __init__(self, answers: Answers, max_errors: float = 1.0) -> None:
        """Nothing is opened yet; ``max_errors`` is the share of documents that a model
        may leave unanswered."""
        self.answers = answers
        self._furthers = Furthers(answers)
        self._judged: set[Definition] = set()
        """Whose documents ask a judge."""
        self._asked: set[Definition] = set()
        """Whose documents ask the tested model."""
        self._plans: dict[Definition, Plan] = {}
        self._open: dict[Definition, Model] = {}
        self._broken: dict[Definition, str] = {}
        self._losses = defaultdict[Definition, Losses](lambda: Losses(max_errors))
        self._remote = _Remote()
        self.planned: Sequence[DocItem] = ()
        """Documents that this process runs."""
        self.tick: Callable[[], None] | None = None
        """Called after each answer, for the progress line."""
        self.is_first = False
        """Whether the session's first test runs: a model that cannot be opened by then
        is a mistake of who started the session, and no result of it."""
        self.refused = ""
        """Why the session must end, if a model could not be opened."""

    def plan(
        self,
        items: Sequence[DocItem],
        window: int | None = None,
        wave_of: Callable[[Job], object] | None = None,
    ) -> None:
        """Plan the selected documents, one plan a definition of ``eval_model``.

        Args:
            items: Documents in the order they run.
            window: Documents to answer together, if not as many as usual.
            wave_of: Which documents must be answered before others are asked, if any.
        """
        self.planned = items
        groups: dict[Definition, list[DocItem]] = {}
        definitions: dict[int, Definition] = {}
        for item in items:
            key = id(item.parent)
            if key not in definitions:
                definitions[key] = item.parent.model_definition(item)
            groups.setdefault(definitions[key], []).append(item)
        for definition, members in groups.items():
            prepare = Prepare(members)
            jobs = [item.job for item in members]
            tasks = {id(job.task): job.task for job in jobs}.values()
            if any(JUDGE in task.models.values() for task in tasks):
                self._judged.add(definition)
            if any(task.asks_model for task in tasks):
                self._asked.add(definition)
            ends = [
                n
                for n, (job, then) in enumerate(pairwise(jobs), start=1)
                if wave_of is not None and wave_of(job) != wave_of(then)
            ]
            self._plans[definition] = Plan(
                jobs,
                prepare,
                window or WINDOW,
                ends,
                partial(self._furthers.find, definition),
            )

    def look(self) -> Iterator[tuple[Task, Record]]:
        """Render all planned documents before any is sent."""
        for plan in self._plans.values():
            yield from plan.look()

    def again(
        self, items: Sequence[DocItem], wrap: Callable[[Model], Model]
    ) -> Iterator[tuple[DocItem, Record]]:
        """Ask about documents that were run once more, in this order.

        Args:
            items: Documents whose models are open.
            wrap: Makes the model to ask of the one that answered.
        """
        groups: dict[Definition, list[DocItem]] = {}
        for item in items:
            groups.setdefault(item.parent.model_definition(item), []).append(item)
        for definition, members in groups.items():
            jobs, prepare = [item.job for item in members], Prepare(members)
            auxiliary = partial(self._furthers.find, definition)
            plan = Plan(jobs, prepare, auxiliary_models=auxiliary)
            model = wrap(self._open[definition])
            for item in members:
                yield item, plan.take(item.job, model)

    def drop(self, task: str) -> None:
        """Ask no more about the documents of a task."""
        for plan in self._plans.values():
            plan.drop(lambda job: job.task.name == task)

    def ensure(self, item: DocItem) -> None:
        """Open the model of a document, once.

        Fixtures can be had only while an item is set up. A model that cannot be opened
        is one error; all other documents that need it are skipped.
        """
        definition = item.parent.model_definition(item)
        self._skip_if_broken(definition)
        if definition in self._open:
            return
        is_own = definition.has_own_judge
        try:
            request = TopRequest(cast("Any", item), _ispytest=True)
            if definition in self._judged:
                self._furthers.judge_by(definition, request)
            is_own = definition.has_own_model
            model: Model = NOBODY
            if definition in self._asked:
                given = model_of(request.getfixturevalue("eval_model"), "eval_model")
                model = self.answers.given(given)
            self._open[definition] = model
        except BaseException as error:
            self._broken[definition] = item.nodeid
            if is_own:
                self._refuse(error)
            raise

    def _refuse(self, error: BaseException) -> None:
        """End the session for an error of ours that was raised when its first test
        asked for a model.

        Raises:
            pytest.exit.Exception: Which the loop over tests makes a usage error of.
        """
        is_ours = self.answers.opens_itself and isinstance(error, EvalsError)
        if self.is_first and is_ours:
            self.refused = str(error)
            raise pytest.exit.Exception(str(error), pytest.ExitCode.USAGE_ERROR)

    def model_of(self, item: DocItem) -> Model:
        """The model of a document that is set up."""
        return self._open[item.parent.model_definition(item)]

    def asked(self, item: DocItem) -> Record:
        """What is asked about a document, as it would be in a run."""
        task, index = item.job.task, item.job.index
        (record,) = Prepare([item])(task, [ask(task, index)])
        return record

    def take(self, item: DocItem) -> Record:
        """The answered record of a document.

        A model that raises has broken: this document is the error, and those that it
        had not answered are skipped.
        """
        definition = item.parent.model_definition(item)
        if self._broken:
            self._skip_if_broken(definition)
        plan = self._plans[definition]
        try:
            record = plan.take(item.job, self._open[definition], self.tick)
            self._losses[definition].add(record)
            return record
        except (Exception, SystemExit) as error:
            self._broken[definition] = item.nodeid
            plan.stop()
            # One with a store in front is opened when the first response is missing.
            is_open = getattr(self._open[definition], "is_open", True)
            if definition.has_own_model and not is_open:
                self._refuse(error)
            raise

    def render_of(self, item: DocItem) -> Render | None:
        """How the model of a document renders chats, if it says so."""
        model = self._open[item.parent.model_definition(item)]
        return cast("Render | None", getattr(model, "render", None))

    def _skip_if_broken(self, definition: Definition) -> None:
        if definition in self._broken:
            pytest.skip(f"the model failed, see {self._broken[definition]}")

    def told(self) -> dict[str, Any]:
        """What a worker of pytest-xdist says of its model, as JSON values."""
        return {
            "name": self.name,
            "info": dict(self.info),
            "judges": {name: dict(info) for name, info in self.judges.items()},
            "notes": self.notes,
            "n_requests": self.n_requests,
            "model_s": self.model_s,
            "reuse": asdict(self.reuse),
        }

    def add_remote(self, told: Mapping[str, Any]) -> None:
        """Hear what a worker says of its model."""
        remote = self._remote
        remote.name = remote.name or told["name"]
        remote.infos.append(told["info"])
        for name, info in told["judges"].items():
            remote.judges.setdefault(name, []).append(info)
        remote.notes += told["notes"]
        remote.n_requests += told["n_requests"]
        remote.model_s += told["model_s"]
        remote.reuse += Reuse(**told["reuse"])

    def expect(self, n_documents: int) -> None:
        """Say how many documents workers will send."""
        self._remote.n_documents = n_documents

    def arrived(self, record: Record) -> None:
        """A worker has sent a document."""
        self._remote.n_answered += 1
        self._remote.n_tokens += record.n_tokens
        if self.tick is not None:
            self.tick()

    @property
    def opened(self) -> list[Model]:
        """The models that documents have asked, one a definition of ``eval_model``."""
        return [model for model in self._open.values() if model is not NOBODY]

    @property
    def name(self) -> str:
        """The names of the models that were opened."""
        names = [getattr(m, "name", type(m).__name__) for m in self._open.values()]
        return ", ".join(dict.fromkeys(filter(None, names))) or self._remote.name

    @property
    def info(self) -> Mapping[str, Any]:
        """What the first model says of itself, with what all of them have used."""
        own = [getattr(model, "info", None) or {} for model in self._open.values()]
        return with_usage([*own, *self._remote.infos])

    @property
    def judges(self) -> Mapping[str, Mapping[str, Any]]:
        """The further models, with what they say of themselves and have used."""
        said = {name: [info] for name, info in self._furthers.infos().items()}
        for name, infos in self._remote.judges.items():
            said.setdefault(name, []).extend(infos)
        return {name: with_usage(infos) for name, infos in said.items()}

    @property
    def notes(self) -> list[str]:
        """What the models say of the numbers that they gave."""
        open_ = (*self._open.values(), *self._furthers.all)
        own = [note for model in open_ for note in getattr(model, "notes", ())]
        return list(dict.fromkeys([*own, *self._remote.notes]))

    @property
    def n_documents(self) -> int:
        """Documents in all plans."""
        return sum(map(len, self._plans.values())) or self._remote.n_documents

    @property
    def n_answered(self) -> int:
        """Documents that came back from a model."""
        return self._sum("n_answered")

    @property
    def n_requests(self) -> int:
        """Different requests that were sent."""
        return self._sum("n_requests")

    @property
    def n_tokens(self) -> int:
        """Tokens of all prompts and answers."""
        return self._sum("n_tokens")

    @property
    def model_s(self) -> float:
        """Seconds spent inside models; of all workers, added up."""
        plans = sum(plan.model_s for plan in self._plans.values())
        return plans + self._remote.model_s

    @property
    def reuse(self) -> Reuse:
        """What came from the store."""
        return self.answers.reuse + self._remote.reuse

    def close(self) -> None:
        """Write what is to be stored, and give back what no fixture has opened."""
        self.answers.close()
        self._furthers.close()

    def _sum(self, name: str) -> int:
        plans = sum(getattr(plan, name) for plan in self._plans.values())
        return int(plans + getattr(self._remote, name))


class _Nobody:
    """Stands where a model would, for tasks that ask none."""

    name = ""

    def answer(self, requests: Sequence[Request], /) -> Iterator[tuple[int, Response]]:
        """Nothing."""
        for i, _ in enumerate(requests):
            yield i, Response(error="there is no model to ask: give one with --model")


NOBODY = _Nobody()


@dataclass(slots=True)
class _Remote:
    """What workers of pytest-xdist have done."""

    name: str = ""
    infos: list[Mapping[str, Any]] = field(default_factory=list)
    judges: dict[str, list[Mapping[str, Any]]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    n_documents: int = 0
    n_answered: int = 0
    n_requests: int = 0
    n_tokens: int = 0
    model_s: float = 0.0
    reuse: Reuse = field(default_factory=Reuse)


class Prepare:
    """Hands a task's records to ``pytest_evals_requests``, as its folder sees it."""

    def __init__(self, members: Sequence[DocItem]) -> None:
        """Know the hooks of each task."""
        self._ihook = {item.job.task.name: item.ihook for item in members}

    def __call__(self, task: Task, records: list[Record]) -> list[Record]:
        """The records that are asked."""
        return [*prepared(self._ihook[task.name], task, records)]
