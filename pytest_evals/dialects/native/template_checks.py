"""Checks of the templates of scorers, before anything runs."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial

from pytest_evals.core.case import Case
from pytest_evals.dialects.native.cases import EvalCases
from pytest_evals.errors import Place, Problem, TaskFileError
from pytest_evals.prompts.text_values import text_fault
from pytest_evals.scorers.templates import (
    ANSWER_NAMES,
    CASE_NAMES,
    ScorerTemplate,
    ScorerTemplateError,
    prompt_text,
)

_MOST = 1_000
"""Cases for which templates are rendered before the run."""


def check_templates(
    templates: Mapping[ScorerTemplate, Place], cases: EvalCases, *, is_text: bool
) -> None:
    """Check the templates of scorers against the rows that are known.

    Args:
        templates: Each with the place of its scorer.
        is_text: Whether values of rows are text.

    Raises:
        TaskFileError: With the first problem of each.
    """
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
        problems += [Problem(f"{of}{one.what}", place, one.fix) for one in found[:1]]
    if problems:
        raise TaskFileError(problems)


def text_error(templates: Iterable[ScorerTemplate], case: Case) -> None:
    """Raise an error if a template computes with text.

    Raises:
        ScorerTemplateError: One does.
    """
    for one in templates:
        fault = text_fault(one.text, case.row) if one.is_template else None
        if fault is not None:
            raise ScorerTemplateError(f"{one.key}: {fault.what}", fault.fix)


def _shadowed(
    template: ScorerTemplate, columns: Collection[str], cases: Sequence[Case]
) -> Iterator[ScorerTemplateError]:
    """Yield names of ours that are columns, or have no value in this template."""
    names = template.template.names
    for name in sorted(names & ANSWER_NAMES):
        means = "what the model returned" if name != "answer" else "the model's answer"
        row = f"write {{{{ row.{name} }}}} for the column"
        if name in columns:
            what = f"{{{{ {name} }}}} is {means}, and the rows have a column {name!r}"
            fix = f"{row}; rename the column to use {means}"
            yield ScorerTemplateError(f"{template.key}: {what}", fix)
        elif not template.sees_answer:
            what = f"{{{{ {name} }}}} is {means}, which equals itself"
            fix = "use a column, such as {{ target }}"
            yield ScorerTemplateError(f"{template.key}: {what}", fix)
    for name in sorted(names & CASE_NAMES.intersection(columns)):
        if any(map(partial(_differs, name=name), cases)):
            what = (
                f"{{{{ {name} }}}} is that of the eval, and the rows have another one"
            )
            fix = f"write {{{{ row.{name} }}}} for the column, or rename the column"
            yield ScorerTemplateError(f"{template.key}: {what}", fix)


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
            what = f"{template.key} uses {absent[0]!r}, which row {id_!r} does not have"
            fix = f"add it, or write {{{{ {absent[0]}|default('') }}}}"
            yield ScorerTemplateError(what, fix)
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
            what = f"{error.what} (row {cases.ids().ids[number]!r})"
            yield ScorerTemplateError(what, error.fix)
            return
