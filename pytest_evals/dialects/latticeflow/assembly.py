"""Builds a task from its file and the values of its parameters."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from pytest_evals.core.metric import Estimate, Metric
from pytest_evals.core.task import Asked, Task
from pytest_evals.dialects.generative_choices import GENERATE
from pytest_evals.dialects.latticeflow.actions import read_actions
from pytest_evals.dialects.latticeflow.all_samples import with_all_samples
from pytest_evals.dialects.latticeflow.evaluation import JUDGE_KEY
from pytest_evals.dialects.latticeflow.identical_requests import refuse_identical
from pytest_evals.dialects.latticeflow.metric_values import (
    FinalName,
    ScorerValue,
    final_names,
)
from pytest_evals.dialects.latticeflow.parameters import Parameter, resolve_values
from pytest_evals.dialects.latticeflow.policies import PolicySubject
from pytest_evals.dialects.latticeflow.recipe import NamedValue, SampleRecipe
from pytest_evals.dialects.latticeflow.sample_rows import SampleRows, Samples
from pytest_evals.dialects.latticeflow.scoring.reader import MCQA, read_scorers
from pytest_evals.dialects.latticeflow.scoring.scorer import SampleScorer, Trials
from pytest_evals.dialects.latticeflow.solvers.reader import read_solver
from pytest_evals.dialects.latticeflow.substitution import Values, substitute
from pytest_evals.dialects.latticeflow.suite import EntitySuite
from pytest_evals.dialects.latticeflow.system_task import (
    OneRow,
    evidence_metric,
    read_system_task,
)
from pytest_evals.dialects.latticeflow.task_dataset import (
    DatasetColumn,
    DatasetKeys,
    TaskDataset,
    aligned_names,
    read_task_dataset,
)
from pytest_evals.dialects.latticeflow.task_file import DATASET_KEY, TaskEntity
from pytest_evals.dialects.latticeflow.task_parts import (
    AssembledTask,
    TaskModels,
    TaskParts,
    TaskUse,
    read_trials,
)
from pytest_evals.dialects.latticeflow.task_result_rows import COLUMNS, EarlierTask
from pytest_evals.dialects.metadata_keys import CHOICES
from pytest_evals.dialects.yaml_reader.section import Section
from pytest_evals.errors import Problem, TaskFileError, suggestion
from pytest_evals.prompts.identical_prompts import ALLOWED, are_allowed


def assemble(task: TaskEntity, use: TaskUse, suite: EntitySuite) -> AssembledTask:
    """Build the task."""
    builder = _TaskBuilder(task, use, suite)
    if builder.problems:  # missing values would cause follow-up errors everywhere
        raise TaskFileError(builder.problems)
    result = builder.system() if task.is_system else builder.benchmark()
    if builder.problems or result is None:
        raise TaskFileError(builder.problems)
    return result


_VALUE = 'value: "{{ solver_output.output | string'
_REMEDIES = {
    "whitespace": f'set {_VALUE} | trim }}}}"',
    "case": f'set {_VALUE} | lower }}}}", with | lower in ground_truth',
    "target": "add | trim to the template of ground_truth",
    "stop": r'add "stop": ["\n"] to the template of input_builder',
    "limit": "raise max_tokens in the template of input_builder",
}
"""Cause of wrong answers → the change of a task with string_equals."""


class _TaskBuilder:
    """Builds one task and collects the problems of its definition."""

    def __init__(self, task: TaskEntity, use: TaskUse, suite: EntitySuite) -> None:
        self.problems: list[Problem] = []
        self._task, self._use, self._suite = task, use, suite
        self._warnings = list(task.warnings)
        self._names = aligned_names(task.file.values.get("definition"))
        self._values = resolve_values(
            task.parameters, use.config, self.problems, self._fallback
        )
        filled = substitute(
            suite.with_code_rules(task.file),
            ("definition",),
            Values(self._values, aligned=self._names),
            self.problems,
        )
        section = Section(filled, self.problems).section("definition")
        assert section is not None, "a task that was read has a definition"
        self._definition = section
        for key in ("type", "evaluated_entity_type"):
            section.raw(key)

    def system(self) -> AssembledTask | None:
        """Build a system task, which has no samples."""
        recipe = read_system_task(self._definition, self._use.name)
        self._definition.close("the definition of a system task")
        if recipe is None:
            return None
        task = Task(
            **self._common(),
            rows=OneRow(),
            ask=recipe.ask,
            score=recipe.score,
            metrics=(evidence_metric(),),
            asks_model=False,
            warnings=lambda: tuple(self._warnings),
        )
        return AssembledTask(task=task, subjects=(self._subject(),))

    def benchmark(self) -> AssembledTask | None:
        """Build a task with samples."""
        parts = self._parts()
        self._definition.close("the definition of a task")
        if self.problems:
            return None
        if parts.earlier is not None:
            rows, source = self._later_rows(parts.earlier, parts.scorers)
        else:
            rows, source = self._rows(parts.datasets, parts.scorers), None
        metric_values = [
            number for one in parts.scorers for number in one.metric_values
        ]
        names = final_names(metric_values)
        recipe = SampleRecipe(
            task=self._use.name,
            sample=rows.sample,
            id=rows.id,
            solver=parts.solver,
            scorers=with_all_samples(parts.scorers, rows),
            metric_values=[
                NamedValue(one.name, n)
                for one, n in zip(names, metric_values, strict=True)
            ],
            actions=parts.actions,
            trials=parts.trials,
            earlier=source,
        )
        task = Task(
            **self._common(),
            rows=rows,
            ask=self._ask(recipe, rows),
            follow_up=None
            if recipe.is_single_round(parts.models.client)
            else recipe.follow_up,
            score=recipe.score,
            exclude=recipe.exclude if parts.actions else None,
            models=parts.sources,
            asks_model=parts.asks_tested,
            remedies=_REMEDIES,
            metrics=_metrics(names, metric_values, has_rows=recipe.makes_rows),
            metric_for=lambda _name, _filter: (
                None
            ),  # scorer output is stored, not aggregated
            warnings=lambda: (*self._warnings, *rows.warnings),
        )
        subjects = self._subjects(names, metric_values) or (self._subject(),)
        return AssembledTask(task=task, subjects=subjects, recipe=recipe, rows=rows)

    def _ask(self, recipe: SampleRecipe, rows: SampleRows) -> Callable[[int], Asked]:
        allowed = are_allowed(self._suite.options.metadata)
        if allowed or ALLOWED in self._task.tags:
            return recipe.ask
        return refuse_identical(
            recipe, lambda: len(rows.loaded.samples), self._use.place
        )

    def _parts(self) -> TaskParts:
        """Read all sections of the definition; errors are added to ``problems``."""
        definition = self._definition
        keys = read_task_dataset(definition, self._names, self._warnings)
        if self._task.lacks_dataset:
            keys = DatasetKeys({"": str(self._values.get(DATASET_KEY) or "")})
        earlier = self._earlier(keys.result) if keys.result else None
        trials = self._trials()
        models = TaskModels(
            suite=self._suite,
            tested=self._use.model,
            place=self._task.place,
            # With greedy decoding, all trials would be identical.
            temperature=0.0 if trials is None else 1.0,
        )
        section = definition.section("solver")
        solver = read_solver(section, models.client) if section is not None else None
        scorers, scorer_warnings = read_scorers(
            definition.entries("scorers"),
            models.client,
            has_solver=section is not None,
            parses_choices=self._parses_choices,
        )
        self._warnings += scorer_warnings
        self._check_aggregators(trials, scorers)
        return TaskParts(
            datasets=keys.datasets,
            earlier=earlier,
            trials=trials,
            models=models,
            solver=solver,
            scorers=scorers,
            actions=read_actions(definition),
        )

    def _subjects(
        self, names: Sequence[FinalName], metric_values: Sequence[ScorerValue]
    ) -> tuple[PolicySubject, ...]:
        """Return the metric values that policies can refer to."""
        return tuple(
            self._subject(
                scorer=one.scorer,
                metric=one.metric,
                name="" if one.later else final.name,
                own="" if one.later else one.name,
                prefix=final.prefix,
            )
            for one, final in zip(metric_values, names, strict=True)
        )

    def _trials(self) -> Trials | None:
        """Return the trials; the specification's number overrides the task's."""
        section = self._definition.section("trials")
        own = read_trials(section) if section is not None else None
        n = self._use.n_trials
        if not n:
            return own
        return replace(own, n=n) if own is not None else Trials(n=n)

    def _check_aggregators(
        self, trials: Trials | None, scorers: Sequence[SampleScorer]
    ) -> None:
        """Report aggregators of unknown scores, unless scores are not known yet."""
        if trials is None or not all(one.scores for one in scorers):
            return
        known = sorted({name for one in scorers for name in one.scores})
        for one in trials.aggregators:
            if one.score and one.score not in known:
                hint = suggestion(one.score, known)
                what = f"score_name: unknown score {one.score!r}{hint}"
                self._definition.problem("trials", what)

    def _rows(
        self, keys: Mapping[str, str], scorers: Sequence[SampleScorer]
    ) -> SampleRows:
        has_place = "dataset" in self._definition.values
        dataset = TaskDataset(
            keys=keys,
            place=self._definition.place("dataset") if has_place else self._use.place,
            needs_equal=any(one.score_samples is None for one in scorers),
            columns=tuple(self._columns()),
        )
        suite = self._suite
        return SampleRows(
            lambda: dataset.load(suite), suite.options, self._use.subsample
        )

    def _earlier(self, key: str) -> AssembledTask | None:
        """Return the task whose results are this one's samples; ``None`` if invalid."""
        place = self._definition.place("dataset")
        try:
            result = self._use.earlier(key, place)
        except TaskFileError as error:
            self.problems += error.problems
            return None
        if result.recipe is None or result.recipe.makes_rows:
            kind = "no samples" if result.recipe is None else "a postprocessor"
            what = f"{key!r} has {kind}, and cannot provide rows for another task"
            self.problems.append(Problem(what, place))
            return None
        return result

    def _later_rows(
        self, earlier: AssembledTask, scorers: Sequence[SampleScorer]
    ) -> tuple[SampleRows, EarlierTask]:
        """Return one row for each sample of an earlier task."""
        recipe, own = earlier.recipe, earlier.rows
        assert recipe is not None and own is not None, "checked by _earlier"
        place = self._definition.place("dataset")
        if any(one.score_samples is not None for one in scorers):
            what = "python_all_samples needs all results before they exist"
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
            sample=lambda i: recipe.as_sample(own.own[i]), asks=recipe.calls_models
        )
        return SampleRows(load, options, taken), source

    def _common(self) -> dict[str, Any]:
        """Return the arguments of ``Task`` that all kinds of tasks share."""
        return {
            "name": self._use.name,
            "source": self._use.place,
            "tags": self._task.tags,
            "output_type": "generate_until",
            "config": self._config(),
        }

    def _config(self) -> Mapping[str, Any]:
        """Return the configuration for results: the task and its parameter values."""
        taken = self._use.subsample
        return {
            "task": self._use.name,
            "key": self._task.key,
            "evaluation": self._use.evaluation,
            "parameters": dict(self._values),
            "model": self._use.model,
            "num_samples": taken.n if taken is not None else None,
            "definition": self._definition.values,
            **({CHOICES: GENERATE} if self._parses_choices else {}),
        }

    @property
    def _parses_choices(self) -> bool:
        """Whether the choice is extracted from answers (``--evals-choices``)."""
        given = self._definition.values.get("scorers")
        scorers = given if isinstance(given, list) else []
        return self._suite.options.choices == GENERATE and any(
            isinstance(one, dict) and one.get("type") == MCQA for one in scorers
        )

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
        """Return the value of a parameter that is not set: the tested model or the
        judge for a model (by its ``usage``), or the only dataset of the folder for a
        dataset."""
        if parameter.type == "model":
            return "" if parameter.usage == "model_under_test" else JUDGE_KEY
        if parameter.type == "dataset":
            return self._suite.only_dataset(self._task.place.path)
        return None


def _metrics(
    names: Sequence[FinalName], metric_values: Sequence[ScorerValue], *, has_rows: bool
) -> tuple[Metric, ...]:
    """Return the task's metrics. With several rows per sample, none of them is a plain
    mean over samples."""
    result = (
        _prefixed(one.how(name), prefix)
        for (name, prefix), one in zip(names, metric_values, strict=True)
    )
    return tuple(replace(one, is_mean=False) if has_rows else one for one in result)


def _prefixed(metric: Metric, prefix: str) -> Metric:
    """Return the metric with a prefix in front of the names of its values."""
    several = metric.several
    if several is None or not prefix:
        return metric

    def named(values: Sequence[Any]) -> Mapping[str, Estimate]:
        return {prefix + name: one for name, one in several(values).items()}

    return replace(metric, several=named)
