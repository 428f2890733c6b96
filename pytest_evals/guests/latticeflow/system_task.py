"""System tasks: one function returns metric values, and there are no samples."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from pytest_evals.core.doc import Doc
from pytest_evals.core.metric import Estimate, Metric
from pytest_evals.core.record import Record, Score
from pytest_evals.core.task import Asked, Task
from pytest_evals.guests.latticeflow.fields import Keys
from pytest_evals.guests.latticeflow.snippets import Snippet, snippet_of, to_json

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


def read_system_task(definition: Keys, arguments: Mapping[str, Any]) -> Task:
    """Return the task, whose document is scored by ``compute_evidence``; errors are
    added to the problems of the section. ``arguments``: those of all kinds of tasks."""
    function = snippet_of(definition, "compute_evidence_snippet", "compute_evidence")
    name = arguments["name"]

    def score(record: Record) -> tuple[Score, ...]:
        context: tuple[Any, ...] = ({},) if function.parameters() else ()
        return (function.read(lambda given: _evidence(given, function), *context),)

    def several(values: Sequence[Mapping[str, float]]) -> Mapping[str, Estimate]:
        return {name: Estimate(value) for one in values for name, value in one.items()}

    metric = Metric(
        name=DOCUMENT, aggregate=lambda _values: Estimate(math.nan), several=several
    )
    return Task(
        **arguments,
        rows=OneRow(),
        ask=lambda _index: Asked(Doc("", [], 0, id=DOCUMENT, task_name=name), ()),
        score=score,
        metrics=(metric,),
        asks_model=False,
    )


def _evidence(given: Any, function: Snippet) -> Score:
    """Return all metric values as one score."""
    given = to_json(given, str)
    metrics = given.get("metrics") if isinstance(given, Mapping) else None
    if not isinstance(metrics, Mapping):
        what = f"must return metrics, not {given!r:.80}"
        fix = 'return {"metrics": {"size": {"value": 3}}}'
        raise function.invalid_return(what, fix)
    values, reasons = {}, []
    for name, one in metrics.items():
        value = one.get("value") if isinstance(one, Mapping) else None
        if not isinstance(value, int | float):
            what = f"must return a number as value of {name!r}, not {one!r:.80}"
            raise function.invalid_return(what, f'{{"{name}": {{"value": 3}}}}')
        values[str(name)] = float(value)
        if one.get("reason"):
            reasons.append(f"{name}: {one['reason']}")
    return Score(metric=DOCUMENT, value=values, explanation="; ".join(reasons))
