"""Scorers of what an answer took: time, money and tokens. A stored answer keeps those
of its original."""

from __future__ import annotations

from collections.abc import Callable

from pytest_evals.core.case import Case
from pytest_evals.core.record import Score
from pytest_evals.core.request import Response
from pytest_evals.errors import EvalsError
from pytest_evals.scorers.answers import AnswerScorer
from pytest_evals.scorers.arguments import checked_arguments


@checked_arguments
def max_latency(most: float, *, name: str = "max_latency") -> AnswerScorer:
    """Whether an answer was complete within so many seconds."""
    return _scorer(name, most, "{:.2f} s", lambda one: one.latency_s or None)


@checked_arguments
def max_cost(most: float, *, name: str = "max_cost") -> AnswerScorer:
    """Whether an answer cost at most so much, in the currency of the model's prices."""
    return _scorer(name, most, "cost {:.6g}", lambda one: one.cost)


@checked_arguments
def max_output_tokens(most: int, *, name: str = "max_output_tokens") -> AnswerScorer:
    """Whether an answer has at most so many tokens."""
    return _scorer(name, most, "{:.0f} tokens", lambda one: one.n_tokens or None)


def _scorer(
    name: str, most: float, form: str, value: Callable[[Response], float | None]
) -> AnswerScorer:
    if most < 0:
        raise EvalsError(f"{name}: the limit is {most:g}, not 0 or more")

    def score(response: Response, case: Case) -> Score:
        taken = value(response)
        if taken is None:
            why = f"{name}: the model does not report it"
            return Score(answer=response.text, unscored=why)
        why = f"{form.format(taken)}, at most {form.format(most)}"
        within = taken <= most
        return Score(
            value=float(within), correct=within, answer=response.text, explanation=why
        )

    settings = {"at_most": {"metric": name, "most": most}}
    return AnswerScorer(name=name, score=score, settings=settings, reads_response=True)
