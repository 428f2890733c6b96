"""Tasks defined by a Python class (lm-eval 0.4.13): ``class: !function module.Class``.

Documents, prompts, requests, filters and scores come from the class's methods; its base
classes are lm-eval's if installed, otherwise ours. Creating the object reads its
dataset.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

from pytest_evals.core.task import Task, TaskOptions
from pytest_evals.data.source_paths import Source, resolve
from pytest_evals.dialects.gates_section.entries import (
    metadata_of,
    metadata_warnings,
    own_gates,
    refusals_of,
)
from pytest_evals.dialects.generative_choices import choices_of, is_generated
from pytest_evals.dialects.lm_eval.functions import unresolved_function
from pytest_evals.dialects.lm_eval.python.documents import PythonDocuments
from pytest_evals.dialects.lm_eval.python.metrics import build_metrics, split_entries
from pytest_evals.dialects.lm_eval.python.task_object import PythonObject
from pytest_evals.dialects.metadata_keys import CHOICES, REFUSALS, without_own
from pytest_evals.dialects.yaml_reader.section import Section
from pytest_evals.errors import TaskFileError
from pytest_evals.prompts.document_warnings import are_allowed, warning_text
from pytest_evals.prompts.generation import check_overrides
from pytest_evals.scorers.metrics import MetricSpec

_STRUCTURE = ("tag", "group", "task_list", "gates")
"""Keys that are not passed to the class."""


def python_task(top: Section, name: str, options: TaskOptions) -> Task:
    """Build the task of a file that names a class. Raises TaskFileError with all
    problems of the file; or the class cannot be instantiated, or its metrics are
    invalid. Raises OptionError if a generation argument of the command line is
    invalid."""
    check_overrides(options.gen_kwargs)
    metadata = metadata_of(top, options.metadata)
    gates = own_gates(top, name, metadata)
    choices, refusals = choices_of(top, metadata), refusals_of(top, metadata)
    warnings = (*top.file.warnings, *metadata_warnings(top))
    cls = _class_of(top)
    entries, others = split_entries(top, options)
    keys = _config(top, name, metadata, options)
    if others is not None:
        keys["metric_list"] = others
    task_object = PythonObject(cls, keys, top.place("class"))
    task_object.set_up(name, options)
    repeats = task_object.task.config.repeats
    metrics = build_metrics(entries, task_object.output_type, repeats, options)
    specs = task_object.specs()
    documents = task_object.call(
        lambda _: PythonDocuments(task_object, name, specs, options, metrics)
    )
    documents.generates_choices = (
        is_generated(options, choices) and task_object.output_type == "multiple_choice"
    )
    config = task_object.task.config
    return Task(
        name=name,
        source=top.place("task"),
        rows=documents,
        ask=documents.ask,
        follow_up=documents.follow_up if metrics.judges else None,
        models=metrics.judges,
        score=documents.score,
        metrics=(
            *task_object.metrics(specs),
            *metrics.core_metrics(task_object.pipelines),
        ),
        metric_for=lambda name, pipeline: task_object.metric(
            specs.get(name) or MetricSpec(name=name, aggregation="mean"), pipeline
        ),
        gates=gates,
        output_type=task_object.output_type,
        shows_images=bool(getattr(config, "doc_to_image", None)),
        version=task_object.version,
        n_shots=config.num_fewshot or 0,
        repeats=config.repeats,
        refusals=refusals,
        reasoning_tags=options.reasoning_tags,
        config={
            **task_object.config(),
            **({CHOICES: choices} if choices else {}),
            **({REFUSALS: refusals} if REFUSALS in metadata else {}),
        },
        warnings=lambda: (
            *warnings,
            *task_object.warnings,
            *documents.warnings,
            *_identical(documents, metadata),
        ),
    )


def _identical(
    documents: PythonDocuments, metadata: Mapping[str, Any]
) -> Iterator[str]:
    if not are_allowed(metadata) and documents.identical:
        yield warning_text(documents.identical)


def _class_of(top: Section) -> type[Any]:
    cls = top.raw("class")
    if not isinstance(cls, type) and cls is not unresolved_function:
        message = f"class must be a Python class, not {cls!r:.80}"
        top.problem("class", message, "class: !function task.MyTask")
    if top.problems:
        raise TaskFileError(dict.fromkeys(top.problems))
    return cast("type[Any]", cls)


def _config(
    top: Section, name: str, metadata: Mapping[str, Any], options: TaskOptions
) -> dict[str, Any]:
    config = {key: v for key, v in top.values.items() if key not in _STRUCTURE}
    config["task"] = name
    if isinstance(config.get("dataset_kwargs"), dict):
        config["dataset_kwargs"] = _dataset_arguments(top, options)
    config["metadata"] = {
        **without_own(metadata),
        **options.model_arguments,
        "config_source": str(top.file.path),
    }
    return config


def _dataset_arguments(top: Section, options: TaskOptions) -> dict[str, Any]:
    """``dataset_kwargs`` with file paths relative to the task file resolved."""
    source = Source(
        path=str(top.values.get("dataset_path") or ""),
        arguments=top.values["dataset_kwargs"],
        place=top.place("dataset_path"),
        data_place=top.place("dataset_kwargs"),
        base=Path(options.base) if options.base else Path.cwd(),
    )
    return dict(resolve(source).arguments)
