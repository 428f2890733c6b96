"""Resolves the model keys of a task's files to the models of this session."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from pytest_evals.core.dialogue import JUDGE, ModelSource
from pytest_evals.dialects.latticeflow.solvers.model_client import ModelClient
from pytest_evals.dialects.latticeflow.suite import EntitySuite
from pytest_evals.errors import Place


@dataclass(slots=True, kw_only=True)
class TaskModels:
    """Key → client of a model.

    ``--model`` replaces the tested model of a file. The session's judge replaces any
    other model that no file describes and, if set, models of providers.

    Args:
        suite: Looks up models.
        tested: Key of the tested model; empty if no file names it.
        temperature: Temperature of models that do not set one.
    """

    suite: EntitySuite
    tested: str
    place: Place
    temperature: float = 0.0
    sources: dict[str, ModelSource] = field(default_factory=dict)
    """``Ask.model`` → source of the model, for each model that was requested."""

    def client(self, key: str) -> ModelClient:
        """Return the client of a model.

        Args:
            key: Key of the model; empty for the tested model.

        Raises:
            TaskFileError: Its file is invalid.
        """
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
