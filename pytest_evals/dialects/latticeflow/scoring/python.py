"""Scorers in Python: ``compute_scores`` for each sample, or for all at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from typing import Any

from pytest_evals.core.dialogue import Dialogue
from pytest_evals.dialects.latticeflow.prompts.output import SolverOutput
from pytest_evals.dialects.latticeflow.prompts.scores import SampleScore
from pytest_evals.dialects.latticeflow.scoring.scorer import ScorerParts
from pytest_evals.dialects.latticeflow.snippets.return_values import as_json
from pytest_evals.dialects.latticeflow.snippets.snippet import (
    SnippetFunction,
    snippet_of,
)
from pytest_evals.dialects.latticeflow.solvers.solver import Sample
from pytest_evals.dialects.latticeflow.solvers.template_fields import Lines
from pytest_evals.dialects.yaml_reader.section import Section

_SNIPPET, _FUNCTION = "compute_scores_snippet", "compute_scores"


def read_python_scorer(
    section: Section, _lines: Lines, _has_solver: bool
) -> ScorerParts:
    """``python``: ``compute_scores(sample, solver_output)``, or of the sample alone."""
    function = snippet_of(section, _SNIPPET, _FUNCTION)
    if function is None:
        return ScorerParts()

    def dialogue(sample: Sample, output: SolverOutput | None) -> Dialogue[SampleScore]:
        yield from ()
        # Whatever it does to them, other scorers see what was there.
        given = sample if isinstance(sample, dict) else dict(sample)
        own, solved = deepcopy(given), deepcopy(output)
        arguments = _arguments(function, own, solved)
        return function.read(lambda found: _score(found, function), *arguments)

    return ScorerParts(dialogue=dialogue)


def _arguments(
    function: SnippetFunction, sample: Sample, output: SolverOutput | None
) -> tuple[Any, ...]:
    """Arguments by the names of the parameters, or in their usual order."""
    known: dict[str, Any] = {"sample": sample}
    if output is not None:
        asked = {"messages": output.messages[:-1]}
        known["solver_output"] = output
        known |= {"model_input": asked, "model_output": output.output}
    parameters = function.parameters()
    if all(name in known for name in parameters):
        return tuple(known[name] for name in parameters)
    return (sample,) if output is None or len(parameters) == 1 else (sample, output)


def read_all_samples(section: Section, _lines: Lines, has_solver: bool) -> ScorerParts:
    """``python_all_samples``: ``compute_scores(samples)``, an entry for each."""
    if has_solver:
        what = "python_all_samples sees samples only, and this task has a solver"
        section.problem("type", what, "type: python")
    function = snippet_of(section, _SNIPPET, _FUNCTION)
    if function is None:
        return ScorerParts()

    def scores(samples: Any) -> Sequence[SampleScore]:
        n = _number_of(samples)

        def read(given: Any) -> Sequence[SampleScore]:
            if not isinstance(given, list | tuple):
                what = f"returns a list, not {given!r:.80}"
                raise function.refused(what, "return […]")
            if len(given) != n:
                what = f"returns {len(given)} scores for {n} samples"
                fix = "return an entry for each sample, in order"
                raise function.refused(what, fix)
            return [_score(one, function) for one in given]

        return function.read(read, deepcopy(samples))

    return ScorerParts(dialogue=_never, over_all=scores)


def _never(sample: Sample, output: SolverOutput | None) -> Dialogue[SampleScore]:
    raise AssertionError("a scorer over all samples scores none by itself")


def _number_of(samples: Any) -> int:
    """How many there are; of aligned datasets the first counts."""
    if isinstance(samples, Mapping):
        return len(next(iter(samples.values()), ()))
    return len(samples)


def _score(given: Any, function: SnippetFunction) -> SampleScore:
    """What a snippet returned: values, or ``scores`` with ``metadata`` beside.

    Raises:
        DocumentError: It returned something else.
    """
    if isinstance(given, SampleScore):
        given = {"scores": given.values, "metadata": given.metadata}
    if not isinstance(given, Mapping):
        fix = 'return {"is_correct": True}'
        raise function.refused(f"returns scores by name, not {given!r:.80}", fix)
    metadata: Any = {}
    structured = "scores" in given and set(given) <= {"scores", "metadata"}
    if structured and isinstance(given["scores"], Mapping):
        given, metadata = given["scores"], given.get("metadata") or {}
    if not isinstance(metadata, Mapping):
        raise function.refused(f"returns metadata {metadata!r:.80}", "a mapping")
    for name in given:
        if not isinstance(name, str):
            what = f"returns a score called {name!r:.80}, which is no text"
            raise function.refused(what)
    try:
        return SampleScore(
            {name: as_json(one) for name, one in given.items()}, as_json(metadata, str)
        )
    except ValueError as error:
        what = f"returns what JSON does not have: {error}"
        raise function.refused(what, "numbers, texts, true and false") from None
