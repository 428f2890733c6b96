"""Templates of scorers, such as rubrics: texts over the row of a case and the answer.

Names of this package always mean its own values: ``answer`` is the model's answer even
if the rows have a column of that name, which is ``row.answer``. ``calls``, ``contexts``
and ``data`` are what an application returned; inserted as a whole they are text, and
their items and keys can be used as well.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from pytest_evals.core.case import Case
from pytest_evals.core.request import Response
from pytest_evals.core.returned import returned_text, text_of, transcript_text
from pytest_evals.errors import DocumentError, EvalsError
from pytest_evals.prompts.fields import (
    Template,
    compile_expression,
    compile_marked,
    compile_template,
    template_fault,
)

NO_RESPONSE = Response()
ANSWER_NAMES = frozenset(
    ("answer", "calls", "contexts", "data", "response", "transcript")
)
"""Names of what the model returned."""
CASE_NAMES = frozenset(("prompt", "row", "target"))  # names of parts of the case
_FIELDS = {one: one for one in ("calls", "contexts", "data", "steps")}
_FIELDS |= {"transcript": "messages"}
"""Name in templates → field of the response. ``steps`` is used if no column has that
name."""


def is_template(text: str) -> bool:
    """Return whether a text has insertions or statements."""
    return "{{" in text or "{%" in text


class ScorerTemplateError(DocumentError):
    """A template cannot be rendered for a case. ``is_column``: whether the reason is a
    missing column."""

    def __init__(self, message: str, fix: str = "", *, is_column: bool = False) -> None:
        super().__init__(f"{message}\n  fix: {fix}" if fix else message)
        self.message, self.fix, self.is_column = message, fix, is_column


@dataclass(frozen=True, slots=True)
class ScorerTemplate:
    """A text of a scorer."""

    key: str  # the scorer and its argument, for messages
    text: str  # a template if it contains ``{{`` or ``{%``
    sees_answer: bool = False  # whether the answer's names may be used
    has_items: bool = True
    """Whether a list is replaced by its items; else it is an error."""

    def __post_init__(self) -> None:
        if self.is_template:
            try:
                compile_template(self.text)
            except EvalsError as error:
                raise EvalsError(f"{self.key}: {error}") from None

    @property
    def is_template(self) -> bool:
        """Whether values are inserted."""
        return is_template(self.text)

    @property
    def template(self) -> Template:
        """The compiled template."""
        return compile_template(self.text)

    def render(
        self,
        case: Case,
        response: Response = NO_RESPONSE,
        marks: tuple[str, str] | None = None,
    ) -> str:
        """Return the text for a case. ``marks``: texts before and after each insertion
        that depends on the answer. Raises ScorerTemplateError if it cannot be rendered.
        """
        if not self.is_template:
            return self.text
        template, values = self.template, self._values(case, response)
        try:
            inserted = ANSWER_NAMES | ({"steps"} - case.row.keys())
            if marks is None or template.names.isdisjoint(inserted):
                return template.render(values)
            return compile_marked(self.text, inserted)(values, *marks)
        except Exception as error:
            raise self._error(error, case) from error

    def value(self, case: Case) -> Any:
        """Return the value of a template that is one expression; else the text. Raises
        ScorerTemplateError if it cannot be rendered."""
        evaluate = compile_expression(self.text) if self.is_template else None
        if evaluate is None:
            return self.render(case)
        try:
            return evaluate(self._values(case, NO_RESPONSE))
        except Exception as error:
            raise self._error(error, case) from error

    def texts(self, case: Case) -> list[str]:
        """Return the texts for a case: the items of a template that is a list. Raises
        ScorerTemplateError if it cannot be rendered, or has items that are not text."""
        found = self.value(case)
        if not isinstance(found, list | tuple):
            return [self.whole_text(case)]
        if not self.has_items:
            fix = f"any_of: '{self.text}', or all_of"
            raise ScorerTemplateError(f"{self.key}: {self.text} is a list", fix)
        for one in found:
            if isinstance(one, bool) or not isinstance(one, str | int | float):
                shown = json.dumps(one, default=repr)[:80]
                raise ScorerTemplateError(
                    f"{self.key}: {self.text} has the item {shown}, which is not text"
                )
        if not found:
            raise ScorerTemplateError(f"{self.key}: {self.text} is an empty list")
        return [*map(str, found)]

    def whole_text(self, case: Case) -> str:
        """Return the text for a case, of which no part is a null. Raises
        ScorerTemplateError if it cannot be rendered, or a part is null."""
        text = self.render(case)
        if not self.is_template:
            return text
        for name in self.template.nulls(self._values(case, NO_RESPONSE), text):
            message = f"{self.key}: {name} is null, not a text to compare with"
            raise ScorerTemplateError(message, f"write {{{{ {name} or '' }}}}")
        return text

    def _values(self, case: Case, response: Response) -> Mapping[str, Any]:
        ours = {
            "answer": response.text,
            "response": response.text,
            "prompt": prompt_text(case),
            "row": case.row,
            "target": case.target,
        }
        names = self.template.names
        for name, field in _FIELDS.items():
            if name in names and not (name == "steps" and name in case.row):
                ours[name] = _shown(field, getattr(response, field))
        row = {one: case.row[one] for one in names if one in case.row}
        return {**row, **{one: ours[one] for one in names if one in ours}}

    def _error(self, error: Exception, case: Case) -> ScorerTemplateError:
        known = {**case.row, **dict.fromkeys(ANSWER_NAMES | CASE_NAMES)}
        fault = template_fault(self.key, self.template, known, error)
        fix = fault.fix
        if fault.is_column:
            columns = ", ".join(map(str, case.row))
            fix = f"the columns are {columns or 'none'}"
        return ScorerTemplateError(fault.message, fix, is_column=fault.is_column)


class _ShownList(list[Any]):
    """A field of a response whose text is the one that reports show."""

    def __init__(self, field: str, value: Iterable[Any]) -> None:
        super().__init__(value)
        self._field = field

    def __str__(self) -> str:
        return returned_text(self._field, self)


class _ShownMapping(dict[str, Any]):
    """A mapping whose text is JSON."""

    def __str__(self) -> str:
        return text_of(dict(self))


# Jinja names them in messages such as "list object has no element 0".
_ShownList.__module__, _ShownList.__name__ = "builtins", "list"
_ShownMapping.__module__, _ShownMapping.__name__ = "builtins", "dict"


def _shown(field: str, value: Any) -> Any:
    if isinstance(value, dict):
        return _ShownMapping(value)
    if isinstance(value, list | tuple):
        return _ShownList(field, value)
    return "" if value is None else value


def templates_in(given: Any, key: str) -> list[ScorerTemplate]:
    """Return the templates in the texts of a JSON value."""
    if isinstance(given, str):
        return [ScorerTemplate(key, given)] if is_template(given) else []
    if isinstance(given, Mapping):
        given = given.values()
    elif not isinstance(given, list | tuple):
        return []
    return [one for value in given for one in templates_in(value, key)]


def readings(given: Any, case: Case, key: str) -> list[Any]:
    """Return a JSON value with its templates rendered for a case: as text, as the value
    of their expression, and with their text read as JSON. Rows have numbers as text in
    YAML and CSV, and as numbers in JSON. Raises ScorerTemplateError if one cannot be
    rendered."""
    if not templates_in(given, key):
        return [given]
    kinds = (ScorerTemplate.render, ScorerTemplate.value, _read_as_json)
    return [_filled(given, lambda one: kind(one, case), key) for kind in kinds]  # noqa: B023


def _read_as_json(template: ScorerTemplate, case: Case) -> Any:
    text = template.render(case)
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _filled(given: Any, fill: Callable[[ScorerTemplate], Any], key: str) -> Any:
    if isinstance(given, Mapping):
        return {name: _filled(one, fill, key) for name, one in given.items()}
    if isinstance(given, list | tuple):
        return [_filled(one, fill, key) for one in given]
    is_text = isinstance(given, str) and is_template(given)
    return fill(ScorerTemplate(key, given)) if is_text else given


def prompt_text(case: Case) -> str:
    """The prompt of a case as one text."""
    if isinstance(case.prompt, str):
        return case.prompt
    return "\n".join(f"{one.role}: {one.content}" for one in case.prompt)


def question_text(case: Case, answered: Response) -> str:
    """The prompt of a case, or its conversation before the last answer."""
    if not (case.turns or case.user) or not answered.messages:
        return prompt_text(case)
    return transcript_text(answered.messages[:-1])
