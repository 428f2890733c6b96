"""Evals of rows: for ``evaluate()`` and the fixture ``evals``."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pytest_evals.core.case import Case
from pytest_evals.data.calls import FieldError
from pytest_evals.dialects.native.choices import bind_choices
from pytest_evals.dialects.native.python import Eval
from pytest_evals.dialects.native.settings import EvalSettings
from pytest_evals.errors import DocumentError, Place, Problem, TaskFileError
from pytest_evals.prompts.fields import Field, Reader, bind, bind_value, text_itself


def is_rows(given: object) -> bool:
    """Whether a value is a list of rows or cases."""
    listed = given if isinstance(given, list | tuple) else ()
    return bool(listed) and all(isinstance(one, Mapping | Case) for one in listed)


def rows_eval(
    rows: Sequence[Mapping[str, Any] | Case],
    settings: EvalSettings,
    *,
    prompt: str = "",
    target: Any = None,
    choices: Any = None,
) -> Eval:
    """Return an eval of rows. ``prompt``: template over a row's values; by default its
    value ``prompt``. ``target``: template or column; by default the column ``target``.
    ``choices``: column, template or list of templates: texts of which the target is
    one. By default rows without ``prompt=`` have the value ``choices``. Raises
    TaskFileError if a template is invalid, or does not fit a row."""
    place = _caller()

    def reader(key: str, spec: Any) -> Reader:
        return bind(Field(key=key, spec=spec, place=place), None, text_itself)

    try:
        prompt_of = reader("prompt", prompt) if prompt else None
        target_of = None
        if target is not None:
            target_of = bind_value(Field(key="target", spec=target, place=place))
        choices_of = None if choices is None else bind_choices(choices, place)
    except FieldError as error:
        raise TaskFileError([error.problem]) from None

    def case_of(number: int, row: Any) -> Any:
        if not isinstance(row, Mapping):
            return row
        if prompt_of is None and "prompt" not in row:
            message = f"row {number} has no prompt"
            fix = 'prompt="{{question}}"'
            raise TaskFileError([Problem(message, place, fix)])
        try:
            text = row["prompt"] if prompt_of is None else prompt_of(row)
            value = row.get("target") if target_of is None else target_of(row)
            if choices_of is not None:
                listed = choices_of(row)
                listed = () if listed is None else listed
            else:
                listed = row.get("choices") if prompt_of is None else None
        except FieldError as error:
            raise TaskFileError([error.problem]) from None
        try:
            return Case(
                prompt=text, target=value, id=row.get("id", ""), row=row, choices=listed
            )
        except DocumentError as error:
            raise TaskFileError([Problem(f"row {number}: {error}", place)]) from None

    cases = [case_of(number, row) for number, row in enumerate(rows)]
    return Eval(lambda: cases, name="rows", place=place, settings=settings)


_PACKAGE = str(Path(__file__).parents[2])


def _caller() -> Place:
    """The line outside of this package that called it."""
    frame = inspect.currentframe()
    while frame is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame = frame.f_back
    if frame is None:
        return Place(Path("rows"))
    return Place(Path(frame.f_code.co_filename), frame.f_lineno)
