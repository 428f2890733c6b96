"""lm-eval's tasks that are Python classes (0.4.13): ``class: !function module.Class``.

The class runs on lm-eval itself, which has to be installed: its own methods give
documents, prompts, requests, filters and scores. Here it becomes an object, and what
that says of itself becomes a :class:`Task`. Making the object reads its dataset.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from copy import deepcopy
from importlib import metadata as distributions
from pathlib import Path
from typing import Any, NamedTuple

from pytest_evals.core.metric import Metric
from pytest_evals.core.task import Task, TaskOptions
from pytest_evals.errors import EvalsError, Place, Problem, TaskFileError
from pytest_evals.frontends.functions import missing
from pytest_evals.frontends.gate_entries import metadata_of, own_gates
from pytest_evals.frontends.lm_eval_dump import as_json
from pytest_evals.frontends.lm_eval_names import INSTALL
from pytest_evals.frontends.python_documents import PythonDocuments
from pytest_evals.frontends.section import Section
from pytest_evals.frontends.task_modules import has_lm_eval
from pytest_evals.prompts.calls import fault_of
from pytest_evals.prompts.generation import check_overrides
from pytest_evals.prompts.sources import Source, located, quiet
from pytest_evals.prompts.tables import seeded
from pytest_evals.scorers.metrics import MetricSpec, is_accuracy, metric

__all__ = ["Names", "check_lm_eval", "python_task"]

_LM_EVAL = "0.4.13"
"""The release that runs these classes, and whose behaviour is that of all this."""
_STRUCTURE = ("tag", "group", "task_list", "gates")
"""Keys that are not the class's business."""


class Names(NamedTuple):
    """What a task file calls its task."""

    name: str
    alias: str
    tags: tuple[str, ...]


def check_lm_eval(place: Place) -> None:
    """Make sure that there is something to run the class with.

    Raises:
        TaskFileError: lm-eval is not installed.
    """
    if not has_lm_eval():
        what = "class: a task that is a Python class runs on lm-eval"
        raise TaskFileError(
            [Problem(f"{what}, which is not installed", place, INSTALL)]
        )


def python_task(top: Section, names: Names, options: TaskOptions) -> Task:
    """The task of a file that names a class.

    Args:
        top: The file, with its functions imported.
        names: Of the task.
        options: What the command line changes.

    Raises:
        TaskFileError: With all problems of the file; or the class cannot be made an
            object, or what it says of itself means nothing.
        OptionError: A generation argument of the command line means nothing.
    """
    check_overrides(options.gen_kwargs)
    metadata = metadata_of(top, options.metadata)
    gates = own_gates(top, names.name, metadata)
    found = top.raw("class")
    if not isinstance(found, type) and found is not missing:
        what = f"class is a Python class, not {found!r:.80}"
        top.problem("class", what, "class: !function task.MyTask")
    if top.problems:
        raise TaskFileError(dict.fromkeys(top.problems))
    source = top.place("class")
    config = {key: v for key, v in top.values.items() if key not in _STRUCTURE}
    config["task"] = names.name
    if isinstance(config.get("dataset_kwargs"), dict):
        config["dataset_kwargs"] = _with_whole_paths(top, options)
    config["metadata"] = {
        **{key: value for key, value in metadata.items() if key != "gates"},
        **options.model_arguments,
        "config_source": str(top.file.path),
    }
    made = _Made(found, config, source)
    made.set_up(names.name, options)
    specs = made.specs()
    metrics = made.metrics(specs)
    sure = frozenset(n for n, spec in specs.items() if _tells_right_from_wrong(spec))
    documents = made.call(lambda t: PythonDocuments(t, names.name, sure, options))
    at_once = (*top.file.warnings, *made.warnings)
    return Task(
        name=names.name,
        source=top.place("task"),
        rows=documents,
        ask=documents.ask,
        score=documents.score,
        metrics=metrics,
        metric_for=lambda name, pipeline: made.metric(
            specs.get(name, MetricSpec(name=name, aggregation="mean")), pipeline
        ),
        gates=gates,
        output_type=made.output_type,
        alias=names.alias,
        tags=names.tags,
        version=made.version,
        n_shots=made.task.config.num_fewshot or 0,
        repeats=made.task.config.repeats,
        config=made.dumped(),
        warnings=lambda: (*at_once, *documents.warnings),
    )


class _Made:
    """The object of a task class; all faults of its code are those of its place."""

    def __init__(self, found: type[Any], config: dict[str, Any], place: Place) -> None:
        from lm_eval.api.task import Task as LmEvalTask

        self._class, self._place = found, place
        self.warnings: list[str] = []
        self.task: Any = None
        if not issubclass(found, LmEvalTask):
            raise self._fault(f"class: {found.__name__} is no task of lm-eval", _DERIVE)
        installed = distributions.version("lm_eval")
        if installed != _LM_EVAL:
            self.warnings.append(f"runs on lm-eval {installed}, and not on {_LM_EVAL}")
        with quiet(), seeded():
            self.task = self.call(lambda _: found(**_arguments(found, config)))

    def _fault(self, what: str, fix: str = "") -> TaskFileError:
        return TaskFileError([Problem(what, self._place, fix)])

    def call(self, function: Callable[[Any], Any]) -> Any:
        """What a function of the object gives.

        Raises:
            TaskFileError: It fails.
        """
        try:
            return function(self.task)
        except EvalsError as error:
            raise self._fault(f"class: {self._class.__name__}: {error}") from error
        except (Exception, SystemExit) as error:
            what = f"class: {self._class.__name__}: {fault_of(error)}"
            raise self._fault(what) from error

    def set_up(self, name: str, options: TaskOptions) -> None:
        """Tell the object what the command line changes, as lm-eval's evaluator does.

        Raises:
            TaskFileError: It cannot be run here, or not with these options.
        """
        if getattr(self.task, "UNSAFE_CODE", False) and not options.allow_unsafe_code:
            what = "UNSAFE_CODE: this task executes code that the model writes"
            fix = "--evals-allow-unsafe-code runs it, on this machine with your rights"
            raise self._fault(what, fix)
        self.call(lambda task: _set_up(task, name, options))

    def specs(self) -> dict[str, MetricSpec]:
        """The metrics that the object knows how to add up.

        Raises:
            TaskFileError: What it says means nothing.
        """
        how = self.call(lambda task: dict(task.aggregation()))
        directions = self.call(lambda task: dict(task.higher_is_better()))
        for name, function in how.items():
            if not callable(function):
                what = f"aggregation() gives {function!r:.80} for {name!r}"
                raise self._fault(f"class: {what}, which is no function")
        return {
            str(name): MetricSpec(
                name=str(name),
                aggregation=function,
                higher_is_better=directions.get(name),
            )
            for name, function in how.items()
        }

    def metrics(self, specs: Mapping[str, MetricSpec]) -> tuple[Metric, ...]:
        """One a filter pipeline and metric."""
        pipelines = [each.name for each in getattr(self.task, "_filters", ())]
        return tuple(
            self.metric(spec, pipeline)
            for pipeline in pipelines
            for spec in specs.values()
        )

    def metric(self, spec: MetricSpec, pipeline: str) -> Metric:
        """The metric of a filter pipeline."""
        return metric(spec, pipeline, self.output_type, declared=True)

    @property
    def output_type(self) -> str:
        """Kind of its requests."""
        return str(self.task.OUTPUT_TYPE or self.task.config.output_type)

    @property
    def version(self) -> str | int | float | None:
        """As results files give it."""
        found = getattr(self.task, "VERSION", None)
        return found if isinstance(found, str | int | float) else None

    def dumped(self) -> dict[str, Any]:
        """Its configuration as JSON values."""
        found = dict(self.call(lambda task: task.dump_config()))
        given = found.get("metadata")
        if isinstance(given, Mapping):
            kept = {k: v for k, v in given.items() if k != "config_source"}
            found["metadata"] = kept
        return {str(key): as_json(value) for key, value in found.items()}


_DERIVE = "derive it from lm_eval.api.task.ConfigurableTask"


def _arguments(found: type[Any], config: dict[str, Any]) -> dict[str, Any]:
    """What the class is called with: the resolved file, if it takes a ``config``."""
    from lm_eval.api.task import ConfigurableTask

    constructor: Any = found.__init__
    if "config" not in inspect.signature(constructor).parameters:
        return {}
    config = deepcopy(config)
    if constructor is ConfigurableTask.__init__:
        # lm-eval 0.4.13 hands this key on, and its own constructor refuses it.
        del config["class"]
    return {"config": config}


def _with_whole_paths(top: Section, options: TaskOptions) -> dict[str, Any]:
    """Arguments of the dataset, whose files are looked for next to the task file."""
    source = Source(
        path=str(top.values.get("dataset_path") or ""),
        arguments=top.values["dataset_kwargs"],
        place=top.place("dataset_path"),
        data_place=top.place("dataset_kwargs"),
        base=Path(options.base) if options.base else Path.cwd(),
    )
    return dict(located(source).arguments)


def _set_up(task: Any, name: str, options: TaskOptions) -> None:
    task.config.task = name
    overrides = dict(options.gen_kwargs)
    if overrides and task.get_config("output_type") == "generate_until":
        task.set_config(key="generation_kwargs", value=overrides, update=True)
    own = task.get_config("num_fewshot")
    if own is None or (options.num_fewshot is not None and own != 0):
        task.set_config(key="num_fewshot", value=options.num_fewshot or 0)
    task.set_fewshot_seed(seed=options.seed)


def _tells_right_from_wrong(spec: MetricSpec) -> bool:
    """Whether 1 means right and 0 wrong; any function called ``mean`` is one."""
    named = getattr(spec.aggregation, "__name__", "") == "mean"
    return is_accuracy(spec) or (named and spec.higher_is_better is not False)
