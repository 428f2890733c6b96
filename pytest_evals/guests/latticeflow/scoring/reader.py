"""Reads a task's ``scorers``; ``_READERS`` has all types."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from pytest_evals.core.metric import SHARE
from pytest_evals.guests.latticeflow.fields import Fields, unique_name
from pytest_evals.guests.latticeflow.metrics.measures import ScorerValue
from pytest_evals.guests.latticeflow.metrics.reader import means_of, read_metrics
from pytest_evals.guests.latticeflow.scoring.comparisons import (
    read_bleu,
    read_coverage,
    read_equals,
    read_mcqa,
    read_parsed_mcqa,
)
from pytest_evals.guests.latticeflow.scoring.judges import (
    read_classifier,
    read_grader,
    read_labeler,
)
from pytest_evals.guests.latticeflow.scoring.lighteval_metric import read_lighteval
from pytest_evals.guests.latticeflow.scoring.python import (
    read_all_samples,
    read_python_scorer,
)
from pytest_evals.guests.latticeflow.scoring.rag import read_rag
from pytest_evals.guests.latticeflow.scoring.scorer import SampleScorer, ScorerContext
from pytest_evals.guests.latticeflow.solvers.model_client import ModelClient, Models
from pytest_evals.scorers.choice_answers import UNPARSABLE

MCQA = "string_equals_mcqa"
"""Type of scorers for multiple-choice questions."""
Reader = Callable[[Fields, ScorerContext], SampleScorer]
"""Fields → scorer; errors are added to the problems of the section."""
_READERS: dict[str, Reader] = {
    "bleu": read_bleu,
    "function_call_coverage": read_coverage,
    "labeler_via_model": read_labeler,
    "lighteval": read_lighteval,
    "model_as_a_judge_classifier": read_classifier,
    "model_as_a_judge_scorer": read_grader,
    "python": read_python_scorer,
    "python_all_samples": read_all_samples,
    "rag_checker": read_rag,
    "string_equals": read_equals,
    MCQA: read_mcqa,
}


def read_scorers(
    sections: Sequence[Fields],
    models: Models,
    warnings: list[str],
    *,
    has_solver: bool,
    parses_choices: bool = False,
) -> tuple[SampleScorer, ...]:
    """Return the scorers of a task; errors are added to the problems of their sections.
    ``parses_choices``: whether the choice is extracted from answers to multiple-choice
    questions; otherwise their first character is the choice."""
    readers = {**_READERS, MCQA: read_parsed_mcqa} if parses_choices else _READERS
    scorers: dict[str, SampleScorer] = {}
    for section in sections:
        kind = section.one_of("type", "scorer", tuple(readers), "")
        if not kind:
            continue
        key = _key(section, kind, scorers)
        called: set[str] = set()
        context = ScorerContext(_recording(models, called), has_solver)
        scorer = _read_scorer(section, readers[kind], context, warnings)
        section.close(f"a scorer of type {kind}")
        values = (
            replace(_with_range(v, scorer), scorer=key) for v in scorer.metric_values
        )
        scorers[key] = replace(
            scorer, key=key, models=frozenset(called), metric_values=tuple(values)
        )
    return tuple(scorers.values())


def _recording(models: Models, called: set[str]) -> Models:
    def client(key: str) -> ModelClient:
        called.add(key)
        return models(key)

    return client


def _key(section: Fields, kind: str, taken: Mapping[str, SampleScorer]) -> str:
    """Return the scorer's key, or its type with a number if it is taken."""
    given = section.name("key")
    if given is None:
        return unique_name(kind, taken)
    section.check_key("a scorer")
    if given in taken:
        section.problem("key", f"duplicate scorer {given!r}")
    return given


def _read_scorer(
    section: Fields, reader: Reader, context: ScorerContext, warnings: list[str]
) -> SampleScorer:
    """Return a scorer with the metric values of its section, or the default ones; with
    none for ``purpose: qa``, whose scores are stored but not aggregated."""
    purpose = section.one_of("purpose", "purpose", ("score", "qa"), "score")
    section.text("display_name")
    scorer = reader(section, context)
    given = section.values.get("metrics")
    values = read_metrics(section, warnings)
    if purpose == "qa":
        if given:
            warnings.append(
                f"{section.place('metrics')}: a scorer with purpose: qa is not "
                "aggregated; its metrics are ignored"
            )
        return replace(scorer, metric_values=())
    if given is None:
        values = scorer.metric_values
    more = means_of([UNPARSABLE]) if UNPARSABLE in scorer.scores else ()
    return replace(scorer, metric_values=(*values, *more))


def _with_range(value: ScorerValue, scorer: SampleScorer) -> ScorerValue:
    """Return the value with the range of the score that it aggregates, or of the
    score's trials (``score.mean``), if it is known."""
    if value.field.partition(".")[0] not in scorer.shares:
        return value
    return replace(value, how=replace(value.how, span=SHARE, scale=scorer.scale))
