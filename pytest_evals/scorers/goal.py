"""A judge of whole conversations: whether the user has achieved the goal."""

from __future__ import annotations

from collections.abc import Sequence

from pytest_evals.core.dialogue import JUDGE, ModelSource
from pytest_evals.errors import EvalsError
from pytest_evals.scorers.arguments import checked_arguments
from pytest_evals.scorers.rubric import RubricScorer, judge
from pytest_evals.scorers.templates import ScorerTemplate

GOAL_RUBRIC = (
    "By the end of the conversation, the user has achieved the goal. What the "
    "assistant only promised, offered or claimed does not count if its tool calls, or "
    "the lack of them, contradict it.\n\nGoal: {goal}\n\n"
    "Conversation:\n{{{{ transcript or answer }}}}\n\n"
    "Tool calls:\n{{{{ calls or 'none are known' }}}}"
)


@checked_arguments
def goal_reached(
    goal: str = "{{goal}}",
    *,
    model: ModelSource = JUDGE,
    models: Sequence[ModelSource] = (),
    repeats: int = 1,
    structured: bool = True,
    name: str = "goal_reached",
) -> RubricScorer:
    """Whether a conversation has reached its goal, by a judge that sees the whole
    transcript and all tool calls.

    Args:
        goal: A template over the case's row; by default the goal of the simulated
            user.
        model: Spec of the judging model; by default that of ``--evals-judge``.
        models: Specs of several judging models: a jury, as for :func:`judge`.
        repeats: How often one model is asked, as for :func:`judge`.
        structured: Whether the reply's schema is sent as ``response_format``.
    """
    if not goal.strip():
        raise EvalsError(f"goal_reached: goal is {goal!r}, not text")
    _ = ScorerTemplate(f"{name}: goal", goal)  # its errors name it
    return judge(
        GOAL_RUBRIC.format(goal=goal),
        model=model,
        models=models,
        repeats=repeats,
        structured=structured,
        name=name,
    )
