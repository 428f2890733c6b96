"""Checks of the rows of an eval before anything is sent: their own scorers, targets,
and scorers that accept every answer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from pytest_evals.core.case import Case
from pytest_evals.dialects.native.cases import MOST_ROWS, EvalCases, RowPlace
from pytest_evals.dialects.native.checks import COLUMN
from pytest_evals.errors import (
    DocumentError,
    EvalsError,
    Place,
    Problem,
    TaskFileError,
)
from pytest_evals.scorers.answers import AnswerScorer
from pytest_evals.scorers.model_scorer import ModelScorer

Placed = tuple[AnswerScorer | ModelScorer, Place]


class _Row(NamedTuple):
    """A row that is checked; its name for messages."""

    number: int
    case: Case
    name: str


def check_rows(
    scorers: Sequence[Placed],
    cases: EvalCases,
    *,
    has_turns: bool,
    place_of: RowPlace | None = None,
) -> Iterator[str]:
    """Check the first rows, and yield warnings.

    Args:
        scorers: The scorers of the eval, each with its place.
        place_of: Where rows are, if their targets are to be checked.

    Raises:
        TaskFileError: A row has invalid checks or no target, or no scorer reads its
            checks.
    """
    readers = [one for one in scorers if COLUMN in one[0].settings]
    known = cases.rows()
    numbers = range(min(len(cases) if place_of else len(known), MOST_ROWS))
    ids = cases.ids().ids
    rows = [
        _Row(n, case, f"row {ids[n]!r}")
        for n in numbers
        if (case := _case(cases, n)) is not None
    ]
    turns = [{COLUMN: turn.checks} for one in rows for turn in one.case.turns]
    turns = turns if has_turns else []
    # A rubric may use the column as data.
    is_data = any(COLUMN in text.text for one, _ in scorers for text in one.templates)
    has_checks = any(map(_has_checks, (*known, *turns)))
    if scorers and not readers and not is_data and has_checks:
        what = "rows have checks, and score does not contain them"
        raise TaskFileError([Problem(what, scorers[0][1], "score: [checks]")])
    checked = scorers if place_of else readers
    problems = dict[Problem, None]()
    for row in rows:
        for scorer, at in checked:
            problem = _problem(scorer, row, at if place_of is None else place_of)
            if problem is not None:
                problems[problem] = None
                break
    if problems:
        raise TaskFileError(problems)
    yield from _trivial(scorers, rows)


def _problem(
    scorer: AnswerScorer | ModelScorer, row: _Row, at: Place | RowPlace
) -> Problem | None:
    try:
        if scorer.check is not None:
            scorer.check(row.case)
    except (EvalsError, DocumentError) as error:
        what, _, fix = str(error).partition("\n  fix: ")
        place = at if isinstance(at, Place) else at(row.number)
        return Problem(f"{row.name}: {what}", place, fix)
    return None


def _trivial(scorers: Sequence[Placed], rows: Sequence[_Row]) -> Iterator[str]:
    """Yield the scorers for which the answer does not matter."""
    for scorer, place in scorers:
        if scorer.is_trivial is None:
            continue
        found = [one.name for one in rows if _is_trivial(scorer, one.case)]
        if found:
            n = f"for {len(found)} of {len(rows)} rows, first {found[0]}"
            verb = "rejects" if "not" in scorer.settings else "accepts"
            yield (
                f"{place}: {scorer.name} {verb} every answer: what it looks for may be "
                f"empty ({n}); give these rows a value, or leave them out"
            )


def _is_trivial(scorer: AnswerScorer | ModelScorer, case: Case) -> bool:
    try:
        return scorer.is_trivial is not None and scorer.is_trivial(case)
    except EvalsError:
        return False  # an error of its document


def _case(cases: EvalCases, number: int) -> Case | None:
    try:
        return cases.case(number)
    except DocumentError:
        return None  # an error of its document


def _has_checks(row: Mapping[str, Any]) -> bool:
    given = row.get(COLUMN)
    first = given[0] if isinstance(given, list | tuple) and given else None
    is_named = isinstance(first, Mapping) and len(first) == 1
    return is_named or isinstance(first, AnswerScorer)
