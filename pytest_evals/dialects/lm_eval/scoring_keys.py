"""Scoring keys of a task file: ``metric_list``, ``filter_list``,
``process_results``."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from pytest_evals.core.metric import Metric
from pytest_evals.core.task import TaskOptions
from pytest_evals.dialects.lm_eval.functions import unresolved_function
from pytest_evals.dialects.lm_eval.metric_names import (
    MetricNames,
    PluginMetric,
    has_plugin_metric,
    name_of,
    plugin_aggregation,
    plugin_filter,
    plugin_metric,
)
from pytest_evals.dialects.lm_eval.scoring.scorer import Scorer
from pytest_evals.dialects.yaml_reader.section import Section
from pytest_evals.errors import EvalsError, Place, Problem, did_you_mean, nearest
from pytest_evals.scorers.arguments import gate_fix
from pytest_evals.scorers.filters import (
    FILTERS,
    TAKE_FIRST,
    FilterStep,
    Pipeline,
    ignored_arguments,
    pipeline,
)
from pytest_evals.scorers.metrics import (
    METRICS,
    MetricSpec,
    default_metrics,
    is_measured,
    known_metrics,
)

if TYPE_CHECKING:
    from pytest_evals.scorers.custom_metrics.task_metric import TaskMetric

_OWN_KEYS = ("metric", "aggregation", "higher_is_better", "hf_evaluate")


class ScoringKeys(NamedTuple):
    """Scoring of a task. ``metrics``: one for each filter pipeline and metric.
    ``warnings``: problems that do not prevent the run."""

    scorer: Scorer
    metrics: tuple[Metric, ...]
    warnings: tuple[str, ...]


class _ListedMetric(NamedTuple):
    """A metric and the places of its keys. ``is_hf_evaluate``: whether the entry
    sets ``hf_evaluate``."""

    spec: MetricSpec
    place: Place
    aggregation_place: Place
    warnings: tuple[str, ...] = ()
    is_hf_evaluate: bool = False


def read_scoring(
    top: Section, output_type: str, repeats: int, options: TaskOptions
) -> ScoringKeys:
    """Read the scoring of a task file; errors go to the section's problems."""
    warnings: list[str] = []
    process_results = top.function("process_results")
    takes_lists = process_results is not None or output_type == "generate_until"
    everything = Scorer(
        output_type=output_type,
        metrics=(),
        pipelines=_pipelines(top, takes_lists, warnings),
        repeats=repeats,
        process_results=process_results,
        bootstrap_iters=options.bootstrap_iters,
    )
    declared = everything.process_results is not None
    n_problems = len(top.problems)
    specs: list[MetricSpec] = []
    metrics: list[Metric] = []
    known = MetricNames(options.metrics, output_type, options.allow_unsafe_code)
    for listed in _listed(top, known, declared):
        spec, place, aggregation_place, entry_warnings, _ = listed
        warnings += entry_warnings
        try:
            if spec.task_metric is not None:
                allowed = options.allow_unsafe_code
                spec.task_metric.check(output_type, repeats, may_execute=allowed)
            if not declared and _is_never_measured(listed, output_type):
                warnings.append(
                    f"{place}: metric {spec.name!r} has no value with output_type "
                    f"{output_type}, as in lm-eval"
                )
                continue
            replace(everything, metrics=(*specs, spec))
            for pipe in everything.pipelines:
                metrics += everything.metrics_of(spec, pipe.name)
        except EvalsError as error:
            named = isinstance(spec.aggregation, str)
            is_aggregation = named and "aggregation" in str(error)
            at = aggregation_place if is_aggregation else place
            top.problems.append(Problem(str(error), at))
            continue
        specs.append(spec)
        has_default = spec.task_metric is not None or spec.name in METRICS
        if not has_default and spec.aggregation is None:
            warnings.append(
                f"metric {spec.name!r} has no aggregation; the mean is used"
            )
    if top.values.get("output_type") not in (None, output_type):
        del top.problems[n_problems:]  # the available metrics depend on it
    by_pipeline = [
        m for pipe in everything.pipelines for m in metrics if m.filter == pipe.name
    ]
    scorer = replace(everything, metrics=tuple(specs))
    return ScoringKeys(scorer, tuple(by_pipeline), tuple(warnings))


def _is_never_measured(listed: _ListedMetric, output_type: str) -> bool:
    if output_type == "generate_until" or listed.spec.task_metric is not None:
        return False
    name = listed.spec.name
    if name not in METRICS and (listed.is_hf_evaluate or has_plugin_metric(name)):
        return True
    return not is_measured(listed.spec.name, output_type)


def _listed(top: Section, names: MetricNames, declared: bool) -> list[_ListedMetric]:
    output_type = names.output_type
    given = top.raw("metric_list")
    if given is None:
        place = top.place("output_type" if "output_type" in top else "task")
        return [
            _ListedMetric(spec, place, place) for spec in default_metrics(output_type)
        ]
    if given == []:
        top.problem(
            "metric_list", "metric_list is empty", "metric_list: [{metric: acc}]"
        )
    metrics: dict[str, _ListedMetric] = {}
    for number, entry in enumerate(_unique(top.entries("metric_list", "metric"))):
        spec = _spec(entry, names, declared)
        if spec is None or unresolved_function in entry.values.values():
            continue
        is_ours = spec.function is None and spec.task_metric is None
        if is_ours and _refuse_thresholds(entry, spec.name):
            continue
        place, warnings = (
            entry.place("metric"),
            _entry_warnings(entry, spec, output_type),
        )
        # The scorer checks metrics with several names for duplicates.
        key = spec.name if spec.task_metric is None else f"{spec.name} {number}"
        if key in metrics:
            message = f"two metrics are named {spec.name!r}"
            warnings += (f"{place}: {message}; the last one is used, as in lm-eval",)
        by_evaluate = entry.values.get("hf_evaluate") is True
        where = entry.place("aggregation")
        metrics[key] = _ListedMetric(spec, place, where, warnings, by_evaluate)
    return [*metrics.values()]


def _refuse_thresholds(entry: Section, metric: str) -> bool:
    """Report an argument that only gates have, and return whether there is one."""
    for key, value in entry.values.items():
        if fix := gate_fix(metric, key, value):
            entry.problem(key, f"a metric has no {key}{fix}")
            return True
    return False


def _unique(entries: list[Section]) -> list[Section]:
    """The entries without exact duplicates of an earlier one."""
    return [
        entry
        for number, entry in enumerate(entries)
        if all(entry.values != earlier.values for earlier in entries[:number])
    ]


def _entry_warnings(
    entry: Section, spec: MetricSpec, output_type: str
) -> tuple[str, ...]:
    """Warnings about keys without effect: lm-eval passes every key to the metric, but
    log-likelihood and corpus metrics accept none."""
    warnings = (*_direction_warning(entry), *_flag_warnings(entry))
    if spec.task_metric is not None:
        return warnings
    known = METRICS.get(spec.name)
    takes = known is None or output_type not in known.pairs_in
    if spec.function is not None or (output_type == "generate_until" and takes):
        return warnings
    return warnings + tuple(
        f"{entry.place(key)}: {key!r} has no effect for {spec.name!r}{hint}"
        for key in spec.arguments
        if (hint := did_you_mean(str(key), _OWN_KEYS))
    )


def _direction_warning(entry: Section) -> tuple[str, ...]:
    given = entry.values.get("higher_is_better")
    if given is None or direction_of(given) is not None:
        return ()
    where = entry.place("higher_is_better")
    return (
        f"{where}: higher_is_better must be true or false; {given!r} is ignored, as in "
        "lm-eval",
    )


def _flag_warnings(entry: Section) -> Iterator[str]:
    """Yield arguments of exact_match that are true or false only by conversion."""
    for key in ("ignore_case", "ignore_punctuation", "ignore_numbers"):
        given = entry.values.get(key)
        if entry.values.get("metric") == "exact_match" and isinstance(given, str):
            counts = str(bool(given)).lower()
            yield (
                f"{entry.place(key)}: {key} must be true or false; {given!r} counts as "
                f"{counts}, as in lm-eval"
            )


def _spec(entry: Section, names: MetricNames, declared: bool) -> MetricSpec | None:
    given = _given(entry)
    if given is None:
        return None
    function: Callable[..., Any] | None = None
    task_metric: TaskMetric | None = None
    rest = {key: v for key, v in entry.values.items() if key not in _OWN_KEYS}
    plugin: PluginMetric | None = None
    try:
        if not declared:
            task_metric = names.find(given, rest)
        if task_metric is None:
            plugin = _plugin(entry, given, names.output_type, declared)
            if plugin is None and not declared:
                function = _function(entry, given, names)
    except EvalsError as error:
        entry.problem("metric", str(error))
        return None
    aggregation = _aggregation(entry)
    if aggregation is unresolved_function:
        return None
    up = direction_of(entry.raw("higher_is_better"))
    name = given if isinstance(given, str) else name_of(given)
    if task_metric is not None and (aggregation is not None or up is not None):
        try:
            task_metric = task_metric.with_aggregation(aggregation, up)
        except EvalsError as error:
            entry.problem("metric", str(error))
            return None
    spec = MetricSpec(
        name=name,
        function=function,
        aggregation=aggregation,
        higher_is_better=up,
        is_directed=up is not None or "higher_is_better" not in entry,
        arguments={} if declared or task_metric is not None else rest,
        task_metric=task_metric,
    )
    return spec if plugin is None else _with_plugin(spec, plugin, declared)


def _with_plugin(spec: MetricSpec, plugin: PluginMetric, declared: bool) -> MetricSpec:
    """The entry with the values of a distribution's metric that it does not set."""
    unset = spec.higher_is_better is None and spec.is_directed
    return replace(
        spec,
        function=None if declared else plugin.function,
        aggregation=spec.aggregation or plugin.aggregation,
        higher_is_better=plugin.higher_is_better if unset else spec.higher_is_better,
    )


def _given(entry: Section) -> str | Callable[..., Any] | None:
    """The name or function of an entry; ``None`` after an error, which is reported."""
    given = entry.raw("metric")
    if given is None or given == "":
        key, hint = _misspelled_key("metric", entry, _OWN_KEYS)
        message = f"an entry of metric_list needs a metric{hint}"
        entry.problem(key or None, message, "metric: acc")
        return None
    if not isinstance(given, str) and not callable(given):
        entry.wrong("metric", given, (str,))
        return None
    return cast("str | Callable[..., Any]", given)


def _plugin(
    entry: Section, given: Any, output_type: str, declared: bool
) -> PluginMetric | None:
    """The metric of a distribution, if the entry names one that is used: its values for
    generated texts, its aggregation also for those of ``process_results``."""
    if not isinstance(given, str) or entry.values.get("hf_evaluate") is True:
        return None
    if not declared and output_type != "generate_until":
        return None
    return plugin_metric(given)


def _aggregation(entry: Section) -> Any:
    """The aggregation of an entry: ``None``, a name or a function; of a distribution's,
    the function. ``unresolved_function`` after an error, which is reported."""
    given = entry.raw("aggregation")
    if not (given is None or isinstance(given, str) or callable(given)):
        entry.wrong("aggregation", given, (str,))
        return unresolved_function
    try:
        plugin = plugin_aggregation(given) if isinstance(given, str) else None
    except EvalsError as error:
        entry.problem("aggregation", str(error))
        return unresolved_function
    return given if plugin is None else plugin


def _misspelled_key(key: str, entry: Section, known: Sequence[str]) -> tuple[str, str]:
    """A key that resembles the missing ``key`` in an open mapping, and a hint."""
    for name in map(str, entry.values):
        if name not in known and nearest(name, known) == key:
            return name, f"; unknown key {name!r}, did you mean {key!r}?"
    return "", ""


def direction_of(given: object) -> bool | None:
    """Whether higher is better; 1 and 0 count as true and false, as in lm-eval's
    tables, and other values as unset."""
    return bool(given) if isinstance(given, int | float) and given in (0, 1) else None


def _function(
    entry: Section, given: Any, names: MetricNames
) -> Callable[..., Any] | None:
    output_type = names.output_type
    if callable(given):
        return cast("Callable[..., Any]", given)
    if output_type != "generate_until":
        return None
    known = known_metrics(output_type)
    is_required = entry.raw("hf_evaluate") is True
    if given in known and not is_required:
        return None
    from pytest_evals.dialects.evaluate_library import find_metric

    folders = (entry.place("metric").path.parent, Path.cwd())
    try:
        return find_metric(given, folders, may_execute=names.may_execute)
    except EvalsError as error:
        if is_required:
            raise
        hint = did_you_mean(given, list(known)) or ";"
        join = "and" if hint == ";" else "Also,"
        raise EvalsError(
            f"unknown metric {given!r} for output_type {output_type}{hint} "
            f"{join} {error}"
        ) from error


def _pipelines(
    top: Section, takes_lists: bool, warnings: list[str]
) -> tuple[Pipeline, ...]:
    """The pipelines; of two with the same name the later one is used, as in lm-eval."""
    if top.values.get("filter_list") is None:
        top.raw("filter_list")
        return (TAKE_FIRST,)
    if top.values["filter_list"] == []:
        fix = "remove filter_list to score the first response to each request"
        top.problem("filter_list", "filter_list is empty, so nothing is scored", fix)
    pipelines: dict[str, Pipeline] = {}
    for entry in top.entries("filter_list"):
        name = str(entry.take("name", (str, int, float), ""))
        if not name:
            fix = "name: strict-match"
            message = "an entry of filter_list needs a name"
            entry.problem(None, message, fix, required=("name",))
        if name in pipelines:
            warnings.append(
                f"{entry.place('name')}: two entries of filter_list are named "
                f"{name!r}; the last one is used, as in lm-eval"
            )
        built = _pipeline(entry, name, takes_lists, warnings)
        if built is not None:
            pipelines[name] = built
        entry.close("an entry of filter_list")
    return tuple(pipelines.values()) or (TAKE_FIRST,)


def _filter(function: Any) -> Any:
    """The filter of a name that is not built in, of a task's module or a distribution;
    otherwise ``function`` itself."""
    if not isinstance(function, str) or function in FILTERS:
        return function
    from pytest_evals.dialects.lm_eval.modules import registered_filter

    return registered_filter(function) or plugin_filter(function) or function


def _pipeline(
    entry: Section, name: str, takes_lists: bool, warnings: list[str]
) -> Pipeline | None:
    """Build a pipeline; without filters it keeps all responses as a list."""
    steps: list[FilterStep] = []
    n_problems = len(entry.problems)
    for step in entry.entries("filter"):
        function = step.raw("function")
        if not isinstance(function, str) and not callable(function):
            fix = "function: take_first"
            key, hint = _misspelled_key("function", step, ("function",))
            step.problem(key or "function", f"a filter needs a function{hint}", fix)
            continue
        if unresolved_function in step.values.values():
            continue
        arguments = {k: v for k, v in step.values.items() if k != "function"}
        try:
            function = _filter(function)
            filter_step = FilterStep(function=function, arguments=arguments)
            pipeline(name, [filter_step])
        except EvalsError as error:
            step.problem("function", str(error))
            continue
        warnings += [
            f"{step.place(key)}: {key!r} has no effect for the filter {function!r}"
            for key in ignored_arguments(filter_step)
        ]
        steps.append(filter_step)
    listed = entry.values.get("filter")
    empty = listed is None or (listed == [] and not takes_lists)
    if empty and len(entry.problems) == n_problems:
        fix = "filter: [{function: take_first}]"
        message = f"the pipeline {name!r} has no filters"
        entry.problem("filter", message, fix)
    if empty or len(entry.problems) > n_problems:
        return None
    return pipeline(name, steps)
