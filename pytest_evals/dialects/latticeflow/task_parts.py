"""What a task is put together from, and what has come of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from pytest_evals.core.dialogue import ModelSource
from pytest_evals.core.task import Task
from pytest_evals.dialects.latticeflow.actions import Action
from pytest_evals.dialects.latticeflow.parameters import Given
from pytest_evals.dialects.latticeflow.policies import PolicySubject
from pytest_evals.dialects.latticeflow.recipe import SampleRecipe
from pytest_evals.dialects.latticeflow.sample_rows import SampleRows, Subsample
from pytest_evals.dialects.latticeflow.scoring.scorer import SampleScorer, Trials
from pytest_evals.dialects.latticeflow.solvers.reader import SolverParts
from pytest_evals.dialects.latticeflow.task_models import AskedModels
from pytest_evals.errors import Place, Problem, TaskFileError


def _no_earlier(key: str, place: Place) -> Assembled:
    what = f"there is no result {key!r}: this task is run by itself"
    fix = "name a specification of the same evaluation, and run the run file"
    raise TaskFileError([Problem(what, place, fix)])


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """How a task is used: by itself, or by a specification of an evaluation.

    Args:
        name: Of the task in the session.
        place: Where it is used.
        config: Values of its parameters.
        model: Key of the model that is tested, empty if none is said.
        subsample: Samples to take; ``None`` for all.
        n_trials: Goes at each sample, 0 for what the task says.
        evaluation: Key of the evaluation, empty if there is none.
        earlier: Gives another task of the evaluation by the key of its specification,
            and where that is named.
    """

    name: str
    place: Place
    config: Mapping[str, Given] = field(default_factory=dict)
    model: str = ""
    subsample: Subsample | None = None
    n_trials: int = 0
    evaluation: str = ""
    earlier: Callable[[str, Place], Assembled] = _no_earlier


@dataclass(frozen=True, slots=True, kw_only=True)
class Assembled:
    """A task, which numbers a policy may be about, and what a later task may look at,
    if anything."""

    task: Task
    subjects: tuple[PolicySubject, ...]
    recipe: SampleRecipe | None = None
    rows: SampleRows | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What a task over samples is put together from."""

    datasets: Mapping[str, str]
    earlier: Assembled | None
    trials: Trials | None
    models: AskedModels
    solver: SolverParts | None
    scorers: Sequence[SampleScorer]
    actions: Sequence[Action]

    @property
    def sources(self) -> Mapping[str, ModelSource]:
        """The models that are asked, by their keys."""
        earlier = self.earlier.task.models if self.earlier is not None else {}
        return {**earlier, **self.models.sources}

    @property
    def asks_tested(self) -> bool:
        """Whether the model that is tested is one of them."""
        asked = frozenset[str]().union(*(one.models for one in self.scorers))
        asked |= self.solver.models if self.solver is not None else frozenset()
        if any(not self.models.line(key).name for key in asked):
            return True
        return self.earlier is not None and self.earlier.task.asks_model
