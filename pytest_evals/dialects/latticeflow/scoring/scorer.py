"""Scorer interface, and trials."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from pytest_evals.core.dialogue import Dialogue
from pytest_evals.core.metric import Span
from pytest_evals.dialects.latticeflow.metric_values import ScorerValue
from pytest_evals.dialects.latticeflow.metrics.trial_aggregation import (
    Aggregator,
    aggregate_trials,
)
from pytest_evals.dialects.latticeflow.prompts.output import SolverOutput
from pytest_evals.dialects.latticeflow.prompts.scores import SampleScore
from pytest_evals.dialects.latticeflow.solvers.solver import Sample

Purpose = Literal["score", "qa"]
Scoring = Callable[[Sample, SolverOutput | None], Dialogue[SampleScore]]
"""A sample, and its output if there is a solver → its score. Raises ``DocumentError``
if it cannot be scored, which is different from a wrong answer."""
AllSamples = Callable[[Any], Sequence[SampleScore]]
"""All samples → the score of each."""
Target = Callable[[Sample], str]
"""A sample → its reference answer. Raises ``DocumentError``, as scoring does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScorerParts:
    """The parts in which types of scorers differ.

    Args:
        dialogue: Scores one sample; ``None`` if the section is invalid.
        score_samples: Scores all samples at once, if that is the only way.
        scores: Names of its scores; empty if a snippet returns them.
        metric_values: Default metric values, with an empty key; empty if they depend on
            the type.
        target: Returns the reference answer, if it is known in advance.
        scale: Range from which its scores are converted.
    """

    dialogue: Scoring | None = None
    score_samples: AllSamples | None = None
    scores: tuple[str, ...] = ()
    metric_values: tuple[ScorerValue, ...] = ()
    target: Target | None = None
    scale: Span | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleScorer:
    """One scorer of a task.

    Args:
        key: Its name in ``scores``.
        purpose: ``qa`` scores are stored but not aggregated.
        score_samples: Scores all samples at once, if that is the only way.
        target: Returns the reference answer, if it is known in advance.
        scores: Names of its scores; empty if a snippet returns them.
        models: Keys of the models that it calls.
        metric_values: Its metric values; empty if the purpose is ``qa``.
    """

    key: str
    purpose: Purpose
    dialogue: Scoring
    score_samples: AllSamples | None = None
    target: Target | None = None
    scores: tuple[str, ...] = ()
    models: frozenset[str] = frozenset()
    metric_values: tuple[ScorerValue, ...] = ()

    def score_all(self, samples: Any) -> Sequence[SampleScore]:
        """Return the score of each sample, from one call with all samples.

        Raises:
            DocumentError: The scorer fails.
        """
        assert self.score_samples is not None, "only called for scorers of all samples"
        return self.score_samples(samples)


@dataclass(frozen=True, slots=True, kw_only=True)
class Trials:
    """Repeated solving of each sample. ``n``: number of trials, at least 2."""

    n: int
    aggregators: tuple[Aggregator, ...] = ()

    def aggregate(self, scores: Sequence[SampleScore]) -> SampleScore:
        """Return the aggregate of all trials' scores.

        Raises:
            DocumentError: An aggregator cannot process the values.
        """
        values = aggregate_trials([one.values for one in scores], self.aggregators)
        metadata = {"trials": [one.to_dict() for one in scores]}
        return SampleScore(values, metadata)


def variables_of(sample: Sample, output: SolverOutput | None) -> Mapping[str, Any]:
    """Return the variables of judge prompts."""
    if output is None:
        return {"sample": sample}
    variables: dict[str, Any] = {
        "sample": sample,
        "solver_output": output,
        "trace": output.trace,
        "model_outputs": output.outputs,
        "messages": output.messages,
        "model_output": output.output,
    }
    answer = output.trace.get_last_assistant_text()
    # The documentation calls this the input, but its own example is the answer.
    return variables if answer is None else {**variables, "input_prompt": answer}
