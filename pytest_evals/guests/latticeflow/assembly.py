"""Builds a task from its file, its use and the values of its parameters."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pytest_evals.core.dialogue import Ask
from pytest_evals.core.request import Response
from pytest_evals.core.task import Asked, Task
from pytest_evals.data.calls import FieldError
from pytest_evals.dialects.generative_choices import GENERATE
from pytest_evals.dialects.metadata_keys import CHOICES
from pytest_evals.errors import DocumentError, Place, Problem, TaskFileError, suggestion
from pytest_evals.guests.latticeflow.fields import Keys
from pytest_evals.guests.latticeflow.filters import read_actions
from pytest_evals.guests.latticeflow.metrics.measures import (
    ScorerValue,
    with_final_names,
)
from pytest_evals.guests.latticeflow.metrics.reader import Trials, read_trials
from pytest_evals.guests.latticeflow.parameters import Parameter, resolve_values
from pytest_evals.guests.latticeflow.policy import PolicySubject
from pytest_evals.guests.latticeflow.reader import Values, substitute
from pytest_evals.guests.latticeflow.recipe import RESULT_COLUMNS, SampleRecipe
from pytest_evals.guests.latticeflow.run_file import JUDGE_KEY, TaskUse
from pytest_evals.guests.latticeflow.scoring.reader import MCQA, read_scorers
from pytest_evals.guests.latticeflow.scoring.scorer import SampleScorer
from pytest_evals.guests.latticeflow.solvers.reader import read_solver
from pytest_evals.guests.latticeflow.suite import EntitySuite, TaskModels
from pytest_evals.guests.latticeflow.task_file import (
    DATASET_KEY,
    Columns,
    DatasetKeys,
    SampleRows,
    Samples,
    TaskEntity,
    aligned_names,
    check_columns,
    load_samples,
    read_system_task,
    read_task_dataset,
    with_all_samples,
)
from pytest_evals.prompts.document_warnings import (
    ALLOWED,
    IdenticalPrompts,
    are_allowed,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class AssembledTask:
    """A task, the metric values that policies can refer to, and the recipe that a later
    task can use."""

    task: Task
    subjects: tuple[PolicySubject, ...]
    recipe: SampleRecipe | None = None


Earlier = Callable[[str, Place], AssembledTask]
"""Key of another specification of the evaluation and place of the reference → its
task."""
_VALUE = 'value: "{{ solver_output.output | string'
_REMEDIES = {
    "whitespace": f'set {_VALUE} | trim }}}}"',
    "case": f'set {_VALUE} | lower }}}}", with | lower in ground_truth',
    "target": "add | trim to the template of ground_truth",
    "stop": r'add "stop": ["\n"] to the template of input_builder',
    "limit": "raise max_tokens in the template of input_builder",
}
"""Cause of wrong answers → the change of a task with string_equals."""


def assemble(
    task: TaskEntity, use: TaskUse, suite: EntitySuite, earlier: Earlier
) -> AssembledTask:
    """Build the task. Raises ``TaskFileError`` with all problems of its definition."""
    builder = _TaskBuilder(task, use, suite, earlier)
    if builder.problems:  # missing values would cause follow-up errors everywhere
        raise TaskFileError(builder.problems)
    return builder.system() if task.is_system else builder.benchmark()


class _TaskBuilder:
    def __init__(
        self, task: TaskEntity, use: TaskUse, suite: EntitySuite, earlier: Earlier
    ) -> None:
        self.problems: list[Problem] = []
        self._task, self._use, self._suite = task, use, suite
        self._earlier_task = earlier
        self._warnings = list(task.warnings)
        self._names = aligned_names(task.entity.file.values.get("definition"))
        self._values = resolve_values(
            task.parameters, use.config, self.problems, self._fallback
        )
        filled = substitute(
            suite.with_code_rules(task.entity.file),
            "definition",
            Values(self._values, aligned=self._names),
            self.problems,
        )
        section = Keys(filled, self.problems).section("definition")
        assert section is not None, "a task that was read has a definition"
        self._definition = section
        for key in ("type", "evaluated_entity_type"):
            section.raw(key)

    def system(self) -> AssembledTask:
        task = read_system_task(self._definition, self._common())
        self._definition.finish("the definition of a system task")
        task = replace(task, warnings=lambda: tuple(self._warnings))
        return AssembledTask(task=task, subjects=self._subjects(()))

    def benchmark(self) -> AssembledTask:
        definition = self._definition
        keys = read_task_dataset(definition, self._names, self._warnings)
        if self._task.lacks_dataset:
            keys = DatasetKeys({"": str(self._values.get(DATASET_KEY) or "")})
        earlier = self._earlier(keys.result) if keys.result else None
        trials = self._trials()
        models = TaskModels(
            suite=self._suite,
            tested=self._use.model,
            place=self._task.entity.place,
            # With greedy decoding, all trials would be identical.
            temperature=0.0 if trials is None else 1.0,
        )
        section = definition.section("solver")
        solver = read_solver(section, models.client) if section is not None else None
        scorers = read_scorers(
            definition.entries("scorers"),
            models.client,
            self._warnings,
            has_solver=section is not None,
            parses_choices=self._parses_choices,
        )
        self._check_aggregators(trials, scorers)
        actions = read_actions(definition)
        definition.finish("the definition of a task")
        source = None if earlier is None else earlier.recipe
        if source is None:
            rows = self._rows(keys, scorers)
        else:
            rows = self._later_rows(source, scorers)
        recipe = SampleRecipe(
            task=self._use.name,
            rows=rows,
            solver=solver,
            scorers=[with_all_samples(one, rows) for one in scorers],
            values=with_final_names([x for one in scorers for x in one.metric_values]),
            actions=actions,
            trials=trials,
            earlier=source,
        )
        return self._assembled(recipe, models, earlier)

    def _assembled(
        self,
        recipe: SampleRecipe,
        models: TaskModels,
        earlier: AssembledTask | None,
    ) -> AssembledTask:
        metrics = [one.how for one in recipe.values]
        if recipe.makes_rows:  # none of them is a plain mean over samples
            metrics = [replace(one, is_mean=False) for one in metrics]
        called = [one.models for one in recipe.scorers]
        called += [recipe.solver.models] if recipe.solver is not None else []
        asks_tested = any(not models.client(k).name for keys in called for k in keys)
        sources = models.sources
        if earlier is not None:
            sources = {**earlier.task.models, **sources}
            asks_tested = asks_tested or earlier.task.asks_model
        is_single = recipe.is_single_round(models.client)
        task = Task(
            **self._common(),
            rows=recipe.rows,
            ask=self._ask(recipe),
            follow_up=None if is_single else recipe.follow_up,
            score=recipe.score,
            exclude=recipe.exclude if recipe.actions else None,
            models=dict(sources),
            asks_model=asks_tested,
            remedies=_REMEDIES,
            metrics=tuple(metrics),
            # Scorer output is stored, not aggregated.
            metric_for=lambda _name, _filter: None,
            warnings=lambda: (*self._warnings, *recipe.rows.warnings),
        )
        subjects = self._subjects(recipe.values)
        return AssembledTask(task=task, subjects=subjects, recipe=recipe)

    def _ask(self, recipe: SampleRecipe) -> Callable[[int], Asked]:
        """Return ``recipe.ask``, which fails if all samples send the same requests."""
        solver, place = recipe.solver, self._use.place
        is_allowed = ALLOWED in self._task.tags or are_allowed(
            self._suite.options.metadata
        )
        is_known = solver is not None and solver.is_declared and recipe.earlier is None
        if is_allowed or not is_known:  # or only known by running the user's code
            return recipe.ask
        identical = IdenticalPrompts(
            lambda index: _requests(recipe, index),
            lambda: len(recipe.rows.loaded.samples),
        )

        def ask(index: int) -> Asked:
            asked = recipe.ask(index)
            if identical.n:
                fix = f"correct the template; if it is intended: tags: [{ALLOWED}]"
                raise FieldError(identical.text, place, fix)
            return asked

        return ask

    def _subjects(self, values: Sequence[ScorerValue]) -> tuple[PolicySubject, ...]:
        """Return the values for policies; without any, one whose names are unknown."""
        use, found = self._use, list[ScorerValue | None](values) or [None]
        return tuple(PolicySubject(use.evaluation, use.name, one) for one in found)

    def _trials(self) -> Trials | None:
        """Return the trials; the specification's number overrides the task's."""
        section = self._definition.section("trials")
        trials = read_trials(section) if section is not None else None
        n = self._use.sizes.n_trials
        if not n:
            return trials
        return replace(trials, n=n) if trials is not None else Trials(n=n)

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
                message = f"score_name: unknown score {one.score!r}{hint}"
                self._definition.problem("trials", message)

    def _rows(self, keys: DatasetKeys, scorers: Sequence[SampleScorer]) -> SampleRows:
        has_place = "dataset" in self._definition.values
        place = self._definition.place("dataset") if has_place else self._use.place
        needs_equal = any(one.score_samples is None for one in scorers)
        suite, columns = self._suite, self._columns()

        def load() -> Samples:
            tables = {
                name: suite.rows(key, place) for name, key in keys.datasets.items()
            }
            return load_samples(tables, columns, place, needs_equal=needs_equal)

        return SampleRows(load, suite.options, self._use.sizes)

    def _earlier(self, key: str) -> AssembledTask | None:
        """Return the task whose results are this one's samples; ``None`` if invalid."""
        place = self._definition.place("dataset")
        try:
            result = self._earlier_task(key, place)
        except TaskFileError as error:
            self.problems += error.problems
            return None
        if result.recipe is None or result.recipe.makes_rows:
            kind = "no samples" if result.recipe is None else "a postprocessor"
            message = f"{key!r} has {kind}, and cannot provide rows for another task"
            self.problems.append(Problem(message, place))
            return None
        return result

    def _later_rows(
        self, earlier: SampleRecipe, scorers: Sequence[SampleScorer]
    ) -> SampleRows:
        place = self._definition.place("dataset")
        if any(one.score_samples is not None for one in scorers):
            message = "python_all_samples needs all results before they exist"
            raise TaskFileError([Problem(message, place, "type: python")])
        check_columns(self._columns(), RESULT_COLUMNS)
        rows = earlier.rows

        def load() -> Samples:
            return Samples(
                [
                    {"sample": rows.sample(i), "sample_id": rows.id(i)}
                    for i in rows.positions
                ]
            )

        return SampleRows(load, self._suite.options, self._use.sizes)

    def _common(self) -> dict[str, Any]:
        use = self._use
        config = {
            "task": use.name,
            "key": self._task.entity.key,
            "evaluation": use.evaluation,
            "parameters": dict(self._values),
            "model": use.model,
            "num_samples": use.sizes.n_samples or None,
            "definition": self._definition.values,
            **({CHOICES: GENERATE} if self._parses_choices else {}),
        }
        return {
            "name": use.name,
            "source": use.place,
            "tags": self._task.tags,
            "output_type": "generate_until",
            "reasoning_tags": self._suite.options.reasoning_tags,
            "config": config,
        }

    @property
    def _parses_choices(self) -> bool:
        """Whether the choice is extracted from answers (``--evals-choices``)."""
        given = self._definition.values.get("scorers")
        scorers = given if isinstance(given, list) else []
        return self._suite.options.choices == GENERATE and any(
            isinstance(one, dict) and one.get("type") == MCQA for one in scorers
        )

    def _columns(self) -> Columns:
        return [
            (one, str(self._values[one.key]))
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
            found = self._suite.entities.all("dataset", self._task.entity.place.path)
            return found[0].key if len(found) == 1 else None
        return None


_MOST_ROUNDS = 20
_REPLY = Response(
    text=json.dumps({"choices": [{"message": {"role": "assistant", "content": "?"}}]})
)
"""Reply assumed for every model, in a form that all adapters can parse."""


def _requests(recipe: SampleRecipe, index: int) -> list[Ask]:
    """Return all requests of a solver for a sample, if every reply is the same."""
    assert recipe.solver is not None
    dialogue = recipe.solver.solve(recipe.rows.sample(index), 0)
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
