"""The models of a session, opened by the fixtures ``eval_model`` and ``eval_judge``.

Folders may override the fixtures; documents that see the same definitions share models
and batches.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar, cast

import pytest
from _pytest.fixtures import TopRequest

from pytest_evals.core.dialogue import JUDGE
from pytest_evals.core.model import Model
from pytest_evals.core.record import Record
from pytest_evals.core.task import Task
from pytest_evals.errors import EvalsError
from pytest_evals.run.batches import Job, ask
from pytest_evals.run.inference import NO_MODEL, Inference
from pytest_evals.run.user_hooks import prepared

if TYPE_CHECKING:
    from _pytest.fixtures import FixtureDef

AnyItem = TypeVar("AnyItem", bound="DocumentItem")


class Models:
    """Opens the models of items, and takes their answers out of the inference."""

    def __init__(self, inference: Inference) -> None:
        self.inference = inference
        self._tested = self._judge = ""
        self._before: Callable[[], None] = lambda: None
        self._judged: set[Definition] = set()
        """Definitions whose documents need a judge."""
        self._asked: set[Definition] = set()
        """Definitions whose documents send requests to the tested model."""
        self.broken: dict[Definition, str] = {}
        """Models that raised an error → the document of it."""
        self.planned: Sequence[DocumentItem] = ()  # documents that this process runs
        self.is_first = False
        """Whether the session's first test runs: if a model cannot be opened by then,
        that is a usage error and not a result."""
        self._live: set[Definition] = set()  # definitions whose models are open
        self._opened: list[Model] = []
        """Models that were opened here, and not by fixtures."""
        self.refused = ""  # why the session must end, if a model could not be opened

    def open_here(self, tested: str, judge: str, before: Callable[[], None]) -> None:
        """Open the models of these specs, and not those of fixtures, as if several are
        tested: the fixture ``eval_model`` opens a single one. ``judge`` may be empty;
        ``before`` is called before the tested model is opened."""
        self._tested, self._judge, self._before = tested, judge, before

    def plan(
        self,
        items: Sequence[DocumentItem],
        window: int | None = None,
        wave_of: Callable[[Job], object] | None = None,
    ) -> None:
        """Batch the selected documents by their definitions of ``eval_model``.
        ``window``: documents to answer together, if not as many as usual; ``wave_of``:
        the wave of a document, which is answered before the next, if any."""
        self.planned = items
        for definition, members in by_definition(items).items():
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
            prepare = prepare_of(members)
            self.inference.add_batches(
                definition, jobs, prepare, window=window, ends=ends
            )

    def again(
        self, items: Sequence[AnyItem], wrap: Callable[[Model], Model]
    ) -> Iterator[tuple[AnyItem, Record]]:
        """Answer documents once more, in this order. ``wrap`` returns the model to
        use instead of the one that answered."""
        for definition, members in by_definition(items).items():
            jobs, prepare = [item.job for item in members], prepare_of(members)
            records = self.inference.again(definition, jobs, prepare, wrap)
            yield from zip(members, records, strict=True)

    def ensure(self, item: DocumentItem) -> None:
        """Open the model of a document, once.

        Fixtures are available only while an item is set up. If a model cannot be
        opened, that is one error; all other documents that need it are skipped.
        """
        definition = item.parent.model_definition(item)
        self.skip_if_broken(definition)
        if definition in self._live:
            return
        is_own = definition.has_own_judge
        try:
            self._before()
            request = TopRequest(cast("Any", item), _ispytest=True)
            answers = self.inference.answers
            if definition in self._judged and self._judge and is_own:
                self.inference.judge_by(definition, partial(self._opens, self._judge))
            elif definition in self._judged:
                given = request.getfixturevalue("eval_judge")
                judge = answers.given(given, "the fixture eval_judge")
                self.inference.judge_by(definition, lambda: judge)
            is_own = definition.has_own_model
            model: Model = NO_MODEL
            if definition in self._asked and self._tested:
                model = self._opens(self._tested)
            elif definition in self._asked:
                given = request.getfixturevalue("eval_model")
                model = answers.given(given, "the fixture eval_model")
            self.inference.open(definition, model)
            self._live.add(definition)
        except BaseException as error:
            self.broken[definition] = item.nodeid
            if is_own:
                self._refuse(error)
            raise

    def _opens(self, spec: str) -> Model:
        """Open a model that is closed here, and not by a fixture."""
        model = self.inference.answers.named(spec)
        self._opened.append(model)
        return model

    def close(self) -> None:
        """Close the models that were opened here; a document that comes later opens
        them again."""
        if not self._opened:
            return
        for definition in self._live:
            self.inference.batches[definition].stop()
        self._live.clear()
        while self._opened:
            self._opened.pop().close()
        gc.collect()  # weights may be part of a cycle

    def _refuse(self, error: BaseException) -> None:
        """End the session for an error of ours that was raised when its first test
        needed a model."""
        opens = self.inference.answers.opens_itself
        if self.is_first and opens and isinstance(error, EvalsError):
            self.refused = str(error)
            raise pytest.exit.Exception(str(error), pytest.ExitCode.USAGE_ERROR)

    def requests_of(self, item: DocumentItem) -> Record:
        """Return a document with the requests that a run would send."""
        task, index = item.job.task, item.job.index
        (record,) = prepare_of([item])(task, [ask(task, index)])
        return record

    def end(
        self, definition: Definition, item: DocumentItem, error: BaseException
    ) -> None:
        """A model has raised an error: the document is the error, and those that it
        had not answered are skipped."""
        self.broken[definition] = item.nodeid
        self.inference.batches[definition].stop()
        # One with a store in front is opened when the first response is missing.
        if definition.has_own_model and not self.inference.has_opened(definition):
            self._refuse(error)

    def skip_if_broken(self, definition: Definition) -> None:
        """Skip a document whose model has raised an error."""
        if definition in self.broken:
            pytest.skip(f"the model failed, see {self.broken[definition]}")


def by_definition(items: Sequence[AnyItem]) -> dict[Definition, list[AnyItem]]:
    """Return documents by the fixture definitions that their files see."""
    groups: dict[Definition, list[AnyItem]] = {}
    definitions: dict[int, Definition] = {}
    for item in items:
        key = id(item.parent)
        if key not in definitions:
            definitions[key] = item.parent.model_definition(item)
        groups.setdefault(definitions[key], []).append(item)
    return groups


def prepare_of(
    members: Sequence[DocumentItem],
) -> Callable[[Task, list[Record]], list[Record]]:
    """Return what passes a task's records to ``pytest_evals_requests``, as its folder
    sees it."""
    hooks = {item.job.task.name: item.ihook for item in members}
    return lambda task, records: prepared(hooks[task.name], task, records)


class Definition(NamedTuple):
    """The definitions of ``eval_model`` and ``eval_judge`` that a file sees. Documents
    with equal ones share models and a plan."""

    model: FixtureDef[Any]
    judge: FixtureDef[Any]

    @property
    def has_own_model(self) -> bool:
        """Whether the tested model is opened by our fixture: nobody overrides it."""
        return _is_own(self.model)

    @property
    def has_own_judge(self) -> bool:
        """Whether the judge is."""
        return _is_own(self.judge)


def _is_own(fixture: FixtureDef[Any]) -> bool:
    return str(fixture.func.__module__).startswith("pytest_evals.")


class DocumentFile(Protocol):
    """The file node of a document."""

    @property
    def score_hook(self) -> Any:
        """``pytest_evals_score`` if a user implements it for this folder."""

    def model_definition(self, item: Any, /) -> Definition:
        """Return the fixtures that open the models of the file's documents."""


class DocumentItem(Protocol):
    """The item of a document, as models and runs see it."""

    job: Job
    word: str
    took_s: float
    packed: bytes | None

    @property
    def nodeid(self) -> str:
        """Its node id."""

    @property
    def ihook(self) -> Any:
        """The hooks as its folder sees them."""

    @property
    def parent(self) -> DocumentFile:
        """Its file."""
