"""What is done with one sample: asked, solved, scored, and maybe left out.

Each scorer stands for itself: what it cannot score is unscored, and the others go on.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

from pytest_evals.core.dialogue import (
    Ask,
    Dialogue,
    Exchange,
    replayed,
    resumed,
    together,
)
from pytest_evals.core.doc import Doc, like, read_all
from pytest_evals.core.record import Record, Score
from pytest_evals.core.task import Asked
from pytest_evals.dialects.latticeflow.actions import Action, excluding
from pytest_evals.dialects.latticeflow.prompts.message_types import plain
from pytest_evals.dialects.latticeflow.prompts.scores import SampleScore
from pytest_evals.dialects.latticeflow.prompts.templates import NullFieldError
from pytest_evals.dialects.latticeflow.scoring.scorer import SampleScorer, Trials
from pytest_evals.dialects.latticeflow.solvers.coroutines import restarted
from pytest_evals.dialects.latticeflow.solvers.python import Row
from pytest_evals.dialects.latticeflow.solvers.reader import SolverParts
from pytest_evals.dialects.latticeflow.solvers.template_fields import Lines
from pytest_evals.dialects.latticeflow.task_metrics import NOTHING, Number
from pytest_evals.dialects.latticeflow.task_result_rows import EarlierTask, later_row
from pytest_evals.errors import DocumentError

KEPT = "scores."
"""In front of a scorer's key: the name of all that it says of a sample."""
Found = SampleScore | DocumentError
"""What a scorer makes of a row, or why it makes nothing of it."""


class NamedNumber(NamedTuple):
    """A number with its final name."""

    name: str
    number: Number


class _Work(NamedTuple):
    """What was made of a sample.

    Args:
        rows: What was scored: one, or what a postprocessor has made of it.
        scores: Key of a scorer → what it says of each row.
    """

    rows: tuple[Row, ...]
    scores: Mapping[str, tuple[Found, ...]]


@dataclass(slots=True, kw_only=True)
class SampleRecipe:
    """All of a task but its samples.

    Args:
        task: Name of the task.
        sample: Gives the sample at a position.
        id: Gives its id.
        solver: How it is solved; ``None`` where only a dataset is evaluated.
        scorers: In the order of the file.
        numbers: What their scores add up to.
        actions: Which samples count nowhere.
        trials: How often each sample is solved; ``None`` for once.
        earlier: The task whose work on its samples is this one's samples; ``None``
            where they are there from the beginning.
    """

    task: str
    sample: Callable[[int], Mapping[str, Any]]
    id: Callable[[int], str]
    solver: SolverParts | None
    scorers: Sequence[SampleScorer]
    numbers: Sequence[NamedNumber]
    actions: Sequence[Action] = ()
    trials: Trials | None = None
    earlier: EarlierTask | None = None
    _last: tuple[Record, _Work] | None = field(default=None, init=False)
    _solved_last: tuple[Record, Sequence[Row]] | None = field(default=None, init=False)
    """The last result of ``follow_up``, for a record that needed no further request."""

    @property
    def asks(self) -> bool:
        """Whether any model is asked."""
        if self.earlier is not None and self.earlier.asks:
            return True
        return self._solver_asks or any(one.models for one in self.scorers)

    @property
    def _solver_asks(self) -> bool:
        return self.solver is not None and bool(self.solver.models)

    @property
    def _runs_code(self) -> bool:
        """Whether a user's coroutine may wait for responses, here or in the earlier
        task."""
        runs_code = self.solver is not None and not self.solver.is_declared
        return runs_code or self.earlier is not None

    def asks_once(self, lines: Lines) -> bool:
        """Whether all that is asked is the tested model, and in one round."""
        if self.earlier is not None or any(one.models for one in self.scorers):
            return False
        if self.solver is None or not self.solver.models:
            return True
        return self.solver.asks_once and not lines("").name

    def ask(self, index: int) -> Asked:
        """The document at a position, with what the tested model is asked first.

        Raises:
            DocumentError: The sample cannot be worked on.
        """
        sample = self.sample(index)
        doc = Doc("", [], 0, id=self.id(index), task_name=self.task, row=sample)
        doc.target = self._target(sample)
        # An earlier task's answer that is lacking is no fault of this one.
        if not self._solver_asks or self.earlier is not None:
            return Asked(doc, ())
        first: Sequence[Ask] = next(resumed(self._asking(index), ()), ())
        if any(one.model for one in first):
            return Asked(doc, ())
        return Asked(doc, tuple(one.request for one in first))

    def _target(self, sample: Mapping[str, Any]) -> str | None:
        """What reports show as wanted: what the first scorer that can say it holds the
        answer against. Rows that a postprocessor makes have other targets.

        Raises:
            NullFieldError: A scorer holds the answer against a null.
        """
        if self.makes_rows:
            return None
        found: list[str | None] = []
        for scorer in self.scorers:
            if scorer.target is not None and scorer.numbers:
                try:
                    found.append(scorer.target(sample))
                except NullFieldError:  # known before anything is sent
                    raise
                except DocumentError:  # which scoring tells
                    found.append(None)
        return found[0] if found else None

    def follow_up(self, record: Record) -> Dialogue[None]:
        """The work as far as it sends requests, without those of :meth:`ask`.

        Raises:
            DocumentError: The sample cannot be solved.
        """
        first = _exchanges(record)
        if self._runs_code:
            start = partial(self._asking, record.index, record)
            work = yield from restarted(start, first)
        else:
            work = yield from resumed(self._asking(record.index, record), first)
        if self.trials is None and not any(one.models for one in self.scorers):
            self._solved_last = (record, work.rows)

    def score(self, record: Record) -> tuple[Score, ...]:
        """A score for each number that has something to read.

        Raises:
            DocumentError: The sample could not be solved.
        """
        work = self._work(record)
        counted = self._counted(record, work)
        found = []
        for name, number in self.numbers:
            score = self._score(name, number, work, counted)
            if score is not None:
                found.append(score)
        return (*found, *self._kept(work))

    def _kept(self, work: _Work) -> Iterator[Score]:
        """What each scorer says, to be read and not to be added up."""
        for key, found in work.scores.items():
            ones = [one for one in found if isinstance(one, SampleScore)]
            if not ones:
                fault = next(iter(found), "")
                yield Score(metric=f"{KEPT}{key}", unscored=f"{key}: {fault}")
                continue
            values = [plain(one.values) for one in ones]
            yield Score(
                metric=f"{KEPT}{key}",
                value=values if self.makes_rows else values[0],
                explanation=_explanation(ones),
            )

    def exclude(self, record: Record) -> str:
        """The action that leaves the sample out, empty if none does.

        Raises:
            DocumentError: An action cannot be decided.
        """
        work = self._work(record)
        keys = [self._excluded(work, n) for n in range(len(work.rows))]
        return keys[0] if keys and all(keys) else ""

    def _asking(self, index: int, record: Record | None = None) -> Dialogue[_Work]:
        """The work as far as it may send requests: the solver, and scorers with
        models."""
        scorers = [one for one in self.scorers if one.models]
        return self._dialogue(index, scorers, record)

    def _work(self, record: Record) -> _Work:
        """What was made of a record; scoring and excluding look at the same one."""
        last = self._last
        if last is not None and _is_same(last[0], record):
            return last[1]
        solved = self._solved_last
        if solved is not None and _is_same(solved[0], record):
            work = replayed(self._scored(solved[1], self.scorers), ())
        else:
            dialogue = self._dialogue(record.index, self.scorers, record)
            work = replayed(dialogue, _exchanges(record))
        self._last = (record, work)
        return work

    def evidence(self, index: int) -> Dialogue[Mapping[str, Any]]:
        """What was made of a sample, as the sample of a later task."""
        row = {"sample": self.sample(index), "sample_id": self.id(index)}
        try:
            work = yield from self._dialogue(index, self.scorers)
        except DocumentError as error:
            return later_row(row, None, {}, [f"{error}"])
        first = work.rows[0].output if work.rows else None
        scores = {key: found[0] for key, found in work.scores.items() if found}
        return later_row(row, first, scores)

    def _dialogue(
        self, index: int, scorers: Sequence[SampleScorer], record: Record | None = None
    ) -> Dialogue[_Work]:
        sample = self.sample(index)
        if record is not None and any(one.over_all is not None for one in scorers):
            read_all(record.doc.row)  # these know a sample by its identity
        elif record is not None:
            sample = like(sample, record.doc.row)
        if self.earlier is not None:
            sample = yield from self.earlier.sample(index)
        rows = yield from self._solved(sample)
        return (yield from self._scored(rows, scorers))

    def _scored(
        self, rows: Sequence[Row], scorers: Sequence[SampleScorer]
    ) -> Dialogue[_Work]:
        if self.solver is not None and not rows:
            return _Work((), {})
        works = [
            _kept(one.dialogue(row.sample, row.output))
            for one in scorers
            for row in rows
        ]
        flat = yield from together(works)
        n = len(rows)
        scores = {
            one.key: tuple(flat[i * n : (i + 1) * n]) for i, one in enumerate(scorers)
        }
        if self.trials is not None:
            scores = {key: (self._joined(ones),) for key, ones in scores.items()}
            rows = rows[-1:]
        return _Work(tuple(rows), scores)

    def _solved(self, sample: Mapping[str, Any]) -> Dialogue[Sequence[Row]]:
        """What is scored: a row for each trial; or what a postprocessor makes."""
        if self.solver is None:
            return [Row(sample, None)]  # type: ignore[arg-type]
        n = self.trials.n if self.trials is not None else 1
        solver, postprocessor = self.solver.solver, self.solver.postprocessor
        outputs = yield from together([solver.dialogue(sample, t) for t in range(n)])
        if postprocessor is None:
            return [Row(sample, output) for output in outputs]
        return [row for one in outputs for row in postprocessor.rows(sample, one)]

    def _joined(self, found: Sequence[Found]) -> Found:
        """One score of those of all trials."""
        assert self.trials is not None
        for one in found:
            if isinstance(one, DocumentError):
                return one
        scores = [one for one in found if isinstance(one, SampleScore)]
        try:
            return self.trials.aggregate(scores)
        except DocumentError as error:
            return error

    def _counted(self, record: Record, work: _Work) -> Sequence[int]:
        """The rows that no action leaves out; all of them, if it leaves out the whole
        sample, or fails."""
        everything = range(len(work.rows))
        if len(work.rows) < 2 or not self.actions:
            return everything
        try:
            return [n for n in everything if not self._excluded(work, n)] or everything
        except DocumentError:
            return everything

    def _excluded(self, work: _Work, row: int) -> str:
        if not self.actions:
            return ""
        scores = {}
        for key, found in work.scores.items():
            one = found[row] if row < len(found) else None
            if isinstance(one, SampleScore):
                scores[key] = one.values
        sample, output = work.rows[row]
        variables: dict[str, Any] = {"sample": sample, "scores": scores}
        if output is not None:
            variables["solver_output"] = output
        return excluding(self.actions, variables)

    def _score(
        self, name: str, number: Number, work: _Work, counted: Sequence[int]
    ) -> Score | None:
        scores = []
        found = work.scores.get(number.scorer, ())
        for one in [found[row] for row in counted if row < len(found)]:
            if isinstance(one, DocumentError):
                return Score(metric=name, unscored=f"{number.scorer}: {one}")
            scores.append(one)
        try:
            read = [number.read(one) for one in scores]
        except DocumentError as error:
            return Score(metric=name, unscored=f"{number.scorer}: {error}")
        values = tuple(value for value in read if value is not NOTHING)
        if not values:
            return None
        return Score(
            metric=name,
            value=values if self.makes_rows else values[0],
            correct=all(v == 1 for v in values) if number.tells_right else None,
            answer=_answer(work),
        )

    @property
    def makes_rows(self) -> bool:
        """Whether a sample may become several rows."""
        return self.solver is not None and self.solver.postprocessor is not None


def _kept(dialogue: Dialogue[SampleScore]) -> Dialogue[Found]:
    """The dialogue of a scorer, whose error is its result."""
    try:
        return (yield from dialogue)
    except DocumentError as error:
        return error


def _exchanges(record: Record) -> tuple[Exchange, ...]:
    """All exchanges, those of the first requests too."""
    pairs = zip(record.requests, record.responses, strict=True)
    return (*(Exchange("", *pair) for pair in pairs), *record.exchanges)


def _is_same(one: Record, other: Record) -> bool:
    return (
        one.index == other.index
        and one.responses is other.responses
        and one.exchanges is other.exchanges
    )


def _answer(work: _Work) -> str:
    """What the model said last, for reports."""
    output = work.rows[-1].output if work.rows else None
    try:
        return output.answer if output is not None else ""
    except DocumentError:
        return ""


def _explanation(scores: Sequence[SampleScore]) -> str:
    """What the scorer keeps beside its values, as JSON."""
    kept = [plain(one.metadata) for one in scores]
    if not any(kept):
        return ""
    told = kept[0] if len(kept) == 1 else kept
    return json.dumps(told, ensure_ascii=False, default=str)
