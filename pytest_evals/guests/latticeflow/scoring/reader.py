"""Reads a task's ``scorers``; ``_READERS`` has all types. Python scorers are here:
``compute_scores`` for each sample, or for all at once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from functools import partial
from typing import Any

from pytest_evals.core.metric import SHARE
from pytest_evals.guests.latticeflow.fields import Keys, unique_name
from pytest_evals.guests.latticeflow.metrics.reader import means_of, read_metrics
from pytest_evals.guests.latticeflow.prompts.output import SampleScore, SolverOutput
from pytest_evals.guests.latticeflow.scoring import comparisons, judges
from pytest_evals.guests.latticeflow.scoring.lighteval_metric import read_lighteval
from pytest_evals.guests.latticeflow.scoring.rag import read_rag
from pytest_evals.guests.latticeflow.scoring.scorer import (
    SampleScorer,
    ScorerContext,
    scoring,
)
from pytest_evals.guests.latticeflow.snippets import Snippet, snippet_of, to_json
from pytest_evals.guests.latticeflow.solvers.model_client import (
    Models,
    Sample,
    recording,
)
from pytest_evals.scorers.choice_answers import UNPARSABLE

_SNIPPET, _FUNCTION = "compute_scores_snippet", "compute_scores"


def read_python_scorer(section: Keys, task: ScorerContext) -> SampleScorer:
    """Return a ``python`` scorer: ``compute_scores(sample, solver_output)``, or of the
    sample only."""
    function = snippet_of(section, _SNIPPET, _FUNCTION)

    def score(sample: Sample, output: SolverOutput | None) -> SampleScore:
        # The snippet may modify its arguments; other scorers need the originals.
        row = deepcopy(sample if isinstance(sample, dict) else dict(sample))
        arguments = _arguments(function, row, deepcopy(output))
        return function.read(lambda returned: _score(returned, function), *arguments)

    return SampleScorer(dialogue=scoring(score))


def _arguments(
    function: Snippet, sample: Sample, output: SolverOutput | None
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


def read_all_samples(section: Keys, task: ScorerContext) -> SampleScorer:
    """Return a ``python_all_samples`` scorer: one score for each sample."""
    if task.has_solver:
        message = "python_all_samples cannot be used in a task with a solver"
        section.problem("type", message, "type: python")
    function = snippet_of(section, _SNIPPET, _FUNCTION)

    def scores(samples: Any) -> Sequence[SampleScore]:
        # Of aligned datasets, the first one counts.
        is_aligned = isinstance(samples, Mapping)
        first = next(iter(samples.values()), ()) if is_aligned else samples

        def read(value: Any) -> Sequence[SampleScore]:
            is_list, n = isinstance(value, list | tuple), len(first)
            function.expect(is_list, "a list", value, "return […]")
            fix = "return an entry for each sample, in order"
            noun = f"{n} scores, one per sample"
            function.expect(len(value) == n, noun, len(value), fix)
            return [_score(one, function) for one in value]

        return function.read(read, deepcopy(samples))

    return SampleScorer(score_samples=scores)


def _score(value: Any, function: Snippet) -> SampleScore:
    """Return the score of a snippet: values, or ``scores`` with ``metadata``."""
    if isinstance(value, SampleScore):
        value = {"scores": value.values, "metadata": value.metadata}
    is_named, fix = isinstance(value, Mapping), 'return {"is_correct": True}'
    function.expect(is_named, "scores by name", value, fix)
    metadata: Any = {}
    structured = "scores" in value and set(value) <= {"scores", "metadata"}
    if structured and isinstance(value["scores"], Mapping):
        value, metadata = value["scores"], value.get("metadata") or {}
    is_mapping = isinstance(metadata, Mapping)
    function.expect(is_mapping, "a mapping as metadata", metadata, "a mapping")
    for name in value:
        function.expect(isinstance(name, str), "strings as names of scores", name)
    try:
        values = {name: to_json(one) for name, one in value.items()}
        return SampleScore(values, to_json(metadata, str))
    except ValueError as error:
        message = f"must return JSON values, not {error}"
        fix = "return numbers, strings and booleans"
        raise function.invalid_return(message, fix) from None


MCQA = "string_equals_mcqa"  # Type of scorers for multiple-choice questions
Reader = Callable[[Keys, ScorerContext], SampleScorer]
"""Keys → scorer; errors are added to the problems of the section."""
_READERS: dict[str, Reader] = {
    "bleu": comparisons.read_bleu,
    "function_call_coverage": comparisons.read_coverage,
    "labeler_via_model": judges.read_labeler,
    "lighteval": read_lighteval,
    "model_as_a_judge_classifier": judges.read_classifier,
    "model_as_a_judge_scorer": judges.read_grader,
    "python": read_python_scorer,
    "python_all_samples": read_all_samples,
    "rag_checker": read_rag,
    "string_equals": comparisons.read_equals,
    MCQA: comparisons.read_mcqa,
}


def read_scorers(
    sections: Sequence[Keys],
    models: Models,
    warnings: list[str],
    *,
    has_solver: bool,
    parses_choices: bool = False,
) -> tuple[SampleScorer, ...]:
    """Return the scorers of a task. ``parses_choices``: whether the choice is extracted
    from answers to multiple-choice questions; otherwise their first character is it."""
    readers = dict(_READERS)
    if parses_choices:
        readers[MCQA] = partial(comparisons.read_mcqa, parses_choices=True)
    scorers: dict[str, SampleScorer] = {}
    for section in sections:
        kind = section.one_of("type", "scorer", tuple(readers), "")
        if not kind:
            continue
        given = section.name("key")
        key = given or unique_name(kind, scorers)
        if given is not None:
            section.check_key("a scorer")
            if key in scorers:
                section.problem("key", f"duplicate scorer {key!r}")
        called: set[str] = set()
        context = ScorerContext(recording(models, called), has_solver)
        scorer = _read_scorer(section, readers[kind], context, warnings)
        section.close(f"a scorer of type {kind}")
        values = []
        for one in scorer.metric_values:
            # Of a score or its trials (score.mean) whose range is known.
            if one.field.partition(".")[0] in scorer.shares:
                how = replace(one.how, span=SHARE, scale=scorer.scale)
                one = replace(one, how=how)
            values.append(replace(one, scorer=key))
        scorers[key] = replace(
            scorer, key=key, models=frozenset(called), metric_values=tuple(values)
        )
    return tuple(scorers.values())


def _read_scorer(
    section: Keys, reader: Reader, context: ScorerContext, warnings: list[str]
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
        values = scorer.metric_values or means_of(scorer.shares)
    elif UNPARSABLE in scorer.shares:
        values = (*values, *means_of([UNPARSABLE]))
    return replace(scorer, metric_values=values)
