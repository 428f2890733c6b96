"""Processes one sample of a task: solve, score and exclude it.

Scorers are independent: an error of one leaves its values unscored and does not affect
the others.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple, TypeVar

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
from pytest_evals.core.request import Generate
from pytest_evals.core.task import Asked
from pytest_evals.errors import DocumentError
from pytest_evals.guests.latticeflow.filters import Actions, excluding_action
from pytest_evals.guests.latticeflow.metrics.measures import ScorerValue
from pytest_evals.guests.latticeflow.metrics.reader import Trials
from pytest_evals.guests.latticeflow.prompts.items import unwrap, wrap
from pytest_evals.guests.latticeflow.prompts.output import SampleScore, SolverOutput
from pytest_evals.guests.latticeflow.prompts.templates import NullFieldError
from pytest_evals.guests.latticeflow.scoring.scorer import SampleScorer
from pytest_evals.guests.latticeflow.solvers.model_client import Models, Sample
from pytest_evals.guests.latticeflow.solvers.python import resume_from_start
from pytest_evals.guests.latticeflow.solvers.reader import SolverParts
from pytest_evals.guests.latticeflow.task_file import SampleRows

_T = TypeVar("_T")
SCORES_PREFIX = "scores."
"""Prefix of a scorer's key: the name of the score with all of its values."""
ScorerResult = SampleScore | DocumentError  # The score of a row, or the scorer's error
RESULT_COLUMNS = ("sample", "sample_id", "solver_output", "scores", "errors")
"""Columns of rows that are results of an earlier task."""


class _ScoredRow(NamedTuple):
    """A row to score. A sample has one, or those of a postprocessor."""

    sample: Sample
    output: SolverOutput | None = None
    scores: Mapping[str, ScorerResult] = {}  # by key of the scorer


_Rows = Sequence[_ScoredRow]


@dataclass(slots=True, kw_only=True)
class SampleRecipe:
    """How the samples of a task are processed."""

    task: str
    rows: SampleRows
    solver: SolverParts | None  # None if only a dataset is evaluated
    scorers: Sequence[SampleScorer]
    values: Sequence[ScorerValue]  # with their final names
    actions: Actions = field(default_factory=dict)
    trials: Trials | None = None
    earlier: SampleRecipe | None = None
    """The task whose results are the samples of this one (``source: task_result``). No
    state is passed between the two. Documents of this task repeat the earlier one's
    work first; its requests are already cached or part of the same batch."""
    _last: tuple[Record, _Rows] | None = field(default=None, init=False)
    _last_solved: tuple[Record, _Rows] | None = field(default=None, init=False)
    """Last result of ``follow_up``, reused for a record without further requests."""

    def is_single_round(self, models: Models) -> bool:
        """Return whether only the tested model is called, in a single round."""
        if self.earlier is not None or any(one.models for one in self.scorers):
            return False
        if self.solver is None or not self.solver.models:
            return True
        return self.solver.is_single_round and not models("").name

    def ask(self, index: int) -> Asked:
        """Return the document at a position, with its first requests to the model."""
        sample = self.rows.sample(index)
        doc = Doc("", [], 0, id=self.rows.id(index), task_name=self.task, row=sample)
        doc.target = self._target(sample)
        # A missing answer of the earlier task is not an error of this one.
        if self.solver is None or not self.solver.models or self.earlier is not None:
            return Asked(doc, ())
        first: Sequence[Ask] = next(resumed(self._request_dialogue(index), ()), ())
        if any(one.model for one in first):
            return Asked(doc, ())
        return Asked(doc, tuple(one.request for one in first))

    def _target(self, sample: Mapping[str, Any]) -> str | None:
        """Return the reference answer for reports: that of the first scorer that has
        one. ``None`` with a postprocessor, because its rows have other references."""
        if self.makes_rows:
            return None
        found: list[str | None] = []
        for scorer in self.scorers:
            if scorer.target is not None and scorer.metric_values:
                try:
                    found.append(scorer.target(sample))
                except NullFieldError:  # reported before anything is sent
                    raise
                except DocumentError:  # reported by scoring
                    found.append(None)
        return found[0] if found else None

    def follow_up(self, record: Record) -> Dialogue[None]:
        """Run the part of the work that sends requests, after those of :meth:`ask`."""
        first = _exchanges(record)
        start = partial(self._request_dialogue, record.index, record)
        if self.earlier is None and (self.solver is None or self.solver.is_declared):
            rows = yield from resumed(start(), first)
        else:  # user coroutines may await responses, here or in the earlier task
            rows = yield from resume_from_start(start, first)
        if self.trials is None and not any(one.models for one in self.scorers):
            self._last_solved = (record, rows)

    def score(self, record: Record) -> tuple[Score, ...]:
        """Return a score for each metric value that the sample has. Raises
        ``DocumentError`` if it could not be solved."""
        rows = self._scored_rows(record)
        counted, answer = self._counted_rows(rows), _answer(rows)
        found = [self._score(one, counted, answer) for one in self.values]
        scores = (one for one in found if one is not None)
        return (*scores, *self._stored_scores(rows))

    def _stored_scores(self, rows: _Rows) -> Iterator[Score]:
        """Yield all values of each scorer, for reports; they are not aggregated."""
        for key in rows[0].scores if rows else ():
            found = [row.scores[key] for row in rows]
            ones = [one for one in found if isinstance(one, SampleScore)]
            if not ones:
                message = f"{key}: {found[0]}"
                yield Score(metric=f"{SCORES_PREFIX}{key}", unscored=message)
                continue
            values = [unwrap(one.values) for one in ones]
            kept = [unwrap(one.metadata) for one in ones]
            shown = json.dumps(
                kept[0] if len(kept) == 1 else kept, ensure_ascii=False, default=str
            )
            yield Score(
                metric=f"{SCORES_PREFIX}{key}",
                value=values if self.makes_rows else values[0],
                explanation=shown if any(kept) else "",
            )

    def exclude(self, record: Record) -> str:
        """Return the key of the action that excludes the sample, or an empty string."""
        keys = [self._excluding_key(row) for row in self._scored_rows(record)]
        return keys[0] if keys and all(keys) else ""

    def _request_dialogue(
        self, index: int, record: Record | None = None
    ) -> Dialogue[_Rows]:
        scorers = [one for one in self.scorers if one.models]
        return self._dialogue(index, scorers, record)

    def _scored_rows(self, record: Record) -> _Rows:
        """Return the rows of a record; scoring and exclusion share them."""
        if self._last is not None and _is_same(self._last[0], record):
            return self._last[1]
        solved = self._last_solved
        if solved is not None and _is_same(solved[0], record):
            rows = replayed(self._score_rows(solved[1], self.scorers), ())
        else:
            dialogue = self._dialogue(record.index, self.scorers, record)
            rows = replayed(dialogue, _exchanges(record))
        self._last = (record, rows)
        return rows

    def as_sample(self, number: int) -> Dialogue[Mapping[str, Any]]:
        """Return the result of a sample as a sample of a later task: all of
        ``RESULT_COLUMNS``, errors included. ``number``: position among the samples."""
        index = self.rows.positions[number]
        errors, values, solver_output = list[dict[str, str]](), {}, None
        try:
            (scored,) = yield from self._dialogue(index, self.scorers)
        except DocumentError as error:
            errors.append({"stage": "solver", "message": str(error)})
            scored = _ScoredRow({})
        output = scored.output
        if output is not None:  # by the names that both versions of the format use
            views = {"output": output.output, "messages": output.messages}
            solver_output = {**output.to_dict(), **views}
        for key, one in scored.scores.items():
            if isinstance(one, SampleScore):
                values[key] = one.to_dict()
            else:
                fault = {"stage": "score", "scorer_key": key, "message": str(one)}
                errors.append(fault)
        row: Mapping[str, Any] = wrap(
            {
                "sample": self.rows.sample(index),
                "sample_id": self.rows.id(index),
                "solver_output": solver_output,
                "scores": values,
                "errors": errors,
            }
        )
        return row

    def _dialogue(
        self, index: int, scorers: Sequence[SampleScorer], record: Record | None = None
    ) -> Dialogue[_Rows]:
        sample: Mapping[str, Any] = self.rows.sample(index)
        if record is not None and any(one.score_samples is not None for one in scorers):
            read_all(record.doc.row)  # these identify samples by object identity
        elif record is not None:
            sample = like(sample, record.doc.row)
        if self.earlier is not None:
            sample = yield from self.earlier.as_sample(index)
        rows = yield from self._solve(sample, index)
        return (yield from self._score_rows(rows, scorers))

    def _score_rows(
        self, rows: _Rows, scorers: Sequence[SampleScorer]
    ) -> Dialogue[_Rows]:
        flat = yield from together(
            [
                _or_error(one.dialogue(row.sample, row.output))
                for one in scorers
                for row in rows
            ]
        )
        keys = [one.key for one in scorers]
        scored = [
            row._replace(scores=dict(zip(keys, flat[n :: len(rows)], strict=True)))
            for n, row in enumerate(rows)
        ]
        if self.trials is None or not scored:
            return scored
        found = {key: [row.scores[key] for row in scored] for key in keys}
        scores = {key: self._aggregate_trials(ones) for key, ones in found.items()}
        return [scored[-1]._replace(scores=scores)]

    def _solve(self, sample: Sample, index: int) -> Dialogue[_Rows]:
        """Return the rows to score: one per trial, or those of a postprocessor."""
        if self.solver is None:
            return [_ScoredRow(sample)]
        n = self.trials.n if self.trials is not None else 1
        solve, postprocess = self.solver.solve, self.solver.postprocess
        solving = together([solve(sample, trial) for trial in range(n)])
        if self.solver.is_declared and not self.solver.is_single_round:
            # Later requests contain earlier responses.
            solving = _in_conversation(solving, f"{self.task}[{self.rows.id(index)}]")
        outputs = yield from solving
        if postprocess is None:
            return [_ScoredRow(sample, output) for output in outputs]
        return [_ScoredRow(*row) for one in outputs for row in postprocess(sample, one)]

    def _aggregate_trials(self, found: Sequence[ScorerResult]) -> ScorerResult:
        assert self.trials is not None
        try:
            return self.trials.aggregate([_valid(one) for one in found])
        except DocumentError as error:
            return error

    def _counted_rows(self, rows: _Rows) -> _Rows:
        """Return the rows that no action excludes; all rows if an action excludes the
        whole sample or fails."""
        if len(rows) < 2:
            return rows
        try:
            return [row for row in rows if not self._excluding_key(row)] or rows
        except DocumentError:
            return rows

    def _excluding_key(self, row: _ScoredRow) -> str:
        scores = {
            key: one.values
            for key, one in row.scores.items()
            if isinstance(one, SampleScore)
        }
        variables: dict[str, Any] = {"sample": row.sample, "scores": scores}
        if row.output is not None:
            variables["solver_output"] = row.output
        return excluding_action(self.actions, variables)

    def _score(self, number: ScorerValue, rows: _Rows, answer: str) -> Score | None:
        name = number.how.name
        try:
            scores = [_valid(row.scores[number.scorer]) for row in rows]
            read = [number.read(one) for one in scores]
        except DocumentError as error:
            return Score(metric=name, unscored=f"{number.scorer}: {error}")
        values = tuple(value for value in read if value is not None)
        if not values:
            return None
        return Score(
            metric=name,
            value=values if self.makes_rows else values[0],
            correct=all(v == 1 for v in values) if number.is_correctness else None,
            answer=answer,
        )

    @property
    def makes_rows(self) -> bool:
        """Whether a sample may have several rows."""
        return self.solver is not None and self.solver.postprocess is not None


def _in_conversation(dialogue: Dialogue[_T], name: str) -> Dialogue[_T]:
    """Run a dialogue whose generations belong to a conversation of that name."""
    try:
        asks = next(dialogue)
        while True:
            named = [
                one._replace(request=replace(one.request, conversation=name))
                if isinstance(one.request, Generate)
                else one
                for one in asks
            ]
            asks = dialogue.send((yield named))
    except StopIteration as end:
        result: _T = end.value
        return result
    finally:
        dialogue.close()


def _valid(result: ScorerResult) -> SampleScore:
    if isinstance(result, DocumentError):
        raise result
    return result


def _or_error(dialogue: Dialogue[SampleScore]) -> Dialogue[ScorerResult]:
    try:
        return (yield from dialogue)
    except DocumentError as error:
        return error


def _exchanges(record: Record) -> tuple[Exchange, ...]:
    pairs = zip(record.requests, record.responses, strict=True)
    return (*(Exchange("", *pair) for pair in pairs), *record.exchanges)


def _is_same(one: Record, other: Record) -> bool:
    return (
        one.index == other.index
        and one.responses is other.responses
        and one.exchanges is other.exchanges
    )


def _answer(rows: _Rows) -> str:
    output = rows[-1].output if rows else None
    try:
        return output.answer if output is not None else ""
    except DocumentError:
        return ""
