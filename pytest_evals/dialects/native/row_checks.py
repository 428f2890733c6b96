"""Checks before anything is sent: templates of scorers, and the rows of an eval: their
own scorers, targets, and scorers that accept every answer."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from pytest_evals.core.case import Case
from pytest_evals.dialects.native.cases import MOST_ROWS, EvalCases, RowPlace
from pytest_evals.dialects.native.checks import COLUMN
from pytest_evals.errors import DocumentError, EvalsError, Place, Problem, TaskFileError
from pytest_evals.prompts.text_values import text_fault
from pytest_evals.scorers.answers import AnswerScorer
from pytest_evals.scorers.model_scorer import ModelScorer
from pytest_evals.scorers.templates import (
    ANSWER_NAMES,
    CASE_NAMES,
    ScorerTemplate,
    ScorerTemplateError,
    prompt_text,
)

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
    """Check the first rows, and yield warnings. ``scorers``: the scorers of the eval,
    each with its place. ``place_of``: where rows are, if their targets are to be
    checked. Raises TaskFileError if a row has invalid checks or no target, or no scorer
    reads its checks."""
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
        message = "rows have checks, and score does not contain them"
        raise TaskFileError([Problem(message, scorers[0][1], "score: [checks]")])
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
        message, _, fix = str(error).partition("\n  fix: ")
        place = at if isinstance(at, Place) else at(row.number)
        return Problem(f"{row.name}: {message}", place, fix)
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


_MOST = 1_000  # cases for which templates are rendered before the run


def check_templates(
    templates: Mapping[ScorerTemplate, Place], cases: EvalCases, *, is_text: bool
) -> None:
    """Check the templates of scorers against the rows that are known. ``templates``:
    each with the place of its scorer. ``is_text``: whether values of rows are text.
    Raises TaskFileError with the first problem of each."""
    known = {one: at for one, at in templates.items() if one.is_template}
    if not known:
        return
    rows = cases.rows()
    columns = {name for row in rows for name in row}
    first = [cases.case(n) for n in range(min(len(rows), _MOST))]
    problems = []
    for template, place in known.items():
        found = [
            *_shadowed(template, columns, first),
            *_missing(template, rows, columns, cases),
            *_unrenderable(template, first, cases, is_text=is_text),
        ]
        of = "" if template.key.startswith("user: ") else "score: "
        problems += [Problem(f"{of}{one.message}", place, one.fix) for one in found[:1]]
    if problems:
        raise TaskFileError(problems)


def text_error(templates: Iterable[ScorerTemplate], case: Case) -> None:
    """Raise an error if a template computes with text. Raises ScorerTemplateError if
    one does."""
    for one in templates:
        fault = text_fault(one.text, case.row) if one.is_template else None
        if fault is not None:
            raise ScorerTemplateError(f"{one.key}: {fault.message}", fault.fix)


def _shadowed(
    template: ScorerTemplate, columns: Collection[str], cases: Sequence[Case]
) -> Iterator[ScorerTemplateError]:
    """Yield names of ours that are columns, or have no value in this template."""
    names = template.template.names
    for name in sorted(names & ANSWER_NAMES):
        means = "what the model returned" if name != "answer" else "the model's answer"
        row = f"write {{{{ row.{name} }}}} for the column"
        if name in columns:
            message = (
                f"{{{{ {name} }}}} is {means}, and the rows have a column {name!r}"
            )
            fix = f"{row}; rename the column to use {means}"
            yield ScorerTemplateError(f"{template.key}: {message}", fix)
        elif not template.sees_answer:
            message = f"{{{{ {name} }}}} is {means}, which equals itself"
            fix = "use a column, such as {{ target }}"
            yield ScorerTemplateError(f"{template.key}: {message}", fix)
    for name in sorted(names & CASE_NAMES.intersection(columns)):
        if any(map(partial(_differs, name=name), cases)):
            message = (
                f"{{{{ {name} }}}} is that of the eval, and the rows have another one"
            )
            fix = f"write {{{{ row.{name} }}}} for the column, or rename the column"
            yield ScorerTemplateError(f"{template.key}: {message}", fix)


def _differs(case: Case, name: str) -> bool:
    """Whether a column has another value than the part of the case of its name."""
    ours = {"prompt": prompt_text(case), "row": case.row, "target": case.target}[name]
    column = case.row.get(name, ours)
    is_chat = name == "prompt" and not isinstance(column, str)
    return not is_chat and bool(column != ours)


def _missing(
    template: ScorerTemplate,
    rows: Sequence[Mapping[str, object]],
    columns: Collection[str],
    cases: EvalCases,
) -> Iterator[ScorerTemplateError]:
    needed = template.template.names - ANSWER_NAMES - CASE_NAMES
    if template.sees_answer and "steps" not in columns:
        needed -= {"steps"}
    for number, row in enumerate(rows):
        absent = sorted(name for name in needed if name not in row)
        if not absent:
            continue
        try:
            template.render(cases.case(number))
        except ScorerTemplateError as error:
            if not error.is_column:
                continue  # of the answer, which is not known yet
            if absent[0] not in columns:
                yield error
                return
            id_ = cases.ids().ids[number]
            message = (
                f"{template.key} uses {absent[0]!r}, which row {id_!r} does not have"
            )
            fix = f"add it, or write {{{{ {absent[0]}|default('') }}}}"
            yield ScorerTemplateError(message, fix)
            return


def _unrenderable(
    template: ScorerTemplate, first: Sequence[Case], cases: EvalCases, *, is_text: bool
) -> Iterator[ScorerTemplateError]:
    """Yield the error of the first case for which a template fails that does not depend
    on the answer."""
    for number, case in enumerate(first):
        try:
            if is_text:
                text_error([template], case)
            if template.template.names.isdisjoint(ANSWER_NAMES):
                template.texts(case)
        except ScorerTemplateError as error:
            message = f"{error.message} (row {cases.ids().ids[number]!r})"
            yield ScorerTemplateError(message, error.fix)
            return
