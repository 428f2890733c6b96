"""lm-eval's tasks that are Python classes (0.4.13): ``class: !function module.Class``.

The class's own methods give documents, prompts, requests, filters and scores; what it
inherits is lm-eval's own where that is installed, and ours where it is not. Here it
becomes an object, and what that says of itself becomes a :class:`Task`. Making the
object reads its dataset.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, cast

from pytest_evals.core.task import Task, TaskOptions
from pytest_evals.data.sources import Source, located
from pytest_evals.dialects.gates_section.entries import (
    metadata_of,
    metadata_warnings,
    own_gates,
)
from pytest_evals.dialects.lm_eval.functions import missing
from pytest_evals.dialects.lm_eval.python.documents import PythonDocuments
from pytest_evals.dialects.lm_eval.python.metrics import ComputedMetrics, entries_apart
from pytest_evals.dialects.lm_eval.python.metrics import made as computed_metrics
from pytest_evals.dialects.lm_eval.python.task_object import PythonObject
from pytest_evals.dialects.metadata_keys import without_own
from pytest_evals.dialects.yaml_reader.section import Section
from pytest_evals.errors import Place, TaskFileError
from pytest_evals.prompts.generation import check_overrides
from pytest_evals.prompts.identical_prompts import are_allowed, noted
from pytest_evals.scorers.metrics import MetricSpec

_STRUCTURE = ("tag", "group", "task_list", "gates")
"""Keys that are not the class's business."""


class TaskNames(NamedTuple):
    """What a task file calls its task."""

    name: str
    alias: str
    tags: tuple[str, ...]


def python_task(top: Section, names: TaskNames, options: TaskOptions) -> Task:
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
    at_once = (*top.file.warnings, *metadata_warnings(top))
    found = _class_of(top)
    entries, others = entries_apart(top, options)
    config = _config(top, names, metadata, options)
    if others is not None:
        config["metric_list"] = others
    made = PythonObject(found, config, top.place("class"))
    made.set_up(names.name, options)
    repeats = made.task.config.repeats
    measuring = computed_metrics(entries, made.output_type, repeats, options)
    specs = made.specs()
    documents = made.call(
        lambda _: PythonDocuments(made, names.name, specs, options, measuring)
    )
    task = _told(names, top.place("task"), made, documents, measuring)
    return replace(
        task,
        metrics=(*made.metrics(specs), *measuring.house_metrics(made.pipelines)),
        metric_for=lambda name, pipeline: made.metric(
            specs.get(name) or MetricSpec(name=name, aggregation="mean"), pipeline
        ),
        gates=gates,
        warnings=lambda: (
            *at_once,
            *made.warnings,
            *documents.warnings,
            *_identical(documents, metadata),
        ),
    )


def _identical(
    documents: PythonDocuments, metadata: Mapping[str, Any]
) -> Iterator[str]:
    if not are_allowed(metadata) and documents.identical:
        yield noted(documents.identical)


def _class_of(top: Section) -> type[Any]:
    """The class that the file names.

    Raises:
        TaskFileError: It names none, or has other faults: all of them.
    """
    found = top.raw("class")
    if not isinstance(found, type) and found is not missing:
        what = f"class is a Python class, not {found!r:.80}"
        top.problem("class", what, "class: !function task.MyTask")
    if top.problems:
        raise TaskFileError(dict.fromkeys(top.problems))
    return cast("type[Any]", found)


def _config(
    top: Section, names: TaskNames, metadata: Mapping[str, Any], options: TaskOptions
) -> dict[str, Any]:
    """What the class is made with, as lm-eval hands it over."""
    config = {key: v for key, v in top.values.items() if key not in _STRUCTURE}
    config["task"] = names.name
    if isinstance(config.get("dataset_kwargs"), dict):
        config["dataset_kwargs"] = _with_whole_paths(top, options)
    config["metadata"] = {
        **without_own(metadata),
        **options.model_arguments,
        "config_source": str(top.file.path),
    }
    return config


def _told(
    names: TaskNames,
    place: Place,
    made: PythonObject,
    documents: PythonDocuments,
    measuring: ComputedMetrics,
) -> Task:
    """What the object says of itself, but for what its scores add up to."""
    config = made.task.config
    return Task(
        name=names.name,
        source=place,
        alias=names.alias,
        tags=names.tags,
        rows=documents,
        ask=documents.ask,
        follow_up=documents.follow_up if measuring.judges else None,
        models=measuring.judges,
        score=documents.score,
        metrics=(),
        output_type=made.output_type,
        shows_images=bool(getattr(config, "doc_to_image", None)),
        version=made.version,
        n_shots=config.num_fewshot or 0,
        repeats=config.repeats,
        config=made.dumped(),
    )


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
