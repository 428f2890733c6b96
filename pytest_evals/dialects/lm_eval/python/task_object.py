"""The object of an lm-eval task class: creation, configuration, metrics and sampler.

If lm-eval is installed, the class derives from lm-eval's own; otherwise from
:mod:`pytest_evals.dialects.lm_eval.shims`. Errors of its code are reported at the file
and line that names the class.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from functools import partial
from importlib import import_module
from importlib import metadata as distributions
from typing import Any, NamedTuple

from pytest_evals.core.metric import BOOTSTRAP_ITERS, Metric
from pytest_evals.core.task import TaskOptions
from pytest_evals.data.calls import error_text
from pytest_evals.data.hub import (
    is_unreachable,
    may_download,
    reading_datasets,
    through_proxy,
)
from pytest_evals.data.sources import is_of_hub
from pytest_evals.dialects.json_values import as_json
from pytest_evals.dialects.lm_eval.modules import has_lm_eval
from pytest_evals.dialects.lm_eval.prompts.tables import seeded
from pytest_evals.dialects.lm_eval.scoring_keys import direction_of
from pytest_evals.dialects.lm_eval.shims import configurable
from pytest_evals.dialects.lm_eval.shims.unavailable_names import (
    NEWER,
    UNSUPPORTED,
    needs_lm_eval,
    newer_name_message,
)
from pytest_evals.errors import EvalsError, Place, Problem, TaskFileError
from pytest_evals.masking.values import masked
from pytest_evals.sandbox.runner import CONSENT
from pytest_evals.scorers.metrics import MetricSpec, metric

_LM_EVAL = "0.4.13"  # the release whose behaviour is reproduced
_NEWER_NAMES = frozenset((
    *NEWER,
    "from_config", "get_docs", "is_multimodal", "process_doc", "set_num_fewshot",
    "set_repeats", "task",
))  # fmt: skip
"""Names of task classes that an installed lm-eval 0.4.13 does not have."""
_FIX_NEWER = "this name is newer than the installed lm-eval 0.4.13; remove it"
_NEVER_CALLED = frozenset({"build_all_requests", "doc_iterator"})
"""Methods that lm-eval calls for all documents; here documents are built one by one."""


class PythonObject:
    """The object of a task class."""

    def __init__(self, cls: type[Any], config: dict[str, Any], place: Place) -> None:
        self._class, self._place = cls, place
        self.warnings: list[str] = []
        self._bootstrap_iters = BOOTSTRAP_ITERS
        self.task: Any = None
        base = _lm_eval_tasks()
        if not issubclass(cls, base.Task):
            raise self._fault(f"class: {cls.__name__} is not an lm-eval task", _DERIVE)
        self._check_overrides()
        self._check_dataset(config)
        if has_lm_eval():
            installed = distributions.version("lm_eval")
            if installed != _LM_EVAL:
                text = f"uses the installed lm-eval {installed} instead of {_LM_EVAL}"
                self.warnings.append(text)
        arguments, of_hub = self._arguments(config), self._is_of_hub(config)

        def create(_: object) -> Any:
            with reading_datasets(of_hub=of_hub), seeded():
                return cls(**arguments)

        self.task = self.call(create)

    def _check_overrides(self) -> None:
        """Reject overridden methods that are never called."""
        for name in sorted(_own_names(self._class) & (UNSUPPORTED | _NEVER_CALLED)):
            message = f"class: {self._class.__name__}.{name}"
            if name in _NEVER_CALLED:
                fix = "override fewshot_context or construct_requests"
                text = (
                    f"{message} is never called, because documents are built one by one"
                )
                raise self._fault(text, fix)
            if not has_lm_eval():
                raise self._fault(needs_lm_eval(message))

        for name in sorted(_own_names(self._class) & NEWER.keys()):
            text = f"{self._class.__name__}.{name} is never called"
            self.warnings.append(f"{text}: {newer_name_message(name)}")

    def _check_dataset(self, config: Mapping[str, Any]) -> None:
        """Require a dataset if lm-eval loads it; without one, the library ``datasets``
        fails with an unrelated message."""
        bases = (_lm_eval_tasks().Task, _lm_eval_tasks().ConfigurableTask)
        for method in ("__init__", "download"):
            defined = getattr(self._class, method)
            if all(defined is not getattr(base, method) for base in bases):
                return
        known = any(config.get(key) for key in ("dataset_path", "custom_dataset"))
        # A CONFIG of the class may name a dataset, too.
        for name in ("DATASET_PATH", "CONFIG"):
            known = known or getattr(self._class, name, None) is not None
        if not known:
            name = self._class.__name__
            message = f"class: {name}: neither the file nor the class sets a dataset"
            fix = "dataset_path: json, with dataset_kwargs: {data_files: …}"
            raise self._fault(message, f"{fix}; or set self.dataset in {name}.download")

    def _is_of_hub(self, config: Mapping[str, Any]) -> bool:
        """Whether the class may download from the Hub, by the names that it uses."""
        defaults = getattr(self._class, "CONFIG", None) or {}
        paths = [getattr(self._class, "DATASET_PATH", None), config.get("dataset_path")]
        paths += [getattr(defaults, "dataset_path", None)]
        members = map(partial(getattr, self._class), _own_names(self._class))
        return any(isinstance(one, str) and is_of_hub(one) for one in paths) or any(
            map(may_download, members)
        )

    def _fault(
        self, message: str, fix: str = "", error: BaseException | None = None
    ) -> TaskFileError:
        unreachable = error is not None and is_unreachable(error)
        fix = f"check the network{through_proxy()}" if unreachable else fix
        return TaskFileError([Problem(message, self._place, fix, unreachable)])

    def _arguments(self, config: dict[str, Any]) -> dict[str, Any]:
        """Constructor arguments: the resolved file, if it accepts ``config``."""
        constructor: Any = self._class.__init__
        if "config" not in inspect.signature(constructor).parameters:
            return {}
        config = deepcopy(config)
        if constructor is _lm_eval_tasks().ConfigurableTask.__init__:
            # lm-eval 0.4.13 passes this key on, but its own constructor rejects it.
            del config["class"]
        return {"config": config}

    def call(self, function: Callable[[Any], Any]) -> Any:
        """Call a function with the object."""
        try:
            return function(self.task)
        except EvalsError as error:
            raise self._fault(f"class: {self._class.__name__}: {error}") from error
        except (Exception, SystemExit) as error:
            message = f"class: {self._class.__name__}: {error_text(error)}"
            is_newer = isinstance(error, AttributeError) and error.name in _NEWER_NAMES
            raise self._fault(message, _FIX_NEWER * is_newer, error) from error

    def set_up(self, name: str, options: TaskOptions) -> None:
        """Apply options of the command line, as lm-eval's evaluator does. Raises
        TaskFileError if the task cannot run with these options."""
        if getattr(self.task, "UNSAFE_CODE", False) and not options.allow_unsafe_code:
            message = "UNSAFE_CODE: this task executes model output"
            raise self._fault(message, CONSENT)
        self._bootstrap_iters = options.bootstrap_iters
        self.call(lambda task: _set_up(task, name, options))

    def specs(self) -> dict[str, MetricSpec]:
        """The metrics that the object aggregates. Raises TaskFileError if an
        aggregation is invalid."""
        aggregations = self.call(lambda task: dict(task.aggregation()))
        directions = self.call(lambda task: dict(task.higher_is_better()))
        for name, function in aggregations.items():
            if not callable(function):
                message = f"aggregation() returned {function!r:.80} for {name!r}"
                raise self._fault(f"class: {message}, which is not a function")
        return {
            str(name): MetricSpec(
                name=str(name),
                aggregation=function,
                higher_is_better=direction_of(directions.get(name)),
                is_directed=directions.get(name, True) is not None,
            )
            for name, function in aggregations.items()
        }

    def source_metric(self, name: str, specs: Mapping[str, MetricSpec]) -> str:
        """The metric whose function returned a value under another name; empty if
        unknown. Known once the object has scored a document (lm-eval 0.4.13,
        ``process_results``)."""
        aggregation = self.task.aggregation().get(name)
        better = direction_of(self.task.higher_is_better().get(name))
        for spec in self._functions(specs):
            if spec.aggregation is aggregation and spec.higher_is_better == better:
                return spec.name
        return ""

    def _functions(self, specs: Mapping[str, MetricSpec]) -> Iterator[MetricSpec]:
        """The metrics that are the task's own functions."""
        for entry in self.task.get_config("metric_list") or ():
            name = getattr(entry.get("metric"), "__name__", "")
            if name in specs:
                yield specs[name]

    def metrics(self, specs: Mapping[str, MetricSpec]) -> tuple[Metric, ...]:
        """One metric for each filter pipeline and spec."""
        return tuple(
            self.metric(spec, pipeline)
            for pipeline in self.pipelines
            for spec in specs.values()
        )

    @property
    def pipelines(self) -> list[str]:
        """Names of the filter pipelines."""
        names = (str(each.name) for each in getattr(self.task, "_filters", ()))
        return [*dict.fromkeys(names)]

    def metric(self, spec: MetricSpec, pipeline: str) -> Metric:
        """The metric of a filter pipeline."""
        iterations = self._bootstrap_iters
        return metric(spec, pipeline, self.output_type, True, iterations)

    @property
    def output_type(self) -> str:
        """Kind of the requests."""
        return str(self.task.OUTPUT_TYPE or self.task.config.output_type)

    @property
    def version(self) -> str | int | float | None:
        """The version in results files."""
        version = getattr(self.task, "VERSION", None)
        return version if isinstance(version, str | int | float) else None

    @property
    def draws_by_sampler(self) -> bool:
        """Whether all few-shot examples come from the object's sampler."""
        if "fewshot_context" in _own_names(self._class):
            return False
        has_sampler = hasattr(self.task, "sampler")
        return has_sampler and isinstance(self.task, _lm_eval_tasks().ConfigurableTask)

    @property
    def depends_on_order(self) -> bool:
        """Whether a prompt may depend on prompts that were built before it."""
        if "fewshot_context" in _own_names(self._class):
            return True
        return bool(self.task.config.num_fewshot) and not self.draws_by_sampler

    def config(self) -> dict[str, Any]:
        """The object's configuration as JSON values."""
        config = dict(self.call(lambda task: task.dump_config()))
        metadata = config.get("metadata")
        if isinstance(metadata, Mapping):
            kept = {k: v for k, v in metadata.items() if k != "config_source"}
            config["metadata"] = kept
        return masked({str(key): as_json(value) for key, value in config.items()})


_DERIVE = "derive it from lm_eval.api.task.ConfigurableTask"


def _lm_eval_tasks() -> Any:
    return import_module("lm_eval.api.task") if has_lm_eval() else configurable


def _own_names(cls: type[Any]) -> frozenset[str]:
    """Names that the class and its bases define, excluding lm-eval's own classes."""
    classes = vars(_lm_eval_tasks()).values()
    inherited = {each for each in classes if isinstance(each, type)}
    return frozenset(
        name for each in cls.__mro__ if each not in inherited for name in vars(each)
    )


def _set_up(task: Any, name: str, options: TaskOptions) -> None:
    task.config.task = name
    overrides = dict(options.gen_kwargs)
    if overrides and task.get_config("output_type") == "generate_until":
        task.set_config(key="generation_kwargs", value=overrides, update=True)
    n_shots = task.get_config("num_fewshot")
    if n_shots is None or (options.num_fewshot is not None and n_shots != 0):
        task.set_config(key="num_fewshot", value=options.num_fewshot or 0)
    task.set_fewshot_seed(seed=options.seed)


class PresetSampler(NamedTuple):
    """Replaces the sampler while one document's prompt is built."""

    rows: Sequence[Any] = ()
    fault: Exception | None = None

    def sample(self, n: int, eval_doc: Any = None, **_more: Any) -> list[Any]:
        """Copies of the document's few-shot examples, so that a class cannot modify
        those of other documents.

        Raises:
            Exception: The sampler's exception.
        """
        if self.fault is not None:
            raise self.fault
        return deepcopy(list(self.rows))


class ShotStream:
    """Draws from a sampler in document order."""

    def __init__(
        self, task: Any, n: int, row: Callable[[int], Any], exclude_own: bool
    ) -> None:
        """Take the sampler of a task. ``task``: a ``ConfigurableTask``, whose few-shot
        examples all come from its sampler. ``row``: position → document.
        ``exclude_own``: whether to exclude a document from its own few-shot examples
        even if lm-eval does not."""
        self._sampler, self._n, self._row = task.sampler, n, row
        self._exclude_own = exclude_own
        self._alone = task.fewshot_cfg.split == task.config.test_split
        self._drawn: list[PresetSampler] = []

    def of(self, index: int) -> PresetSampler:
        """Few-shot examples of a document; earlier documents are drawn first."""
        while len(self._drawn) <= index:
            self._drawn.append(self._draw(len(self._drawn)))
        return self._drawn[index]

    def _draw(self, index: int) -> PresetSampler:
        row = self._row(index)
        try:
            alone = self._alone or (self._exclude_own and row in self._sampler.df)
            other = row if alone else None
            return PresetSampler(self._sampler.sample(n=self._n, eval_doc=other))
        except Exception as fault:  # noqa: BLE001  reported with its document
            return PresetSampler(fault=fault)
