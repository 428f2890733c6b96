"""lm-eval's task files (0.4.13): a YAML file → a task.

Everything that needs no dataset is checked here, and all problems of a file are
reported at once. Rows are read when they are first looked at.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from pytest_evals.core.group import Group
from pytest_evals.core.node_names import is_node_name
from pytest_evals.core.task import Task, TaskOptions
from pytest_evals.dialects.detect import TASK_KEYS
from pytest_evals.dialects.gates_section.entries import (
    metadata_of,
    metadata_warnings,
    own_gates,
)
from pytest_evals.dialects.json_values import as_json
from pytest_evals.dialects.lm_eval.functions import missing, resolve
from pytest_evals.dialects.lm_eval.prompt_keys import read_recipe
from pytest_evals.dialects.lm_eval.prompts.documents import Documents
from pytest_evals.dialects.lm_eval.prompts.recipe import Recipe
from pytest_evals.dialects.lm_eval.scoring.repeats import Repeats
from pytest_evals.dialects.lm_eval.scoring_keys import read_scoring
from pytest_evals.dialects.metadata_keys import without_own
from pytest_evals.dialects.yaml_reader.function_tag import FunctionRef
from pytest_evals.dialects.yaml_reader.section import Section
from pytest_evals.dialects.yaml_reader.yaml_file import YamlFile, resolved
from pytest_evals.errors import Place, Problem, TaskFileError
from pytest_evals.masking.values import masked
from pytest_evals.prompts.generation import GREEDY


def load_tasks(path: Path, options: TaskOptions) -> tuple[Task | Group, ...]:
    """The task or the group of a file, if the options select it.

    Raises:
        TaskFileError: With all problems of the file.
        OptionError: A generation argument of the command line means nothing.
    """
    file = resolved(path)
    options = _as_wanted(file, options)
    if "group" in file.values and "class" not in file.values:
        if not options.takes([str(file.values["group"])]):
            return ()
        from pytest_evals.dialects.lm_eval.group import read_group

        return (read_group(file, options, partial(_task, options=options)),)
    if not _selected(file, options):
        return ()
    return (_task(file, options=options),)


def _as_wanted(file: YamlFile, options: TaskOptions) -> TaskOptions:
    """The options with the shots that ``--evals-tasks`` has for this file.

    Raises:
        TaskFileError: It has several numbers, or arguments of metrics.
    """
    values = file.values
    names = [str(values.get("group", "")), str(values.get("task"))]
    variants = options.variants([*names, *tags_of(values.get("tag"))])
    if any(one.arguments for one in variants) or len(variants) > 1:
        listed = ", ".join(f"{str(one)!r}" for one in variants)
        what = f"--evals-tasks asks for it with {listed}"
        fix = "a task file can be run with one number of shots, as in NAME|5"
        raise TaskFileError([Problem(what, Place(path=file.path), fix)])
    shots = variants[0].shots
    return options if shots is None else replace(options, num_fewshot=shots)


def _selected(file: YamlFile, options: TaskOptions) -> bool:
    names = [str(file.values.get("task")), *tags_of(file.values.get("tag"))]
    return options.takes(names)


def tags_of(given: Any) -> tuple[str, ...]:
    """The texts among one tag or several."""
    listed = given if isinstance(given, list) else [given]
    return tuple(tag for tag in listed if isinstance(tag, str) and tag)


def _task(file: YamlFile, group: str = "", *, options: TaskOptions) -> Task:
    """A task.

    Args:
        file: Its keys.
        group: The group that defines it; then its name is that of the group, ``::`` and
            its own.
        options: What the command line changes.
    """
    problems: list[Problem] = []
    file = _with_functions(file, problems)
    top = Section(file, problems)
    name = _name(top, group)
    alias = top.text("task_alias")
    tags = _tags(top)
    if "class" in file.values:
        from pytest_evals.dialects.lm_eval.python.task import TaskNames, python_task

        return python_task(top, TaskNames(name, alias, tags), options)
    _accept_without_effect(top)
    _refuse_elsewhere(top)
    _check_unsafe_code(top, options)
    metadata = metadata_of(top, options.metadata)
    recipe, warnings = read_recipe(top, name, metadata, options)
    scoring = read_scoring(top, recipe.output_type, recipe.repeats, options)
    gates = own_gates(top, name, metadata)
    top.close("a task file")
    if problems:
        raise TaskFileError(dict.fromkeys(problems))
    scorer = scoring.scorer
    recipe = replace(
        recipe,
        metrics=tuple(s.name for s in scorer.metrics if s.computed is None),
        unconditioned_query=scorer.unconditioned_query,
        own_scoring=scorer.process_results is not None,
    )
    documents = Documents(recipe)
    odd = metadata_warnings(top)
    at_once = (*file.warnings, *warnings, *scoring.warnings, *odd)
    version = metadata.get("version")
    return Task(
        name=name,
        source=top.place("task"),
        rows=documents,
        ask=documents.ask,
        follow_up=scorer.follow_up if scorer.judges else None,
        models=scorer.judges,
        score=scorer,
        metrics=scoring.metrics,
        metric_for=scorer.metric_for,
        score_repeats=Repeats(scorer) if scorer.repeats > 1 else None,
        gates=gates,
        output_type=recipe.output_type,
        shows_images=recipe.images is not None,
        alias=alias,
        tags=tags,
        version=version if isinstance(version, str | int | float) else None,
        n_shots=recipe.shots.n,
        repeats=recipe.repeats,
        config=_dumped({**top.values, "task": name}, recipe, metadata),
        warnings=lambda: (*at_once, *documents.warnings, *scorer.warnings),
    )


def _name(top: Section, group: str) -> str:
    name = top.text("task")
    if "task" not in top or top.values["task"] is None or top.values["task"] == "":
        top.problem("task", "a task file names its task", "task: my_task")
    elif not is_node_name(name):
        what = f"task: a name has no '::', '[', ']' and control characters: {name!r}"
        top.problem("task", what)
    return f"{group}::{name}" if group else name


def _tags(top: Section) -> tuple[str, ...]:
    given = top.take("tag", (str, list), "")
    if isinstance(given, list) and len(tags_of(given)) < len(given):
        top.problem("tag", "tag is a name or a list of names")
    return tags_of(given)


def _accept_without_effect(top: Section) -> None:
    """Keys that lm-eval knows and that change nothing there either."""
    top.raw("task_list")
    top.flag("should_decontaminate")
    top.raw("doc_to_decontamination_query")


_OF_DATASETS = ("cache_dir", "data_dir", "data_files", "revision")
"""Arguments of ``datasets.load_dataset`` that are mistaken for keys."""
_SHAPES = {
    "multiple_inputs": (
        "a task has several inputs if doc_to_text gives the position of the right one "
        "for the first document, and doc_to_choice lists them"
    ),
    "multiple_targets": (
        "a task has several targets if doc_to_target gives a list for the first "
        "document"
    ),
}
"""Keys of releases after 0.4.13, and how 0.4.13 decides the same."""


def _refuse_elsewhere(top: Section) -> None:
    """Keys that are written in another way."""
    for key in _OF_DATASETS:
        if key in top:
            top.raw(key)
            what = f"{key} is an argument of the dataset, not a key of a task file"
            top.problem(key, what, f"write {key} under dataset_kwargs")
    for key, rule in _SHAPES.items():
        if key in top:
            top.raw(key)
            what = f"{key} is a key of releases after lm-eval 0.4.13: here {rule}"
            top.problem(key, what, "leave it out")


def _check_unsafe_code(top: Section, options: TaskOptions) -> None:
    if top.flag("unsafe_code") and not options.allow_unsafe_code:
        what = "unsafe_code: this task executes code that the model writes"
        fix = "--evals-allow-unsafe-code runs it, on this machine and with your rights"
        top.problem("unsafe_code", what, fix)


_CALLED = (
    "custom_dataset",
    "doc_to_text",
    "doc_to_target",
    "doc_to_choice",
    "process_docs",
    "process_results",
)
"""Keys whose ``!function`` is called."""


def _with_functions(file: YamlFile, problems: list[Problem]) -> YamlFile:
    """The file with its functions imported."""
    return replace(file, values=_imported(file.values, problems))


def _imported(value: Any, problems: list[Problem], key: Any = None) -> Any:
    if isinstance(value, FunctionRef):
        return _function(value, problems, key)
    if isinstance(value, dict):
        return {k: _imported(item, problems, k) for k, item in value.items()}
    if isinstance(value, list):
        return [_imported(item, problems) for item in value]
    return value


def _function(ref: FunctionRef, problems: list[Problem], key: Any) -> Any:
    try:
        found = resolve(ref)
    except TaskFileError as error:
        problems.extend(error.problems)
        return missing
    listed = key == "doc_to_choice" and isinstance(found, list | dict)
    if key in _CALLED and not callable(found) and not listed:
        kind = type(found).__name__
        what = f"{key}: {ref.dotted} is no function, but a value of type {kind}"
        problems.append(Problem(what, ref.place))
        return missing
    return found


def _dumped(
    values: Mapping[str, Any], recipe: Recipe, metadata: Mapping[str, Any]
) -> dict[str, Any]:
    """The configuration, without secrets.

    Args:
        values: Keys of the task file with its includes; functions are functions.
        recipe: What became of them.
        metadata: The metadata, always a mapping.
    """
    known = {
        **values,
        "unsafe_code": bool(values.get("unsafe_code")),
        "description": values.get("description") or "",
        "target_delimiter": recipe.fields.target_delimiter,
        "fewshot_delimiter": recipe.fields.fewshot_delimiter,
        "fewshot_config": _shots(values, recipe),
        "num_fewshot": recipe.shots.n,
        "output_type": recipe.output_type,
        "repeats": recipe.repeats,
        "should_decontaminate": bool(values.get("should_decontaminate")),
        "metadata": without_own(metadata) or None,
    }
    if recipe.output_type == "generate_until":
        known["generation_kwargs"] = _generation(values, recipe)
    found = {k: as_json(known[k]) for k in TASK_KEYS if known.get(k) is not None}
    return masked(found)


def _shots(values: Mapping[str, Any], recipe: Recipe) -> dict[str, Any]:
    shots, fields = recipe.shots, recipe.shots.fields
    typed = values.get("fewshot_config") or {}
    return {
        "sampler": shots.sampler,
        "split": recipe.splits.fewshot,
        "process_docs": shots.process_docs and shots.process_docs.spec,
        "fewshot_indices": typed.get("fewshot_indices"),
        "samples": shots.samples,
        "doc_to_text": fields.text.spec,
        "doc_to_choice": fields.choices and fields.choices.spec,
        "doc_to_target": fields.target.spec,
        "gen_prefix": fields.prefix and fields.prefix.spec,
        "fewshot_delimiter": fields.fewshot_delimiter,
        "target_delimiter": fields.target_delimiter,
    }


def _generation(values: Mapping[str, Any], recipe: Recipe) -> dict[str, Any]:
    """As typed, with lm-eval's defaults and the overrides of the command line; what it
    means is in the requests of the samples."""
    given = values.get("generation_kwargs")
    typed = dict(GREEDY if given is None else given)
    if typed.get("temperature") is not None:
        typed["temperature"] = float(typed["temperature"])
    typed.setdefault("until", [recipe.fields.fewshot_delimiter])
    return {**typed, **recipe.options.gen_kwargs}
