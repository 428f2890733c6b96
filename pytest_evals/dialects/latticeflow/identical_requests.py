"""Refuses samples of tasks in which all samples send the same request."""

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
"""Reply assumed for every model, in a form that all adapters can parse."""


def refuse_identical(
    recipe: SampleRecipe, total: Callable[[], int], place: Place
) -> Callable[[int], Asked]:
    """Return ``recipe.ask``, which fails if all samples send the same requests."""
    solver = recipe.solver
    if solver is None or not solver.is_declared or recipe.earlier is not None:
        return recipe.ask  # the requests are known only by running the user's code
    identical = IdenticalPrompts(lambda index: _requests(recipe, index), total)

    def ask(index: int) -> Asked:
        round_ = recipe.ask(index)
        if identical.n:
            fix = f"correct the template; if it is intended: tags: [{ALLOWED}]"
            raise FieldError(identical.text, place, fix)
        return round_

    return ask


def _requests(recipe: SampleRecipe, index: int) -> list[Ask]:
    """Return all requests of a solver for a sample, if every reply is the same."""
    assert recipe.solver is not None
    dialogue = recipe.solver.solver.dialogue(recipe.sample(index), 0)
    requests: list[Ask] = []
    try:
        round_ = next(dialogue)
        for _ in range(_MOST_ROUNDS):
            requests += round_
            round_ = dialogue.send([_REPLY] * len(round_))
    except StopIteration:
        pass
    except DocumentError:
        if not requests:
            raise
    finally:
        dialogue.close()
    return requests
