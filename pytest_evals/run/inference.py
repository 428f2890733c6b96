"""The models of a run and the batches of each, follow-up requests, counts.

Documents with the same tested model and the same judge are batched together, under a
key, which is ``None`` if there is only one.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any

from pytest_evals.core.dialogue import JUDGE, ModelSource
from pytest_evals.core.model import Model
from pytest_evals.core.record import Record
from pytest_evals.core.request import Request, Response
from pytest_evals.core.result import Reuse
from pytest_evals.core.task import Task
from pytest_evals.errors import plural
from pytest_evals.gates.check import machine_of
from pytest_evals.prompts.document_warnings import DocumentWarnings
from pytest_evals.run.batches import WINDOW, Batches, Job
from pytest_evals.run.cached_model import CachedModels
from pytest_evals.run.error_budget import unsent
from pytest_evals.store.model import SENT_S, StoredModel

QUIET_S = 1.0  # seconds of waiting for requests in flight that are not worth a message
Given = str | Model
"""A model's spec, or a model that is open."""
Prepare = Callable[[Task, list[Record]], list[Record]]
"""Maps the records of one task to those that are sent, see
``pytest_evals_requests``."""


def open_model(answers: CachedModels, source: Given, closing: ExitStack) -> Model:
    """Return a model with the response cache in front of it."""
    if not isinstance(source, str):
        return answers.given(source)
    model = answers.named(source)
    closing.callback(model.close)
    return model


class Inference:
    """Runs documents: assigns models to documents, and batches to each model."""

    def __init__(self, answers: CachedModels) -> None:
        self.answers = answers
        self.batches: dict[Hashable, Batches] = {}
        """Key → the documents of a tested model."""
        self.opened: dict[Hashable, Model] = {}  # key → this model, once it is open
        self._open_judge: dict[Hashable, Callable[[], Model]] = {}
        self._judges: dict[Hashable, Model] = {}
        self._named: dict[ModelSource, Model] = {}
        self._remote = _Remote()
        self.spend_cap = ""  # the spend cap that was reached; empty if none was
        self.unsent: set[str] = set()
        """Tasks with documents that were not sent because of it."""
        self.on_answer: Callable[[], None] | None = None
        """Called after answers, to show progress."""
        self.limit_s = SENT_S
        """Seconds that :meth:`close` waits for requests in flight."""
        self.on_wait: Callable[[int], None] = lambda n_requests: None
        """Called with the number of these requests when it begins to wait."""
        self._n_lost = 0
        self.given_name = ""
        """The name of the model on the command line, or among several models."""
        self.warnings = DocumentWarnings()  # warnings about documents and their answers

    def add_batches(
        self,
        key: Hashable,
        jobs: Sequence[Job],
        prepare: Prepare,
        *,
        window: int | None = None,
        ends: Collection[int] = (),
    ) -> None:
        """Batches documents of one tested model."""
        auxiliary = partial(self._auxiliary, key)
        size = window or WINDOW
        self.batches[key] = Batches(jobs, prepare, size, ends, auxiliary)

    def open(self, key: Hashable, model: Model) -> None:
        """Run the documents of a key with this model."""
        self.opened[key] = model

    def judge_by(self, key: Hashable, opener: Callable[[], Model]) -> None:
        """Judge the documents of a key with the model that ``opener`` returns; called
        on first use."""
        self._open_judge[key] = opener

    def _auxiliary(self, key: Hashable, task: Task, name: str) -> Model:
        source = task.models[name]
        if source == JUDGE:
            if key not in self._judges:
                self._judges[key] = self._open_judge[key]()
            return self._judges[key]
        if source not in self._named:
            if isinstance(source, str):
                self._named[source] = self.answers.named(source)
            else:
                model = source()
                from_ = f"the function {source!r:.60}"
                self._named[source] = self.answers.given(model, from_)
        return self._named[source]

    def has_opened(self, key: Hashable) -> bool:
        """Whether the model of a key is loaded, and not only its stored responses."""
        model = self.opened[key]
        return not isinstance(model, StoredModel) or model.is_open

    @property
    def tested(self) -> Sequence[Model]:
        """The tested models that are open."""
        return [one for one in self.opened.values() if one is not NO_MODEL]

    def look(self) -> Iterator[tuple[Task, Record]]:
        """Render all planned documents before any is sent."""
        for one in self.batches.values():
            yield from one.look()

    def hold_back(self, task: str, why: str) -> None:
        """Record that a spend cap was reached before a document of a task was sent."""
        self.spend_cap = self.spend_cap or why
        self.unsent.add(task)

    def again(
        self,
        key: Hashable,
        jobs: Sequence[Job],
        prepare: Prepare,
        wrap: Callable[[Model], Model],
    ) -> Iterator[Record]:
        """Run documents again, in this order, with ``wrap`` of their model."""
        batches = Batches(jobs, prepare, auxiliary_models=partial(self._auxiliary, key))
        model = wrap(self.opened[key])
        for job in jobs:
            record = batches.take(job, model)
            self.spend_cap = self.spend_cap or unsent(record)
            yield record

    def stop_sending(self) -> None:
        """Send no further requests to any model; returns at once."""
        for model in self._models:
            model.stop_sending()

    def _wait_for_sent(self) -> int:
        """Wait for requests in flight whose responses are stored; return how many have
        no response at the time limit. Ctrl-C ends the wait."""
        end = time.monotonic() + self.limit_s
        try:
            n = self._n_in_flight(time.monotonic() + min(self.limit_s, QUIET_S))
            if n and self.limit_s > QUIET_S:
                self.on_wait(n)
                n = self._n_in_flight(end)
        except KeyboardInterrupt:
            n = self._n_in_flight(0.0)
        return n

    def _n_in_flight(self, end: float) -> int:
        """The requests in flight at a time of the monotonic clock."""
        return sum(
            model.wait_for_sent(max(0.0, end - time.monotonic()))
            for model in self._models
            if isinstance(model, StoredModel)
        )

    def drop(self, task: str) -> None:
        """Send no further documents of a task."""
        for key, one in self.batches.items():
            model = self.opened.get(key, NO_MODEL)
            one.drop(lambda job: job.task.name == task, model)

    def close(self) -> None:
        """Send nothing further, store the responses to requests in flight, and close
        auxiliary models. The tested model and the judge are closed by their owner."""
        self.stop_sending()
        self._n_lost = self._wait_for_sent()
        self.answers.close()
        for model in self._named.values():  # the report follows
            self._remote.judges.setdefault(model.name, []).append(dict(model.info))
            self._remote.notes += model.notes
            model.close()
        self._named.clear()

    def worker_report(self) -> dict[str, Any]:
        """Return the model's description and this worker's counts as JSON values."""
        return {
            "name": self.name,
            "info": dict(self.info),
            "judges": {name: dict(info) for name, info in self.judges.items()},
            "notes": self.notes,
            "spend_cap": self.spend_cap,
            "unsent": sorted(self.unsent),
            "n_requests": self.n_requests,
            "model_s": self.model_s,
            "reuse": asdict(self.reuse),
        }

    def add_worker(self, report: Mapping[str, Any]) -> None:
        """Add the counts of a worker."""
        remote = self._remote
        remote.name = remote.name or report["name"]
        remote.infos.append(report["info"])
        for name, info in report["judges"].items():
            remote.judges.setdefault(name, []).append(info)
        remote.notes += report["notes"]
        self.spend_cap = self.spend_cap or report["spend_cap"]
        self.unsent.update(report["unsent"])
        remote.n_requests += report["n_requests"]
        remote.model_s += report["model_s"]
        remote.reuse += Reuse(**report["reuse"])

    def expect(self, n_documents: int) -> None:
        """Set the number of documents that workers will send."""
        self._remote.n_documents = n_documents

    def machine(self, spec: str) -> Mapping[str, tuple[str, ...]]:
        """Return the names of model and machine for the conditions of gates; complete
        once a document has run."""
        machine = machine_of(self.name, spec, self.info, self.given_name)
        return self._remote.machine or machine

    def arrived(
        self, record: Record, machine: Mapping[str, tuple[str, ...]] | None = None
    ) -> None:
        """Count a document that a worker has sent, with the worker's machine."""
        self._remote.machine = self._remote.machine or machine
        self._remote.n_answered += 1
        self._remote.n_tokens += record.n_tokens
        if self.on_answer is not None:
            self.on_answer()

    @property
    def name(self) -> str:
        """The names of the tested models; of workers, once a document has run."""
        names = dict.fromkeys(model.name for model in self.opened.values())
        first = *(self._remote.machine or {}).get("model", ()), ""
        return ", ".join(filter(None, names)) or self._remote.name or first[0]

    @property
    def info(self) -> Mapping[str, Any]:
        """The tested model's description of itself."""
        infos = [dict(model.info) for model in self.opened.values()]
        return with_usage([*infos, *self._remote.infos])

    @property
    def judges(self) -> Mapping[str, Mapping[str, Any]]:
        """Name → description, for each auxiliary model."""
        by_name: dict[str, list[Mapping[str, Any]]] = {
            model.name: [dict(model.info)] for model in self._auxiliary_models
        }
        for name, infos in self._remote.judges.items():
            by_name.setdefault(name, []).extend(infos)
        return {name: with_usage(infos) for name, infos in by_name.items()}

    @property
    def _auxiliary_models(self) -> Sequence[Model]:
        return (*self._judges.values(), *self._named.values())

    @property
    def _models(self) -> Sequence[Model]:
        return (*self.opened.values(), *self._auxiliary_models)

    @property
    def notes(self) -> list[str]:
        """The notes of all models, and about responses that are lost."""
        notes = [note for model in self._models for note in model.notes]
        if self._n_lost:
            requests = plural(self._n_lost, "request")
            notes.append(
                f"{requests} in flight had no response when the run ended; the "
                "provider may charge for them"
            )
        return list(dict.fromkeys([*notes, *self._remote.notes]))

    @property
    def n_documents(self) -> int:
        """Documents in all plans."""
        return sum(map(len, self.batches.values())) or self._remote.n_documents

    @property
    def n_answered(self) -> int:
        """Documents with responses."""
        return self._sum("n_answered")

    @property
    def n_requests(self) -> int:
        """Distinct requests that were sent."""
        return self._sum("n_requests")

    @property
    def n_tokens(self) -> int:
        """Tokens of all prompts and answers."""
        return self._sum("n_tokens")

    @property
    def model_s(self) -> float:
        """Seconds spent inside models, summed over workers."""
        here = sum(one.model_s for one in self.batches.values())
        return here + self._remote.model_s

    @property
    def reuse(self) -> Reuse:
        """Use of the response cache."""
        return self.answers.reuse + self._remote.reuse

    def _sum(self, name: str) -> int:
        here = sum(getattr(one, name) for one in self.batches.values())
        return int(here + getattr(self._remote, name))


class SilentModel(Model):
    """Returns an error for each request."""

    name = ""

    def __init__(self, error: str) -> None:
        self._error = error

    def answer(self, requests: Sequence[Request], /) -> Iterator[tuple[int, Response]]:
        """Return the same error for all requests."""
        return ((i, Response(error=self._error)) for i, _ in enumerate(requests))


NO_MODEL = SilentModel("no model is set: pass one with --model")
"""The model of tasks that send no requests."""


@dataclass(slots=True)
class _Remote:
    """Counts of the workers of pytest-xdist."""

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
    machine: Mapping[str, tuple[str, ...]] | None = None


def with_usage(infos: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    """The first non-empty description, with the sum of all counts below ``usage``."""
    described = [info for info in infos if info]
    if not described:
        return {}
    used = [u for info in described if isinstance(u := info.get("usage"), Mapping)]
    # The first may be empty, if it was not used.
    return {**described[0], "usage": _sum(used)} if used else described[0]


def _sum(parts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Add numbers with equal names, recursively; of other values keep the first."""
    total: dict[str, Any] = {}
    for part in parts:
        for name, value in part.items():
            previous = total.get(name)
            if previous is None:
                total[name] = value
            elif isinstance(value, Mapping) and isinstance(previous, Mapping):
                total[name] = _sum([previous, value])
            elif _is_number(value) and _is_number(previous):
                total[name] = previous + value
    return total


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
