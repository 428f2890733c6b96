"""System tasks: one function that gives numbers, and no samples."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pytest_evals.core.doc import Doc
from pytest_evals.core.metric import Estimate, Metric
from pytest_evals.core.record import Record, Score
from pytest_evals.core.task import Asked
from pytest_evals.dialects.latticeflow.snippets.return_values import as_json
from pytest_evals.dialects.latticeflow.snippets.snippet import (
    SnippetFunction,
    snippet_of,
)
from pytest_evals.dialects.yaml_reader.section import Section

DOCUMENT = "evidence"
"""Id of the only document, and name of what its numbers are read of."""


class OneRow:
    """The only document; no limit leaves it out."""

    def ids(self) -> Sequence[str]:
        """Its id."""
        return [DOCUMENT]

    def indices(self) -> Sequence[int]:
        """Its position."""
        return [0]

    def total(self) -> int:
        """One."""
        return 1


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemRecipe:
    """``compute_evidence``, called when its document is scored."""

    task: str
    function: SnippetFunction

    def ask(self, index: int) -> Asked:
        """The document; no model is asked."""
        doc = Doc("", [], 0, id=DOCUMENT, task_name=self.task)
        return Asked(doc, ())

    def score(self, record: Record) -> tuple[Score, ...]:
        """All numbers as one score.

        Raises:
            DocumentError: The function fails, or returns something else.
        """
        context: tuple[Any, ...] = ({},) if self.function.parameters() else ()
        return (self.function.read(self._read, *context),)

    def _read(self, given: Any) -> Score:
        given = as_json(given, str)
        metrics = given.get("metrics") if isinstance(given, Mapping) else None
        if not isinstance(metrics, Mapping):
            fix = 'return {"metrics": {"size": {"value": 3}}}'
            raise self.function.refused(f"returns metrics, not {given!r:.80}", fix)
        values = {str(name): self._value(name, one) for name, one in metrics.items()}
        reasons = [
            f"{name}: {one['reason']}"
            for name, one in metrics.items()
            if isinstance(one, Mapping) and one.get("reason")
        ]
        return Score(metric=DOCUMENT, value=values, explanation="; ".join(reasons))

    def _value(self, name: object, one: Any) -> float:
        value = one.get("value") if isinstance(one, Mapping) else None
        if not isinstance(value, int | float):
            what = f"returns a number as value of {name!r}, not {one!r:.80}"
            raise self.function.refused(what, f'{{"{name}": {{"value": 3}}}}')
        return float(value)


def evidence() -> Metric:
    """What tells the numbers of a system task apart."""

    def several(values: Sequence[Mapping[str, float]]) -> Mapping[str, Estimate]:
        return {name: Estimate(value) for one in values for name, value in one.items()}

    return Metric(
        name=DOCUMENT, aggregate=lambda _values: Estimate(math.nan), several=several
    )


def read_system_task(definition: Section, task: str) -> SystemRecipe | None:
    """The recipe of a section; what is wrong with it are problems of the file."""
    key = "compute_evidence_snippet"
    function = snippet_of(definition, key, "compute_evidence")
    return None if function is None else SystemRecipe(task=task, function=function)
