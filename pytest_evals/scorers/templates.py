"""Templates of scorers, such as rubrics: texts over the row of a case and the answer.

Names of this package always mean its own values: ``answer`` is the model's answer even
if the rows have a column of that name, which is ``row.answer``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pytest_evals.core.case import Case
from pytest_evals.errors import DocumentError, EvalsError
from pytest_evals.prompts.fields import (
    Template,
    compile_expression,
    compile_marked,
    compile_template,
    template_fault,
)

ANSWER_NAMES = frozenset(
    ("answer", "calls", "contexts", "data", "response", "transcript")
)
"""Names of what the model returned."""
CASE_NAMES = frozenset(("prompt", "row", "target"))
"""Names of parts of the case."""
AVAILABLE = frozenset(("answer", "response", *CASE_NAMES))
"""Names that have a value; the others are reserved."""


class ScorerTemplateError(DocumentError):
    """A template cannot be rendered for a case.

    Args:
        is_column: Whether the reason is a missing column.
    """

    def __init__(self, what: str, fix: str = "", *, is_column: bool = False) -> None:
        super().__init__(f"{what}\n  fix: {fix}" if fix else what)
        self.what, self.fix, self.is_column = what, fix, is_column


@dataclass(frozen=True, slots=True)
class ScorerTemplate:
    """A text of a scorer.

    Args:
        key: The scorer and its argument, for messages.
        text: A template if it contains ``{{``.
        sees_answer: Whether the answer's names may be used.
        has_items: Whether a list is replaced by its items; else it is an error.
    """

    key: str
    text: str
    sees_answer: bool = False
    has_items: bool = True

    def __post_init__(self) -> None:
        """Check the syntax.

        Raises:
            EvalsError: It is invalid.
        """
        if self.is_template:
            try:
                compile_template(self.text)
            except EvalsError as error:
                raise EvalsError(f"{self.key}: {error}") from None

    @property
    def is_template(self) -> bool:
        """Whether values are inserted."""
        return "{{" in self.text

    @property
    def template(self) -> Template:
        """The compiled template."""
        return compile_template(self.text)

    def render(
        self, case: Case, answer: str = "", marks: tuple[str, str] | None = None
    ) -> str:
        """Return the text for a case.

        Args:
            marks: Texts before and after each insertion that depends on the answer.

        Raises:
            ScorerTemplateError: It cannot be rendered.
        """
        if not self.is_template:
            return self.text
        template, values = self.template, self._values(case, answer)
        try:
            if marks is None or template.names.isdisjoint(ANSWER_NAMES):
                return template.render(values)
            return compile_marked(self.text, ANSWER_NAMES)(values, *marks)
        except Exception as error:
            raise self._error(error, case) from error

    def texts(self, case: Case) -> list[str]:
        """Return the texts for a case: the items of a template that is a list.

        Raises:
            ScorerTemplateError: It cannot be rendered, or has items that are not text.
        """
        evaluate = compile_expression(self.text) if self.is_template else None
        if evaluate is None:
            return [self.whole_text(case)]
        try:
            found = evaluate(self._values(case, ""))
        except Exception as error:
            raise self._error(error, case) from error
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
        """Return the text for a case, of which no part is a null.

        Raises:
            ScorerTemplateError: It cannot be rendered, or a part is null.
        """
        text = self.render(case)
        if not self.is_template:
            return text
        for name in self.template.nulls(self._values(case, ""), text):
            what = f"{self.key}: {name} is null, not a text to compare with"
            raise ScorerTemplateError(what, f"write {{{{ {name} or '' }}}}")
        return text

    def _values(self, case: Case, answer: str) -> Mapping[str, Any]:
        """The values of the template's names."""
        ours = {
            "answer": answer,
            "response": answer,
            "prompt": prompt_text(case),
            "row": case.row,
            "target": case.target,
        }
        names = self.template.names
        row = {one: case.row[one] for one in names if one in case.row}
        return {**row, **{one: ours[one] for one in names if one in ours}}

    def _error(self, error: Exception, case: Case) -> ScorerTemplateError:
        known = {**case.row, **dict.fromkeys(AVAILABLE)}
        fault = template_fault(self.key, self.template, known, error)
        fix = fault.fix
        if fault.is_column:
            fix = f"the columns are {', '.join(map(str, case.row))}"
        return ScorerTemplateError(fault.what, fix, is_column=fault.is_column)


def prompt_text(case: Case) -> str:
    """The prompt of a case as one text."""
    if isinstance(case.prompt, str):
        return case.prompt
    return "\n".join(f"{one.role}: {one.content}" for one in case.prompt)
