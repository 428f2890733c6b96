"""Reads a task's ``scorers``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from pytest_evals.core.metric import SHARE
from pytest_evals.dialects.latticeflow.header import check_key
from pytest_evals.dialects.latticeflow.metric_values import ScorerValue
from pytest_evals.dialects.latticeflow.scoring.function_calls import read_coverage
from pytest_evals.dialects.latticeflow.scoring.judges import (
    read_classifier,
    read_grader,
    read_labeler,
)
from pytest_evals.dialects.latticeflow.scoring.lighteval_metric import read_lighteval
from pytest_evals.dialects.latticeflow.scoring.metrics import (
    default_metric_values,
    read_metrics,
)
from pytest_evals.dialects.latticeflow.scoring.python import (
    read_all_samples,
    read_python_scorer,
)
from pytest_evals.dialects.latticeflow.scoring.rag import read_rag
from pytest_evals.dialects.latticeflow.scoring.scorer import (
    Purpose,
    SampleScorer,
    ScorerParts,
)
from pytest_evals.dialects.latticeflow.scoring.strings import (
    read_bleu,
    read_equals,
    read_mcqa,
    read_parsed_mcqa,
)
from pytest_evals.dialects.latticeflow.solvers.model_client import ModelClient
from pytest_evals.dialects.latticeflow.solvers.template_fields import Models
from pytest_evals.dialects.yaml_reader.section import Section
from pytest_evals.scorers.choice_answers import UNPARSABLE


class ReadScorers(NamedTuple):
    """The scorers of a task, and warnings about them."""

    scorers: tuple[SampleScorer, ...]
    warnings: tuple[str, ...]


def read_scorers(
    sections: Sequence[Section],
    models: Models,
    *,
    has_solver: bool,
    parses_choices: bool = False,
) -> ReadScorers:
    """Return the scorers of a task; errors are added to the problems of their sections.

    Args:
        has_solver: Whether there is an output to score.
        parses_choices: Whether the choice is extracted from answers to multiple-choice
            questions; otherwise their first character is the choice.
    """
    readers = dict(_READERS)
    if parses_choices:
        readers[MCQA] = read_parsed_mcqa
    scorers: dict[str, SampleScorer] = {}
    warnings: list[str] = []
    for section in sections:
        kind = section.one_of("type", "scorer", sorted(_READERS), "")
        if not kind:
            continue
        key = _key(section, kind, scorers)
        context = _Context(kind, key, models, has_solver, warnings, readers[kind])
        scorer = _read(section, context)
        if scorer is not None:
            scorers[key] = scorer
    return ReadScorers(tuple(scorers.values()), tuple(warnings))


def _key(section: Section, kind: str, taken: dict[str, SampleScorer]) -> str:
    """Return the scorer's key, or its type with a number if it is taken."""
    given = section.name("key")
    if given is None:
        names = [kind, *(f"{kind}_{n}" for n in range(2, len(taken) + 3))]
        return next(name for name in names if name not in taken)
    check_key(section, "a scorer")
    if given in taken:
        section.problem("key", f"duplicate scorer {given!r}")
    return given


class _Context(NamedTuple):
    kind: str
    key: str
    models: Models
    has_solver: bool
    warnings: list[str]
    reader: Reader


def _read(section: Section, context: _Context) -> SampleScorer | None:
    model_keys: set[str] = set()

    def record_model(key: str) -> ModelClient:
        model_keys.add(key)
        return context.models(key)

    purpose = section.one_of("purpose", "purpose", ("score", "qa"), "score")
    section.text("display_name")
    parts = context.reader(section, record_model, context.has_solver)
    metric_values = _numbers(section, context, purpose, parts)
    section.close(f"a scorer of type {context.kind}")
    if parts.dialogue is None:
        return None
    return SampleScorer(
        key=context.key,
        purpose="qa" if purpose == "qa" else "score",
        dialogue=parts.dialogue,
        score_samples=parts.score_samples,
        target=parts.target,
        scores=parts.scores,
        models=frozenset(model_keys),
        metric_values=tuple(
            _with_range(one, context.kind, parts) for one in metric_values
        ),
    )


def _with_range(number: ScorerValue, kind: str, parts: ScorerParts) -> ScorerValue:
    """Return the value with the range of the score that it aggregates, or of the
    score's trials (``score.mean``), if it is known."""
    score = number.field.partition(".")[0]
    shares = _SHARES.get(kind, ())
    if score not in (parts.scores if shares is None else shares):
        return number
    how, scale = number.how, parts.scale
    return replace(number, how=lambda name: replace(how(name), span=SHARE, scale=scale))


def _numbers(
    section: Section, context: _Context, purpose: Purpose | str, parts: ScorerParts
) -> tuple[ScorerValue, ...]:
    given = section.values.get("metrics")
    metric_values = read_metrics(section, context.key, context.warnings)
    if purpose == "qa":
        if given:
            place = section.place("metrics")
            what = (
                "a scorer with purpose: qa is not aggregated; its metrics are ignored"
            )
            context.warnings.append(f"{place}: {what}")
        return ()
    if given is None and parts.metric_values:
        return tuple(replace(one, scorer=context.key) for one in parts.metric_values)
    if given is None:
        metric_values = default_metric_values(context.kind, context.key, parts.scores)
    if UNPARSABLE in parts.scores:
        metric_values += default_metric_values("", context.key, (UNPARSABLE,))
    return metric_values


MCQA = "string_equals_mcqa"
"""Type of scorers for multiple-choice questions."""
_SHARES: Mapping[str, tuple[str, ...] | None] = {
    "bleu": None,
    "function_call_coverage": ("all_required_calls_made", "required_calls_coverage"),
    "model_as_a_judge_classifier": None,
    "model_as_a_judge_scorer": None,
    "rag_checker": None,
    "string_equals": None,
    MCQA: None,
}
"""Scores of each type with a range of 0 to 1; ``None`` for all."""
Reader = Callable[[Section, Models, bool], ScorerParts]
"""Section, models and whether there is a solver → scorer."""
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
