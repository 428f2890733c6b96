"""The models that a task calls, and whether all samples send them the same."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from pytest_evals.core.dialogue import JUDGE, Ask, ModelSource
from pytest_evals.core.request import Response
from pytest_evals.core.task import Asked
from pytest_evals.data.calls import FieldError
from pytest_evals.errors import DocumentError, Place
from pytest_evals.guests.latticeflow.recipe import SampleRecipe
from pytest_evals.guests.latticeflow.solvers.model_client import ModelClient
from pytest_evals.guests.latticeflow.suite import EntitySuite
from pytest_evals.prompts.document_warnings import ALLOWED, IdenticalPrompts

_MOST_ROUNDS = 20
_REPLY = Response(
    text=json.dumps({"choices": [{"message": {"role": "assistant", "content": "?"}}]})
)
"""Reply assumed for every model, in a form that all adapters can parse."""


@dataclass(slots=True, kw_only=True)
class TaskModels:
    """Key → client of a model.

    ``--model`` replaces the tested model of a file. The session's judge replaces any
    other model that no file describes and, if set, models of providers.
    """

    suite: EntitySuite
    tested: str  # key of the tested model; empty if no file names it
    place: Place
    temperature: float = 0.0  # of models that do not set one
    sources: dict[str, ModelSource] = field(default_factory=dict)
    """``Ask.model`` → source of the model, for each model that was requested."""

    def client(self, key: str) -> ModelClient:
        """Return the client of a model; an empty key is the tested model. Raises
        ``TaskFileError`` if its file is invalid."""
        options = self.suite.options
        own = ModelClient(temperature=self.temperature, gen_kwargs=options.gen_kwargs)
        if not key and (options.has_model or not self.tested):
            return own
        name = key or self.tested
        model = self.suite.model(name, self.place)
        if model is None and not key:
            return own
        if model is None or (key and not model.native and options.has_judge):
            self.sources[name] = JUDGE
            return ModelClient(name=name)
        self.sources[name] = model.source
        return replace(
            ModelClient() if key else own,
            name=name,
            native=model.native,
            takes_sample=model.takes_sample,
        )


def refuse_identical(
    recipe: SampleRecipe, total: Callable[[], int], place: Place
) -> Callable[[int], Asked]:
    """Return ``recipe.ask``, which fails if all samples send the same requests."""
    solver = recipe.solver
    if solver is None or not solver.is_declared or recipe.earlier is not None:
        return recipe.ask  # the requests are known only by running the user's code
    identical = IdenticalPrompts(lambda index: _requests(recipe, index), total)

    def ask(index: int) -> Asked:
        asked = recipe.ask(index)
        if identical.n:
            fix = f"correct the template; if it is intended: tags: [{ALLOWED}]"
            raise FieldError(identical.text, place, fix)
        return asked

    return ask


def _requests(recipe: SampleRecipe, index: int) -> list[Ask]:
    """Return all requests of a solver for a sample, if every reply is the same."""
    assert recipe.solver is not None
    dialogue = recipe.solver.solve(recipe.sample(index), 0)
    requests: list[Ask] = []
    try:
        asks = next(dialogue)
        for _ in range(_MOST_ROUNDS):
            requests += asks
            asks = dialogue.send([_REPLY] * len(asks))
    except StopIteration:
        pass
    except DocumentError:
        if not requests:
            raise
    finally:
        dialogue.close()
    return requests
