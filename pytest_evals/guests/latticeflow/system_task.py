"""System tasks: one function returns metric values, and there are no samples."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pytest_evals.core.doc import Doc
from pytest_evals.core.metric import Estimate, Metric
from pytest_evals.core.record import Record, Score
from pytest_evals.core.task import Asked
from pytest_evals.dialects.yaml_reader.section import Section
from pytest_evals.guests.latticeflow.snippets import (
    SnippetFunction,
    snippet_of,
    to_json,
)

DOCUMENT = "evidence"
"""Id of the only document, and name of its metric."""


class OneRow:
    """Rows with a single document, which no limit excludes."""

    def ids(self) -> Sequence[str]:
        """Return its id."""
        return [DOCUMENT]

    def indices(self) -> Sequence[int]:
        """Return its position."""
        return [0]

    def total(self) -> int:
        """Return 1."""
        return 1


@dataclass(frozen=True, slots=True)
class SystemRecipe:
    """Calls ``compute_evidence`` when its document is scored."""

    task: str
    function: SnippetFunction

    def ask(self, index: int) -> Asked:
        """Return the document, without requests."""
        return Asked(Doc("", [], 0, id=DOCUMENT, task_name=self.task), ())

    def score(self, record: Record) -> tuple[Score, ...]:
        """Return all metric values as one score."""
        context: tuple[Any, ...] = ({},) if self.function.parameters() else ()
        return (self.function.read(self._read, *context),)

    def _read(self, given: Any) -> Score:
        given = to_json(given, str)
        metrics = given.get("metrics") if isinstance(given, Mapping) else None
        if not isinstance(metrics, Mapping):
            what = f"must return metrics, not {given!r:.80}"
            fix = 'return {"metrics": {"size": {"value": 3}}}'
            raise self.function.invalid_return(what, fix)
        values, reasons = {}, []
        for name, one in metrics.items():
            value = one.get("value") if isinstance(one, Mapping) else None
            if not isinstance(value, int | float):
                what = f"must return a number as value of {name!r}, not {one!r:.80}"
                fix = f'{{"{name}": {{"value": 3}}}}'
                raise self.function.invalid_return(what, fix)
            values[str(name)] = float(value)
            if one.get("reason"):
                reasons.append(f"{name}: {one['reason']}")
        return Score(metric=DOCUMENT, value=values, explanation="; ".join(reasons))


def evidence_metric() -> Metric:
    """Return the metric that splits the document's values by name."""

    def several(values: Sequence[Mapping[str, float]]) -> Mapping[str, Estimate]:
        return {name: Estimate(value) for one in values for name, value in one.items()}

    return Metric(
        name=DOCUMENT, aggregate=lambda _values: Estimate(math.nan), several=several
    )


def read_system_task(definition: Section, task: str) -> SystemRecipe:
    """Return the recipe; errors are added to the problems of the section."""
    key = "compute_evidence_snippet"
    return SystemRecipe(task, snippet_of(definition, key, "compute_evidence"))
