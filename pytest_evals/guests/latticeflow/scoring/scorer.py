"""Scorer of a task."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from pytest_evals.core.dialogue import Dialogue
from pytest_evals.core.metric import Span
from pytest_evals.guests.latticeflow.fields import Keys
from pytest_evals.guests.latticeflow.metrics.measures import ScorerValue
from pytest_evals.guests.latticeflow.prompts.output import SampleScore, SolverOutput
from pytest_evals.guests.latticeflow.solvers.model_client import Models, Sample

Scoring = Callable[[Sample, SolverOutput | None], Dialogue[SampleScore]]
"""A sample, and its output if there is a solver → its score. Raises ``DocumentError``
if it cannot be scored, which is different from a wrong answer."""


class ScorerContext(NamedTuple):
    """What reading a scorer needs besides its section."""

    models: Models
    has_solver: bool

    def answer(self, section: Keys) -> Callable[[Sample, SolverOutput | None], str]:
        """Return a function that returns the answer to score: ``value``, or else the
        assistant's last text."""
        value = section.optional_template("value")
        if not self.has_solver and value is None:
            message = "value is required in a task without a solver"
            section.problem("value", message, 'value: "{{ sample.answer }}"')

        def text(sample: Sample, output: SolverOutput | None) -> str:
            if value is not None:
                more = {} if output is None else {"solver_output": output}
                return value.render({"sample": sample, **more})
            assert output is not None, "without a solver there is a value"
            return output.answer

        return text

    def needs_solver(self, section: Keys) -> None:
        """Report a problem if the task has no solver."""
        if not self.has_solver:
            message = f"{section.values['type']} needs a task with a solver"
            section.problem("type", message)


def scoring(score: Callable[[Sample, SolverOutput | None], SampleScore]) -> Scoring:
    """Return the dialogue of a scorer that calls no model."""

    def dialogue(sample: Sample, output: SolverOutput | None) -> Dialogue[SampleScore]:
        yield from ()
        return score(sample, output)

    return dialogue


_NO_SCORES = scoring(lambda sample, output: SampleScore())


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleScorer:
    """One scorer of a task."""

    dialogue: Scoring = _NO_SCORES
    score_samples: Callable[[Any], Sequence[SampleScore]] | None = None
    """All samples → the score of each, if that is the only way."""
    target: Callable[[Sample], str] | None = None
    """Returns the reference answer, if it is known in advance."""
    shares: tuple[str, ...] = ()  # names of its scores with a range of 0 to 1
    others: tuple[str, ...] = ()  # names of other scores, if no snippet returns them
    scale: Span | None = None  # range from which they were converted
    metric_values: tuple[ScorerValue, ...] = ()
    """Those of its metrics; a reader sets default ones other than means of shares."""
    key: str = ""  # its name in scores
    models: frozenset[str] = frozenset()  # keys of the models that it calls

    @property
    def scores(self) -> tuple[str, ...]:
        """Names of its scores; empty if a snippet returns them."""
        return (*self.shares, *self.others)


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
