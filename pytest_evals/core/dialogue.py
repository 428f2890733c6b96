"""What is asked about a document after its first answers: by judges, and by solvers
that talk with a model."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from pytest_evals.core.request import Model, Request, Response
from pytest_evals.errors import DocumentError

__all__ = ["JUDGE", "FollowUp", "ModelSource", "Turn"]

JUDGE = ""
"""As a :data:`ModelSource`: the session's judge, of ``--evals-judge``."""

ModelSource = str | Callable[[], Model]
"""Where a further model of a task comes from: a spec as for ``--model``, :data:`JUDGE`,
or a function that opens it. Equal sources are one model, opened once."""


class FollowUp(NamedTuple):
    """One more request about a document.

    Args:
        model: Empty for the model that is tested, else a name in the task's ``models``.
        request: What is asked.
    """

    model: str
    request: Request


class Turn(NamedTuple):
    """A follow-up and what came back."""

    asked: FollowUp
    response: Response

    @property
    def text(self) -> str:
        """What was written.

        Raises:
            DocumentError: There is no answer.
        """
        if self.response.error:
            raise DocumentError(self.response.error)
        return self.response.text
