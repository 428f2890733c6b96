"""What a scorer is, whatever its type."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from pytest_evals.core.dialogue import Dialogue
from pytest_evals.core.metric import Span
from pytest_evals.dialects.latticeflow.metrics.trial_aggregation import (
    Aggregator,
    aggregated,
)
from pytest_evals.dialects.latticeflow.prompts.output import SolverOutput
from pytest_evals.dialects.latticeflow.prompts.scores import SampleScore
from pytest_evals.dialects.latticeflow.solvers.solver import Sample
from pytest_evals.dialects.latticeflow.task_metrics import Number

Purpose = Literal["score", "qa"]
Scoring = Callable[[Sample, SolverOutput | None], Dialogue[SampleScore]]
"""A sample, and its output where there is a solver, to what is said of it. Raises
``DocumentError`` where nothing can be said, which is no wrong answer."""
AllSamples = Callable[[Any], Sequence[SampleScore]]
"""All samples to what is said of each."""
Target = Callable[[Sample], str]
"""A sample to what its answer is held against. Raises ``DocumentError`` as scoring
does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScorerParts:
    """What the types of scorers differ in.

    Args:
        dialogue: Scores one sample; ``None`` if the section cannot be used.
        over_all: Scores all samples at once, where only that can be done.
        scores: Names of its scores; none where a snippet gives them.
        numbers: What its values add up to if its section says nothing of metrics, with
            an empty key; none where that hangs on its type.
        target: What an answer is held against, where that can be said beforehand.
        scale: The values that its scores are converted from.
    """

    dialogue: Scoring | None = None
    over_all: AllSamples | None = None
    scores: tuple[str, ...] = ()
    numbers: tuple[Number, ...] = ()
    target: Target | None = None
    scale: Span | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleScorer:
    """One scorer of a task.

    Args:
        key: Its name in ``scores``.
        purpose: Whether its values are added up; those of ``qa`` are kept only.
        dialogue: Scores one sample.
        over_all: Scores all samples at once, where only that can be done.
        target: What an answer is held against, where that can be said beforehand.
        scores: Names of its scores; none where a snippet gives them.
        models: Keys of the models that it asks.
        numbers: What its values add up to; none where the purpose is ``qa``.
    """

    key: str
    purpose: Purpose
    dialogue: Scoring
    over_all: AllSamples | None = None
    target: Target | None = None
    scores: tuple[str, ...] = ()
    models: frozenset[str] = frozenset()
    numbers: tuple[Number, ...] = ()

    def of_all(self, samples: Any) -> Sequence[SampleScore]:
        """What is said of each sample, by a scorer that sees all of them at once.

        Raises:
            DocumentError: Nothing can be said.
        """
        assert self.over_all is not None, "asked only where all samples are wanted"
        return self.over_all(samples)


@dataclass(frozen=True, slots=True, kw_only=True)
class Trials:
    """How often each sample is solved.

    Args:
        n: Goes, 2 or more.
        aggregators: How scores are added up over them.
    """

    n: int
    aggregators: tuple[Aggregator, ...] = ()

    def aggregate(self, scores: Sequence[SampleScore]) -> SampleScore:
        """One score of those of all goes.

        Raises:
            DocumentError: An aggregator cannot take the values.
        """
        values = aggregated([one.values for one in scores], self.aggregators)
        metadata = {"trials": [one.to_dict() for one in scores]}
        return SampleScore(values, metadata)


def variables_of(sample: Sample, output: SolverOutput | None) -> Mapping[str, Any]:
    """What prompts for judges may name."""
    if output is None:
        return {"sample": sample}
    found: dict[str, Any] = {
        "sample": sample,
        "solver_output": output,
        "trace": output.trace,
        "model_outputs": output.outputs,
        "messages": output.messages,
        "model_output": output.output,
    }
    answer = output.trace.get_last_assistant_text()
    # What is documented as the input is the answer, by its own example.
    return found if answer is None else {**found, "input_prompt": answer}
