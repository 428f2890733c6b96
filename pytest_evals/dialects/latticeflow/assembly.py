"""From a task and the values of its parameters to a finished recipe."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from pytest_evals.core.metric import Estimate, Metric
from pytest_evals.core.task import Asked, Task
from pytest_evals.dialects.latticeflow.actions import read_actions
from pytest_evals.dialects.latticeflow.all_samples import seen_together
from pytest_evals.dialects.latticeflow.evaluation import JUDGE_KEY
from pytest_evals.dialects.latticeflow.identical_requests import refusing_identical
from pytest_evals.dialects.latticeflow.parameters import Parameter, values_of
from pytest_evals.dialects.latticeflow.policies import PolicySubject
from pytest_evals.dialects.latticeflow.recipe import NamedNumber, SampleRecipe
from pytest_evals.dialects.latticeflow.sample_rows import (
    SampleRows,
    Samples,
)
from pytest_evals.dialects.latticeflow.scoring.reader import read_scorers
from pytest_evals.dialects.latticeflow.scoring.scorer import SampleScorer, Trials
from pytest_evals.dialects.latticeflow.scoring.trials import read_trials
from pytest_evals.dialects.latticeflow.solvers.reader import read_solver
from pytest_evals.dialects.latticeflow.substitution import Values, substituted
from pytest_evals.dialects.latticeflow.suite import EntitySuite
from pytest_evals.dialects.latticeflow.system_task import (
    OneRow,
    evidence,
    read_system_task,
)
from pytest_evals.dialects.latticeflow.task_dataset import (
    DatasetColumn,
    Keys,
    TaskDataset,
    aligned_names,
    read_task_dataset,
)
from pytest_evals.dialects.latticeflow.task_file import DATASET_KEY, TaskEntity
from pytest_evals.dialects.latticeflow.task_metrics import (
    FinalName,
    Number,
    final_names,
)
from pytest_evals.dialects.latticeflow.task_models import AskedModels
from pytest_evals.dialects.latticeflow.task_parts import Assembled, Parts, Use
from pytest_evals.dialects.latticeflow.task_result_rows import COLUMNS, EarlierTask
from pytest_evals.dialects.yaml_reader.section import Section
from pytest_evals.errors import Problem, TaskFileError, did_you_mean
from pytest_evals.prompts.identical_prompts import ALLOWED, are_allowed


def assembled(task: TaskEntity, use: Use, suite: EntitySuite) -> Assembled:
    """The recipe of a task.

    Raises:
        TaskFileError: With all problems of its definition.
    """
    building = _Building(task, use, suite)
    if building.problems:  # what is not filled in would look wrong all over
        raise TaskFileError(building.problems)
    found = building.system() if task.is_system else building.benchmark()
    if building.problems or found is None:
        raise TaskFileError(building.problems)
    return found


class _Building:
    """One task while it is put together."""

    def __init__(self, task: TaskEntity, use: Use, suite: EntitySuite) -> None:
        self.problems: list[Problem] = []
        self._task, self._use, self._suite = task, use, suite
        self._warnings = list(task.warnings)
        self._names = aligned_names(task.file.values.get("definition"))
        self._values = values_of(
            task.parameters, use.config, self.problems, self._fallback
        )
        filled = substituted(
            suite.ruled(task.file),
            ("definition",),
            Values(self._values, aligned=self._names),
            self.problems,
        )
        section = Section(filled, self.problems).section("definition")
        assert section is not None, "a task that was read has a definition"
        self._definition = section
        for key in ("type", "evaluated_entity_type"):
            section.raw(key)

    def system(self) -> Assembled | None:
        """A task without samples."""
        recipe = read_system_task(self._definition, self._use.name)
        self._definition.close("the definition of a system task")
        if recipe is None:
            return None
        task = Task(
            **self._common(),
            rows=OneRow(),
            ask=recipe.ask,
            score=recipe.score,
            metrics=(evidence(),),
            asks_model=False,
            warnings=lambda: tuple(self._warnings),
        )
        return Assembled(task=task, subjects=(self._subject(),))

    def benchmark(self) -> Assembled | None:
        """A task over samples."""
        parts = self._parts()
        self._definition.close("the definition of a task")
        if self.problems:
            return None
        if parts.earlier is not None:
            rows, source = self._later_rows(parts.earlier, parts.scorers)
        else:
            rows, source = self._rows(parts.datasets, parts.scorers), None
        numbers = [number for one in parts.scorers for number in one.numbers]
        names = final_names(numbers)
        recipe = SampleRecipe(
            task=self._use.name,
            sample=rows.sample,
            id=rows.id,
            solver=parts.solver,
            scorers=seen_together(parts.scorers, rows),
            numbers=[
                NamedNumber(one.name, n) for one, n in zip(names, numbers, strict=True)
            ],
            actions=parts.actions,
            trials=parts.trials,
            earlier=source,
        )
        task = Task(
            **self._common(),
            rows=rows,
            ask=self._ask(recipe, rows),
            follow_up=None if recipe.asks_once(parts.models.line) else recipe.follow_up,
            score=recipe.score,
            exclude=recipe.exclude if parts.actions else None,
            models=parts.sources,
            asks_model=parts.asks_tested,
            metrics=_metrics(names, numbers, has_rows=recipe.makes_rows),
            metric_for=lambda _name, _filter: None,  # what scorers say is kept only
            warnings=lambda: (*self._warnings, *rows.warnings()),
        )
        told = self._subjects(names, numbers) or (self._subject(),)
        return Assembled(task=task, subjects=told, recipe=recipe, rows=rows)

    def _ask(self, recipe: SampleRecipe, rows: SampleRows) -> Callable[[int], Asked]:
        allowed = are_allowed(self._suite.options.metadata)
        if allowed or ALLOWED in self._task.tags:
            return recipe.ask
        return refusing_identical(
            recipe, lambda: len(rows.loaded.samples), self._use.place
        )

    def _parts(self) -> Parts:
        """All that the definition names, with the problems of each."""
        definition = self._definition
        keys = read_task_dataset(definition, self._names, self._warnings)
        if self._task.lacks_dataset:
            keys = Keys({"": str(self._values.get(DATASET_KEY) or "")})
        earlier = self._earlier(keys.result) if keys.result else None
        trials = self._trials()
        models = AskedModels(
            suite=self._suite,
            tested=self._use.model,
            place=self._task.place,
            # Goes of a greedy model would be copies of one.
            temperature=0.0 if trials is None else 1.0,
        )
        section = definition.section("solver")
        solver = read_solver(section, models.line) if section is not None else None
        scorers, odd = read_scorers(
            definition.entries("scorers"), models.line, has_solver=section is not None
        )
        self._warnings += odd
        self._check_aggregators(trials, scorers)
        return Parts(
            datasets=keys.datasets,
            earlier=earlier,
            trials=trials,
            models=models,
            solver=solver,
            scorers=scorers,
            actions=read_actions(definition),
        )

    def _subjects(
        self, names: Sequence[FinalName], numbers: Sequence[Number]
    ) -> tuple[PolicySubject, ...]:
        """What policies may call each number."""
        return tuple(
            self._subject(
                scorer=one.scorer,
                metric=one.metric,
                name="" if one.later else final.name,
                own="" if one.later else one.name,
                prefix=final.prefix,
            )
            for one, final in zip(numbers, names, strict=True)
        )

    def _trials(self) -> Trials | None:
        """How often each sample is solved: as often as the specification says, with the
        aggregators of the task."""
        section = self._definition.section("trials")
        own = read_trials(section) if section is not None else None
        n = self._use.n_trials
        if not n:
            return own
        return replace(own, n=n) if own is not None else Trials(n=n)

    def _check_aggregators(
        self, trials: Trials | None, scorers: Sequence[SampleScorer]
    ) -> None:
        """Aggregators are of scores that there are, where those are known."""
        if trials is None or not all(one.scores for one in scorers):
            return
        known = sorted({name for one in scorers for name in one.scores})
        for one in trials.aggregators:
            if one.score and one.score not in known:
                hint = did_you_mean(one.score, known) or f"; known: {', '.join(known)}"
                what = f"score_name: no score called {one.score!r}{hint}"
                self._definition.problem("trials", what)

    def _rows(
        self, keys: Mapping[str, str], scorers: Sequence[SampleScorer]
    ) -> SampleRows:
        has_place = "dataset" in self._definition.values
        dataset = TaskDataset(
            keys=keys,
            place=self._definition.place("dataset") if has_place else self._use.place,
            needs_equal=any(one.over_all is None for one in scorers),
            columns=tuple(self._columns()),
        )
        suite = self._suite
        return SampleRows(
            lambda: dataset.load(suite), suite.options, self._use.subsample
        )

    def _earlier(self, key: str) -> Assembled | None:
        """The task whose results are this one's samples; ``None`` if it cannot be."""
        place = self._definition.place("dataset")
        try:
            found = self._use.earlier(key, place)
        except TaskFileError as error:
            self.problems += error.problems
            return None
        if found.recipe is None or found.recipe.makes_rows:
            kind = "no samples" if found.recipe is None else "a postprocessor"
            what = f"{key!r} has {kind}, so that it gives no rows to another task"
            self.problems.append(Problem(what, place))
            return None
        return found

    def _later_rows(
        self, earlier: Assembled, scorers: Sequence[SampleScorer]
    ) -> tuple[SampleRows, EarlierTask]:
        """A row for each sample of an earlier task.

        Raises:
            TaskFileError: A scorer wants to see all at once; or a column is not there.
        """
        recipe, own = earlier.recipe, earlier.rows
        assert recipe is not None and own is not None, "looked at before"
        place = self._definition.place("dataset")
        if any(one.over_all is not None for one in scorers):
            what = "python_all_samples sees all results at once, before they are there"
            raise TaskFileError([Problem(what, place, "type: python")])
        columns = TaskDataset(keys={}, place=place, columns=tuple(self._columns()))
        columns.check_columns(COLUMNS)

        def load() -> Samples:
            ids = [recipe.id(i) for i in own.own]
            samples = map(recipe.sample, own.own)
            pairs = zip(samples, ids, strict=True)
            rows = [{"sample": one, "sample_id": id_} for one, id_ in pairs]
            return Samples(rows, None, ids)

        taken, options = self._use.subsample, self._suite.options
        source = EarlierTask(
            sample=lambda i: recipe.evidence(own.own[i]), asks=recipe.asks
        )
        return SampleRows(load, options, taken), source

    def _common(self) -> dict[str, Any]:
        """What all kinds of tasks say of themselves."""
        return {
            "name": self._use.name,
            "source": self._use.place,
            "tags": self._task.tags,
            "output_type": "generate_until",
            "config": self._config(),
        }

    def _config(self) -> Mapping[str, Any]:
        """What results files say: the task and the values of its parameters."""
        taken = self._use.subsample
        return {
            "task": self._use.name,
            "key": self._task.key,
            "evaluation": self._use.evaluation,
            "parameters": dict(self._values),
            "model": self._use.model,
            "num_samples": taken.n if taken is not None else None,
            "definition": self._definition.values,
        }

    def _subject(self, **more: str) -> PolicySubject:
        use = self._use
        return PolicySubject(evaluation=use.evaluation, specification=use.name, **more)

    def _columns(self) -> Sequence[DatasetColumn]:
        return [
            DatasetColumn(
                parameter=one.key, name=str(self._values[one.key]), place=one.place
            )
            for one in self._task.parameters
            if one.type == "dataset_column" and self._values.get(one.key) is not None
        ]

    def _fallback(self, parameter: Parameter) -> Any:
        """What a parameter is that nobody gives: a model is the tested one if that is
        what it is for, else the judge; a dataset is the only one of the folder."""
        if parameter.type == "model":
            return "" if parameter.usage == "model_under_test" else JUDGE_KEY
        if parameter.type == "dataset":
            return self._suite.only("dataset", self._task.place.path)
        return None


def _metrics(
    names: Sequence[FinalName], numbers: Sequence[Number], *, has_rows: bool
) -> tuple[Metric, ...]:
    """What adds the numbers up; where samples have several rows, none of them is a
    plain mean of the samples' values."""
    found = (
        _prefixed(one.how(name), prefix)
        for (name, prefix), one in zip(names, numbers, strict=True)
    )
    return tuple(replace(one, is_mean=False) if has_rows else one for one in found)


def _prefixed(metric: Metric, prefix: str) -> Metric:
    """A metric that puts something in front of the names of its numbers."""
    several = metric.several
    if several is None or not prefix:
        return metric

    def named(values: Sequence[Any]) -> Mapping[str, Estimate]:
        return {prefix + name: one for name, one in several(values).items()}

    return replace(metric, several=named)
