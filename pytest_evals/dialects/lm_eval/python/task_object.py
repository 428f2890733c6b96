"""The object of an lm-eval task class: made, set up, and asked about itself.

Where lm-eval is installed the class derives from lm-eval's own; else from what
:mod:`pytest_evals.dialects.lm_eval.shims` gives it. All faults of its code are
those of its place in the task file.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from importlib import import_module
from importlib import metadata as distributions
from typing import Any

from pytest_evals.core.metric import BOOTSTRAP_ITERS, Metric
from pytest_evals.core.task import TaskOptions
from pytest_evals.data.calls import fault_of
from pytest_evals.data.hub import reading_datasets
from pytest_evals.dialects.json_values import as_json
from pytest_evals.dialects.lm_eval.modules import has_lm_eval
from pytest_evals.dialects.lm_eval.prompts.tables import seeded
from pytest_evals.dialects.lm_eval.scoring_keys import direction_of
from pytest_evals.dialects.lm_eval.shims import configurable
from pytest_evals.dialects.lm_eval.shims.unsupported import (
    LACKING,
    LATER,
    needs_lm_eval,
    of_later_lm_eval,
)
from pytest_evals.errors import EvalsError, Place, Problem, TaskFileError
from pytest_evals.masking.values import masked
from pytest_evals.scorers.metrics import MetricSpec, metric

_LM_EVAL = "0.4.13"
"""The release whose behaviour is that of all this."""
_OF_LATER = frozenset(
    {
        *LATER,
        "from_config",
        "get_docs",
        "is_multimodal",
        "process_doc",
        "set_num_fewshot",
        "set_repeats",
        "task",
    }
)
"""Names of task classes that an installed lm-eval 0.4.13 does not have."""
_FIX_LATER = "this name is newer than lm-eval 0.4.13, which is installed; leave it out"
_NEVER_CALLED = frozenset({"build_all_requests", "doc_iterator"})
"""What lm-eval runs over all documents, where ours are asked one by one."""


class PythonObject:
    """The object of a task class."""

    def __init__(self, found: type[Any], config: dict[str, Any], place: Place) -> None:
        """Make it, which reads its dataset.

        Args:
            found: The class.
            config: The resolved file.
            place: Where the file names the class.

        Raises:
            TaskFileError: It cannot be made.
        """
        self._class, self._place = found, place
        self.warnings: list[str] = []
        self._bootstrap_iters = BOOTSTRAP_ITERS
        self.task: Any = None
        base = _lm_evals()
        if not issubclass(found, base.Task):
            raise self._fault(f"class: {found.__name__} is no task of lm-eval", _DERIVE)
        self._check_overrides()
        self._check_dataset(config)
        if has_lm_eval():
            installed = distributions.version("lm_eval")
            if installed != _LM_EVAL:
                text = f"runs on lm-eval {installed}, and not on {_LM_EVAL}"
                self.warnings.append(text)
        with reading_datasets(), seeded():
            self.task = self.call(lambda _: found(**self._arguments(config)))

    def _check_overrides(self) -> None:
        """Methods of the class that nobody would call."""
        for name in sorted(_own_names(self._class) & (LACKING | _NEVER_CALLED)):
            what = f"class: {self._class.__name__}.{name}"
            if name in _NEVER_CALLED:
                fix = "override fewshot_context or construct_requests"
                text = f"{what} is never called: documents are asked one by one"
                raise self._fault(text, fix)
            if not has_lm_eval():
                raise self._fault(needs_lm_eval(what))

        for name in sorted(_own_names(self._class) & LATER.keys()):
            text = f"{self._class.__name__}.{name} is never called"
            self.warnings.append(f"{text}: {of_later_lm_eval(name)}")

    def _check_dataset(self, config: Mapping[str, Any]) -> None:
        """That there is a dataset to load, where it is lm-eval that loads it: with
        none, the library of datasets fails on its own argument."""
        bases = (_lm_evals().Task, _lm_evals().ConfigurableTask)
        for method in ("__init__", "download"):
            own = getattr(self._class, method)
            if all(own is not getattr(base, method) for base in bases):
                return
        known = any(config.get(key) for key in ("dataset_path", "custom_dataset"))
        # A CONFIG of the class is lm-eval's object, which may name one too.
        for own in ("DATASET_PATH", "CONFIG"):
            known = known or getattr(self._class, own, None) is not None
        if not known:
            name = self._class.__name__
            what = f"class: {name}: neither the file nor the class names a dataset"
            fix = "dataset_path: json, with dataset_kwargs: {data_files: …}"
            raise self._fault(what, f"{fix}; or {name}.download makes self.dataset")

    def _fault(self, what: str, fix: str = "") -> TaskFileError:
        return TaskFileError([Problem(what, self._place, fix)])

    def _arguments(self, config: dict[str, Any]) -> dict[str, Any]:
        """What the class is called with: the resolved file, if it takes a
        ``config``."""
        constructor: Any = self._class.__init__
        if "config" not in inspect.signature(constructor).parameters:
            return {}
        config = deepcopy(config)
        if constructor is _lm_evals().ConfigurableTask.__init__:
            # lm-eval 0.4.13 hands this key on, and its own constructor refuses it.
            del config["class"]
        return {"config": config}

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
            later = isinstance(error, AttributeError) and error.name in _OF_LATER
            raise self._fault(what, _FIX_LATER * later) from error

    def set_up(self, name: str, options: TaskOptions) -> None:
        """Tell the object what the command line changes, as lm-eval's evaluator does.

        Raises:
            TaskFileError: It cannot be run here, or not with these options.
        """
        if getattr(self.task, "UNSAFE_CODE", False) and not options.allow_unsafe_code:
            what = "UNSAFE_CODE: this task executes code that the model writes"
            fix = "--evals-allow-unsafe-code runs it, on this machine with your rights"
            raise self._fault(what, fix)
        self._bootstrap_iters = options.bootstrap_iters
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
                higher_is_better=direction_of(directions.get(name)),
                is_directed=directions.get(name, True) is not None,
            )
            for name, function in how.items()
        }

    def lender_of(self, name: str, specs: Mapping[str, MetricSpec]) -> str:
        """The metric whose function gave a value of another name, as the object says
        once it has scored a document (lm-eval 0.4.13, ``process_results``); empty if
        none did."""
        how = self.task.aggregation().get(name)
        better = direction_of(self.task.higher_is_better().get(name))
        for spec in self._functions(specs):
            if spec.aggregation is how and spec.higher_is_better == better:
                return spec.name
        return ""

    def _functions(self, specs: Mapping[str, MetricSpec]) -> Iterator[MetricSpec]:
        """The metrics that are functions of the task's own."""
        for entry in self.task.get_config("metric_list") or ():
            name = getattr(entry.get("metric"), "__name__", "")
            if name in specs:
                yield specs[name]

    def metrics(self, specs: Mapping[str, MetricSpec]) -> tuple[Metric, ...]:
        """One a filter pipeline and metric."""
        return tuple(
            self.metric(spec, pipeline)
            for pipeline in self.pipelines
            for spec in specs.values()
        )

    @property
    def pipelines(self) -> list[str]:
        """Names of its filter pipelines."""
        names = (str(each.name) for each in getattr(self.task, "_filters", ()))
        return [*dict.fromkeys(names)]

    def metric(self, spec: MetricSpec, pipeline: str) -> Metric:
        """The metric of a filter pipeline."""
        iterations = self._bootstrap_iters
        return metric(spec, pipeline, self.output_type, True, iterations)

    @property
    def output_type(self) -> str:
        """Kind of its requests."""
        return str(self.task.OUTPUT_TYPE or self.task.config.output_type)

    @property
    def version(self) -> str | int | float | None:
        """As results files give it."""
        found = getattr(self.task, "VERSION", None)
        return found if isinstance(found, str | int | float) else None

    @property
    def draws_by_sampler(self) -> bool:
        """Whether all shots come from the object's sampler."""
        if "fewshot_context" in _own_names(self._class):
            return False
        has_sampler = hasattr(self.task, "sampler")
        return has_sampler and isinstance(self.task, _lm_evals().ConfigurableTask)

    @property
    def draws_in_its_own_way(self) -> bool:
        """Whether a prompt may depend on those that were made before it."""
        if "fewshot_context" in _own_names(self._class):
            return True
        return bool(self.task.config.num_fewshot) and not self.draws_by_sampler

    def dumped(self) -> dict[str, Any]:
        """Its configuration as JSON values."""
        found = dict(self.call(lambda task: task.dump_config()))
        given = found.get("metadata")
        if isinstance(given, Mapping):
            kept = {k: v for k, v in given.items() if k != "config_source"}
            found["metadata"] = kept
        return masked({str(key): as_json(value) for key, value in found.items()})


_DERIVE = "derive it from lm_eval.api.task.ConfigurableTask"


def _lm_evals() -> Any:
    """The module with ``Task`` and ``ConfigurableTask`` that classes derive from."""
    return import_module("lm_eval.api.task") if has_lm_eval() else configurable


def _own_names(found: type[Any]) -> frozenset[str]:
    """What the class and those above it define, down to lm-eval's own classes."""
    above = vars(_lm_evals()).values()
    theirs = {each for each in above if isinstance(each, type)}
    return frozenset(
        name for each in found.__mro__ if each not in theirs for name in vars(each)
    )


def _set_up(task: Any, name: str, options: TaskOptions) -> None:
    task.config.task = name
    overrides = dict(options.gen_kwargs)
    if overrides and task.get_config("output_type") == "generate_until":
        task.set_config(key="generation_kwargs", value=overrides, update=True)
    own = task.get_config("num_fewshot")
    if own is None or (options.num_fewshot is not None and own != 0):
        task.set_config(key="num_fewshot", value=options.num_fewshot or 0)
    task.set_fewshot_seed(seed=options.seed)
