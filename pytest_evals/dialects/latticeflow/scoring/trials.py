"""Reads ``trials``: the number of trials per sample, and their aggregation."""

from __future__ import annotations

from pytest_evals.core.task import MOST_REPEATS
from pytest_evals.dialects.latticeflow.metrics.trial_aggregation import (
    FUNCTIONS,
    Aggregator,
)
from pytest_evals.dialects.latticeflow.scoring.scorer import Trials
from pytest_evals.dialects.latticeflow.solvers.template_fields import required_text
from pytest_evals.dialects.yaml_reader.section import Section


def read_trials(section: Section) -> Trials:
    """Return the trials of a task; errors are added to the problems of the section."""
    if section.values.get("num_trials") is None:
        section.problem("num_trials", "num_trials is missing", "num_trials: 3")
    n = section.whole("num_trials", 2, 2, MOST_REPEATS)
    aggregators = [_read(entry) for entry in section.entries("score_aggregators")]
    section.close("trials")
    return Trials(n=n, aggregators=tuple(one for one in aggregators if one is not None))


def _read(entry: Section) -> Aggregator | None:
    score = required_text(entry, "score_name", "is_correct")
    inner = entry.section("aggregator")
    if inner is None:
        if entry.values.get("aggregator") is None:
            fix = "aggregator: {function: mean}"
            entry.problem("aggregator", "aggregator is missing", fix)
        entry.close("an entry of score_aggregators")
        return None
    function = inner.one_of("function", "function", FUNCTIONS, "")
    needs_k = function.startswith("pass")
    if needs_k and inner.values.get("k") is None:
        inner.problem("k", f"{function} needs k", "k: 3")
    if not needs_k:
        inner.refuse("k", f"{function} does not use it")
    k = inner.whole("k", 1, 1) if needs_k else 1
    name = inner.text("score_name")
    inner.close("an aggregator")
    entry.close("an entry of score_aggregators")
    return Aggregator(score=score, function=function, k=k, name=name)
