"""Tasks whose samples all send the same, and the refusal of such samples."""

from __future__ import annotations

import json
from collections.abc import Callable

from pytest_evals.core.dialogue import Ask
from pytest_evals.core.request import Response
from pytest_evals.core.task import Asked
from pytest_evals.data.calls import FieldError
from pytest_evals.dialects.latticeflow.recipe import SampleRecipe
from pytest_evals.errors import DocumentError, Place
from pytest_evals.prompts.identical_prompts import ALLOWED, IdenticalPrompts

_MOST_ROUNDS = 20
_REPLY = Response(
    text=json.dumps({"choices": [{"message": {"role": "assistant", "content": "?"}}]})
)
"""What every model is taken to answer, in the form that all of them can have."""


def refusing_identical(
    recipe: SampleRecipe, total: Callable[[], int], place: Place
) -> Callable[[int], Asked]:
    """``recipe.ask``, which fails for each sample if all of them send the same.

    Args:
        recipe: The task.
        total: Number of samples.
        place: Of the task.
    """
    solver = recipe.solver
    if solver is None or not solver.is_declared or recipe.earlier is not None:
        return recipe.ask  # what is sent is known only by running code
    identical = IdenticalPrompts(lambda index: _sent(recipe, index), total)

    def ask(index: int) -> Asked:
        asked = recipe.ask(index)
        if identical.n:
            fix = f"correct the template; if it is meant: tags: [{ALLOWED}]"
            raise FieldError(identical.text, place, fix)
        return asked

    return ask


def _sent(recipe: SampleRecipe, index: int) -> list[Ask]:
    """All that a solver asks about a sample, if it always gets the same reply."""
    assert recipe.solver is not None
    dialogue = recipe.solver.solver.dialogue(recipe.sample(index), 0)
    sent: list[Ask] = []
    try:
        asked = next(dialogue)
        for _ in range(_MOST_ROUNDS):
            sent += asked
            asked = dialogue.send([_REPLY] * len(asked))
    except StopIteration:
        pass
    except DocumentError:
        if not sent:
            raise
    finally:
        dialogue.close()
    return sent
