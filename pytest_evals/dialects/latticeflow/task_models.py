"""The models of a task: what each key in its files stands for in this session."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from pytest_evals.core.dialogue import JUDGE, ModelSource
from pytest_evals.dialects.latticeflow.solvers.solver_model import SolverChain
from pytest_evals.dialects.latticeflow.suite import EntitySuite
from pytest_evals.errors import Place


@dataclass(slots=True, kw_only=True)
class AskedModels:
    """Key → line to a model.

    The model of ``--model`` stands for the one that a file names to be tested. The
    session's judge stands for any other that no file describes; and, where there is
    one, for those of providers.

    Args:
        suite: Where models are looked up.
        tested: Key of the model that is tested, empty if no file names it.
        place: Where the task stands.
        temperature: Of models that say nothing of it.
    """

    suite: EntitySuite
    tested: str
    place: Place
    temperature: float = 0.0
    sources: dict[str, ModelSource] = field(default_factory=dict)
    """``Ask.model`` → where the model comes from, for each model that was requested."""

    def line(self, key: str) -> SolverChain:
        """The line to a model.

        Args:
            key: Empty for the one that is tested.

        Raises:
            TaskFileError: Its file cannot be used.
        """
        options = self.suite.options
        own = SolverChain(temperature=self.temperature, gen_kwargs=options.gen_kwargs)
        if not key and (options.has_model or not self.tested):
            return own
        name = key or self.tested
        model = self.suite.model(name, self.place)
        if model is None and not key:
            return own
        if model is None or (key and not model.native and options.has_judge):
            self.sources[name] = JUDGE
            return SolverChain(name=name)
        self.sources[name] = model.source
        return replace(
            SolverChain() if key else own,
            name=name,
            native=model.native,
            takes_sample=model.takes_sample,
        )
