"""Why a gate cannot be judged; it never leaves this folder, and becomes a verdict."""

from __future__ import annotations

from pytest_evals.core.gate import Outcome

__all__ = ["UnsoundError"]


class UnsoundError(Exception):
    """There is nothing sound to judge.

    Args:
        why: In words that a verdict can show.
        outcome: What the verdict is.
    """

    def __init__(self, why: str, outcome: Outcome = Outcome.INVALID) -> None:
        """Keep both."""
        super().__init__(why)
        self.why = why
        self.outcome = outcome

    def of(self, task: str) -> UnsoundError:
        """The same, with the name of the task that it is about in front."""
        return UnsoundError(f"{task}: {self.why}", self.outcome)
