"""Python scorers: ``compute_scores`` for each sample, or for all at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from typing import Any

from pytest_evals.core.dialogue import Dialogue
from pytest_evals.guests.latticeflow.fields import Fields
from pytest_evals.guests.latticeflow.prompts.output import SampleScore, SolverOutput
from pytest_evals.guests.latticeflow.scoring.scorer import (
    SampleScorer,
    ScorerContext,
    scoring,
)
from pytest_evals.guests.latticeflow.snippets import (
    SnippetFunction,
    snippet_of,
    to_json,
)
from pytest_evals.guests.latticeflow.solvers.model_client import Sample

_SNIPPET, _FUNCTION = "compute_scores_snippet", "compute_scores"


def read_python_scorer(section: Fields, task: ScorerContext) -> SampleScorer:
    """Return a ``python`` scorer: ``compute_scores(sample, solver_output)``, or of the
    sample only."""
    function = snippet_of(section, _SNIPPET, _FUNCTION)

    def score(sample: Sample, output: SolverOutput | None) -> SampleScore:
        # The snippet may modify its arguments; other scorers need the originals.
        own = deepcopy(sample if isinstance(sample, dict) else dict(sample))
        arguments = _arguments(function, own, deepcopy(output))
        return function.read(lambda returned: _score(returned, function), *arguments)

    return SampleScorer(dialogue=scoring(score))


def _arguments(
    function: SnippetFunction, sample: Sample, output: SolverOutput | None
) -> tuple[Any, ...]:
    """Return the arguments by parameter name, or else in their usual order."""
    known: dict[str, Any] = {"sample": sample}
    if output is not None:
        model_input = {"messages": output.messages[:-1]}
        known["solver_output"] = output
        known |= {"model_input": model_input, "model_output": output.output}
    parameters = function.parameters()
    if all(name in known for name in parameters):
        return tuple(known[name] for name in parameters)
    return (sample,) if output is None or len(parameters) == 1 else (sample, output)


def read_all_samples(section: Fields, task: ScorerContext) -> SampleScorer:
    """Return a ``python_all_samples`` scorer: one score for each sample."""
    if task.has_solver:
        what = "python_all_samples cannot be used in a task with a solver"
        section.problem("type", what, "type: python")
    function = snippet_of(section, _SNIPPET, _FUNCTION)

    def scores(samples: Any) -> Sequence[SampleScore]:
        # Of aligned datasets, the first one counts.
        is_aligned = isinstance(samples, Mapping)
        first = next(iter(samples.values()), ()) if is_aligned else samples

        def read(value: Any) -> Sequence[SampleScore]:
            if not isinstance(value, list | tuple):
                what = f"must return a list, not {value!r:.80}"
                raise function.invalid_return(what, "return […]")
            if len(value) != len(first):
                n = len(first)
                what = f"must return {n} scores, one per sample, not {len(value)}"
                fix = "return an entry for each sample, in order"
                raise function.invalid_return(what, fix)
            return [_score(one, function) for one in value]

        return function.read(read, deepcopy(samples))

    return SampleScorer(dialogue=_no_dialogue, score_samples=scores)


def _no_dialogue(sample: Sample, output: SolverOutput | None) -> Dialogue[SampleScore]:
    raise AssertionError("a scorer of all samples has no dialogue per sample")


def _score(value: Any, function: SnippetFunction) -> SampleScore:
    """Return the score of a snippet: values, or ``scores`` with ``metadata``."""
    if isinstance(value, SampleScore):
        value = {"scores": value.values, "metadata": value.metadata}
    if not isinstance(value, Mapping):
        what = f"must return scores by name, not {value!r:.80}"
        raise function.invalid_return(what, 'return {"is_correct": True}')
    metadata: Any = {}
    structured = "scores" in value and set(value) <= {"scores", "metadata"}
    if structured and isinstance(value["scores"], Mapping):
        value, metadata = value["scores"], value.get("metadata") or {}
    if not isinstance(metadata, Mapping):
        what = f"must return a mapping as metadata, not {metadata!r:.80}"
        raise function.invalid_return(what, "a mapping")
    for name in value:
        if not isinstance(name, str):
            what = f"must return strings as names of scores, not {name!r:.80}"
            raise function.invalid_return(what)
    try:
        values = {name: to_json(one) for name, one in value.items()}
        return SampleScore(values, to_json(metadata, str))
    except ValueError as error:
        what, fix = f"must return JSON values, not {error}", "return numbers, strings"
        raise function.invalid_return(what, f"{fix} and booleans") from None
