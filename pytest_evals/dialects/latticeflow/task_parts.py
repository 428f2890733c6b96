"""Parts of a task, and the task that is built from them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from pytest_evals.core.dialogue import JUDGE, ModelSource
from pytest_evals.core.task import MOST_REPEATS, Task
from pytest_evals.dialects.latticeflow.actions import Action
from pytest_evals.dialects.latticeflow.metrics.trial_aggregation import (
    FUNCTIONS,
    Aggregator,
)
from pytest_evals.dialects.latticeflow.parameters import ParameterValue
from pytest_evals.dialects.latticeflow.policies import PolicySubject
from pytest_evals.dialects.latticeflow.recipe import SampleRecipe
from pytest_evals.dialects.latticeflow.sample_rows import SampleRows, Subsample
from pytest_evals.dialects.latticeflow.scoring.scorer import SampleScorer, Trials
from pytest_evals.dialects.latticeflow.solvers.model_client import ModelClient
from pytest_evals.dialects.latticeflow.solvers.reader import SolverParts
from pytest_evals.dialects.latticeflow.solvers.template_fields import required_text
from pytest_evals.dialects.latticeflow.suite import EntitySuite
from pytest_evals.dialects.yaml_reader.section import Section
from pytest_evals.errors import Place, Problem, TaskFileError


def _no_earlier(key: str, place: Place) -> AssembledTask:
    what = f"unknown result {key!r}: this task is run on its own"
    fix = "name a specification of the same evaluation and run the run file"
    raise TaskFileError([Problem(what, place, fix)])


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskUse:
    """How a task is used: on its own, or by a specification of an evaluation.

    Args:
        model: Key of the tested model; empty if it is not set.
        subsample: Samples to run; ``None`` for all.
        n_trials: Trials per sample; 0 for the task's own number.
        evaluation: Key of the evaluation, or an empty string.
        earlier: Returns another task of the evaluation, by the key of its specification
            and the place of the reference.
    """

    name: str
    place: Place
    config: Mapping[str, ParameterValue] = field(default_factory=dict)
    model: str = ""
    subsample: Subsample | None = None
    n_trials: int = 0
    evaluation: str = ""
    earlier: Callable[[str, Place], AssembledTask] = _no_earlier


@dataclass(frozen=True, slots=True, kw_only=True)
class AssembledTask:
    """A task, the metric values that policies can refer to, and the recipe and rows
    that a later task can use."""

    task: Task
    subjects: tuple[PolicySubject, ...]
    recipe: SampleRecipe | None = None
    rows: SampleRows | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskParts:
    """Parts of a task with samples."""

    datasets: Mapping[str, str]
    earlier: AssembledTask | None
    trials: Trials | None
    models: TaskModels
    solver: SolverParts | None
    scorers: Sequence[SampleScorer]
    actions: Sequence[Action]

    @property
    def sources(self) -> Mapping[str, ModelSource]:
        """Source of each model that is called, by its key."""
        earlier = self.earlier.task.models if self.earlier is not None else {}
        return {**earlier, **self.models.sources}

    @property
    def asks_tested(self) -> bool:
        """Whether the tested model is called."""
        model_keys = frozenset[str]().union(*(one.models for one in self.scorers))
        model_keys |= self.solver.models if self.solver is not None else frozenset()
        if any(not self.models.client(key).name for key in model_keys):
            return True
        return self.earlier is not None and self.earlier.task.asks_model


@dataclass(slots=True, kw_only=True)
class TaskModels:
    """Key → client of a model.

    ``--model`` replaces the tested model of a file. The session's judge replaces any
    other model that no file describes and, if set, models of providers.

    Args:
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


def read_trials(section: Section) -> Trials:
    """Return the trials of a task; errors are added to the problems of the section."""
    if section.values.get("num_trials") is None:
        section.problem("num_trials", "num_trials is missing", "num_trials: 3")
    n = section.whole("num_trials", 2, 2, MOST_REPEATS)
    aggregators = [_read(entry) for entry in section.entries("score_aggregators")]
    section.close("trials")
    return Trials(n=n, aggregators=tuple(one for one in aggregators if one is not None))


def _read(entry: Section) -> Aggregator | None:
    score = required_text(entry, "score_name", "is_correct")
    inner = entry.section("aggregator")
    if inner is None:
        if entry.values.get("aggregator") is None:
            fix = "aggregator: {function: mean}"
            entry.problem("aggregator", "aggregator is missing", fix)
        entry.close("an entry of score_aggregators")
        return None
    function = inner.one_of("function", "function", FUNCTIONS, "")
    needs_k = function.startswith("pass")
    if needs_k and inner.values.get("k") is None:
        inner.problem("k", f"{function} needs k", "k: 3")
    if not needs_k:
        inner.refuse("k", f"{function} does not use it")
    k = inner.whole("k", 1, 1) if needs_k else 1
    name = inner.text("score_name")
    inner.close("an aggregator")
    entry.close("an entry of score_aggregators")
    return Aggregator(score=score, function=function, k=k, name=name)
