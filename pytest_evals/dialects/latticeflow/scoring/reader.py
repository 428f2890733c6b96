"""From a task's ``scorers`` and ``trials`` to what runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from pytest_evals.core.metric import SHARE
from pytest_evals.dialects.latticeflow.header import check_key
from pytest_evals.dialects.latticeflow.scoring.function_calls import read_coverage
from pytest_evals.dialects.latticeflow.scoring.judges import (
    read_classifier,
    read_grader,
    read_labeler,
)
from pytest_evals.dialects.latticeflow.scoring.lighteval_metric import read_named
from pytest_evals.dialects.latticeflow.scoring.metrics import (
    default_numbers,
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
)
from pytest_evals.dialects.latticeflow.solvers.solver_model import SolverChain
from pytest_evals.dialects.latticeflow.solvers.template_fields import Lines
from pytest_evals.dialects.latticeflow.task_metrics import Number
from pytest_evals.dialects.yaml_reader.section import Section


class ReadScorers(NamedTuple):
    """The scorers of a task, and what is odd about them."""

    scorers: tuple[SampleScorer, ...]
    warnings: tuple[str, ...]


def read_scorers(
    sections: Sequence[Section], lines: Lines, *, has_solver: bool
) -> ReadScorers:
    """The scorers of a task; what is wrong with them are problems of their sections.

    Args:
        sections: Entries of ``scorers``, with everything put in.
        lines: How models are asked.
        has_solver: Whether there is an output to score.
    """
    found: dict[str, SampleScorer] = {}
    warnings: list[str] = []
    for section in sections:
        kind = section.one_of("type", "scorer", sorted(_READERS), "")
        if not kind:
            continue
        key = _key(section, kind, found)
        scorer = _read(section, _Context(kind, key, lines, has_solver, warnings))
        if scorer is not None:
            found[key] = scorer
    return ReadScorers(tuple(found.values()), tuple(warnings))


def _key(section: Section, kind: str, taken: dict[str, SampleScorer]) -> str:
    """Its key, or its type; numbered where that is taken."""
    given = section.name("key")
    if given is None:
        names = [kind, *(f"{kind}_{n}" for n in range(2, len(taken) + 3))]
        return next(name for name in names if name not in taken)
    check_key(section, "key", "a scorer")
    if given in taken:
        section.problem("key", f"there is another scorer called {given!r}")
    return given


class _Context(NamedTuple):
    kind: str
    key: str
    lines: Lines
    has_solver: bool
    warnings: list[str]


def _read(section: Section, context: _Context) -> SampleScorer | None:
    asked: set[str] = set()

    def noted(key: str) -> SolverChain:
        asked.add(key)
        return context.lines(key)

    purpose = section.one_of("purpose", "purpose", ("score", "qa"), "score")
    section.text("display_name")
    parts = _READERS[context.kind](section, noted, context.has_solver)
    numbers = _numbers(section, context, purpose, parts)
    section.close(f"a scorer of type {context.kind}")
    if parts.dialogue is None:
        return None
    return SampleScorer(
        key=context.key,
        purpose="qa" if purpose == "qa" else "score",
        dialogue=parts.dialogue,
        over_all=parts.over_all,
        target=parts.target,
        scores=parts.scores,
        models=frozenset(asked),
        numbers=tuple(_ranged(one, context.kind, parts) for one in numbers),
    )


def _ranged(number: Number, kind: str, parts: ScorerParts) -> Number:
    """A number with the range of the score that it reads, or of a score's trials
    (``score.mean``), where that is known."""
    score = number.field.partition(".")[0]
    shares = _SHARES.get(kind, ())
    if score not in (parts.scores if shares is None else shares):
        return number
    how, scale = number.how, parts.scale
    return replace(number, how=lambda name: replace(how(name), span=SHARE, scale=scale))


def _numbers(
    section: Section, context: _Context, purpose: Purpose | str, parts: ScorerParts
) -> tuple[Number, ...]:
    given = section.values.get("metrics")
    numbers = read_metrics(section, context.key, context.warnings)
    if purpose == "qa":
        if given:
            place = section.place("metrics")
            what = "a scorer with purpose: qa adds nothing up; its metrics are left out"
            context.warnings.append(f"{place}: {what}")
        return ()
    if given is None and parts.numbers:
        return tuple(replace(one, scorer=context.key) for one in parts.numbers)
    if given is None:
        return default_numbers(context.kind, context.key, parts.scores)
    return numbers


_SHARES: Mapping[str, tuple[str, ...] | None] = {
    "bleu": None,
    "function_call_coverage": ("all_required_calls_made", "required_calls_coverage"),
    "model_as_a_judge_classifier": None,
    "model_as_a_judge_scorer": None,
    "rag_checker": None,
    "string_equals": None,
    "string_equals_mcqa": None,
}
"""The scores of each type that lie between 0 and 1; ``None`` for all."""
Reader = Callable[[Section, Lines, bool], ScorerParts]
"""A section, how models are asked, and whether there is a solver."""
_READERS: dict[str, Reader] = {
    "bleu": read_bleu,
    "function_call_coverage": read_coverage,
    "labeler_via_model": read_labeler,
    "lighteval": read_named,
    "model_as_a_judge_classifier": read_classifier,
    "model_as_a_judge_scorer": read_grader,
    "python": read_python_scorer,
    "python_all_samples": read_all_samples,
    "rag_checker": read_rag,
    "string_equals": read_equals,
    "string_equals_mcqa": read_mcqa,
}
