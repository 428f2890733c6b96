"""The metrics of a task of a module, ready to measure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

from pytest_evals.core.task import TaskOptions
from pytest_evals.dialects.json_values import as_json
from pytest_evals.errors import EvalsError, Place, Problem, TaskFileError
from pytest_evals.scorers.lighteval.metric import Metric, SamplingMethod
from pytest_evals.scorers.lighteval.metric_entry import lighteval_metric
from pytest_evals.scorers.lighteval.metric_fields import check_fields
from pytest_evals.scorers.lighteval.task_metric import Computed


@dataclass(frozen=True, slots=True)
class Measuring:
    """What a task measures.

    Args:
        metrics: The metrics; no two of their numbers have one name.
        n_samples: Answers to each prompt that they need, at least 1.
        warnings: What is odd about them.
    """

    metrics: tuple[Computed, ...]
    n_samples: int
    warnings: tuple[str, ...] = ()

    @property
    def methods(self) -> tuple[SamplingMethod, ...]:
        """Kinds of requests that they need, in their order."""
        return tuple(dict.fromkeys(one.metric.category for one in self.metrics))

    def described(self) -> list[dict[str, Any]]:
        """The metrics as JSON values, the same in every process."""
        return [_described(one.metric) for one in self.metrics]


def metrics_of(
    config: Any, place: Place, arguments: Mapping[str, Any], options: TaskOptions
) -> Measuring:
    """The metrics of a task.

    Args:
        config: The task.
        place: Where it stands.
        arguments: What the command line gives to metrics of several answers.
        options: What the command line changes in every task.

    Raises:
        TaskFileError: One of them is no metric, lacks something, or has the name of
            another one.
    """
    problems: list[Problem] = []
    found: list[Computed] = []
    for given in config.metrics:
        try:
            metric = _with(_named(given), arguments)
            one = Computed(metric, reasoning_tags=options.reasoning_tags)
            one.check_made(may_execute=options.allow_unsafe_code)
            if one not in found:
                found.append(one)
        except EvalsError as error:
            what, _, fix = str(error).partition("\n  fix: ")
            key, colon, value = fix.partition(": ")
            as_python = f'Metrics.NAME(sample_params={{"{key}": {value}}})'
            fix = as_python if colon else fix
            problems.append(Problem(f"metrics: {what}", place, fix))
    problems += [Problem(text, place) for text in _doubles(found)]
    if problems:
        raise TaskFileError(problems)
    warnings = []
    if arguments and not any(_takes_arguments(one.metric) for one in found):
        listed = ", ".join(f"@{key}={value}" for key, value in arguments.items())
        warnings.append(f"no metric takes {listed}: only those of several answers do")
    return Measuring(tuple(found), _n_samples(config, found), tuple(warnings))


def _named(given: Any) -> Metric:
    """The metric, whose fields have the types that lighteval's have.

    Raises:
        EvalsError: It is no metric, or a field has another type.
    """
    metric = _metric(given)
    check_fields(metric)
    return metric


def _metric(given: Any) -> Metric:
    """The metric as ours; an installed lighteval has classes of its own.

    Raises:
        EvalsError: It is none.
    """
    if isinstance(given, str):
        return lighteval_metric(given, {}).metric
    given = getattr(given, "value", given)
    if isinstance(given, Metric):
        return given
    try:
        return Metric(
            given.metric_name,
            given.higher_is_better,
            SamplingMethod(str(getattr(given.category, "value", given.category))),
            given.sample_level_fn,
            given.corpus_level_fn,
        )
    except (AttributeError, ValueError):
        raise EvalsError(
            f"{given!r:.80} is no metric\n  fix: metrics=[Metrics.exact_match]"
        ) from None


def _with(metric: Metric, arguments: Mapping[str, Any]) -> Metric:
    """With arguments of the command line, which leave the name as it is."""
    if not arguments or not _takes_arguments(metric):
        return metric
    return metric.with_arguments(arguments)


def _takes_arguments(metric: Metric) -> bool:
    return any("@" in name for name in metric.names)


def _doubles(found: Sequence[Computed]) -> Iterator[str]:
    names = [name for one in found for name in one.names]
    for name in dict.fromkeys(names):
        if names.count(name) > 1:
            yield f"metrics: two of them are called {name!r}"


def _n_samples(config: Any, found: Sequence[Computed]) -> int:
    given = config.num_samples
    listed = list(given) if isinstance(given, list | tuple) else [given or 1]
    wanted = (one.metric.num_samples() for one in found)
    return max(1, *listed, *(n for n in wanted if n is not None))


def _described(metric: Metric) -> dict[str, Any]:
    names = list(metric.names)
    how = metric.sample_level_fn
    made = {
        field.name: as_json(getattr(how, field.name))
        for field in (fields(how) if is_dataclass(how) else ())
        if field.init
    }
    return {
        "metric": names[0] if len(names) == 1 else names,
        "category": metric.category.value,
        "class": getattr(how, "__name__", type(how).__name__),
        "arguments": {key: _stable(value) for key, value in made.items()},
    }


def _stable(value: Any) -> Any:
    """Without the address of an object, which is another one in each process."""
    return value.partition(" at 0x")[0] if isinstance(value, str) else value
