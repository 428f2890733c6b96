"""lm-eval's keys for scoring: ``metric_list``, ``filter_list``, ``process_results``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from pytest_evals.core.metric import Metric
from pytest_evals.core.task import TaskOptions
from pytest_evals.dialects.lm_eval.functions import missing
from pytest_evals.dialects.lm_eval.scoring.metric_names import MetricNames, name_of
from pytest_evals.dialects.lm_eval.scoring.scorer import Scorer
from pytest_evals.dialects.yaml_reader.section import Section
from pytest_evals.errors import EvalsError, Place, Problem, did_you_mean, nearest
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
    from pytest_evals.scorers.lighteval.task_metric import Computed

_OWN_KEYS = ("metric", "aggregation", "higher_is_better", "hf_evaluate")


class ScoringKeys(NamedTuple):
    """How a task's answers are scored.

    Args:
        scorer: From an answered record to its scores.
        metrics: One a filter pipeline and metric.
        warnings: What is odd about it.
    """

    scorer: Scorer
    metrics: tuple[Metric, ...]
    warnings: tuple[str, ...]


class _Listed(NamedTuple):
    """A metric, and where its keys stand.

    Args:
        spec: The metric.
        place: Where it is named.
        aggregation_place: Where its aggregation stands.
        remarks: What is odd about it.
        is_evaluates: Whether it is said to be of the evaluate library.
    """

    spec: MetricSpec
    place: Place
    aggregation_place: Place
    remarks: tuple[str, ...] = ()
    is_evaluates: bool = False


def read_scoring(
    top: Section, output_type: str, repeats: int, options: TaskOptions
) -> ScoringKeys:
    """The scoring of a task file; its faults are among the section's problems.

    Args:
        top: The file.
        output_type: The task's.
        repeats: Answers to each request.
        options: What the command line changes, and metrics that hooks have given names.
    """
    warnings: list[str] = []
    own = top.function("process_results")
    takes_lists = own is not None or output_type == "generate_until"
    everything = Scorer(
        output_type=output_type,
        metrics=(),
        pipelines=_pipelines(top, takes_lists, warnings),
        repeats=repeats,
        process_results=own,
        bootstrap_iters=options.bootstrap_iters,
    )
    declared = everything.process_results is not None
    n_problems = len(top.problems)
    specs: list[MetricSpec] = []
    metrics: list[Metric] = []
    known = MetricNames(options.metrics, output_type)
    for listed in _listed(top, known, declared):
        spec, place, aggregation_place, remarks, _ = listed
        warnings += remarks
        try:
            if spec.computed is not None:
                allowed = options.allow_unsafe_code
                spec.computed.check(output_type, repeats, may_execute=allowed)
            if not declared and _is_never_measured(listed, output_type):
                warnings.append(
                    f"{place}: metric {spec.name!r} gives no value with output_type "
                    f"{output_type}, as in lm-eval"
                )
                continue
            replace(everything, metrics=(*specs, spec))
            for pipe in everything.pipelines:
                metrics += everything.metrics_of(spec, pipe.name)
        except EvalsError as error:
            fault = aggregation_place if _blames(error, spec) else place
            top.problems.append(Problem(str(error), fault))
            continue
        specs.append(spec)
        if spec.computed is None and _lacks_aggregation(spec):
            warnings.append(
                f"metric {spec.name!r} has no aggregation; the mean is taken"
            )
    if top.values.get("output_type") not in (None, output_type):
        del top.problems[n_problems:]  # which metrics there are hangs on it
    by_pipeline = [
        m for pipe in everything.pipelines for m in metrics if m.filter == pipe.name
    ]
    scorer = replace(everything, metrics=tuple(specs))
    return ScoringKeys(scorer, tuple(by_pipeline), tuple(warnings))


def _lacks_aggregation(spec: MetricSpec) -> bool:
    return spec.aggregation is None and spec.name not in METRICS


def _is_never_measured(listed: _Listed, output_type: str) -> bool:
    """Whether documents get no value of it.

    Raises:
        UnknownNameError: Nothing has its name.
    """
    if output_type == "generate_until" or listed.spec.computed is not None:
        return False
    if listed.is_evaluates and listed.spec.name not in METRICS:
        return True
    return not is_measured(listed.spec.name, output_type)


def _listed(top: Section, names: MetricNames, declared: bool) -> list[_Listed]:
    output_type = names.output_type
    given = top.raw("metric_list")
    if given is None:
        place = top.place("output_type" if "output_type" in top else "task")
        return [_Listed(spec, place, place) for spec in default_metrics(output_type)]
    if given == []:
        top.problem(
            "metric_list", "metric_list is empty", "metric_list: [{metric: acc}]"
        )
    found: dict[str, _Listed] = {}
    for number, entry in enumerate(_once(top.entries("metric_list"))):
        spec = _spec(entry, names, declared)
        if spec is None or missing in entry.values.values():
            continue
        place, remarks = entry.place("metric"), _remarks(entry, spec, output_type)
        # Metrics with several names are told apart where the scorer is made.
        key = spec.name if spec.computed is None else f"{spec.name} {number}"
        if key in found:
            what = f"two metrics are called {spec.name!r}"
            remarks += (f"{place}: {what}; the last one counts, as in lm-eval",)
        by_evaluate = entry.values.get("hf_evaluate") is True
        where = entry.place("aggregation")
        found[key] = _Listed(spec, place, where, remarks, by_evaluate)
    return [*found.values()]


def _once(entries: list[Section]) -> list[Section]:
    """Entries without those that say the same as an earlier one."""
    return [
        entry
        for number, entry in enumerate(entries)
        if all(entry.values != earlier.values for earlier in entries[:number])
    ]


def _remarks(entry: Section, spec: MetricSpec, output_type: str) -> tuple[str, ...]:
    """Keys that do nothing; lm-eval hands every key to the metric, and metrics of
    log-likelihoods and of a corpus take none."""
    odd = _odd_direction(entry)
    if spec.computed is not None:
        return odd
    known = METRICS.get(spec.name)
    takes = known is None or output_type not in known.pairs_in
    if spec.function is not None or (output_type == "generate_until" and takes):
        return odd
    return odd + tuple(
        f"{entry.place(key)}: {key!r} does nothing for {spec.name!r}{hint}"
        for key in spec.arguments
        if (hint := did_you_mean(str(key), _OWN_KEYS))
    )


def _odd_direction(entry: Section) -> tuple[str, ...]:
    given = entry.values.get("higher_is_better")
    if given is None or _direction(entry) is not None:
        return ()
    where = entry.place("higher_is_better")
    return (
        f"{where}: higher_is_better is true or false, and {given!r} says nothing, as "
        "in lm-eval",
    )


def _spec(entry: Section, names: MetricNames, declared: bool) -> MetricSpec | None:
    given = entry.raw("metric")
    if given is None or given == "":
        slip, hint = _slip_of("metric", entry, _OWN_KEYS)
        what = f"an entry of metric_list names a metric{hint}"
        entry.problem(slip or None, what, "metric: acc")
        return None
    if not isinstance(given, str) and not callable(given):
        entry.wrong("metric", given, (str,))
        return None
    function: Callable[..., Any] | None = None
    computed: Computed | None = None
    rest = {key: v for key, v in entry.values.items() if key not in _OWN_KEYS}
    if not declared:
        try:
            computed = names.computed(given, rest)
            if computed is None:
                function = _function(entry, given, names.output_type)
        except EvalsError as error:
            entry.problem("metric", str(error))
            return None
    aggregation = entry.raw("aggregation")
    if not (
        aggregation is None or isinstance(aggregation, str) or callable(aggregation)
    ):
        entry.wrong("aggregation", aggregation, (str,))
        return None
    up = _direction(entry)
    name = given if isinstance(given, str) else name_of(given)
    if computed is not None and (aggregation is not None or up is not None):
        try:
            computed = computed.adding_up(aggregation, up)
        except EvalsError as error:
            entry.problem("metric", str(error))
            return None
    return MetricSpec(
        name=name,
        function=function,
        aggregation=aggregation,
        higher_is_better=up,
        is_directed=up is not None or "higher_is_better" not in entry,
        arguments={} if declared or computed is not None else rest,
        computed=computed,
    )


def _slip_of(key: str, entry: Section, known: Sequence[str]) -> tuple[str, str]:
    """A key that may be meant for another one, of a mapping in which any key may stand;
    and the question."""
    for name in map(str, entry.values):
        if name not in known and nearest(name, known) == key:
            return name, f"; is {name!r} a slip of the pen?"
    return "", ""


def _direction(entry: Section) -> bool | None:
    """What the entry says of better and worse."""
    return direction_of(entry.raw("higher_is_better"))


def direction_of(given: object) -> bool | None:
    """Whether more is better; 1 and 0 are true and false, as in lm-eval's tables, and
    all else says nothing."""
    return bool(given) if isinstance(given, int | float) and given in (0, 1) else None


def _function(
    entry: Section, given: Any, output_type: str
) -> Callable[..., Any] | None:
    """The function behind a metric that is none of ours.

    Raises:
        EvalsError: It is of the evaluate library, and cannot be loaded.
    """
    if callable(given):
        return cast("Callable[..., Any]", given)
    if output_type != "generate_until":
        return None
    known = known_metrics(output_type)
    wanted = entry.raw("hf_evaluate") is True
    if given in known and not wanted:
        return None
    from pytest_evals.dialects.lm_eval.scoring.hf_evaluate import find_metric

    folders = (entry.place("metric").path.parent, Path.cwd())
    try:
        return find_metric(given, folders)
    except EvalsError as error:
        if wanted:
            raise
        hint = did_you_mean(given, list(known)) or ";"
        join = "and" if hint == ";" else "And"
        raise EvalsError(
            f"no metric of output_type {output_type} called {given!r}{hint} "
            f"{join} {error}"
        ) from error


def _blames(error: EvalsError, spec: MetricSpec) -> bool:
    """Whether an error is about the aggregation."""
    return isinstance(spec.aggregation, str) and "aggregation" in str(error)


def _pipelines(
    top: Section, takes_lists: bool, warnings: list[str]
) -> tuple[Pipeline, ...]:
    """The pipelines; of two with one name the later one, as in lm-eval.

    Args:
        top: The file.
        takes_lists: Whether what scores may see all responses to a request as a list.
        warnings: What is odd is added here.
    """
    if top.values.get("filter_list") is None:
        top.raw("filter_list")
        return (TAKE_FIRST,)
    if top.values["filter_list"] == []:
        fix = "leave filter_list out, and the first response to each request is scored"
        top.problem("filter_list", "filter_list is empty: nothing is scored", fix)
    found: dict[str, Pipeline] = {}
    for entry in top.entries("filter_list"):
        name = str(entry.take("name", (str, int, float), ""))
        if not name:
            fix = "name: strict-match"
            what = "an entry of filter_list has a name"
            entry.problem(None, what, fix, lacks=("name",))
        if name in found:
            warnings.append(
                f"{entry.place('name')}: two entries of filter_list are called "
                f"{name!r}; the last one counts, as in lm-eval"
            )
        made = _pipeline(entry, name, takes_lists, warnings)
        if made is not None:
            found[name] = made
        entry.close("an entry of filter_list")
    return tuple(found.values()) or (TAKE_FIRST,)


def _pipeline(
    entry: Section, name: str, takes_lists: bool, warnings: list[str]
) -> Pipeline | None:
    """A pipeline; one without filters leaves all responses to a request as a list."""
    steps: list[FilterStep] = []
    n_problems = len(entry.problems)
    for step in entry.entries("filter"):
        function = step.raw("function")
        if not isinstance(function, str) and not callable(function):
            fix = "function: take_first"
            slip, hint = _slip_of("function", step, ("function",))
            step.problem(slip or "function", f"a filter names its function{hint}", fix)
            continue
        if missing in step.values.values():
            continue
        if isinstance(function, str) and function not in FILTERS:
            from pytest_evals.dialects.lm_eval.modules import registered_filter

            function = registered_filter(function) or function
        arguments = {k: v for k, v in step.values.items() if k != "function"}
        made = FilterStep(function=function, arguments=arguments)
        try:
            pipeline(name, [made])
        except EvalsError as error:
            step.problem("function", str(error))
        warnings += [
            f"{step.place(key)}: {key!r} does nothing for the filter {function!r}"
            for key in ignored_arguments(made)
        ]
        steps.append(made)
    listed = entry.values.get("filter")
    empty = listed is None or (listed == [] and not takes_lists)
    if empty and len(entry.problems) == n_problems:
        fix = "filter: [{function: take_first}]"
        what = f"the pipeline {name!r} has no filters"
        entry.problem("filter", what, fix)
    if empty or len(entry.problems) > n_problems:
        return None
    return pipeline(name, steps)
