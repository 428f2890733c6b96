"""Checks of one row: its own scorers, whose share is the metric ``checks``."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import lru_cache, partial
from typing import Any

from pytest_evals.core.case import Case
from pytest_evals.core.record import Score
from pytest_evals.core.request import Response
from pytest_evals.dialects.native.conversations import answers_of
from pytest_evals.errors import EvalsError
from pytest_evals.scorers.answers import AnswerScorer

COLUMN = "checks"
Read = Callable[[Any], AnswerScorer]


def checks_by(read: Read, name: str = COLUMN) -> AnswerScorer:
    """The share of the checks in a row's column ``checks``, and in the turns of a
    conversation, that an answer passes; the case is correct if all do. ``read``: from
    an entry of the column to its scorer."""

    def score(response: Response, case: Case) -> Score:
        scores = [
            (where, _explained(one(answer, part), part))
            for where, answer, part in _parts(response, case)
            for one in checks_of(part.row, read)
        ]
        if not scores:
            return Score(answer=response.text, unscored="the row has no checks")
        unscored = [one.unscored for _, one in scores if one.unscored]
        if unscored:
            return Score(answer=response.text, unscored=unscored[0])
        passed = [
            one.value if one.correct is None else one.correct for _, one in scores
        ]
        faults = [
            where
            + (f"{one.metric}: {one.explanation}" if one.explanation else one.metric)
            for (where, one), value in zip(scores, passed, strict=True)
            if not value
        ]
        return Score(
            value=sum(map(float, passed)) / len(passed),
            correct=not faults,
            answer=response.text,
            explanation="; ".join(faults),
        )

    return AnswerScorer(
        name=name,
        score=score,
        settings={COLUMN: {}},
        check=partial(_check, read=read),
        is_trivial=partial(_is_trivial, read=read),
        reads_response=True,
        is_graded=True,
    )


def _explained(score: Score, part: Case) -> Score:
    """The score of a check; a turn's target is shown nowhere else."""
    if score.correct is not False or score.explanation or part.target is None:
        return score
    return replace(score, explanation=f"expected {part.target!r:.80}")


def _parts(response: Response, case: Case) -> Iterator[tuple[str, Response, Case]]:
    """Yield what is checked: the answer to each turn, then the whole. Each has a name
    for messages, and a case whose column ``checks`` has its checks."""
    if case.turns:
        answers = answers_of(response, case)
        for number, part in enumerate(_turns(case)):
            yield f"turn {number + 1}: ", answers[number], part
    yield "", response, case


def _turns(case: Case) -> Iterator[Case]:
    for turn in case.turns:
        target = case.target if turn.target is None else turn.target
        row = {**case.row, COLUMN: turn.checks}
        yield Case(prompt=turn.user, target=target, id=case.id, row=row)


def checks_of(row: Mapping[str, Any], read: Read) -> list[AnswerScorer]:
    """The scorers of a row's checks. Raises EvalsError if the column is not a list of
    scorers."""
    given = row.get(COLUMN)
    if given is None or given in ("", ()):
        return []
    if isinstance(given, str):
        try:
            given = json.loads(given)
        except ValueError:
            given = [given]
    if isinstance(given, Mapping | AnswerScorer):
        given = [given]
    if not isinstance(given, list | tuple):
        raise EvalsError(f"checks is {given!r:.60}\n  fix: checks: [{{contains: hi}}]")
    return [one if isinstance(one, AnswerScorer) else read(one) for one in given]


def cached(read: Read) -> Read:
    """A function that reads equal entries once."""

    @lru_cache(maxsize=1024)
    def of_text(text: str) -> AnswerScorer:
        return read(json.loads(text))

    return lambda given: of_text(json.dumps(given, sort_keys=True))


def _check(case: Case, read: Read) -> None:
    parts = [(one, checks_of(one.row, read)) for one in (*_turns(case), case)]
    if not any(scorers for _, scorers in parts):
        raise EvalsError("no checks for score: checks\n  fix: checks: [{contains: hi}]")
    for part, scorers in parts:
        for one in scorers:
            for template in one.templates:
                template.render(part)
            if one.check is not None:
                one.check(part)


def _is_trivial(case: Case, read: Read) -> bool:
    return any(
        one.is_trivial is not None and one.is_trivial(part)
        for part in (*_turns(case), case)
        for one in checks_of(part.row, read)
    )
